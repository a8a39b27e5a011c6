"""What all tests share: random numbers of their own, and a report of the sessions."""

import gc
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "smollm2"))

from compiled_models import GROUP, LAST, compile_model
from llm import Exports
from models import chain, matrix
from sessions import Report, assert_same_outputs, cpu_session, run, tandem_session

PAIR_SIZE = 96


@pytest.fixture
def rng(request):
    """Numbers that no other test gets, so that tests do not share weights."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def report(tmp_path):
    return Report(tmp_path / "report.json")


@pytest.fixture
def alone(report):
    """A report for a test whose sessions are the only ones: those of earlier tests are gone."""
    # A test that failed last is kept for debuggers, with its sessions.
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    gc.collect()
    return report


@pytest.fixture
def assert_same_as_cpu(report):
    """Compares runs on Tandem with runs on ONNX Runtime's CPU provider.

    The whole model must be Tandem's, unless `whole` is False. `packed` and `copied` are weights that must be in memory
    in that form.
    """

    def check(model, *feeds, packed=(), copied=(), tolerance=2e-6, whole=True, **options):
        session = tandem_session(model, whole=whole, report_file=report.file, **options)
        reference = cpu_session(model)
        for given in feeds:
            assert_same_outputs(run(session, **given), run(reference, **given), tolerance)
        assert all("packed" in report.forms(name) for name in packed)
        assert all("copied" in report.forms(name) for name in copied)

    return check


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """SmolLM2 with few layers."""
    root = tmp_path_factory.mktemp("smollm2")
    yield Exports(root)
    shutil.rmtree(root)  # about a gigabyte, which pytest would keep


@pytest.fixture
def pair(tmp_path, rng):
    """Two models over one data file, as paths, and a feed."""
    shared, own = matrix(rng, PAIR_SIZE, PAIR_SIZE), matrix(rng, PAIR_SIZE, PAIR_SIZE)
    paths = [
        chain(shared, names=["w"]).save(tmp_path / "source" / "one.onnx"),
        chain(shared, own, names=["w", "other"]).save(tmp_path / "source" / "two.onnx"),
    ]
    return paths, {"x": matrix(rng, 3, PAIR_SIZE)}


@pytest.fixture
def compiled(tmp_path, pair):
    """The pair, compiled into one group; and what the models compute."""
    paths, feed = pair
    expected = [run(cpu_session(path), **feed) for path in paths]
    folder = tmp_path / "compiled"
    folder.mkdir()
    one = compile_model(paths[0], folder / "one.onnx", GROUP)
    two = compile_model(paths[1], folder / "two.onnx", LAST)
    return folder, [one, two], feed, expected
