"""What Tandem computes with float weights is what ONNX Runtime's CPU provider computes."""

import ml_dtypes
import numpy as np
import pytest
from models import MICROSOFT, Model, chain, lookup, matrix, product, tied
from sessions import ORT_VERSION, assert_close, run, tandem_session

ROWS, COLUMNS = 96, 80
KNOWS_SCALARS = ORT_VERSION >= (1, 24)  # from values of unknown rank, which are left to the CPU provider


def test_matmul(assert_same_as_cpu, rng):
    weights = matrix(rng, ROWS, COLUMNS)
    assert_same_as_cpu(product(weights), {"x": matrix(rng, 5, ROWS)}, packed=["w"])


@pytest.mark.parametrize(("inputs", "outputs"), [(1024, 8), (257, 17), (24, 24), (256, 1), (1, 300), (300, 513)])
def test_matmul_of_any_size(assert_same_as_cpu, rng, inputs, outputs):
    model = product(matrix(rng, inputs, outputs))
    assert_same_as_cpu(model, *[{"x": matrix(rng, rows, inputs)} for rows in (1, 2, 3, 7, 16, 33, 130)])


def test_matmul_of_a_batch_of_matrices(assert_same_as_cpu, rng):
    model = product(matrix(rng, ROWS, COLUMNS), x_shape=("batch", 3, "rows", None))
    assert_same_as_cpu(model, {"x": rng.standard_normal((2, 3, 4, ROWS), np.float32)}, packed=["w"])


def test_matmul_of_a_vector(assert_same_as_cpu, rng):
    model = product(matrix(rng, ROWS, COLUMNS), x_shape=(None,))
    assert_same_as_cpu(model, {"x": rng.standard_normal(ROWS, np.float32)})


def test_matmul_by_a_transposed_weight(assert_same_as_cpu, rng):
    model = Model()
    weight = model.add("Transpose", model.weight(matrix(rng, COLUMNS, ROWS), "w"), perm=[1, 0])
    model.output(model.add("MatMul", model.input("x", ["batch", ROWS]), weight))
    assert_same_as_cpu(model, {"x": matrix(rng, 5, ROWS)}, packed=["w"])


def test_matmul_with_the_weight_on_the_left(assert_same_as_cpu, rng):
    model = Model()
    model.output(model.add("MatMul", model.weight(matrix(rng, COLUMNS, ROWS), "w"), model.input("x", [ROWS, "n"])))
    assert_same_as_cpu(model, {"x": matrix(rng, ROWS, 5)})


def test_matmul_by_a_stack_of_matrices(assert_same_as_cpu, rng):
    model = Model()
    stack = rng.standard_normal((3, ROWS, COLUMNS), np.float32)
    model.output(model.add("MatMul", model.input("x", [3, "rows", ROWS]), model.weight(stack, "w")))
    assert_same_as_cpu(model, {"x": rng.standard_normal((3, 5, ROWS), np.float32)})


def test_weights_with_infinities_and_zeros(assert_same_as_cpu, rng):
    weights = matrix(rng, ROWS, COLUMNS)
    weights[:, 3] = 0
    weights[7, 11] = np.inf
    model = product(weights)
    assert_same_as_cpu(model, {"x": np.abs(matrix(rng, 5, ROWS))})


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias_shape", [None, (COLUMNS,), (1, COLUMNS), (1,), (), (5, 1), (5, COLUMNS)])
def test_gemm(assert_same_as_cpu, rng, transposed, bias_shape):
    model = Model()
    weights = matrix(rng, COLUMNS, ROWS) if transposed else matrix(rng, ROWS, COLUMNS)
    inputs = [model.input("x", [5, ROWS]), model.weight(weights, "w")]
    if bias_shape is not None:
        inputs.append(model.weight(rng.standard_normal(bias_shape, np.float32), "bias"))
    model.output(model.add("Gemm", *inputs, transB=transposed))
    assert_same_as_cpu(model, {"x": matrix(rng, 5, ROWS)}, packed=["w"])


@pytest.mark.parametrize("attributes", [{"alpha": 0.5}, {"beta": 2.0}, {"transA": 1}, {"alpha": 0.0}])
def test_gemm_with_scaling(assert_same_as_cpu, rng, attributes):
    model = Model()
    x_shape = (ROWS, 5) if "transA" in attributes else (5, ROWS)
    bias = model.weight(rng.standard_normal(COLUMNS, np.float32), "bias")
    weight = model.weight(matrix(rng, ROWS, COLUMNS), "w")
    model.output(model.add("Gemm", model.input("x", x_shape), weight, bias, **attributes))
    assert_same_as_cpu(model, {"x": matrix(rng, *x_shape)})


def test_gather(assert_same_as_cpu, rng):
    feeds = {"ids": np.array([0, ROWS - 1, 5, 5, -1, -ROWS])}
    assert_same_as_cpu(lookup(matrix(rng, ROWS, COLUMNS)), feeds, copied=["table"])


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 1, 4)])
@pytest.mark.parametrize("id_type", [np.int32, np.int64])
def test_gather_by_indices_of_any_rank_and_type(assert_same_as_cpu, rng, shape, id_type):
    model = Model()
    ids = model.add("Reshape", model.input("ids", ["n"], id_type), model.weight(np.array(shape, np.int64)))
    model.output(model.add("Gather", model.weight(matrix(rng, ROWS, COLUMNS)), ids))
    count = int(np.prod(shape))
    assert_same_as_cpu(model, {"ids": np.arange(count, dtype=id_type) * 7}, whole=False)


def test_gather_of_columns(assert_same_as_cpu, rng):
    model = Model()
    table = model.weight(matrix(rng, ROWS, COLUMNS))
    model.output(model.add("Gather", table, model.input("ids", ["n"], np.int64), axis=1))
    assert_same_as_cpu(model, {"ids": np.array([3, 1, 4, -1])})


def test_gather_of_rows_of_a_transposed_table(assert_same_as_cpu, rng):
    model = Model()
    table = model.add("Transpose", model.weight(matrix(rng, ROWS, COLUMNS)), perm=[1, 0])
    model.output(model.add("Gather", table, model.input("ids", ["n"], np.int64)))
    assert_same_as_cpu(model, {"ids": np.array([3, 1, 4, -1])})


@pytest.mark.parametrize("index", [ROWS, -ROWS - 1])
def test_gather_beyond_the_table_is_an_error(rng, index):
    session = tandem_session(lookup(matrix(rng, ROWS, COLUMNS)))
    with pytest.raises(Exception, match=rf"index {index} is outside \[-{ROWS}, {ROWS - 1}\]"):
        session.run(None, {"ids": np.array([0, index])})
    assert session.run(None, {"ids": np.array([0, 1])})[0].shape == (2, COLUMNS)


def test_tied_embedding_and_head_are_one_packed_weight(assert_same_as_cpu, report, rng):
    assert_same_as_cpu(tied(matrix(rng, ROWS, COLUMNS)), {"ids": np.array([[1, 2, 95], [0, 7, 7]])}, packed=["table"])
    assert report.last["forms"]["packed"]["count"] == 1


def test_several_layers(assert_same_as_cpu, rng):
    model = chain(matrix(rng, 64, 200), matrix(rng, 200, 33), matrix(rng, 33, 50))
    assert_same_as_cpu(model, {"x": matrix(rng, 4, 64)}, packed=["w0", "w1", "w2"])


def test_matmul_in_f16(assert_same_as_cpu, rng):
    model = product(matrix(rng, ROWS, COLUMNS, np.float16))
    assert_same_as_cpu(model, {"x": matrix(rng, 5, ROWS, np.float16)}, packed=["w"], tolerance=1e-3)


def test_gemm_in_f16(assert_same_as_cpu, rng):
    model = Model()
    weight = model.weight(matrix(rng, ROWS, COLUMNS, np.float16), "w")
    bias = model.weight(rng.standard_normal(COLUMNS).astype(np.float16), "bias")
    model.output(model.add("Gemm", model.input("x", ["batch", ROWS], np.float16), weight, bias), dtype=np.float16)
    assert_same_as_cpu(model, {"x": matrix(rng, 5, ROWS, np.float16)}, packed=["w"], tolerance=1e-3)


def test_gather_in_f16(assert_same_as_cpu, rng):
    model = lookup(matrix(rng, ROWS, COLUMNS, np.float16))
    assert_same_as_cpu(model, {"ids": np.array([0, 95, 5, -1])}, tolerance=0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
def test_short_weights_are_widened_exactly(report, rng, dtype):
    weights = matrix(rng, ROWS, COLUMNS, dtype)
    model = Model()
    weight = model.add("Cast", model.weight(weights, "w"), to=1)
    model.output(model.add("MatMul", model.input("x", ["batch", ROWS]), weight, name="y"))
    x = matrix(rng, 5, ROWS)
    found = run(tandem_session(model, report_file=report.file), x=x)["y"]
    assert_close(found, x @ weights.astype(np.float32))
    assert report.forms("w") == {"packed"}


def test_matmul_in_bf16(report, rng):
    """ONNX Runtime's CPU provider does not multiply in bf16."""
    weights, x = matrix(rng, ROWS, COLUMNS, ml_dtypes.bfloat16), matrix(rng, 5, ROWS, ml_dtypes.bfloat16)
    model = Model()
    product = model.add(
        "MatMul", model.add("Cast", model.input("x", ["batch", ROWS]), to=16), model.weight(weights, "w")
    )
    model.output(model.add("Cast", product, to=1, name="y"))
    found = run(tandem_session(model, report_file=report.file), x=x.astype(np.float32))["y"]
    assert_close(found, x.astype(np.float32) @ weights.astype(np.float32), tolerance=1e-2)
    assert report.forms("w") == {"packed"}


def gelu_by_erf(model, x):
    sum_ = model.add("Add", model.add("Erf", model.add("Div", x, scalar(model, 2**0.5))), scalar(model, 1))
    return model.add("Mul", model.add("Mul", x, sum_), scalar(model, 0.5))


def gelu_by_tanh(model, x):
    cube = model.add("Pow", x, scalar(model, 3))
    sum_ = model.add("Add", x, model.add("Mul", cube, scalar(model, 0.044715)))
    tanh = model.add("Tanh", model.add("Mul", sum_, scalar(model, (2 / np.pi) ** 0.5)))
    return model.add("Mul", model.add("Mul", scalar(model, 0.5), x), model.add("Add", tanh, scalar(model, 1)))


def scalar(model, value):
    return model.weight(np.float32(value))


ACTIVATIONS = {
    "silu": lambda model, x: model.add("Mul", x, model.add("Sigmoid", x)),
    "gelu": lambda model, x: model.add("Gelu", x),
    "gelu of tanh": lambda model, x: model.add("Gelu", x, approximate="tanh"),
    "gelu of Microsoft": lambda model, x: model.add("Gelu", x, domain=MICROSOFT),
    "fast gelu": lambda model, x: model.add("FastGelu", x, domain=MICROSOFT),
    "gelu by erf": gelu_by_erf,
    "gelu by tanh": gelu_by_tanh,
}


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS.keys())
@pytest.mark.parametrize("is_gated", [True, False], ids=["gated", "alone"])
def test_activations_of_a_product(assert_same_as_cpu, rng, activation, is_gated):
    model = Model()
    x = model.input("x", ["batch", ROWS])
    made = activation(model, model.add("MatMul", x, model.weight(matrix(rng, ROWS, COLUMNS) / 4, "gate")))
    if is_gated:
        made = model.add("Mul", made, model.add("MatMul", x, model.weight(matrix(rng, ROWS, COLUMNS), "up")))
    model.output(made)
    assert_same_as_cpu(model, *[{"x": matrix(rng, rows, ROWS)} for rows in (1, 33)], packed=["gate"])


def test_gather_in_bf16(rng):
    table = matrix(rng, ROWS, COLUMNS, ml_dtypes.bfloat16)
    model = Model()
    rows = model.add("Gather", model.weight(table), model.input("ids", ["n"], np.int64))
    model.output(model.add("Cast", rows, to=1, name="y"))
    ids = np.array([0, 95, 5, -1])
    found = run(tandem_session(model), ids=ids)["y"]
    np.testing.assert_array_equal(found, table[ids].astype(np.float32))


def test_scalars(assert_same_as_cpu, rng):
    model = Model()
    scaled = model.add("Mul", model.input("x", ["batch", 8]), model.input("factor", []))
    model.output(scaled).output(model.add("ReduceSum", scaled, keepdims=0))
    feeds = {"x": matrix(rng, 3, 8), "factor": np.array(2.5, np.float32)}
    assert_same_as_cpu(model, feeds, whole=KNOWS_SCALARS)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_passes_for_a_scalar(assert_same_as_cpu, rng, shape):
    model = Model()
    x, factor = model.input("x", ["batch", 5]), model.input("factor", [])
    model.output(model.add("Mul", x, factor), ["batch", 5])
    feeds = {"x": rng.standard_normal((3, 5), np.float32), "factor": np.full(shape, 2.5, np.float32)}
    assert_same_as_cpu(model, feeds, whole=KNOWS_SCALARS)


@pytest.mark.skipif(not KNOWS_SCALARS, reason="the node is left to the CPU provider")
def test_several_elements_are_no_scalar(rng):
    model = Model()
    x, factor = model.input("x", ["batch", 5]), model.input("factor", [])
    model.output(model.add("Mul", x, factor), ["batch", 5])
    with pytest.raises(Exception, match=r"input 'factor': found f32\[5\], expected f32\[\]"):
        run(tandem_session(model), x=rng.standard_normal((3, 5), np.float32), factor=np.ones(5, np.float32))


def test_dynamic_batch(assert_same_as_cpu, rng):
    model = product(matrix(rng, ROWS, COLUMNS))
    assert_same_as_cpu(model, *[{"x": matrix(rng, batch, ROWS)} for batch in (3, 1, 0, 64, 0, 3)])


def test_empty_lists_of_rows(rng):
    model = tied(matrix(rng, ROWS, COLUMNS))
    session = tandem_session(model)
    for shape in ((0, 3), (2, 0), (0, 0)):
        found = run(session, ids=np.zeros(shape, np.int64))["y"]
        assert found.shape == (*shape, ROWS)


def test_concatenation_with_nothing(assert_same_as_cpu, rng):
    model = Model()
    past = model.input("past", [1, "past", 8])
    present = model.add("Concat", past, model.input("x", [1, "new", 8]), axis=1, name="present")
    model.output(present, [1, "total", 8])
    feeds = {"past": np.zeros((1, 0, 8), np.float32), "x": rng.standard_normal((1, 3, 8), np.float32)}
    assert_same_as_cpu(model, feeds)
