"""If, Loop and Scan within each other, and weights that bodies share with the graph around them."""

import itertools

import numpy as np
import pytest
from models import Model, matrix
from sessions import ORT_VERSION

SIZE = 6
PASSES_CAPTURES = ORT_VERSION >= (1, 27)  # to a fused node: what its bodies read of the outer graph
BODIES = itertools.count(1)


def new_body():
    return Model(scope=f"body_{next(BODIES)}.")


def branch(value_of):
    """A body without inputs. `value_of(model)` gives its output."""
    body = new_body()
    return body.output(value_of(body), ["batch", SIZE]).graph("branch")


def loop_body(next_of):
    """A body of Loop that carries one value. `next_of(model, carried)` gives the next one."""
    body = new_body()
    body.input(f"{body.scope}iteration", [], np.int64)
    going = body.input(f"{body.scope}going", [], bool)
    carried = body.input(f"{body.scope}carried", ["batch", SIZE])
    body.output(body.add("Identity", going), [], bool)
    return body.output(next_of(body, carried), ["batch", SIZE]).graph("body")


def repeat(model, start, body, count=3):
    times = model.weight(np.array(count, np.int64))
    return model.add("Loop", times, model.weight(np.array(True)), start, body=body)


@pytest.fixture
def begun():
    """A model with x and a condition."""
    model = Model()
    model.input("x", ["batch", SIZE])
    model.input("cond", [], bool)
    return model


@pytest.fixture
def weight(rng, begun):
    return begun.weight(matrix(rng, SIZE, SIZE), "w")


@pytest.fixture
def check(assert_same_as_cpu, rng, begun):
    """Both ways of the condition, whole on Tandem where ONNX Runtime makes that possible."""

    def feed(condition, batch):
        return {"x": rng.standard_normal((batch, SIZE), np.float32), "cond": np.array(condition)}

    def check(value, tolerance=2e-6):
        feeds = [feed(True, 2), feed(False, 3), feed(True, 1)]
        assert_same_as_cpu(begun.output(value, ["batch", SIZE]), *feeds, tolerance=tolerance, whole=PASSES_CAPTURES)

    return check


def test_weight_of_a_branch_and_of_the_graph(check, begun, weight):
    outside = begun.add("MatMul", "x", weight)
    then_branch = branch(lambda body: body.add("MatMul", outside, weight))
    else_branch = branch(lambda body: body.add("Relu", outside))
    chosen = begun.add("If", "cond", then_branch=then_branch, else_branch=else_branch)
    check(begun.add("Add", chosen, begun.add("MatMul", "x", weight)))


def test_weight_of_both_branches(check, begun, weight):
    then_branch = branch(lambda body: body.add("MatMul", "x", weight))
    else_branch = branch(lambda body: body.add("Neg", body.add("MatMul", "x", weight)))
    check(begun.add("If", "cond", then_branch=then_branch, else_branch=else_branch))


def test_if_in_an_if(check, begun, weight):
    def inner(body):
        then_branch = branch(lambda inner: inner.add("MatMul", "x", weight))
        else_branch = branch(lambda inner: inner.add("Add", "x", "x"))
        return body.add("If", "cond", then_branch=then_branch, else_branch=else_branch)

    many = begun.add("Greater", begun.add("Size", "x"), begun.weight(np.array(SIZE)))
    else_branch = branch(lambda body: body.add("Abs", "x"))
    check(begun.add("If", many, then_branch=branch(inner), else_branch=else_branch))


def test_if_in_a_loop(check, begun, weight):
    def step(body, carried):
        then_branch = branch(lambda inner: inner.add("MatMul", carried, weight))
        else_branch = branch(lambda inner: inner.add("Add", carried, "x"))
        return body.add("If", "cond", then_branch=then_branch, else_branch=else_branch)

    check(repeat(begun, begun.add("MatMul", "x", weight), loop_body(step)), tolerance=1e-5)


def test_loop_in_a_branch(check, begun, weight):
    def step(body, carried):
        return body.add("Tanh", body.add("MatMul", carried, weight))

    then_branch = branch(lambda body: repeat(body, "x", loop_body(step)))
    else_branch = branch(lambda body: body.add("MatMul", "x", weight))
    check(begun.add("If", "cond", then_branch=then_branch, else_branch=else_branch), tolerance=1e-5)


def test_branches_of_different_sizes(assert_same_as_cpu, rng):
    model = Model()
    model.input("x", ["batch", SIZE])
    model.input("cond", [], bool)
    weight = model.weight(matrix(rng, SIZE, 4), "w")
    narrow, wide = new_body(), new_body()
    narrow.output(narrow.add("MatMul", "x", weight), ["batch", 4])
    wide.output(wide.add("Identity", "x"), ["batch", SIZE])
    chosen = model.add("If", "cond", then_branch=narrow.graph(), else_branch=wide.graph())
    x = rng.standard_normal((2, SIZE), np.float32)
    feeds = [{"x": x, "cond": np.array(condition)} for condition in (True, False)]
    assert_same_as_cpu(model.output(chosen, ["batch", "size"]), *feeds, whole=PASSES_CAPTURES)
