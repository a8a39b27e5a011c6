"""Attention in plain operators, with whatever surrounds it: all combinations give what ONNX Runtime gives."""

import itertools

import numpy as np
import pytest
from models import Model

HEADS, KV_HEADS, SIZE = 6, 2, 16
SPLIT = {"none": "", "all": "qkv", "without values": "qk", "keys only": "k", "values only": "v"}


def rotate(model, x, cos, sin):
    first, second = model.add("Split", x, outputs=[f"{x}.first", f"{x}.second"], axis=3, num_outputs=2)
    turned = model.add("Concat", model.add("Neg", second), first, axis=3)
    return model.add("Add", model.add("Mul", x, cos), model.add("Mul", turned, sin))


def repeat(model, x):
    """Each head of keys or values for all the heads of queries that it serves."""
    x = model.add("Unsqueeze", x, model.weight(np.array([2])))
    x = model.add("Expand", x, model.weight(np.array([1, 1, HEADS // KV_HEADS, 1, 1])))
    return model.add("Reshape", x, model.weight(np.array([0, HEADS, -1, SIZE])))


def attention(split, rotates, joins, returned, has_bias):
    """`split`: which of q, k and v come as [batch, tokens, heads * size]. `returned`: which of k and v are outputs."""
    model, parts = Model(), {}
    for part, heads in {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}.items():
        if part not in split:
            parts[part] = model.input(part, ["batch", heads, "tokens", SIZE])
            continue
        x = model.input(part, ["batch", "tokens", heads * SIZE])
        x = model.add("Reshape", x, model.weight(np.array([0, 0, heads, SIZE])))
        parts[part] = model.add("Transpose", x, perm=[0, 2, 1, 3], name=f"{part}.split")
    if rotates:
        angles = [model.input(name, ["batch", 1, "tokens", SIZE]) for name in ("cos", "sin")]
        for part in "qk":
            parts[part] = rotate(model, parts[part], *angles)
    keys = model.add("Transpose", repeat(model, parts["k"]), perm=[0, 1, 3, 2])
    scores = model.add("Mul", model.add("MatMul", parts["q"], keys), model.weight(np.float32(0.25)))
    if has_bias:
        scores = model.add("Add", scores, model.input("bias", ["batch", 1, "tokens", "tokens"]))
    mixed = model.add("MatMul", model.add("Softmax", scores, axis=-1), repeat(model, parts["v"]))
    if joins:
        mixed = model.add("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = model.add("Reshape", mixed, model.weight(np.array([0, 0, HEADS * SIZE])))
    model.output(mixed, ["batch", "tokens", HEADS * SIZE] if joins else ["batch", HEADS, "tokens", SIZE])
    for part in returned:
        model.output(parts[part], ["batch", KV_HEADS, "tokens", SIZE])
    return model


def feeds(rng, model, batch, tokens):
    sizes = {"batch": batch, "tokens": tokens}
    shapes = {
        value.name: [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        for value in model.proto().graph.input
    }
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("split", SPLIT.values(), ids=SPLIT.keys())
@pytest.mark.parametrize("rotates", [False, True], ids=["plain", "rotated"])
@pytest.mark.parametrize("joins", [False, True], ids=["heads", "joined"])
def test_surroundings_of_an_attention(assert_same_as_cpu, rng, split, rotates, joins):
    for returned, has_bias in itertools.product(("", "kv", "k", "v"), (False, True)):
        if any(part not in split and not (part == "k" and rotates) for part in returned):
            continue  # an output that is an input
        model = attention(split, rotates, joins, returned, has_bias)
        runs = [feeds(rng, model, batch, tokens) for batch, tokens in ((2, 7), (1, 1), (1, 70))]
        assert_same_as_cpu(model, *runs, tolerance=5e-6)
