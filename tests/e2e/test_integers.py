"""Integers are exact: what OpenVINO would compute in 32 bits stays on the host or with ONNX Runtime's CPU provider."""

import numpy as np
import onnx
import pytest
from models import Model, matrix
from sessions import assert_close, assert_same_outputs, cpu_session, run, tandem_session

INT32, INT64, FLOAT = onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
SIZE = 48
WIDE = np.array([3_000_000_000, -(2**40), 2**53 + 1, 7, 0, -1])
OTHER = np.array([5, 3, -1, 2**33, -(2**33), 2**31])


@pytest.fixture
def assert_same_as_cpu(report):
    """Some nodes may be left to the CPU provider, unless the graph must be `whole`."""

    def check(model, feeds, tolerance=2e-6, whole=False):
        session = tandem_session(model, whole=whole, report_file=report.file)
        assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds), tolerance)

    return check


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
def test_integer_arithmetic_on_inputs_is_exact(assert_same_as_cpu, op_type):
    model = Model()
    a, b = (model.input(name, ["n"], np.int64) for name in "ab")
    model.output(model.add(op_type, a, b, name="y"), dtype=np.int64)
    divides = op_type in ("Div", "Mod")
    assert_same_as_cpu(model, {"a": WIDE[:4], "b": OTHER[:4]} if divides else {"a": WIDE, "b": OTHER})


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_unsigned_arithmetic_on_inputs_is_exact(assert_same_as_cpu, dtype):
    model = Model()
    a, b = (model.input(name, ["n"], dtype) for name in "ab")
    model.output(model.add("Add", a, b, name="y"), dtype=dtype)
    assert_same_as_cpu(model, {"a": np.array([3_000_000_000, 1], dtype), "b": np.array([5, 2**31], dtype)})


@pytest.mark.parametrize("op_type", ["Neg", "Abs", "Identity", "Sign"])
def test_wide_integers_pass_unharmed(assert_same_as_cpu, op_type):
    model = Model()
    model.output(model.add(op_type, model.input("a", ["n"], np.int64), name="y"), dtype=np.int64)
    assert_same_as_cpu(model, {"a": WIDE})


@pytest.mark.parametrize("op_type", ["Equal", "Less", "Greater"])
def test_wide_integers_compare_exactly(assert_same_as_cpu, op_type):
    model = Model()
    a, b = (model.input(name, ["n"], np.int64) for name in "ab")
    model.output(model.add(op_type, a, b, name="y"), dtype=bool)
    assert_same_as_cpu(model, {"a": np.array([2**32, 2**32 + 1, 5]), "b": np.array([0, 1, 2**32 + 5])})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_short_integers_wrap_around(assert_same_as_cpu, dtype, op_type):
    model = Model()
    a, b = (model.input(name, ["n"], dtype) for name in "ab")
    model.output(model.add(op_type, a, b, name="y"), dtype=dtype)
    large = np.iinfo(dtype).max - 5
    assert_same_as_cpu(model, {"a": np.array([large, 5], dtype), "b": np.array([large, 3], dtype)})


def test_cast_of_wide_integers_to_float(assert_same_as_cpu):
    model = Model()
    model.output(model.add("Cast", model.input("a", ["n"], np.int64), to=FLOAT, name="y"))
    assert_same_as_cpu(model, {"a": np.array([3_000_000_005, -(2**40), 2**62, 1])}, tolerance=0)


def test_cast_of_floats_to_wide_integers(assert_same_as_cpu):
    model = Model()
    model.output(model.add("Cast", model.input("a", ["n"]), to=INT64, name="y"), dtype=np.int64)
    assert_same_as_cpu(model, {"a": np.array([3e9, -5e10, 1.5, -1.5], np.float32)})


def test_sums_of_integers_are_exact(assert_same_as_cpu):
    model = Model()
    ids = model.input("ids", ["n"], np.int64)
    model.output(model.add("ReduceSum", ids, keepdims=0), dtype=np.int64)
    model.output(model.add("CumSum", ids, model.weight(np.array(0))), dtype=np.int64)
    assert_same_as_cpu(model, {"ids": np.array([2**31 - 1, 2**31 - 1, 5])})


def test_arithmetic_on_shapes_is_claimed(assert_same_as_cpu, rng):
    """Shapes fit 32 bits, so a reshape by computed sizes stays with its neighbours."""
    model = Model()
    x = model.input("x", ["batch", "rows", SIZE])
    sizes = model.add("Shape", x)
    batch, rows, size = model.add("Split", sizes, num_outputs=3, outputs=["b", "r", "s"])
    flat = model.add("Reshape", x, model.add("Concat", model.add("Mul", batch, rows), size, axis=0))
    model.output(model.add("MatMul", flat, model.weight(matrix(rng, SIZE, SIZE)), name="y"))
    assert_same_as_cpu(model, {"x": rng.standard_normal((2, 3, SIZE), np.float32)}, whole=True)


# At the entrance of a model: masks, positions, lengths.


def at_the_entrance(make, a_shape=("n",), b_shape=("n",), dtype=np.int64):
    """Integers from two inputs that lead up to what OpenVINO computes."""
    model = Model()
    integers = make(model, model.input("a", a_shape, dtype), model.input("b", b_shape, dtype))
    numbers = model.add("Cast", integers, to=FLOAT)
    return model.output(
        model.add("Softsign", model.add("Mul", numbers, model.weight(np.array(1e-10, np.float32)))), None
    )


@pytest.mark.parametrize(
    ("op_type", "function"),
    [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Max", np.maximum), ("Min", np.minimum)],
)
def test_arithmetic_at_the_entrance(op_type, function):
    """Against NumPy: ONNX Runtime 1.23's own Max and Min of 64-bit integers are wrong."""
    model = at_the_entrance(lambda model, a, b: model.add(op_type, a, b))
    [found] = run(tandem_session(model), a=WIDE, b=OTHER).values()
    numbers = function(WIDE, OTHER).astype(np.float32) * np.float32(1e-10)
    assert_close(found, numbers / (1 + np.abs(numbers)))


@pytest.mark.parametrize(
    "op_type",
    [
        "Equal",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
    ],
)
def test_comparisons_at_the_entrance(assert_same_as_cpu, op_type):
    model = at_the_entrance(lambda model, a, b: model.add(op_type, a, b))
    feeds = {"a": np.array([2**32, 2**32 + 1, 5, -(2**40)]), "b": np.array([0, 1, 5, -(2**40) - (2**32)])}
    assert_same_as_cpu(model, feeds, whole=True)


def test_int32_wraps_around_at_the_entrance(assert_same_as_cpu):
    model = at_the_entrance(
        lambda model, a, b: model.add("Add", model.add("Cast", a, to=INT32), model.add("Cast", b, to=INT32))
    )
    assert_same_as_cpu(model, {"a": np.array([2**31 - 1, 2**33 + 5]), "b": np.array([7, -(2**32) - 9])}, whole=True)


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((3, 1), (1, 4)), ((2, 3, 4), (4,)), ((1,), (5,)), ((0, 3), (1, 3)), ((3, 1), (1, 0)), ((1, 1, 1), (2, 1, 3))],
)
def test_broadcasting_at_the_entrance(assert_same_as_cpu, rng, a_shape, b_shape):
    def dynamic(shape, prefix):
        return [f"{prefix}{i}" for i in range(len(shape))]

    model = at_the_entrance(lambda model, a, b: model.add("Sub", a, b), dynamic(a_shape, "a"), dynamic(b_shape, "b"))
    feeds = {name: rng.integers(-(2**40), 2**40, shape) for name, shape in (("a", a_shape), ("b", b_shape))}
    assert_same_as_cpu(model, feeds, whole=True)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [], [0], [-1], [1, 0], [0, 1, 2]])
def test_sums_at_the_entrance(assert_same_as_cpu, rng, axes, keepdims):
    def make(model, a, b):
        wide = model.add("Add", a, b)
        inputs = [wide] if axes is None else [wide, model.weight(np.array(axes, np.int64))]
        return model.add("ReduceSum", *inputs, keepdims=keepdims)

    shape = ["i", "j", "k"]
    model = at_the_entrance(make, shape, shape)
    feeds = {name: rng.integers(-(2**40), 2**40, (2, 3, 4)) for name in "ab"}
    assert_same_as_cpu(model, feeds, whole=True)


def test_attention_mask_and_positions(assert_same_as_cpu, rng):
    """As in a language model: lengths from a mask, a causal mask from positions."""
    model = Model()
    x, mask = model.input("x", ["batch", "tokens", SIZE]), model.input("mask", ["batch", "tokens"], np.int64)
    lengths = model.add(
        "Sub", model.add("ReduceSum", mask, model.weight(np.array([1])), keepdims=1), model.weight(np.array(1))
    )
    scale = model.add("Cast", model.add("Unsqueeze", lengths, model.weight(np.array([2]))), to=FLOAT)
    hidden = model.add(
        "Where",
        model.add("Cast", mask, to=onnx.TensorProto.BOOL),
        model.weight(np.array(1, np.float32)),
        model.weight(np.array(0, np.float32)),
    )
    product = model.add("MatMul", x, model.weight(matrix(rng, SIZE, SIZE)))
    masked = model.add("Mul", product, model.add("Unsqueeze", hidden, model.weight(np.array([2]))))
    model.output(model.add("Div", masked, model.add("Add", scale, model.weight(np.array(1, np.float32)))))
    feeds = {"x": rng.standard_normal((2, 3, SIZE), np.float32), "mask": np.array([[1, 1, 1], [1, 0, 0]])}
    assert_same_as_cpu(model, feeds, whole=True)


def test_positions_from_a_length(assert_same_as_cpu, rng):
    model = Model()
    start = model.add("Squeeze", model.input("start", [1], np.int64))
    end = model.add("Add", start, model.weight(np.array(4)))
    positions = model.add("Range", start, end, model.weight(np.array(1)))
    numbers = model.add("Cast", positions, to=FLOAT)
    model.output(model.add("Mul", model.input("x", [4]), numbers))
    for start in (0, 5, 2**33):
        assert_same_as_cpu(model, {"x": rng.standard_normal(4, np.float32), "start": np.array([start])})
