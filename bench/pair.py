"""Measures the pair of a prefill and a decode session: four candidates, in one run, in turn."""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import preparation
from candidates import CANDIDATES, ORT_CPU, TANDEM

FORMS = ("prefill", "decode")
THIRD_FORM = "window_decode"
PREFILL_TOKENS = 128
TOLERANCES = {"f32": 1e-3, "f16": 1e-2, "int4": 2e-1}  # relative distance of logits from ORT CPU's
RUN = Path(__file__).resolve().parent / "run.py"


class BenchError(Exception):
    """The benchmark has no result; the message says why."""


@dataclass(frozen=True)
class Settings:
    """What to measure. Steps are counted by form, for each process."""

    weights: str
    models: Path
    repeat: int
    threads: int
    steps: dict
    options: dict = field(default_factory=dict)  # Tandem's


class WorkerProcess:
    """A process with a Worker. Use it as a context manager: the process ends with the block."""

    def __init__(self, candidate, settings, exchange, folder=None):
        """`folder` has the models; None: the exported ones."""
        self._candidate = candidate
        folder = folder or settings.models / settings.weights
        command = [sys.executable, RUN, "worker", candidate, folder, exchange, str(settings.threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):  # of a process that is gone
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, what, **arguments):
        """The worker's answer to a request. Raises BenchError if it ends instead; it has printed why."""
        try:
            print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError) as error:
            raise BenchError(f"the process of {self._candidate} ended at the request '{what}'") from error


def measure(settings, progress):
    """Samples by candidate and figure: a list with one entry for each round.

    The entry of `prefill_ms` and `decode_ms` is a list itself: the same place in it, in any candidate, means the
    same moment. Raises BenchError if a worker fails or computes something else than ORT CPU.
    """
    folder = settings.models / settings.weights
    preparation.export(folder, settings.weights)
    samples = {name: {} for name in CANDIDATES}
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as exchange_name:
        exchange = Path(exchange_name)
        prepare(folder, exchange, settings)
        for number in range(settings.repeat):
            progress(f"round {number + 1} of {settings.repeat}")
            for name, figures in _round(settings, exchange, number).items():
                for figure, value in figures.items():
                    samples[name].setdefault(figure, []).append(value)
    return samples


def prepare(folder, exchange, settings):
    """Writes into `exchange` what the workers read: inputs, and what ORT CPU makes of them."""
    preparation.warm(folder / "weights.data")
    preparation.write_inputs(folder, exchange, PREFILL_TOKENS)
    for form in FORMS:
        preparation.convert(folder, exchange, form)
    with WorkerProcess(ORT_CPU, settings, exchange) as worker:
        worker.ask("reference")


def _round(settings, exchange, number):
    """One process of each candidate, all alive until the round ends. Figures by candidate."""
    workers, figures = {}, {}
    try:
        for name in CANDIDATES:
            workers[name] = WorkerProcess(name, settings, exchange)
            figures[name] = _open_pair(workers[name], settings.options if name == TANDEM else {})
        for form in FORMS:
            times = _interleaved(workers, form, settings.steps[form], random.Random(number))
            for name, worker in workers.items():
                figures[name][f"{form}_ms"] = times[name]
                figures[name][f"{form}_distance"] = _checked(worker, name, form, settings.weights)
        figures[TANDEM] |= _open_third(workers[TANDEM], exchange / "report.json")
        return figures
    finally:
        for worker in workers.values():
            worker.__exit__()


def _open_pair(worker, options):
    """Opens prefill, then decode. Times in ms, memory in bytes; the caller's own arrays are not counted."""
    first, second = (worker.ask("open", form=form, **options) for form in FORMS)
    return {
        "libraries_resident": first["process_before"],
        "first_session_ms": first["create_ms"],
        "first_session_first_run_ms": first["first_run_ms"],
        "first_session_anon": first["anonymous"],
        "second_session_ms": second["create_ms"],
        "second_session_first_run_ms": second["first_run_ms"],
        "second_session_anon": second["anonymous"],
        "second_session_resident": second["resident"],
        "pair_resident": second["process_after"] - first["buffers"] - second["buffers"],
    }


def _open_third(worker, report_file):
    """Opens one more session of the same weights. Bytes of memory, and what the report says about all three."""
    third = worker.ask("open", form=THIRD_FORM, report_file=str(report_file))
    report = json.loads(report_file.read_text())
    nodes = [session["nodes"] for session in report["sessions"]]
    claimed, declined = sum(node["claimed"] for node in nodes), sum(len(node["declined"]) for node in nodes)
    if declined > 0.01 * claimed:
        raise BenchError(f"{TANDEM} left {declined} nodes to ONNX Runtime's CPU provider and claimed {claimed}")
    return {
        "third_session_anon": third["anonymous"],
        "weights_private": report["process"]["weight_bytes_in_private_memory"],
        "nodes_declined": declined,
    }


def _interleaved(workers, form, steps, order):
    """Milliseconds of `steps` runs of each worker. One runs at a time; each step asks them in a new random order."""
    times = {name: [] for name in workers}
    for step in range(steps + 1):
        for name in order.sample(list(workers), len(workers)):
            milliseconds = workers[name].ask("step", form=form)["ms"]
            if step > 0:  # the first is to get warm
                times[name].append(milliseconds)
    return times


def _checked(worker, name, form, weights):
    distance, tolerance = worker.ask("check", form=form)["distance"], TOLERANCES[weights]
    if not distance <= tolerance:
        raise BenchError(
            f"{name} computes other {form} logits than {ORT_CPU}: relative distance {distance:.1e}, "
            f"at most {tolerance:.0e} is allowed with {weights} weights"
        )
    return distance
