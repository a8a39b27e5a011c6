"""Measures the pair of a prefill and a decode session: four candidates, in one run, in turn."""

import json
import random
import tempfile
from pathlib import Path

import preparation
from candidates import CANDIDATES, ORT_CPU, TANDEM
from workers import TOLERANCES, BenchError, WorkerProcess, check_distance, interleaved

FORMS = ("prefill", "decode")
THIRD_FORM = "window_decode"
PREFILL_TOKENS = 128


def measure(settings, progress):
    """Samples by candidate and figure: a list with one entry for each round.

    The entry of `prefill_ms` and `decode_ms` is a list itself: the same place in it, in any candidate, means the
    same moment. Raises BenchError if a worker fails or computes something else than ORT CPU.
    """
    preparation.export(settings.folder, settings.weights)
    samples = {name: {} for name in CANDIDATES}
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as exchange_name:
        exchange = Path(exchange_name)
        prepare(exchange, settings)
        for number in range(settings.repeat):
            progress(f"round {number + 1} of {settings.repeat}")
            for name, figures in _round(settings, exchange, number).items():
                for figure, value in figures.items():
                    samples[name].setdefault(figure, []).append(value)
    return samples


def prepare(exchange, settings):
    """Writes into `exchange` what the workers read: inputs, and what ORT CPU makes of them."""
    folder = settings.folder
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
            times = interleaved(workers, form, settings.steps[form], random.Random(number))
            for name, worker in workers.items():
                figures[name][f"{form}_ms"] = times[name]
                figures[name][f"{form}_distance"] = checked(worker, name, form, settings.weights)
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


def checked(worker, name, form, weights):
    """The relative distance of the last run's logits from ORT CPU's. Raises WrongResult if it is too long."""
    distance = worker.ask("check", form=form)["distance"]
    return check_distance(name, form, distance, TOLERANCES[weights], ORT_CPU)
