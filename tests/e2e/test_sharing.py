"""One copy of a weight serves all sessions of the process, whatever its name and place. The report tells."""

import numpy as np
import onnxruntime_ep_tandem as tandem
import pytest
from models import DATA_FILE, Model, chain, lookup, matrix, product, quantized, tied
from sessions import assert_close, run, tandem_session

INPUTS, OUTPUTS = 64, 48


@pytest.fixture
def weights(rng):
    return matrix(rng, INPUTS, OUTPUTS)


@pytest.fixture
def open_session(alone):
    """Opens sessions that keep the test's report. Nobody else has a session meanwhile."""

    def open_(model, **options):
        return tandem_session(model, report_file=alone.file, **options)

    return open_


def assert_shared_by(report, sessions):
    """All sessions hold the same weights, and no other."""
    assert report.process["sessions"] == sessions
    for session in report.sessions:
        assert session["unshared_bytes"] == 0
        assert {weight["sessions"] for weight in session["weights"]} == {sessions}


def test_two_sessions_of_one_file(tmp_path, open_session, alone, weights):
    path = product(weights).save(tmp_path / "model.onnx")
    sessions = [open_session(path), open_session(path)]
    assert_shared_by(alone, len(sessions))
    assert alone.process["weight_bytes_in_private_memory"] == weights.nbytes


def test_two_models_of_one_file(tmp_path, open_session, alone, rng):
    table = matrix(rng, INPUTS, OUTPUTS)
    narrow = tied(table).save(tmp_path / "a.onnx")
    wide = tied(table, name="another_name").save(tmp_path / "b.onnx")
    sessions = [open_session(narrow), open_session(wide)]
    assert_shared_by(alone, len(sessions))


def test_weights_of_other_names(tmp_path, open_session, alone, rng):
    matrices = [matrix(rng, INPUTS, INPUTS) for _ in range(3)]
    first = open_session(chain(*matrices, names=["a", "b", "c"]).save(tmp_path / "first.onnx"))
    second = open_session(chain(*matrices, names=["c", "layers.1.weight", "x.y"]).save(tmp_path / "second.onnx"))
    assert_shared_by(alone, 2)
    assert [weight["name"] for weight in alone.last["weights"]] == ["c", "layers.1.weight", "x.y"]
    slots = [[weight["slot"] for weight in session["weights"]] for session in alone.sessions]
    assert slots[0] == slots[1]
    x = matrix(rng, 2, INPUTS)
    np.testing.assert_array_equal(run(first, x=x)["y"], run(second, x=x)["y"])


def test_weights_in_another_order_in_another_file(tmp_path, open_session, alone, rng):
    a, b = matrix(rng, INPUTS, INPUTS), matrix(rng, INPUTS, INPUTS)
    first = chain(a, b).save(tmp_path / "1" / "model.onnx", {"w0": (DATA_FILE, 0), "w1": (DATA_FILE, a.nbytes)})
    second = chain(a, b).save(tmp_path / "2" / "model.onnx", {"w1": (DATA_FILE, 3), "w0": ("other.data", 77)})
    sessions = [open_session(first), open_session(second)]
    assert_shared_by(alone, len(sessions))


def test_weight_inside_one_model_and_beside_another(tmp_path, open_session, alone, weights):
    inside = open_session(product(weights, name="inside"))
    beside = open_session(product(weights, name="beside").save(tmp_path / "model.onnx"))
    assert_shared_by(alone, 2)
    del inside, beside


def test_weight_that_the_optimizer_made_and_one_in_a_file(tmp_path, open_session, alone, weights):
    model = Model()
    doubled = model.add("Add", *[model.weight(weights / 2, "half")] * 2)
    model.output(model.add("MatMul", model.input("x", ["batch", INPUTS]), doubled))
    sessions = [
        open_session(product(weights).save(tmp_path / "model.onnx")),
        open_session(model, optimized=True),
    ]
    assert_shared_by(alone, len(sessions))


def test_one_weight_under_two_names_in_one_model(open_session, alone, rng):
    square = matrix(rng, INPUTS, INPUTS)
    session = open_session(chain(square, square))
    assert alone.process["forms"] == {"packed": {"count": 1, "bytes": square.nbytes}}
    x = matrix(rng, 2, INPUTS)
    expected = np.maximum(np.maximum(x @ square, 0) @ square, 0)
    assert_close(run(session, x=x)["y"], expected)


def test_static_and_dynamic_shapes(tmp_path, open_session, alone, weights):
    sessions = [open_session(product(weights, x_shape=shape)) for shape in [(1, None), (128, None), ("batch", None)]]
    assert_shared_by(alone, len(sessions))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_weights(open_session, alone, rng, dtype):
    model, weight = quantized(rng, (INPUTS, OUTPUTS), dtype, "blocks of rows", has_zero_points=True)
    model.output(model.add("MatMul", model.input("x", ["batch", INPUTS]), weight))
    sessions = [open_session(model), open_session(model)]
    assert_shared_by(alone, len(sessions))
    assert alone.process["weight_bytes_in_private_memory"] < INPUTS * OUTPUTS * 4  # not widened to f32


def test_other_content_is_not_shared(open_session, alone, weights):
    other = weights.copy()
    other[-1, -1] += 1
    first, second = open_session(product(weights)), open_session(product(other))
    assert [session["unshared_bytes"] for session in alone.sessions] == [weights.nbytes] * 2
    x = np.ones((1, INPUTS), np.float32)
    assert_close(run(first, x=x)["y"], x @ weights)
    assert_close(run(second, x=x)["y"], x @ other)


def test_same_bytes_in_another_shape_are_not_shared(open_session, alone, rng):
    table = matrix(rng, INPUTS, OUTPUTS)
    sessions = [open_session(product(table)), open_session(product(table.reshape(OUTPUTS, INPUTS)))]
    assert alone.process["forms"]["packed"]["count"] == len(sessions)


def test_weight_goes_with_its_last_session(open_session, alone, weights):
    first, second = open_session(product(weights)), open_session(product(weights))
    del first
    assert alone.process["sessions"] == 1
    assert alone.last["unshared_bytes"] == weights.nbytes
    del second


def test_report_of_the_last_session_stays(open_session, alone, weights):
    """To be read when the process is over."""
    session = open_session(product(weights))
    del session
    assert alone.process["sessions"] == 1


def test_mapped_table_takes_no_memory(tmp_path, open_session, alone, rng):
    table = matrix(rng, 1000, OUTPUTS)
    sessions = [open_session(lookup(table).save(tmp_path / f"{name}.onnx")) for name in "ab"]
    assert alone.process["forms"] == {"mapped": {"count": 1, "bytes": table.nbytes}}
    assert alone.process["weight_bytes_in_private_memory"] == 0
    assert_shared_by(alone, len(sessions))


def test_small_table_is_copied_once(tmp_path, open_session, alone, rng):
    """The pages that it is in are larger."""
    table = matrix(rng, INPUTS, OUTPUTS)
    sessions = [open_session(lookup(table).save(tmp_path / f"{name}.onnx")) for name in "ab"]
    assert alone.process["forms"] == {"copied": {"count": 1, "bytes": table.nbytes}}
    assert_shared_by(alone, len(sessions))


def test_embedding_uses_the_packed_head_of_another_session(tmp_path, open_session, alone, rng):
    table = matrix(rng, INPUTS, OUTPUTS)
    whole = open_session(tied(table).save(tmp_path / "tied.onnx"))
    rows = open_session(lookup(table).save(tmp_path / "lookup.onnx"))
    assert_shared_by(alone, 2)
    ids = np.array([1, 5])
    np.testing.assert_array_equal(run(rows, ids=ids)["y"], table[ids])
    del whole


def test_sharing_can_be_switched_off(open_session, alone, weights):
    shared = open_session(product(weights))
    private = open_session(product(weights), share_weights="off")
    assert alone.process["forms"]["packed"]["count"] == 1
    assert {weight["form"] for weight in alone.last["weights"]} <= {"copied"}
    x = np.ones((1, INPUTS), np.float32)
    assert_close(run(private, x=x)["y"], run(shared, x=x)["y"])


def test_each_report_file_tells_of_all_sessions(tmp_path, alone, weights):
    files = [tmp_path / f"{name}.json" for name in "ab"]
    sessions = [tandem_session(product(weights), report_file=file) for file in files]
    quiet = tandem_session(product(weights))
    last = tandem_session(product(weights), report_file=files[0])
    reports = [tandem.read_report(file) for file in files]
    assert reports[0] == reports[1]
    assert reports[0]["process"]["sessions"] == 4
    assert len({session["id"] for session in reports[0]["sessions"]}) == 4
    del sessions, quiet, last


def test_report_names_model_device_and_options(tmp_path, open_session, alone, weights):
    path = product(weights).save(tmp_path / "model.onnx")
    session = open_session(path, num_streams=2)
    assert alone.last["model"] == str(path)
    assert alone.last["device"] == "CPU"
    given = {"activation_precision": "f32", "num_streams": "2", "report_file": str(alone.file)}
    assert alone.last["options"] == given
    assert alone.last["nodes"] == {"claimed": 1, "declined": []}
    del session
