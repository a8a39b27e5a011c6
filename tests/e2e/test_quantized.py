"""What Tandem computes with quantized weights is what ONNX Runtime's CPU provider computes."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from models import MICROSOFT, Model, codes, matmul_nbits, matrix, product, quantized
from processes import in_process
from sessions import ORT_VERSION, assert_same_outputs, cpu_session, run, tandem_session

ROWS, COLUMNS = 96, 80
LEVEL = "session.qdq_matmulnbits_accuracy_level"

TYPES = [np.int8, np.uint8, ml_dtypes.int4, ml_dtypes.uint4]
GRANULARITIES = ["tensor", "row", "column", "column, negative axis", "blocks of rows", "blocks of columns"]

every_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
both_widths = pytest.mark.parametrize("bits", [4, 8])


@every_type
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("has_zero_points", [False, True], ids=["symmetric", "zero points"])
def test_products_and_rows_of_a_dequantized_weight(assert_same_as_cpu, rng, dtype, granularity, has_zero_points):
    model, weight = quantized(rng, (ROWS, COLUMNS), dtype, granularity, has_zero_points=has_zero_points)
    model.output(model.add("MatMul", model.input("x", ["batch", ROWS]), weight, name="product"))
    transposed = model.add("Transpose", weight, perm=[1, 0])
    model.output(model.add("MatMul", model.input("z", ["batch", COLUMNS]), transposed, name="transposed_product"))
    model.output(model.add("Gather", weight, model.input("ids", ["n"], np.int64), name="rows"))
    feeds = {"x": matrix(rng, 3, ROWS), "z": matrix(rng, 3, COLUMNS), "ids": np.array([0, 1, 95, 50, -1])}
    assert_same_as_cpu(model, feeds, packed=["w"])


@every_type
@pytest.mark.parametrize("granularity", ["blocks of rows", "blocks of columns"])
def test_last_block_may_be_shorter(assert_same_as_cpu, rng, dtype, granularity):
    shape = ROWS + 10, COLUMNS + 6
    model, weight = quantized(rng, shape, dtype, granularity, has_zero_points=True, block=32)
    model.output(model.add("MatMul", model.input("x", ["batch", shape[0]]), weight))
    assert_same_as_cpu(model, {"x": matrix(rng, 3, shape[0])}, packed=["w"])


@every_type
def test_codes_may_end_in_the_middle_of_a_byte(assert_same_as_cpu, rng, dtype):
    shape = 75, 33
    model, weight = quantized(rng, shape, dtype, "column", has_zero_points=True)
    model.output(model.add("MatMul", model.input("x", ["batch", shape[0]]), weight))
    assert_same_as_cpu(model, {"x": matrix(rng, 3, shape[0])}, packed=["w"])


@every_type
def test_gemm_by_a_dequantized_weight(assert_same_as_cpu, rng, dtype):
    model, weight = quantized(rng, (ROWS, COLUMNS), dtype, "row", has_zero_points=True)
    bias = model.weight(rng.standard_normal(ROWS, np.float32), "bias")
    model.output(model.add("Gemm", model.input("x", ["batch", COLUMNS]), weight, bias, transB=1))
    assert_same_as_cpu(model, {"x": matrix(rng, 3, COLUMNS)}, packed=["w"])


@every_type
def test_scales_in_f16(assert_same_as_cpu, rng, dtype):
    shape = ROWS, COLUMNS
    model, weight = quantized(rng, shape, dtype, "blocks of rows", has_zero_points=True, scale_type=np.float16)
    model.output(model.add("MatMul", model.input("x", ["batch", ROWS], np.float16), weight), dtype=np.float16)
    assert_same_as_cpu(model, {"x": matrix(rng, 3, ROWS, np.float16)}, packed=["w"], tolerance=2e-3)


def test_dequantized_weight_that_is_also_a_result(assert_same_as_cpu, rng):
    model, weight = quantized(rng, (ROWS, COLUMNS), np.int8, "column", has_zero_points=True)
    model.output(model.add("MatMul", model.input("x", ["batch", ROWS]), weight)).output(weight)
    assert_same_as_cpu(model, {"x": matrix(rng, 3, ROWS)}, packed=["w"])


# What Tandem leaves to OpenVINO: small weights, and all where sharing is off.

USES = {
    "MatMul": lambda model, weight, rows, _: model.add("MatMul", model.input("x", ["batch", rows]), weight),
    "Transpose, MatMul": lambda model, weight, _, columns: model.add(
        "MatMul", model.input("x", ["batch", columns]), model.add("Transpose", weight, perm=[1, 0])
    ),
    "Gemm": lambda model, weight, _, columns: model.add("Gemm", model.input("x", ["batch", columns]), weight, transB=1),
    "Gather": lambda model, weight, *_: model.add("Gather", weight, model.input("ids", ["n"], np.int64)),
    "Gather of columns": lambda model, weight, *_: model.add(
        "Gather", weight, model.input("ids", ["n"], np.int64), axis=1
    ),
}
OPENVINO_IS_WRONG = [
    ("Transpose, MatMul", "column"),
    ("Gemm", "column"),
    ("Gather", "column"),
    ("Gather of columns", "column"),
]
SIZES = [((24, 32), "auto"), ((ROWS, COLUMNS), "off")]

left_to_openvino = pytest.mark.parametrize(("shape", "share_weights"), SIZES, ids=["small", "unshared"])


def compare_with_cpu(use, granularity, shape, share_weights):
    rng = np.random.default_rng(0)
    model, weight = quantized(rng, shape, np.int8, granularity, has_zero_points=True, block=8)
    model.output(USES[use](model, weight, *shape), None)
    x_size = shape[0] if use == "MatMul" else shape[1]
    feeds = {"ids": np.array([0, 5, 1, -1])} if "Gather" in use else {"x": matrix(rng, 3, x_size)}
    session = tandem_session(model, whole=False, share_weights=share_weights)
    assert_same_outputs(run(session, **feeds), run(cpu_session(model), **feeds))


@left_to_openvino
@pytest.mark.parametrize(
    ("use", "granularity"),
    [pair for pair in itertools.product(USES, GRANULARITIES[:3] + GRANULARITIES[4:]) if pair not in OPENVINO_IS_WRONG],
)
def test_weight_that_is_not_packed(use, granularity, shape, share_weights):
    compare_with_cpu(use, granularity, shape, share_weights)


@left_to_openvino
@pytest.mark.parametrize(("use", "granularity"), OPENVINO_IS_WRONG)
def test_weight_with_scales_of_the_other_axis(tmp_path, use, granularity, shape, share_weights):
    in_process(compare_with_cpu, use, granularity, shape, share_weights, folder=tmp_path)


@both_widths
@pytest.mark.parametrize("block", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("zero_points", [None, "codes"])
def test_matmul_nbits(assert_same_as_cpu, rng, bits, block, zero_points):
    model = matmul_nbits(rng, 512, 40, bits, block, zero_points)
    feeds = [{"x": rng.standard_normal((2, rows, 512), np.float32)} for rows in (1, 9)]
    assert_same_as_cpu(model, *feeds, packed=["w"], tolerance=1e-5)


@both_widths
def test_matmul_nbits_with_bias(assert_same_as_cpu, rng, bits):
    model = matmul_nbits(rng, 128, 40, bits, 32, bias=True)
    assert_same_as_cpu(model, {"x": rng.standard_normal((2, 3, 128), np.float32)}, packed=["w"], tolerance=1e-5)


@both_widths
@pytest.mark.parametrize("inputs", [100, 97, 33])
@pytest.mark.parametrize("zero_points", [None, "codes"])
def test_matmul_nbits_whose_last_block_is_padded(assert_same_as_cpu, rng, bits, inputs, zero_points):
    model = matmul_nbits(rng, inputs, 40, bits, 32, zero_points)
    assert_same_as_cpu(model, {"x": rng.standard_normal((2, 3, inputs), np.float32)}, packed=["w"], tolerance=1e-5)


def test_matmul_nbits_with_zero_points_between_codes(assert_same_as_cpu, rng):
    model = matmul_nbits(rng, 128, 40, 4, 32, "floats")
    assert_same_as_cpu(model, {"x": rng.standard_normal((2, 3, 128), np.float32)}, packed=["w"], tolerance=1e-5)


@both_widths
def test_matmul_nbits_in_f16(assert_same_as_cpu, rng, bits):
    model = matmul_nbits(rng, 128, 40, bits, 32, "codes", dtype=np.float16)
    x = rng.standard_normal((2, 3, 128), np.float32).astype(np.float16)
    assert_same_as_cpu(model, {"x": x}, packed=["w"], tolerance=2e-3)


@pytest.mark.parametrize(("dtype", "bits"), [(np.uint8, 4), (np.uint8, 8), (ml_dtypes.int4, 4), (ml_dtypes.uint4, 4)])
@pytest.mark.parametrize("has_zero_points", [False, True])
@pytest.mark.parametrize("blocks", [3, 4])
def test_gather_block_quantized(assert_same_as_cpu, rng, dtype, bits, has_zero_points, blocks):
    rows, block = 40, 32
    columns = blocks * block
    per_element = 2 if bits == 4 and dtype == np.uint8 else 1
    if has_zero_points and blocks % per_element != 0 and ORT_VERSION < (1, 24):
        pytest.skip("ONNX Runtime 1.23 reads on where a row of zero points ends within a byte")
    model = Model()
    scales = model.weight(rng.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32), "scales")
    weight = model.weight(codes(rng, (rows, columns // per_element), dtype), "w")
    inputs = [weight, model.input("ids", ["batch", "n"], np.int64), scales]
    if has_zero_points:
        shape = rows, -(-blocks // per_element)
        inputs.append(model.weight(codes(rng, shape, dtype), "zero_points"))
    attributes = {"bits": bits, "block_size": block}
    model.output(model.add("GatherBlockQuantized", *inputs, domain=MICROSOFT, **attributes))
    assert_same_as_cpu(model, {"ids": np.array([[0, 5, -1], [39, 5, 1]])}, packed=["w"])


def distance(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("bits", [4, 8])
def test_activations_in_eight_bits(report, rng, bits):
    """As the option says, or the model's accuracy_level; f32 otherwise."""
    model, x = matmul_nbits(rng, 256, 96, bits, 32), rng.standard_normal((2, 70, 256), np.float32)
    [exact] = run(cpu_session(model), x=x).values()
    found = {}
    for level in (1, 4):
        proto = model.proto()
        [attribute] = [a for a in proto.graph.node[-1].attribute if a.name == "accuracy_level"]
        attribute.i = level
        for choice in ("auto", "f32", "int8"):
            session = tandem_session(proto.SerializeToString(), activation_precision=choice, report_file=report.file)
            [y] = run(session, x=x).values()
            found[level, choice] = distance(y, exact)
            assert "packed" in report.forms("w")
    quantized = {key for key, value in found.items() if value > 1e-4}
    assert quantized == {(1, "int8"), (4, "auto"), (4, "int8")}
    assert max(found.values()) < 2e-2


@pytest.mark.parametrize(
    ("dtype", "granularity", "quantizes"),
    [
        (ml_dtypes.int4, "blocks of rows", True),
        (ml_dtypes.uint4, "blocks of rows", True),
        (ml_dtypes.int4, "tensor", False),
        (np.int8, "blocks of rows", False),
    ],
)
def test_dequantized_weights_follow_the_level_of_the_session(rng, dtype, granularity, quantizes):
    """As with ONNX Runtime, which makes MatMulNBits of 4 bits in blocks: level 4 by default, and f32 below."""
    model, weight = quantized(rng, (256, 96), dtype, granularity, has_zero_points=False, block=32)
    model.output(model.add("MatMul", model.input("x", ["batch", 256]), weight))
    x = matrix(rng, 70, 256)
    [exact] = run(cpu_session(model), x=x).values()
    for entries, is_int8 in (({}, quantizes), ({LEVEL: 4}, quantizes), ({LEVEL: 1}, False), ({LEVEL: 0}, False)):
        [y] = run(tandem_session(model, activation_precision="auto", entries=entries), x=x).values()
        assert (distance(y, exact) > 1e-4) == is_int8, entries


@pytest.mark.parametrize("level", ["5", "-1", "fast", "41"])
def test_a_level_that_is_none_is_an_error(rng, level):
    with pytest.raises(Exception, match=f"session.qdq_matmulnbits_accuracy_level: found '{level}', expected 0 to 4"):
        tandem_session(product(matrix(rng, 64, 48)), entries={LEVEL: level})


def test_activations_in_eight_bits_are_ours_to_choose(rng):
    model = product(matrix(rng, 64, 48))
    with pytest.raises(Exception, match="option 'activation_precision': found 'int4', expected one of auto, f32, int8"):
        tandem_session(model, activation_precision="int4")
