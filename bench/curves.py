"""How times grow with the context, the tokens of a prompt and the batch; and a model of other shapes."""

import contextlib
import random
from dataclasses import asdict
from statistics import median

import llm_models
import summary
from llm_candidates import ORT_CPU_CONTRIB, TANDEM_CONTRIB, TANDEM_PLAIN, Task
from workers import BenchError, interleaved

NAMES = (TANDEM_PLAIN, TANDEM_CONTRIB, ORT_CPU_CONTRIB)
STEPS = 5
CONTEXTS = [2**power for power in range(4, 12)]
PROMPTS = [2**power for power in range(10)]
BATCHES = [1, 2, 4, 8]
CAPACITY = 2 * CONTEXTS[-1]
# Title, name in the JSON, and tasks by what varies.
CURVES = (
    ("decode behind a context of", "context", {n: Task(1, context=n, capacity=CAPACITY) for n in CONTEXTS}),
    ("prefill of tokens", "prompt", {n: Task(n) for n in PROMPTS}),
    ("decode of a batch of", "batch", {n: Task(1, context=256, batch=n) for n in BATCHES}),
)
RANDOM_MODEL = "1b-layers"
RANDOM_TASKS = {"decode": Task(1, context=256), "prefill128": Task(128)}


def measure(bench, settings, progress):
    """By curve and point: milliseconds of each of NAMES, the median, or {"error": reason}."""
    result = {}
    with _started(bench) as workers:
        for title, name, tasks in CURVES:
            progress(f"curve: {title} {', '.join(map(str, tasks))}")
            result[name] = {str(point): _point(workers, str(point), task) for point, task in tasks.items()}
    if settings.weights == "int4":
        progress(f"{llm_models.RANDOM_LAYERS} layers in the shapes of a 1B LLM")
        folder = settings.models / RANDOM_MODEL
        llm_models.prepare_random(folder)
        with _started(bench, folder) as workers:
            result["1b_layers"] = {name: _point(workers, name, task) for name, task in RANDOM_TASKS.items()}
    return result


@contextlib.contextmanager
def _started(bench, folder=None):
    with contextlib.ExitStack() as stack:
        workers = {name: bench.start(name, {}, folder) for name in NAMES}
        yield {name: stack.enter_context(worker) for name, worker in workers.items() if worker}


def _point(workers, form, task):
    able, result = {}, {}
    for name, worker in workers.items():
        try:
            worker.ask("prepare", form=form, task=asdict(task))
            able[name] = worker
        except BenchError as error:
            result[name] = {"error": str(error)}
    times = interleaved(able, form, STEPS, random.Random(form))
    for name, worker in able.items():
        result[name] = median(times[name])
        worker.ask("drop", form=form)
    return result


def failures(curves):
    """(candidate, curve, point, reason) of each point that has no time."""
    for curve, points in curves.items():
        for point, by_name in points.items():
            for name, value in by_name.items():
                if isinstance(value, dict):
                    yield name, curve, point, value["error"]


def describe(curves):
    """The curves as text: a table each, with a column for each point; then what failed."""
    titles = {name: title for title, name, _ in CURVES}
    titles["1b_layers"] = f"{llm_models.RANDOM_LAYERS} layers of a 1B LLM"
    tables = []
    for name, points in curves.items():
        rows = [[f"{titles[name]}, ms", *points]]
        for candidate in next(iter(points.values())):
            rows.append([candidate, *(_cell(by_name[candidate]) for by_name in points.values())])
        tables.append(summary.aligned(rows))
    failed = [
        f"failed    {name}, {curve} {point}: {summary.brief(reason)}" for name, curve, point, reason in failures(curves)
    ]
    return "\n\n".join(tables + (["\n".join(failed)] if failed else []))


def _cell(value):
    return "failed" if isinstance(value, dict) else summary.number(value)
