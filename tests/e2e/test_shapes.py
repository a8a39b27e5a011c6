"""Models whose inputs have another shape in each run."""

import numpy as np
import pytest
from models import Model, matrix
from sessions import assert_same_outputs, cpu_session, run, tandem_session

RUNS = 1800
WARM = 1400  # runs, after which memory stays: until oneDNN's cache of 1024 primitives is full
MOST_MB = 12  # that the others may take


def convolutions(rng):
    model = Model()
    made = model.add(
        "Conv", model.input("x", ["n", 3, "h", "w"]), model.weight(matrix(rng, 8 * 27, 1).reshape(8, 3, 3, 3))
    )
    made = model.add("MaxPool", model.add("Relu", made), kernel_shape=[2, 2], strides=[2, 2])
    return model.output(made, ["n", 8, "a", "b"]), lambda: (rng.integers(1, 4), 3, *rng.integers(8, 64, 2))


def softmax_of_a_product(rng):
    model = Model()
    made = model.add("MatMul", model.input("x", ["batch", "rows", 16]), model.weight(matrix(rng, 16, 16)))
    return model.output(model.add("Softmax", made)), lambda: (rng.integers(1, 8), rng.integers(1, 300), 16)


def product_of_activations(rng):
    model = Model()
    x = model.input("x", ["a", "b"])
    return model.output(model.add("MatMul", model.add("Transpose", x), x)), lambda: rng.integers(1, 200, 2)


def private_mb():
    with open("/proc/self/smaps_rollup") as file:
        [line] = [line for line in file if line.startswith("Anonymous:")]
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("make", [convolutions, softmax_of_a_product, product_of_activations])
def test_memory_stays_flat_under_random_shapes(rng, make):
    model, shape = make(rng)
    session, reference = tandem_session(model), cpu_session(model)
    for number in range(RUNS):
        if number == WARM:
            warm = private_mb()
        x = rng.standard_normal(shape(), np.float32)
        found = run(session, x=x)
        if number % 100 == 0:
            assert_same_outputs(found, run(reference, x=x), 1e-5)
    assert private_mb() - warm < MOST_MB
