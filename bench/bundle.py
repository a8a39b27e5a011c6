"""Measures the pair loaded from a bundle: in one process beside its peers, and in many at a time."""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import preparation
from candidates import OPENVINO_CONSTANTS, ORT_CPU, TANDEM
from pair import FORMS, checked, prepare
from workers import WorkerProcess

PEERS = {TANDEM: "tandem, from the bundle", ORT_CPU: "ort_cpu", OPENVINO_CONSTANTS: "openvino_constants"}


@contextlib.contextmanager
def compiled(settings):
    """A folder with the compiled pair, and one that workers share. `settings` are those of pair.measure()."""
    preparation.export(settings.folder, settings.weights)
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as name:
        folder, exchange = Path(name) / "compiled", Path(name) / "exchange"
        exchange.mkdir()
        models = [settings.folder / f"{form}.onnx" for form in FORMS]
        command = [sys.executable, "-m", "onnxruntime_ep_tandem", "compile", *models, "-o", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        prepare(exchange, settings)
        yield folder, exchange


def measure(settings, progress):
    """Samples of the pair in one process: by candidate, figures with an entry for each round; and bytes on disk."""
    from onnxruntime_ep_tandem import bundles

    samples = {name: {"load_ms": [], "anonymous": []} for name in PEERS}
    with compiled(settings) as (folder, exchange):
        [bundle] = folder.glob("*.safetensors")
        disk = {
            "files": sum(path.stat().st_size for path in folder.iterdir()),
            "unique_weights": bundles.inspect(bundle)["weight_bytes"],
        }
        for number in range(settings.repeat):
            progress(f"round {number + 1} of {settings.repeat}")
            for name in PEERS:
                with WorkerProcess(name, settings, exchange, folder if name == TANDEM else None) as worker:
                    answers = [worker.ask("open", form=form) for form in FORMS]
                    for form in FORMS:
                        checked(worker, name, form, settings.weights)
                samples[name]["load_ms"].append(sum(answer["create_ms"] for answer in answers))
                samples[name]["anonymous"].append(sum(answer["anonymous"] for answer in answers))
    return {"samples": samples, "disk": disk}


def ratios(result):
    """The ratios by name, of what measure() returned."""
    samples, disk = result["samples"], result["disk"]

    def over(peer):
        pairs = zip(samples[TANDEM]["load_ms"], samples[peer]["load_ms"], strict=True)
        return median(tandem / other for tandem, other in pairs)

    return {
        "disk_over_unique": disk["files"] / disk["unique_weights"],
        "load_over_openvino": over(OPENVINO_CONSTANTS),
        "load_over_ort_cpu": over(ORT_CPU),
        "anon_mib": median(samples[TANDEM]["anonymous"]) / 2**20,
    }


def measure_processes(settings, count, progress):
    """Samples of `count` processes with the pair each, by round: when each was ready, and its share of the pages."""
    rounds = []
    with compiled(settings) as (folder, exchange):
        [bundle] = folder.glob("*.safetensors")
        for number in range(settings.repeat):
            progress(f"round {number + 1} of {settings.repeat}")
            rounds.append(_processes(settings, count, exchange, folder, bundle))
    return rounds


def _processes(settings, count, exchange, folder, bundle):
    ready_ms = []
    with contextlib.ExitStack() as stack:
        workers = []
        for _ in range(count):
            worker = stack.enter_context(WorkerProcess(TANDEM, settings, exchange, folder))
            workers.append(worker)
            ready_ms.append(sum(worker.ask("open", form=form)["create_ms"] for form in FORMS))
            if len(workers) == 1:
                one = worker.ask("file_pages", path=str(bundle))["pss"]
        for form in FORMS:
            checked(workers[-1], TANDEM, form, settings.weights)
        pss = [worker.ask("file_pages", path=str(bundle))["pss"] for worker in workers]
    return {"ready_ms": ready_ms, "pss_of_one": one, "pss": pss}


def process_ratios(rounds):
    """The ratios by name, of what measure_processes() returned: medians of the rounds."""
    return {
        "pss_weights_over_one": median(sum(entry["pss"]) / entry["pss_of_one"] for entry in rounds),
        "eighth_ready_over_second": median(entry["ready_ms"][-1] / entry["ready_ms"][1] for entry in rounds),
    }
