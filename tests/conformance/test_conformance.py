"""The onnx package's tests: none gets worse than docs/conformance.json says. TANDEM_UPDATE_DOCS=1 writes it anew."""

import importlib.metadata
import json
import os

import pytest
from cases import load_cases
from document import DOCUMENT, RECORD, render, rewrite
from pool import run_jobs
from verdicts import judge, record, recorded
from worker import CRASH, Result, serve

TIME_LIMIT = 600  # for one case on one provider, in seconds: for a machine that has other things to do
VERSIONS = {name: importlib.metadata.version(name) for name in ("onnx", "onnxruntime", "openvino")}
CASES = load_cases()


@pytest.fixture(scope="session")
def committed():
    return json.loads(RECORD.read_text())


@pytest.fixture(scope="session")
def verdicts(request):
    """Of the cases that pytest selected, by name."""
    items = [item for item in request.session.items if item.function is test_case_got_no_worse]
    names = {item.callspec.params["name"] for item in items}
    jobs = {(name, on_tandem): (CASES[name], on_tandem) for name in sorted(names) for on_tandem in (False, True)}
    processes = len(os.sched_getaffinity(0))
    results = run_jobs(jobs, serve, lambda reason: Result(CRASH, reason), processes, TIME_LIMIT)
    found = {name: judge(results[name, False], results[name, True]) for name in names}
    if "TANDEM_UPDATE_DOCS" in os.environ and names == CASES.keys():
        before = json.loads(RECORD.read_text())
        models = {key: value for key, value in before.items() if key.startswith("real_models")}  # of tests/models
        rewrite(record(CASES, found, VERSIONS) | models)
    return found


@pytest.mark.parametrize("name", CASES)
def test_case_got_no_worse(name, verdicts, committed):
    found, before = verdicts[name], recorded(committed, name)
    assert not found.is_worse_than(before), f"{name}\n now: {found}\n was: {before}"


def test_the_record_is_of_these_versions(committed):
    assert committed["versions"] == VERSIONS, "run with TANDEM_UPDATE_DOCS=1"
    assert committed["cases"] == len(CASES)


def test_nothing_is_wrong_that_the_cpu_provider_has_right(committed):
    assert committed["lists"]["regressions"] == []
    assert committed["lists"]["refused"] == []
    assert committed["lists"]["crashes"] == []


def test_the_document_is_of_the_record(committed):
    assert DOCUMENT.read_text() == render(committed), "run with TANDEM_UPDATE_DOCS=1"
