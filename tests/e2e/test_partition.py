"""Tandem takes the nodes that it computes right and leaves the others to ONNX Runtime's CPU provider."""

import numpy as np
import onnx
import pytest
from models import MICROSOFT, Model, interrupted, matrix
from onnx import helper
from sessions import ORT_VERSION, assert_same_outputs, cpu_session, run, tandem_session

INT64 = onnx.TensorProto.INT64
FLOAT = onnx.TensorProto.FLOAT
SIZE = 48


@pytest.fixture
def open_session(report):
    """Opens a session that may leave nodes to the CPU provider and keeps the test's report."""

    def open_(model, **options):
        return tandem_session(model, whole=False, report_file=report.file, **options)

    return open_


@pytest.fixture
def assert_same_as_cpu(open_session):
    def check(model, feeds, tolerance=2e-6):
        assert_same_outputs(run(open_session(model), **feeds), run(cpu_session(model), **feeds), tolerance)

    return check


def claimed(report):
    return report.last["nodes"]["claimed"]


def test_string_operator_in_the_middle(open_session, report, rng):
    model = interrupted(rng, SIZE)
    feed = {"x": matrix(rng, 2, SIZE)}
    assert_same_outputs(run(open_session(model), **feed), run(cpu_session(model), **feed), 1e-4)
    assert len(report.last["programs"]) == 2
    assert report.declined().keys() == {"Cast"}
    assert "element type that OpenVINO does not compute" in report.declined()["Cast"]


def test_report_names_declined_nodes(open_session, report):
    model = Model()
    x = model.input("x", ["batch", 4], np.float64)
    model.output(model.add("Neg", x), dtype=np.float64)
    open_session(model)
    [node] = report.last["nodes"]["declined"]
    assert node == {"name": "Neg_node_2", "op_type": "Neg", "reason": "'x' is f64, which OpenVINO computes in f32"}
    assert report.last["nodes"]["claimed"] == 0
    assert report.last["programs"] == []


def test_graph_that_must_be_whole_and_is_not_fails():
    model = Model()
    model.output(model.add("Neg", model.input("x", [4], np.float64)), dtype=np.float64)
    with pytest.raises(Exception, match="fallback to CPU EP has been explicitly disabled"):
        tandem_session(model)


def test_several_partitions(open_session, report, rng):
    """Between every two products an operator that stays on the CPU."""
    model = Model()
    value = model.input("x", ["batch", SIZE])
    for _ in range(3):
        value = model.add("MatMul", value, model.weight(matrix(rng, SIZE, SIZE) / SIZE))
        value = model.add("Cast", model.add("Cast", value, to=11), to=FLOAT)
    model.output(model.add("Softmax", value, name="y"))
    x = matrix(rng, 3, SIZE)
    assert_same_outputs(run(open_session(model), x=x), run(cpu_session(model), x=x), 1e-5)
    assert len(report.last["programs"]) == 4
    assert report.process["forms"]["packed"]["count"] >= 3


def test_partitions_that_read_each_others_results_crosswise(open_session, report, rng):
    model = Model()
    x = model.input("x", ["batch", SIZE])
    left = model.add("MatMul", x, model.weight(matrix(rng, SIZE, SIZE)))
    right = model.add("Sigmoid", x)
    doubles = model.add("Cast", model.add("Cast", left, to=11), to=FLOAT)
    model.output(model.add("Add", doubles, right, name="a"))
    model.output(model.add("Mul", model.add("Relu", left), doubles, name="b"))
    feeds = {"x": matrix(rng, 3, SIZE)}
    assert_same_outputs(run(open_session(model), **feeds), run(cpu_session(model), **feeds))
    assert 1 <= len(report.last["programs"]) <= 2


# Bodies.


def conditional(rng, unsupported=False):
    """y is x times one of two weights of the outer graph."""
    model = Model()
    x, choice = model.input("x", ["batch", SIZE]), model.input("choice", [1], bool)
    bodies = []
    for name in ("then", "else"):
        weight = model.weight(matrix(rng, SIZE, SIZE), f"{name}_weight")
        body = Model()
        value = body.add("MatMul", x, weight, name=f"{name}_product")
        if unsupported:
            value = body.add("Cast", body.add("Cast", value, to=11, name=f"{name}_f64"), to=1, name=f"{name}_f32")
        bodies.append(body.output(value, ["batch", SIZE]).graph(name))
    model.output(model.add("If", choice, then_branch=bodies[0], else_branch=bodies[1], name="y"))
    return model


passes_captures = ORT_VERSION >= (1, 27)  # to a fused node: what its bodies read of the outer graph


def test_if_is_claimed_with_outer_weights(open_session, rng, report):
    model = conditional(rng)
    session = open_session(model)
    for choice in (True, False):
        feeds = {"x": matrix(rng, 3, SIZE), "choice": np.array([choice])}
        assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds))
    assert claimed(report) == (1 if passes_captures else 0)
    if not passes_captures:
        assert "its body reads 'x'" in report.declined()["If"]


def test_if_with_a_body_that_openvino_lacks_is_left(open_session, report, rng):
    model = conditional(rng, unsupported=True)
    session = open_session(model)
    for choice in (True, False):
        feeds = {"x": matrix(rng, 3, SIZE), "choice": np.array([choice])}
        assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds))
    assert claimed(report) == 0
    assert report.declined().keys() == {"If"}
    assert report.declined()["If"].startswith("its body: ")


def test_loop_is_claimed_with_outer_weights(rng, report):
    model = Model()
    x = model.input("x", ["batch", SIZE])
    weight = model.weight(matrix(rng, SIZE, SIZE) / SIZE, "w")
    body = Model()
    body.input("i", [], np.int64)
    body.input("again", [], bool)
    value = body.input("state", ["batch", SIZE])
    body.output(body.add("Identity", "again", name="next"), [], bool)
    body.output(body.add("Tanh", body.add("MatMul", value, weight), name="new_state"), ["batch", SIZE])
    count, start = model.weight(np.array(5), "count"), model.weight(np.array(True), "start")
    model.output(model.add("Loop", count, start, x, body=body.graph("body"), name="y"), ["batch", SIZE])
    session = tandem_session(model, report_file=report.file)
    feeds = {"x": matrix(rng, 3, SIZE)}
    assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds))
    assert claimed(report) == 1


def test_scan_is_claimed_with_outer_weights(rng, report):
    model = Model()
    sequence = model.input("x", ["steps", "batch", SIZE])
    weight = model.weight(matrix(rng, SIZE, SIZE) / SIZE, "w")
    body = Model()
    state, step = body.input("state", ["batch", SIZE]), body.input("step", ["batch", SIZE])
    new_state = body.add("Tanh", body.add("Add", step, body.add("MatMul", state, weight)), name="new_state")
    body.output(new_state, ["batch", SIZE]).output(body.add("Neg", new_state, name="row"), ["batch", SIZE])
    final, rows = model.add(
        "Scan",
        model.input("start", ["batch", SIZE]),
        sequence,
        outputs=["final", "rows"],
        body=body.graph("body"),
        num_scan_inputs=1,
    )
    model.output(final).output(rows)
    session = tandem_session(model, report_file=report.file)
    feeds = {"x": rng.standard_normal((4, 2, SIZE), np.float32), "start": matrix(rng, 2, SIZE)}
    assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds), 1e-5)
    assert claimed(report) == 1


def test_body_with_weights_of_its_own(open_session, rng, report):
    model = Model()
    x, choice = model.input("x", ["batch", SIZE]), model.input("choice", [1], bool)
    bodies = []
    for name in ("then", "else"):
        body = Model()
        value = body.add("MatMul", x, body.weight(matrix(rng, SIZE, SIZE), f"{name}_weight"), name=f"{name}_product")
        bodies.append(body.output(value, ["batch", SIZE]).graph(name))
    model.output(model.add("If", choice, then_branch=bodies[0], else_branch=bodies[1], name="y"))
    session = open_session(model)
    for choice in (True, False):
        feeds = {"x": matrix(rng, 3, SIZE), "choice": np.array([choice])}
        assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds))


# What OpenVINO lacks or computes otherwise.


def test_static_empty_tensors_are_left(open_session, report, rng):
    model = Model()
    nothing = model.weight(np.zeros((0, SIZE), np.float32), "nothing")
    model.output(model.add("Concat", model.input("x", ["n", SIZE]), nothing, axis=0, name="y"))
    x = matrix(rng, 3, SIZE)
    np.testing.assert_array_equal(run(open_session(model), x=x)["y"], x)
    assert report.declined() == {"Concat": "'nothing' [0,48] is empty"}


def test_empty_input(assert_same_as_cpu, report):
    model = Model()
    x = model.input("x", [0, SIZE])
    model.output(model.add("Relu", x)).output(model.add("ReduceSum", x, model.weight(np.array([0])), keepdims=0))
    assert_same_as_cpu(model, {"x": np.zeros((0, SIZE), np.float32)})
    assert claimed(report) == 0


def test_unknown_rank_is_left(open_session, report, rng):
    model = Model()
    model.output(model.add("Relu", model.input("x", None), name="y"))
    session = open_session(model)
    for shape in ((3,), (2, 3), (1, 2, 3)):
        x = rng.standard_normal(shape, np.float32)
        np.testing.assert_array_equal(run(session, x=x)["y"], np.maximum(x, 0))
    assert claimed(report) == 0
    assert "unknown rank" in report.declined()["Relu"]


def test_doubles_are_left(open_session, report):
    model = Model()
    x = model.input("x", ["n"], np.float64)
    model.output(model.add("Add", x, model.weight(np.array([1e-12]))), dtype=np.float64)
    feeds = {"x": np.array([1.0, 1e300])}
    assert_same_outputs(run(open_session(model), **feeds), run(cpu_session(model), **feeds), 0)
    assert claimed(report) == 0
    assert "is f64" in report.declined()["Add"]


def contrib(op_type, *inputs, outputs=("y",), **attributes):
    model = Model()
    names = [model.input(name, shape, dtype) for name, shape, dtype in inputs]
    made = model.add(op_type, *names, outputs=list(outputs), domain=MICROSOFT, **attributes)
    for output in outputs:
        model.output(output if len(outputs) > 1 else made)
    return model


@pytest.mark.parametrize(
    "model",
    [
        contrib("BiasGelu", ("x", ["n", 8], np.float32), ("bias", [8], np.float32)),
        contrib("CDist", ("x", ["n", 8], np.float32), ("z", ["m", 8], np.float32), metric="euclidean"),
        contrib("Inverse", ("x", [4, 4], np.float32)),
        contrib("Trilu", ("x", ["n", 8], np.float32)),
    ],
    ids=["BiasGelu", "CDist", "Inverse", "Trilu"],
)
def test_microsoft_operators(assert_same_as_cpu, rng, model):
    shapes = {"x": (4, 4) if model.proto().graph.node[0].op_type == "Inverse" else (4, 8), "z": (3, 8), "bias": (8,)}
    inputs = [value.name for value in model.proto().graph.input]
    assert_same_as_cpu(model, {name: rng.standard_normal(shapes[name], np.float32) for name in inputs}, 1e-4)


def test_operator_that_openvino_lacks(open_session, report, rng):
    model = Model()
    product = model.add("MatMul", model.input("x", ["batch", SIZE]), model.weight(matrix(rng, SIZE, SIZE)))
    distances = model.add("CDist", product, product, domain=MICROSOFT, metric="euclidean")
    model.output(model.add("Relu", distances, name="y"))
    x = matrix(rng, 3, SIZE)
    assert_same_outputs(run(open_session(model), x=x), run(cpu_session(model), x=x), 1e-4)
    assert "CDist" in report.declined()
    assert "MatMul" not in report.declined()


def test_sequences_are_left(open_session, report, rng):
    model = Model()
    a, b = model.input("a", [2, 4]), model.input("b", [3, 4])
    sequence = model.add("SequenceConstruct", model.add("Relu", a), model.add("Relu", b))
    model.output(model.add("ConcatFromSequence", sequence, axis=0, name="y"))
    feeds = {"a": matrix(rng, 2, 4), "b": matrix(rng, 3, 4)}
    assert_same_outputs(run(open_session(model), **feeds), run(cpu_session(model), **feeds))
    assert "is not a tensor" in report.declined()["SequenceConstruct"]


def test_model_without_a_node_for_tandem(open_session, report):
    model = Model()
    text = model.input("x", ["n"], str)
    model.output(model.add("StringConcat", text, text, name="y"), dtype=str)
    assert run(open_session(model), x=np.array(["a", "b"]))["y"].tolist() == ["aa", "bb"]
    assert claimed(report) == 0


def test_model_function_is_inlined(rng, open_session, report):
    """A function of the model, not of ONNX."""
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    model = Model()
    model.output(model.add("Twice", model.input("x", ["n", 4]), domain="local", name="y"))
    proto = model.proto()
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    x = matrix(rng, 3, 4)
    np.testing.assert_array_equal(run(open_session(proto.SerializeToString()), x=x)["y"], x + x)


def test_operator_that_wants_a_large_constant(open_session, report, rng):
    """Its weights cannot be attached after OpenVINO has read the graph."""
    hidden, size = 16, 24
    model = Model()
    weights = [rng.standard_normal((1, 4 * hidden, width), np.float32) / 8 for width in (size, hidden)]
    names = [model.weight(weight, name) for weight, name in zip(weights, ("w", "r"), strict=True)]
    model.output(
        model.add("LSTM", model.input("x", ["steps", 1, size]), *names, outputs=["y", "", ""], hidden_size=hidden)[0]
    )
    feeds = {"x": rng.standard_normal((5, 1, size), np.float32)}
    assert_same_outputs(run(open_session(model), **feeds), run(cpu_session(model), **feeds), 1e-5)
