"""What 8-bit activations cost: logits of a text against those of the same int4 weights in float64."""

import tempfile
from pathlib import Path

import llm_models
import llm_worker
import numpy as np
import preparation
import reference
import summary
from llm import PACKAGES
from llm_candidates import ALL, LLAMA_CPP_Q4_0, ON_GGUF, OPENVINO_CONSTANTS, ORT_CPU_PLAIN, TANDEM_PLAIN, TANDEMS
from worker import distance
from workers import LLM, BenchError, WorkerProcess

TOKENS = 768
EXACT = 1e-4  # relative distance from the reference that f32 activations must keep
TANDEM_F32, TANDEM_INT8, ORT_INT8 = "tandem, f32", "tandem, int8", "ort_cpu, level 4 (default)"
OPENVINO_INT8 = "openvino, default"
LEVEL = "session.qdq_matmulnbits_accuracy_level"
# Title, candidate and its options.
VARIANTS = {
    TANDEM_F32: (TANDEM_PLAIN, {"activation_precision": "f32"}),
    TANDEM_INT8: (TANDEM_PLAIN, {"activation_precision": "int8"}),
    "ort_cpu, level 1 (f32)": (ORT_CPU_PLAIN, {LEVEL: "1"}),
    ORT_INT8: (ORT_CPU_PLAIN, {}),
    "openvino, f32, no dynamic quantization": (OPENVINO_CONSTANTS, {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}),
    "openvino, f32 hint": (OPENVINO_CONSTANTS, {}),
    OPENVINO_INT8: (OPENVINO_CONSTANTS, {"hints": {}}),
    "llama_cpp, q4_0": (LLAMA_CPP_Q4_0, {"logits_all": True}),
}
RATIOS = {"kl_int8_over_ort_cpu": ORT_INT8, "kl_int8_over_openvino": OPENVINO_INT8}


def measure(settings, progress):
    """Figures by variant, `absent` with reasons, and `ratios`, as a dictionary for JSON.

    Raises BenchError if Tandem fails, or if its f32 activations are farther off than EXACT.
    """
    llm_models.prepare(settings.folder, settings.weights, settings.threads)
    ids = preparation.story_ids(settings.folder)[:TOKENS]
    progress("reference")
    exact = reference.logits(ids)
    figures, absent = {}, {}
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as name:
        exchange = Path(name)
        np.save(exchange / llm_worker.IDS, ids)
        for title, (candidate, options) in VARIANTS.items():
            progress(title)
            try:
                found = _logits(candidate, options, settings, exchange)
            except BenchError as error:
                if candidate in TANDEMS:
                    raise
                absent[title] = str(error)
            else:
                figures[title] = _compare(found, exact)
    off = figures[TANDEM_F32]["distance"]
    if not off <= EXACT:
        raise BenchError(f"with f32 activations the logits are {off:.1e} off, at most {EXACT:.0e} is allowed")
    kl = {title: figure["kl"] for title, figure in figures.items()}
    return {
        "tokens": len(ids),
        "figures": figures,
        "absent": absent,
        "ratios": {name: kl[TANDEM_INT8] / kl[peer] for name, peer in RATIOS.items() if peer in kl},
    }


def describe(result):
    """The result as lines of text, without its head."""
    header = ["", "mean KL, nats", "same best token", "logits off"]
    rows = [
        [title, f"{figure['kl']:.2e}", f"{figure['top1']:.4f}", f"{figure['distance']:.1e}"]
        for title, figure in result["figures"].items()
    ]
    absent = [f"absent    {title}: {summary.brief(reason)}" for title, reason in result["absent"].items()]
    ratios = [f"{name:26} {value:.3f}" for name, value in result["ratios"].items()]
    return [f"tokens    {result['tokens']}", "", summary.aligned([header, *rows]), "", *absent, *ratios]


def _logits(candidate, options, settings, exchange):
    packages = PACKAGES if candidate in ON_GGUF else None
    file = exchange / "logits.npy"
    with WorkerProcess(candidate, settings, exchange, kind=LLM, packages=packages) as worker:
        worker.ask("open", **options | ({} if candidate in ON_GGUF else {"model": ALL}))
        worker.ask("write_all_logits", tokens=TOKENS, file=str(file))
    return np.load(file)


def _compare(found, exact):
    """Mean Kullback-Leibler divergence from the exact distribution, agreement of the best token, and distance."""
    expected, log = _log_softmax(exact), _log_softmax(found.astype(np.float64))
    return {
        "kl": float((np.exp(expected) * (expected - log)).sum(axis=-1).mean()),
        "top1": float((exact.argmax(axis=-1) == found.argmax(axis=-1)).mean()),
        "distance": distance(found, exact),
    }


def _log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
