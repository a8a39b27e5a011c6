"""What OpenVINO computes wrongly is said in other words, or left to ONNX Runtime's CPU provider."""

import numpy as np
import onnx
import pytest
from models import Model
from onnx import helper
from sessions import ORT_VERSION, assert_same_outputs, cpu_session, run, tandem_session

FLOAT, FLOAT16, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BOOL
INF, NAN = np.inf, np.nan


@pytest.fixture
def check(report):
    """Compares with the CPU provider, and says why nodes were declined, by operator."""

    def check_(model, tolerance=1e-6, whole=False, **feeds):
        session = tandem_session(model, whole=whole, report_file=report.file)
        assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds), tolerance)
        return report.declined()

    return check_


def one(op_type, *inputs, dtype=np.float32, shape=None, opset=21, outputs=1, **attributes):
    """A model of one node and a feed for it: an array is an input, a list of one array a constant."""
    model, feeds, names = Model(opset), {}, []
    for i, value in enumerate(inputs):
        if value is None:
            names.append("")
        elif isinstance(value, list):
            names.append(model.weight(value[0]))
        else:
            names.append(model.input(f"x{i}", value.shape, value.dtype))
            feeds[f"x{i}"] = value
    results = [f"y{i}" for i in range(outputs)]
    model.add(op_type, *names, outputs=results, **attributes)
    for result in results:
        model.output(result, shape, dtype)
    return model, feeds


# In other words.


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_reductions_of_infinities(check, op_type, keepdims):
    largest = np.finfo(np.float32).max
    x = np.array([[-INF, -INF], [INF, INF], [largest] * 2, [-largest] * 2, [1, INF], [-INF, 2]], np.float32)
    model, feeds = one(op_type, x, [np.array([1])], keepdims=keepdims)
    check(model, whole=True, **feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_cast_to_bool(check, dtype):
    if np.issubdtype(dtype, np.integer):
        x = np.array([0, 1, -1, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    else:
        x = np.array([0, -0.0, 0.25, -3, NAN, INF, -INF, np.finfo(dtype).tiny], dtype)
    model, feeds = one("Cast", x, to=BOOL, dtype=bool)
    check(model, whole=True, **feeds)


# Taken: neighbours of what is left.


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL1", "ReduceL2"])
def test_reductions_over_no_axes(check, op_type, noop, keepdims, rng):
    x = rng.standard_normal((2, 3), np.float32)
    axes = [np.array([], np.int64)]
    model, feeds = one(op_type, x, axes, shape=[1, 1] if keepdims else [], noop_with_empty_axes=noop, keepdims=keepdims)
    if noop:
        model, feeds = one(op_type, x, axes, shape=x.shape, noop_with_empty_axes=noop, keepdims=keepdims)
    is_left = noop and op_type in ("ReduceL1", "ReduceL2")
    is_doubtful = not noop and not keepdims and ORT_VERSION < (1, 24)  # a scalar
    check(model, whole=not is_left and not is_doubtful, **feeds)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_with_empty_inputs(check, mode, rng):
    """As PyTorch exports it."""
    none = [np.array([], np.float32)]
    x = rng.standard_normal((1, 2, 4, 4), np.float32)
    model, feeds = one("Resize", x, none, none, [np.array([1, 2, 8, 6])], mode=mode, opset=11)
    check(model, whole=True, tolerance=1e-5, **feeds)


# Left.


def test_cast_to_f16_and_back(check):
    model = Model()
    half = model.add("Cast", model.input("x", [4]), to=FLOAT16)
    model.output(model.add("Cast", half, to=FLOAT))
    assert "and back" in check(model, x=np.array([1.0001, 70000, 1e-9, -3], np.float32))["Cast"]


def test_bit_shift_wraps_around(check):
    x, by = np.array([0, 1, 3, 200, 255], np.uint8), np.array([0, 1, 7, 3, 1], np.uint8)
    for direction in ("LEFT", "RIGHT"):
        model, feeds = one("BitShift", x, by, direction=direction, dtype=np.uint8)
        assert "BitShift" in check(model, **feeds)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
def test_reductions_of_integers_are_exact(check, op_type):
    """Beyond what f32 holds."""
    x = np.array([[2**24 + 1, 1, 3], [2**24 + 1, 2**24 + 3, 2**24 + 5]], np.int32)
    if op_type == "ReduceProd":
        x[1] = 1
    model, feeds = one(op_type, x, [np.array([1])], dtype=np.int32)
    assert "f32" in check(model, **feeds)[op_type]


def test_quantization_halfway_between_integers(check):
    """x / scale is rounded to the nearest even integer; OpenVINO multiplies by 1 / scale."""
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)
    model = Model()
    value = model.input("x", [6])
    for output, dtype in zip(
        model.add("DynamicQuantizeLinear", value, outputs=["q", "scale", "zero"]),
        [np.uint8, np.float32, np.uint8],
        strict=True,
    ):
        model.output(output, None, dtype)
    assert "DynamicQuantizeLinear" in check(model, tolerance=0, x=x)

    model = Model()
    value = model.input("x", [6])
    scale = model.add("Div", model.add("ReduceMax", value), model.weight(np.array(102, np.float32)))
    quantized = model.add("QuantizeLinear", value, scale, model.weight(np.array([153], np.uint8)))
    model.output(quantized, dtype=np.uint8)
    assert "halfway" in check(model, tolerance=0, x=x)["QuantizeLinear"]


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_no_window_begins_behind_the_input(check, op_type, rng):
    x = rng.standard_normal((1, 1, 4, 4), np.float32)
    model, feeds = one(op_type, x, kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1)
    assert "ceil_mode" in check(model, **feeds)[op_type]
    model, feeds = one("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    assert check(model, whole=True, **feeds) == {}


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "linear", "antialias": 1},
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        {"mode": "nearest", "keep_aspect_ratio_policy": "not_larger"},
    ],
)
def test_attributes_of_resize(check, attributes, rng):
    x = rng.standard_normal((1, 1, 6, 8), np.float32)
    model, feeds = one("Resize", x, None, None, [np.array([1, 1, 4, 3])], **attributes)
    [reason] = check(model, tolerance=1e-5, **feeds).values()
    assert "OpenVINO" in reason


def test_tile_of_many_dimensions(check, rng):
    x, repeats = rng.standard_normal((2, 3, 4, 5), np.float32), np.array([7, 6, 4, 2])
    model, feeds = one("Tile", x, repeats, shape=["a", "b", "c", "d"])
    assert "Tile" in check(model, **feeds)
    model, feeds = one("Tile", x, [repeats])
    assert check(model, whole=True, **feeds) == {}


def recurrent(rng, gates, size=3, features=2):
    """X, W, R, B of a recurrent layer over 4 steps of a batch of 5."""
    shapes = [(4, 5, features), (1, gates * size, features), (1, gates * size, size), (1, 2 * gates * size)]
    x, w, r, b = (rng.standard_normal(shape, np.float32) for shape in shapes)
    return x, [w], [r], [b]


def test_lstm_with_peepholes(check, rng):
    inputs = recurrent(rng, 4)
    peepholes = [rng.standard_normal((1, 9), np.float32)]
    model, feeds = one("LSTM", *inputs, None, None, None, peepholes, hidden_size=3)
    assert "peepholes" in check(model, **feeds)["LSTM"]
    model, feeds = one("LSTM", *inputs, hidden_size=3)
    assert check(model, tolerance=1e-5, **feeds) == {}


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layer_with_the_batch_first(rng, op_type, gates):
    """ONNX Runtime's CPU provider lacks it, so nobody takes it: better than wrong."""
    model, _ = one(op_type, *recurrent(rng, gates), hidden_size=3, layout=1)
    with pytest.raises(Exception, match=r"Batchwise recurrent operations \(layout == 1\) are not supported"):
        tandem_session(model, whole=False)


def attention(rng, opset, past, mask, **attributes):
    q, k, v = (rng.standard_normal((1, 2, 4, 8), np.float32) for _ in range(3))
    added = [rng.standard_normal((4, 4 + past), np.float32)] if mask else None
    pasts = [rng.standard_normal((1, 2, past, 8), np.float32) for _ in range(2)] if past else []
    outputs = 3 if past else 1
    return one("Attention", q, k, v, added, *pasts, opset=opset, outputs=outputs, **attributes)


def test_causal_attention_with_a_mask_and_a_past(check, rng):
    model, feeds = attention(rng, 23, past=3, mask=True, is_causal=1)
    assert "two masks" in check(model, **feeds)["Attention"]


@pytest.mark.skipif(ORT_VERSION < (1, 30), reason="opset 25")
def test_attention_in_a_window(check, rng):
    model, feeds = attention(rng, 25, past=0, mask=False, is_causal=1, left_window_size=1)
    check(model, **feeds)


def test_fourier_transform_before_opset_20(check, rng):
    model, feeds = one("DFT", rng.standard_normal((1, 10, 10, 1), np.float32), opset=19, axis=1, onesided=1)
    assert "opset 20" in check(model, tolerance=1e-5, **feeds)["DFT"]


@pytest.mark.skipif(ORT_VERSION < (1, 24), reason="ONNX Runtime 1.23 does not tell scalars from unknown ranks")
def test_input_that_openvino_does_not_use(check, rng):
    model, feeds = one("Dropout", rng.standard_normal(5).astype(np.float32), np.array(0.5, np.float32))
    assert "OpenVINO uses 1 of the inputs" in check(model, **feeds)["Dropout"]


def test_result_of_another_type(check, rng):
    """Before opset 10 the mask of Dropout is a float."""
    model = Model(opset=9)
    y, mask = model.add("Dropout", model.input("x", [5]), outputs=["y", "mask"])
    model.output(y, [5]).output(mask, [5])
    assert "which the model says is f32" in check(model, x=rng.standard_normal(5, np.float32))["Dropout"]


# What ONNX Runtime hands over.


@pytest.mark.skipif(ORT_VERSION < (1, 24), reason="ONNX Runtime 1.23 hands over no attribute of this type")
def test_attribute_that_onnx_runtime_does_not_hand_over():
    """Optional's is a type."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [5]))
    optional = helper.make_optional_type_proto(kind)
    model = Model()
    x = model.input("x", [5])
    model.output(model.add("Neg", x))
    empty = model.add("Optional", type=kind)
    model.output(model.add("OptionalHasElement", empty), None, bool)
    proto = model.proto()
    proto.graph.value_info.append(helper.make_value_info(empty, optional))
    session = tandem_session(proto.SerializeToString(), whole=False)
    assert session.run(None, {"x": np.ones(5, np.float32)})[1] == np.array(False)


def test_report_of_functions_that_nobody_took(check, report, rng):
    """ONNX Runtime writes them out as other operators, and asks again."""
    model = Model()
    model.output(model.add("Neg", model.input("x", [4])))
    x = rng.standard_normal((1, 4, 3))
    scale, bias = (model.weight(rng.standard_normal(4)) for _ in range(2))
    normalized = model.add("GroupNormalization", model.input("d", x.shape, np.float64), scale, bias, num_groups=2)
    model.output(normalized, None, np.float64)
    declined = check(model, x=np.ones(4, np.float32), d=x)
    assert report.last["nodes"]["claimed"] >= 1
    assert len(report.last["programs"]) >= 1
    assert not any(op_type.startswith("Tandem") for op_type in declined)
