"""Measures an LLM's prefill and decode on Tandem and its peers, in one run, in turn."""

import contextlib
import random
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

import curves
import llm_models
import llm_worker
import numpy as np
import peaks
import preparation
import summary
from llm_candidates import (
    CANDIDATES,
    ON_GGUF,
    ON_PACKAGE,
    PEERS,
    REFERENCE,
    SEPARATE,
    SHARED,
    TANDEM_CONTRIB,
    TANDEM_PLAIN,
    TANDEMS,
    Task,
)
from workers import LLM, TOLERANCES, BenchError, WorkerProcess, WrongResult, check_distance, interleaved

PACKAGES = Path(__file__).resolve().parent.parent / "build" / "peers"
TASKS = {"decode": Task(1, context=256), "prefill128": Task(128), "prefill512": Task(512)}
PROMPTS = {128: 1, 512: 1, 254: 4}  # length of a prompt, tokens that a candidate without logits writes behind it
SHORTFALL = 2.0  # of the logit of a token that a candidate without logits chose; among all logits 10 is usual
PACKAGE = "f32"  # the weights that are those of the package's GGUF file, dequantized
AUTO = "auto"
FORMS = {"plain": TANDEM_PLAIN, "contrib": TANDEM_CONTRIB}


class Bench:
    """The candidates that take part. `absent` has the reason of those that do not, `kv` how Tandem's cache is bound."""

    def __init__(self, settings, exchange, kv):
        self.absent = {}
        self.kv = {TANDEM_PLAIN: SEPARATE, TANDEM_CONTRIB: kv}
        self.kv_refused = None  # why TANDEM_CONTRIB does not share a buffer, with AUTO
        self._settings, self._exchange = settings, exchange

    def start(self, name, tasks=TASKS, folder=None):
        """A process with the candidate opened and `tasks` prepared and checked. None if the candidate is absent.

        Raises BenchError if the candidate is Tandem and fails, WrongResult if any computes something else than the
        reference.
        """
        if name in self.absent:
            return None
        if self.kv.get(name) != AUTO:
            return self._start(name, self.kv.get(name), tasks, folder)
        try:
            worker = self._start(name, SHARED, tasks, folder)
            self.kv[name] = SHARED
        except BenchError as error:
            self.kv_refused = str(error)
            worker = self._start(name, SEPARATE, tasks, folder)
            self.kv[name] = SEPARATE
        return worker

    def off(self, worker, name, form):
        """What LlmWorker.check() says right after a run of `form`. Raises WrongResult if that is too much."""
        answer = worker.ask("check", form=form, weights=PACKAGE if name in ON_PACKAGE else self._settings.weights)
        if "distance" in answer:
            check_distance(name, form, answer["distance"], TOLERANCES[self._settings.weights], REFERENCE)
        elif not answer["shortfall"] <= SHORTFALL:
            raise WrongResult(f"{name} chose another token in {form}: its logit is {answer['shortfall']:.2f} too small")
        return answer

    def _start(self, name, kv, tasks, folder):
        if name in ON_GGUF and self._settings.weights != "int4":
            self.absent[name] = "the GGUF files have int4 weights"
            return None
        packages = PACKAGES if name in ON_GGUF else None
        worker = WorkerProcess(name, self._settings, self._exchange, folder, LLM, packages)
        options = self._settings.options | {"kv": kv} if name in TANDEMS else {}
        try:
            worker.ask("open", **options)
            for form, task in tasks.items():
                worker.ask("prepare", form=form, task=asdict(task))
                self.off(worker, name, form)
        except BenchError as error:
            worker.__exit__()
            if name in TANDEMS or isinstance(error, WrongResult):
                raise
            self.absent[name] = str(error)
            return None
        return worker


def measure(settings, kv, with_curves, progress):
    """All samples, and what they were taken with, as a dictionary for JSON.

    samples[name]["decode_ms"] and the like have a list for each round: the same place in it, of any candidate, means
    the same moment. Raises BenchError if Tandem fails, if nobody else is there, or if a result is wrong.
    """
    llm_models.prepare(settings.folder, settings.weights, settings.threads)
    preparation.export(settings.models / PACKAGE, PACKAGE)
    samples, rounds_of_peaks = {name: {} for name in CANDIDATES}, []
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as name:
        exchange = Path(name)
        _write_reference(settings, exchange)
        bench = Bench(settings, exchange, kv)
        for number in range(settings.repeat):
            progress(f"round {number + 1} of {settings.repeat}")
            rounds_of_peaks.append(peaks.measure(settings.threads))
            for candidate, figures in _round(bench, settings, number, progress).items():
                for figure, value in figures.items():
                    samples[candidate].setdefault(figure, []).append(value)
        result = {
            "samples": {name: figures for name, figures in samples.items() if name not in bench.absent},
            "absent": bench.absent,
            "kv": bench.kv,
            "kv_refused": bench.kv_refused,
            "peaks": rounds_of_peaks,
            "weights_of_a_token": asdict(llm_models.weights_of_a_token(settings.folder)),
        }
        if with_curves:
            result["curves"] = curves.measure(bench, settings, progress)
    return result


def _write_reference(settings, exchange):
    """Writes into `exchange` the story's tokens and what the reference makes of them, with each kind of weights."""
    np.save(exchange / llm_worker.IDS, preparation.story_ids(settings.folder))
    for weights in {settings.weights, PACKAGE}:
        with WorkerProcess(REFERENCE, settings, exchange, settings.models / weights, LLM) as worker:
            worker.ask("open")
            for form, task in TASKS.items():
                worker.ask("prepare", form=form, task=asdict(task))
                worker.ask("write_logits", form=form, weights=weights)
            for prompt, count in PROMPTS.items():
                worker.ask("write_greedy", prompt=prompt, count=count, weights=weights)


def _round(bench, settings, number, progress):
    """One process of each candidate, all alive until the round ends. Figures by candidate."""
    with contextlib.ExitStack() as stack:
        workers = {}
        for name in CANDIDATES:
            if worker := bench.start(name):
                workers[name] = stack.enter_context(worker)
            elif number == 0:
                progress(f"{name} is absent: {bench.absent[name]}")
        if workers.keys() <= TANDEMS.keys():
            raise BenchError("there is no peer")
        figures = {name: {} for name in workers}
        for form in TASKS:
            times = interleaved(workers, form, settings.steps[form], random.Random(number))
            for name, worker in workers.items():
                figures[name][f"{form}_ms"] = times[name]
                for measure, value in bench.off(worker, name, form).items():
                    figures[name][f"{form}_{measure}"] = value
        return figures


def conclude(result, weights):
    """What follows from the samples, for JSON. `ratios` are numbers, `ratio_spreads` their [low, high]."""
    samples = result["samples"]
    figures = summary.figures(samples)
    slower, best, ratios = {}, {}, {}
    for task in TASKS:
        figure = f"{task}_ms"
        by_median = {name: figures[name][figure]["median"] for name in samples}
        best[task] = min((name for name in by_median if name in PEERS), key=by_median.get)
        slower[task] = max(TANDEMS, key=by_median.get)
        for middle, name in (("", slower[task]), *((f"_{form}", name) for form, name in FORMS.items())):
            ratios[f"{task}{middle}_over_best_peer"] = summary.paired(
                samples[name][figure], samples[best[task]][figure]
            )
    limits = limits_ms(result, weights)
    for ratio, (task, limit) in {
        "decode_over_memory_limit": ("decode", limits["decode"]),
        f"prefill_over_{_arithmetic(weights)}_peak": ("prefill128", limits["prefill128"]),
    }.items():
        measured = samples[slower[task]][f"{task}_ms"]
        each = [[value] * len(times) for value, times in zip(limit, measured, strict=True)]
        ratios[ratio] = summary.paired(measured, each)
    return {
        "figures": figures,
        "best_peer": best,
        "slower_form": slower,
        "limits_ms": limits,
        "ratios": {name: ratio["value"] for name, ratio in ratios.items()},
        "ratio_spreads": {name: [ratio["low"], ratio["high"]] for name, ratio in ratios.items()},
    }


def limits_ms(result, weights):
    """The least time, by task, for each round: to read the weights, and to multiply with all of them."""
    once = result["weights_of_a_token"]
    macs = (once["macs"] - once["head_macs"]) * TASKS["prefill128"].tokens + once["head_macs"]
    return {
        "decode": [once["bytes"] / peak["read"] * 1e3 for peak in result["peaks"]],
        "prefill128": [macs / peak[_arithmetic(weights)] * 1e3 for peak in result["peaks"]],
    }


def _arithmetic(weights):
    """That of the peak: 8-bit activations exist for int4 weights only."""
    return "int8" if weights == "int4" else "f32"


def failures(result):
    """Which points of the curves Tandem failed at."""
    failed = curves.failures(result.get("curves", {}))
    return [f"{name} at {curve} {point}" for name, curve, point, _ in failed if name in TANDEMS]


def describe(result):
    """The result as lines of text, without its head."""
    figures = result["figures"]
    header = ["", *(title for task in TASKS for title in (f"{task}, ms", "off"))]
    rows = [[name, *_cells(figures[name])] for name in figures]
    lines = [summary.aligned([header, *rows]), ""]
    lines += [f"absent    {name}: {summary.brief(reason)}" for name, reason in result["absent"].items()]
    lines.append(f"cache     {_pairs(result['kv'])}")
    if result["kv_refused"]:
        lines.append(f"          not shared, since {summary.brief(result['kv_refused'])}")
    lines.append(f"best      {_pairs(result['best_peer'])}; Tandem's slower form: {_pairs(result['slower_form'])}")
    rate = {kind: median(peak[kind] for peak in result["peaks"]) / 1e9 for kind in peaks.KINDS}
    once = result["weights_of_a_token"]
    limit = {task: median(values) for task, values in result["limits_ms"].items()}
    lines += [
        f"machine   reads {rate['read']:.1f} GB/s; multiply-adds: {rate['int8']:.0f} G/s of int8, "
        f"{rate['f32']:.0f} G/s of f32",
        f"limits    a token reads {once['bytes'] / 1e6:.1f} MB of weights and takes {once['macs'] / 1e6:.1f} M "
        f"multiply-adds: decode {limit['decode']:.2f} ms, prefill128 {limit['prefill128']:.1f} ms",
        "",
        "tandem in relation; [lowest..highest] of the single rounds",
        summary.ratio_lines(result["ratios"], result["ratio_spreads"]),
    ]
    if "curves" in result:
        lines += ["", curves.describe(result["curves"])]
    return lines


def _cells(figures):
    """A time, and how far from the reference, for each task. Without logits that is the shortfall of a token."""
    for task in TASKS:
        yield summary.cell(figures[f"{task}_ms"], summary.number)
        if f"{task}_distance" in figures:
            yield f"{figures[f'{task}_distance']['max']:.1e}"
        else:
            yield f"token {figures[f'{task}_shortfall']['max']:.2f}"


def _pairs(values):
    return ", ".join(f"{name} {value}" for name, value in values.items())
