"""Inputs and outputs that the caller owns, in every constellation."""

import numpy as np
import onnxruntime
import pytest
from models import Model, matrix, product
from sessions import assert_close, assert_same_outputs, cpu_session, run, run_bound, tandem_session

SIZE = 64
BATCH = 3


@pytest.fixture
def weights(rng):
    return matrix(rng, SIZE, SIZE) / SIZE


def bytes_at(offset, count, dtype=np.float32):
    """An array that starts `offset` bytes behind a multiple of 64."""
    memory = np.zeros(count * np.dtype(dtype).itemsize + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)


shapes = pytest.mark.parametrize("batch", [BATCH, "batch"], ids=["static", "dynamic"])


@shapes
@pytest.mark.parametrize("offset", [0, 4, 60])
def test_bound_output_is_written_in_place(rng, weights, batch, offset):
    session = tandem_session(product(weights, (batch, None)))
    x = bytes_at(offset, BATCH * SIZE).reshape(BATCH, SIZE)
    x[...] = matrix(rng, BATCH, SIZE)
    y = bytes_at(offset, BATCH * SIZE).reshape(BATCH, SIZE)
    binding = run_bound(session, {"x": x}, {"y": y})
    assert_close(y, x @ weights)
    [value] = binding.get_outputs()
    assert value.data_ptr() == y.ctypes.data


@shapes
def test_bound_arrays_are_read_and_written_by_each_run(rng, weights, batch):
    session = tandem_session(product(weights, (batch, None)))
    x, y = np.zeros((BATCH, SIZE), np.float32), np.zeros((BATCH, SIZE), np.float32)
    binding = run_bound(session, {"x": x}, {"y": y})
    for _ in range(3):
        x[...] = matrix(rng, BATCH, SIZE)
        session.run_with_iobinding(binding)
        assert_close(y, x @ weights)


@shapes
def test_output_over_its_input(rng, weights, batch):
    session = tandem_session(product(weights, (batch, None)))
    start = matrix(rng, BATCH, SIZE)
    both = start.copy()
    run_bound(session, {"x": both}, {"y": both})
    assert_close(both, start @ weights)


@shapes
@pytest.mark.parametrize("shift", [1, SIZE, 2 * SIZE])
def test_output_over_part_of_its_input(rng, weights, batch, shift):
    session = tandem_session(product(weights, (batch, None)))
    memory = np.zeros(2 * BATCH * SIZE + shift, np.float32)
    x = memory[: BATCH * SIZE].reshape(BATCH, SIZE)
    y = memory[shift : shift + BATCH * SIZE].reshape(BATCH, SIZE)
    start = matrix(rng, BATCH, SIZE)
    x[...] = start
    run_bound(session, {"x": x}, {"y": y})
    assert_close(y, start @ weights)


def two_results(batch):
    """`early` is written before `late` reads all of x."""
    model = Model()
    x = model.input("x", [batch, SIZE])
    early = model.add("Neg", x, name="early")
    late = model.add("ReduceSum", model.add("Mul", x, x), model.weight(np.array([0])), keepdims=1)
    late = model.add("Add", x, late, name="late")
    return model.output(early, [batch, SIZE]).output(late, [batch, SIZE])


@shapes
@pytest.mark.parametrize("aliased", ["early", "late"])
def test_one_of_two_outputs_over_the_input(rng, batch, aliased):
    session = tandem_session(two_results(batch))
    start = matrix(rng, BATCH, SIZE)
    expected = run(cpu_session(two_results(batch)), x=start)
    x = start.copy()
    outputs = {name: np.zeros_like(x) for name in expected} | {aliased: x}
    run_bound(session, {"x": x}, outputs)
    assert_same_outputs(outputs, expected)


@shapes
def test_two_outputs_over_each_others_inputs(rng, batch):
    """Results trade places with arguments."""
    model = Model()
    a, b = model.input("a", [batch, SIZE]), model.input("b", [batch, SIZE])
    model.output(model.add("Add", a, b, name="sum"), [batch, SIZE])
    model.output(model.add("Sub", a, b, name="difference"), [batch, SIZE])
    first, second = matrix(rng, BATCH, SIZE), matrix(rng, BATCH, SIZE)
    a, b = first.copy(), second.copy()
    run_bound(tandem_session(model), {"a": a, "b": b}, {"sum": b, "difference": a})
    assert_close(b, first + second)
    assert_close(a, first - second)


@shapes
def test_cache_that_is_changed_in_place(rng, batch):
    model = Model()
    cache = model.input("cache", [batch, SIZE])
    rows, updates = model.input("rows", ["n", 1], np.int64), model.input("updates", ["n", SIZE])
    model.output(model.add("ScatterND", cache, rows, updates, name="new_cache"), [batch, SIZE])
    session = tandem_session(model)
    start = matrix(rng, BATCH, SIZE)
    cache = start.copy()
    for row in (1, 2, 1):
        inputs = {"cache": cache, "rows": np.array([[row]]), "updates": matrix(rng, 1, SIZE)}
        run_bound(session, inputs, {"new_cache": cache})
        start[row] = inputs["updates"][0]
        np.testing.assert_array_equal(cache, start)


@shapes
def test_cache_that_is_also_read_by_others(rng, batch):
    """In place, the sum would see the new cache or the old one, as it happens."""
    model = Model()
    cache = model.input("cache", [batch, SIZE])
    rows, updates = model.input("rows", ["n", 1], np.int64), model.input("updates", ["n", SIZE])
    model.output(model.add("ScatterND", cache, rows, updates, name="new_cache"), [batch, SIZE])
    model.output(model.add("Softmax", cache, name="old"), [batch, SIZE])
    start = matrix(rng, BATCH, SIZE)
    feeds = {"rows": np.array([[1]]), "updates": matrix(rng, 1, SIZE)}
    expected = run(cpu_session(model), cache=start, **feeds)
    cache = start.copy()
    outputs = {"new_cache": cache, "old": np.zeros_like(cache)}
    run_bound(tandem_session(model), {"cache": cache, **feeds}, outputs)
    assert_same_outputs(outputs, expected)


def test_input_that_is_also_an_output(rng):
    model = Model()
    x = model.input("x", ["batch", SIZE])
    model.output(model.add("Identity", x, name="same")).output(model.add("Neg", x, name="negative"))
    x = matrix(rng, BATCH, SIZE)
    found = run(tandem_session(model), x=x)
    np.testing.assert_array_equal(found["same"], x)
    np.testing.assert_array_equal(found["negative"], -x)


@pytest.mark.parametrize("op_type", ["Dropout", "Sum", "Max", "Min"])
@shapes
def test_operator_that_only_passes_its_input_on(rng, op_type, batch):
    model = Model()
    model.output(model.add(op_type, model.input("x", [batch, SIZE]), name="y"))
    x = matrix(rng, BATCH, SIZE)
    assert_close(run(tandem_session(model), x=x)["y"], x)


def test_one_value_under_two_output_names(rng):
    model = Model()
    value = model.add("Neg", model.input("x", ["batch", SIZE]))
    model.output(model.add("Identity", value, name="a")).output(model.add("Identity", value, name="b"))
    x = matrix(rng, BATCH, SIZE)
    found = run(tandem_session(model), x=x)
    np.testing.assert_array_equal(found["a"], -x)
    np.testing.assert_array_equal(found["b"], -x)


def test_intermediate_value_that_is_also_an_output(rng, weights):
    model = Model()
    product = model.add("MatMul", model.input("x", ["batch", SIZE]), model.weight(weights), name="product")
    model.output(model.add("Relu", product, name="y")).output(product)
    x = matrix(rng, BATCH, SIZE)
    found = run(tandem_session(model), x=x)
    assert_close(found["product"], x @ weights)
    assert_close(found["y"], np.maximum(x @ weights, 0))


def test_outputs_in_another_order_than_they_are_made(rng):
    model = Model()
    x = model.input("x", ["batch", SIZE])
    first = model.add("Neg", x, name="z_first")
    second = model.add("Add", first, first, name="m_second")
    third = model.add("Add", second, x, name="a_third")
    model.output(second).output(third).output(first)
    session = tandem_session(model)
    x = matrix(rng, BATCH, SIZE)
    expected = run(cpu_session(model), x=x)
    assert list(run(session, x=x)) == ["m_second", "a_third", "z_first"]
    assert_same_outputs(run(session, x=x), expected)
    for wanted in (["a_third"], ["z_first", "m_second"]):
        found = session.run(wanted, {"x": x})
        assert_same_outputs(dict(zip(wanted, found, strict=True)), {name: expected[name] for name in wanted})


def test_inputs_that_nobody_reads(rng):
    model = Model()
    model.input("unused", ["anything"], np.int64)
    model.output(model.add("Neg", model.input("x", ["batch", SIZE]), name="y"))
    x = matrix(rng, BATCH, SIZE)
    np.testing.assert_array_equal(run(tandem_session(model), x=x, unused=np.zeros(5, np.int64))["y"], -x)


def test_shapes_may_change_from_run_to_run(rng, weights):
    session = tandem_session(product(weights, ("batch", "rows", None)))
    earlier = []
    for shape in ((2, 3), (1, 1), (5, 2), (2, 3)):
        x = rng.standard_normal((*shape, SIZE), np.float32)
        y = run(session, x=x)["y"]
        earlier.append((y, y.copy()))
        assert_close(y, x @ weights)
    for result, at_the_time in earlier:  # results belong to the caller
        np.testing.assert_array_equal(result, at_the_time)


def test_output_that_the_session_allocates(rng, weights):
    session = tandem_session(product(weights))
    binding = session.io_binding()
    for batch in (1, 4):
        x = matrix(rng, batch, SIZE)
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cpu")
        session.run_with_iobinding(binding)
        assert_close(binding.copy_outputs_to_cpu()[0], x @ weights)


def test_ort_values(rng, weights):
    session = tandem_session(product(weights))
    x = matrix(rng, BATCH, SIZE)
    [y] = session.run_with_ort_values(["y"], {"x": onnxruntime.OrtValue.ortvalue_from_numpy(x)})
    assert_close(y.numpy(), x @ weights)


def test_inputs_are_never_written(rng, weights):
    session = tandem_session(product(weights))
    x = matrix(rng, BATCH, SIZE)
    before = x.copy()
    x.setflags(write=False)
    run(session, x=x)
    np.testing.assert_array_equal(x, before)


def test_wrong_shapes_are_refused(rng, weights):
    session = tandem_session(product(weights, (BATCH, None)))
    with pytest.raises(Exception, match="x"):
        run(session, x=matrix(rng, BATCH + 1, SIZE))
    with pytest.raises(Exception, match="x"):
        run(session, x=matrix(rng, BATCH, SIZE + 1))
    assert run(session, x=matrix(rng, BATCH, SIZE))["y"].shape == (BATCH, SIZE)


def test_bound_output_of_the_wrong_shape_is_refused(rng, weights):
    session = tandem_session(product(weights))
    x, y = matrix(rng, BATCH, SIZE), np.zeros((BATCH + 1, SIZE), np.float32)
    with pytest.raises(Exception, match=r"(?i)shape"):
        run_bound(session, {"x": x}, {"y": y})
