"""Attention with caches of keys and values, as com.microsoft operators and as plain ones."""

from dataclasses import dataclass

import numpy as np
import pytest
from models import MICROSOFT, Model, matrix
from sessions import ORT_VERSION, assert_close, assert_same_outputs, cpu_session, run, run_bound, tandem_session

SIZE = 32
POSITIONS = 64
PRESENT = ("present_key", "present_value")
PAST = ("past_key", "past_value")


@dataclass
class Attention:
    """A GroupQueryAttention, its session on either provider, and random inputs."""

    heads: int = 6
    kv_heads: int = 2
    size: int = SIZE
    is_packed: bool = False
    rotary: str = ""  # or "half", "interleaved", "partial"
    past: object = "past"  # rows, or the name of the dimension; None: no past
    present: object = "present"
    dtype: type = np.float32
    scale: float = 0.0

    def model(self, **attributes):
        model = Model()
        width, kv_width = self.heads * self.size, self.kv_heads * self.size
        widths = [width + 2 * kv_width] if self.is_packed else [width, kv_width, kv_width]
        inputs = [
            model.input(name, ["batch", "tokens", size], self.dtype)
            for name, size in zip(("query", "key", "value"), widths, strict=False)
        ]
        inputs += [""] * (3 - len(inputs))
        for name in PAST:
            shape = ["batch", self.kv_heads, self.past, self.size]
            inputs.append("" if self.past is None else model.input(name, shape, self.dtype))
        inputs.append(model.input("last", ["batch"], np.int32))
        inputs.append(model.input("total", [1], np.int32))
        if self.rotary:
            angles = np.outer(np.arange(POSITIONS), 0.9 ** np.arange(self.pairs))
            inputs += [model.weight(table.astype(self.dtype)) for table in (np.cos(angles), np.sin(angles))]
            attributes |= {"do_rotary": 1, "rotary_interleaved": int(self.rotary == "interleaved")}
        outputs = ["y", *PRESENT]
        attributes |= {"num_heads": self.heads, "kv_num_heads": self.kv_heads, "scale": self.scale}
        model.add("GroupQueryAttention", *inputs, outputs=outputs, domain=MICROSOFT, **attributes)
        model.output("y", ["batch", "tokens", width], self.dtype)
        for name in PRESENT:
            model.output(name, ["batch", self.kv_heads, self.present, self.size], self.dtype)
        return model

    @property
    def pairs(self):
        return self.size // 4 if self.rotary == "partial" else self.size // 2

    def feeds(self, rng, tokens, ends, past_rows=None, total=None):
        """For sequences that have `ends` tokens, the last `tokens` of which are new."""
        batch = len(ends)
        parts = {"query": self.heads, "key": self.kv_heads, "value": self.kv_heads}
        feeds = {name: self._random(rng, batch, tokens, heads * self.size) for name, heads in parts.items()}
        if self.is_packed:
            feeds = {"query": np.concatenate(list(feeds.values()), axis=2)}
        if self.past is not None:
            feeds |= {name: self._random(rng, batch, self.kv_heads, past_rows, self.size) for name in PAST}
        ends = np.array(ends, np.int32)
        return feeds | {"last": ends - 1, "total": np.array([total or ends.max()], np.int32)}

    def _random(self, rng, *shape):
        return rng.standard_normal(shape, np.float32).astype(self.dtype)


def assert_same_rows(found, expected, feeds, tolerance=5e-6):
    """What is said of tokens; what stands behind them is nobody's business."""
    assert found.keys() == expected.keys()
    tokens = feeds["query"].shape[1]
    is_prompt = tokens == feeds["total"][0]
    for name in expected:
        assert (found[name].dtype, found[name].shape) == (expected[name].dtype, expected[name].shape)
        for b, last in enumerate(feeds["last"]):
            rows = (slice(0, last + 1 if is_prompt else tokens),) if name == "y" else (slice(None), slice(0, last + 1))
            assert_close(found[name][(b, *rows)], expected[name][(b, *rows)], tolerance)


def compare(attention, *feeds):
    model = attention.model()
    session, reference = tandem_session(model), cpu_session(model)
    for given in feeds:
        assert_same_rows(run(session, **given), run(reference, **given), given)


packings = pytest.mark.parametrize("is_packed", [False, True], ids=["separate", "packed"])
rotations = pytest.mark.parametrize("rotary", ["", "half", "interleaved", "partial"])


@packings
@rotations
def test_prompt_without_a_past(rng, is_packed, rotary):
    attention = Attention(is_packed=is_packed, rotary=rotary, past=None)
    compare(attention, *[attention.feeds(rng, tokens, [tokens]) for tokens in (1, 7, 33)])


@packings
@rotations
def test_past_that_grows(rng, is_packed, rotary):
    attention = Attention(is_packed=is_packed, rotary=rotary)
    compare(
        attention,
        attention.feeds(rng, 5, [5], past_rows=0),
        attention.feeds(rng, 1, [6], past_rows=5),
        attention.feeds(rng, 1, [7], past_rows=6),
        attention.feeds(rng, 4, [11], past_rows=7),
    )


@packings
@rotations
def test_past_of_a_fixed_length(rng, is_packed, rotary):
    attention = Attention(is_packed=is_packed, rotary=rotary, past=40, present=40)
    compare(
        attention,
        attention.feeds(rng, 9, [9], past_rows=40),
        attention.feeds(rng, 1, [10], past_rows=40),
        attention.feeds(rng, 3, [40], past_rows=40),
    )


@rotations
def test_sequences_of_different_lengths(rng, rotary):
    attention = Attention(rotary=rotary)
    compare(
        attention,
        attention.feeds(rng, 1, [12, 4], past_rows=11),
        attention.feeds(rng, 1, [3, 20, 7], past_rows=32),
    )


def test_padded_prompt(rng):
    attention = Attention(rotary="half", past=None)
    compare(attention, attention.feeds(rng, 9, [9, 4], total=9))


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(4, 4, 48), (8, 1, 64), (3, 3, 16), (9, 3, 80)])
def test_heads_of_any_number_and_size(rng, heads, kv_heads, size):
    attention = Attention(heads=heads, kv_heads=kv_heads, size=size, rotary="half", scale=0.3)
    compare(attention, attention.feeds(rng, 3, [20], past_rows=17), attention.feeds(rng, 1, [21], past_rows=20))


@pytest.mark.parametrize("rows", [24, "rows"], ids=["static", "dynamic"])
def test_past_and_present_in_one_buffer(rng, rows):
    attention = Attention(rotary="half", past=rows, present=rows)
    session, reference = tandem_session(attention.model()), cpu_session(attention.model())
    caches = {name: np.zeros((1, 2, 24, SIZE), np.float32) for name in PAST}
    pasts = {name: cache.copy() for name, cache in caches.items()}
    for tokens, end in ((5, 5), (1, 6), (3, 9), (1, 10)):
        feeds = attention.feeds(rng, tokens, [end], past_rows=24) | pasts
        expected = run(reference, **feeds)
        y = np.zeros((1, tokens, 6 * SIZE), np.float32)
        outputs = {"y": y} | dict(zip(PRESENT, caches.values(), strict=True))
        binding = run_bound(session, feeds | caches, outputs)
        assert_same_rows(outputs, expected, feeds)
        assert binding.get_outputs()[1].data_ptr() == caches["past_key"].ctypes.data
        pasts = dict(zip(PAST, (expected[name] for name in PRESENT), strict=True))


def test_present_over_another_input(rng):
    attention = Attention(past=None, present=4, heads=2, kv_heads=2)
    feeds = attention.feeds(rng, 4, [4])
    expected = run(cpu_session(attention.model()), **feeds)
    outputs = {name: np.zeros_like(array) for name, array in expected.items()}
    outputs["present_value"] = feeds["query"].reshape(expected["present_value"].shape)
    given = {name: array.copy() for name, array in feeds.items() if name != "query"} | {"query": feeds["query"]}
    run_bound(tandem_session(attention.model()), given, outputs)
    assert_same_outputs(outputs, expected, 5e-6)


def test_swapped_buffers_of_past_and_present(rng):
    """The present keys where the past values are, and the other way round."""
    attention = Attention(past=8, present=8)
    feeds = attention.feeds(rng, 1, [6], past_rows=8)
    expected = run(cpu_session(attention.model()), **feeds)
    given = {name: array.copy() for name, array in feeds.items()}
    outputs = {"y": np.zeros_like(expected["y"])}
    outputs |= {"present_key": given["past_value"], "present_value": given["past_key"]}
    run_bound(tandem_session(attention.model()), given, outputs)
    assert_same_rows(outputs, expected, feeds)


@packings
def test_half_precision(rng, is_packed):
    attention = Attention(is_packed=is_packed, rotary="half", dtype=np.float16)
    session = tandem_session(attention.model())
    attention.dtype = np.float32
    reference = cpu_session(attention.model())
    attention.dtype = np.float16
    for tokens, end, rows in ((5, 5, 0), (1, 9, 8), (3, 12, 20)):
        feeds = attention.feeds(rng, tokens, [end], past_rows=rows)
        wide = {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in feeds.items()}
        expected = {name: array.astype(np.float16) for name, array in run(reference, **wide).items()}
        assert_same_rows(run(session, **feeds), expected, feeds, tolerance=2e-3)


@pytest.mark.parametrize("attributes", [{"softcap": 5.0}, {"local_window_size": 4}, {"smooth_softmax": 1}], ids=str)
def test_other_attention_is_not_computed_as_this_one(rng, attributes):
    if "local_window_size" in attributes and ORT_VERSION < (1, 24):
        pytest.skip("the window of ONNX Runtime 1.23 has one row more")
    attention = Attention()
    model = attention.model(**attributes)
    feeds = attention.feeds(rng, 2, [9], past_rows=7)
    session = tandem_session(model, whole=False)
    assert_same_rows(run(session, **feeds), run(cpu_session(model), **feeds), feeds)


@pytest.mark.parametrize(("tokens", "end", "rows"), [(3, 2, 8), (1, 70, 70), (1, 9, 4)])
def test_positions_that_cannot_be(rng, tokens, end, rows):
    attention = Attention(rotary="half")
    session = tandem_session(attention.model())
    with pytest.raises(Exception, match=r"sequence 0 has|angles for"):
        run(session, **attention.feeds(rng, tokens, [end], past_rows=rows))
    feeds = attention.feeds(rng, 1, [5], past_rows=4)
    assert_same_rows(run(session, **feeds), run(cpu_session(attention.model()), **feeds), feeds)


def test_past_that_a_node_makes(rng):
    model = Model()
    q = model.input("query", ["batch", "tokens", 6 * SIZE])
    k, v = (model.input(name, ["batch", "tokens", 2 * SIZE]) for name in ("key", "value"))
    pasts = [model.add("Neg", model.input(name, ["batch", 2, "past", SIZE])) for name in PAST]
    last, total = model.input("last", ["batch"], np.int32), model.input("total", [1], np.int32)
    attributes = {"num_heads": 6, "kv_num_heads": 2}
    inputs = [q, k, v, *pasts, last, total]
    model.add("GroupQueryAttention", *inputs, outputs=["y", *PRESENT], domain=MICROSOFT, **attributes)
    model.output("y", ["batch", "tokens", 6 * SIZE])
    for name in PRESENT:
        model.output(name, ["batch", 2, "present", SIZE])
    feeds = Attention().feeds(rng, 2, [9], past_rows=7)
    assert_same_rows(run(tandem_session(model, whole=False), **feeds), run(cpu_session(model), **feeds), feeds)


def plain_attention(past_dtype=np.float32, **others):
    """6 heads of queries share 2 of keys and values. `others`: operators that read the past keys, by their output."""
    model = Model()
    q = model.input("q", ["batch", "tokens", 6 * SIZE])
    k, v = (model.input(name, ["batch", "tokens", 2 * SIZE]) for name in ("k", "v"))

    def split(x, heads):
        return model.add("Transpose", model.add("Reshape", x, model.weight([0, 0, heads, SIZE])), perm=[0, 2, 1, 3])

    def repeated(x):
        x = model.add("Expand", model.add("Unsqueeze", x, model.weight([2])), model.weight([1, 1, 3, 1, 1]))
        return model.add("Reshape", x, model.weight([0, 6, -1, SIZE]))

    presents = []
    for past, present, new in zip(PAST, PRESENT, (k, v), strict=True):
        rows = model.input(past, ["batch", 2, "past", SIZE], past_dtype)
        rows = rows if past_dtype == np.float32 else model.add("Cast", rows, to=1)
        presents.append(model.add("Concat", rows, split(new, 2), axis=2, name=present))
    keys, values = map(repeated, presents)
    scores = model.add("MatMul", split(q, 6), model.add("Transpose", keys, perm=[0, 1, 3, 2]))
    weights = model.add("Softmax", model.add("Mul", scores, model.weight(np.float32(0.25))), axis=-1)
    merged = model.add("Transpose", model.add("MatMul", weights, values), perm=[0, 2, 1, 3])
    model.output(model.add("Reshape", merged, model.weight([0, 0, 6 * SIZE]), name="y"), ["batch", "tokens", 6 * SIZE])
    for present in presents:
        model.output(present, ["batch", 2, "present", SIZE])
    for name, op_type in others.items():
        model.output(model.add(op_type, "past_key", name=name), ["batch", 2, "past", SIZE])
    return model


def plain_feeds(rng, tokens, rows, batch=2, past_dtype=np.float32):
    feeds = {"q": rng.standard_normal((batch, tokens, 6 * SIZE), np.float32)}
    feeds |= {name: rng.standard_normal((batch, tokens, 2 * SIZE), np.float32) for name in "kv"}
    return feeds | {name: rng.standard_normal((batch, 2, rows, SIZE), np.float32).astype(past_dtype) for name in PAST}


def test_plain_operators_with_separate_buffers(rng):
    session, reference = tandem_session(plain_attention()), cpu_session(plain_attention())
    for tokens, rows in ((5, 0), (1, 5), (1, 6), (3, 7)):
        feeds = plain_feeds(rng, tokens, rows)
        expected = run(reference, **feeds)
        outputs = {name: np.zeros_like(array) for name, array in expected.items()}
        run_bound(session, feeds, outputs)
        assert_same_outputs(outputs, expected, 5e-6)


def test_plain_operators_whose_outputs_nobody_binds(rng):
    session, reference = tandem_session(plain_attention()), cpu_session(plain_attention())
    feeds = plain_feeds(rng, 4, 0)
    for _ in range(4):
        found = run(session, **feeds)
        assert_same_outputs(found, run(reference, **feeds), 5e-6)
        feeds = plain_feeds(rng, 1, 0) | dict(zip(PAST, (found[name] for name in PRESENT), strict=True))
    [y] = session.run(["y"], feeds)
    assert_close(y, run(reference, **feeds)["y"], 5e-6)


def test_plain_operators_whose_past_others_read(rng):
    model = plain_attention(twice="Relu")
    feeds = plain_feeds(rng, 2, 6)
    assert_same_outputs(run(tandem_session(model), **feeds), run(cpu_session(model), **feeds), 5e-6)


def test_plain_operators_whose_past_is_cast(rng):
    model = plain_attention(np.float16)
    feeds = plain_feeds(rng, 2, 6, past_dtype=np.float16)
    assert_same_outputs(run(tandem_session(model), **feeds), run(cpu_session(model), **feeds), 5e-6)


@pytest.mark.parametrize("is_read", [False, True], ids=["alone", "read by others"])
@pytest.mark.parametrize("has_room", [True, False])
def test_past_that_others_read_in_one_buffer(rng, is_read, has_room):
    """The buffer of the past is changed only where nobody sees it."""
    rows = 24 if has_room else 6
    attention = Attention(past="rows", present="rows")
    model = attention.model()
    if is_read:
        # Only when the attention is done.
        largest = model.add("ReduceMax", "y", keepdims=0)
        model.output(model.add("Add", "past_key", largest, name="other"), ["batch", 2, "rows", SIZE])
    feeds = attention.feeds(rng, 1, [6], past_rows=rows)
    expected = run(cpu_session(model), **feeds)
    given = {name: array.copy() for name, array in feeds.items()}
    outputs = {name: np.zeros_like(array) for name, array in expected.items()}
    outputs |= {"present_key": given["past_key"], "present_value": given["past_value"]}
    run_bound(tandem_session(model), given, outputs)
    if is_read:
        assert_close(outputs.pop("other"), expected.pop("other"))
    assert_same_rows(outputs, expected, feeds)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_sum", [False, True])
def test_product_and_norm_of_the_sum(rng, has_bias, has_sum):
    """MatMulNBits and SkipSimplifiedLayerNormalization, as in a layer of an LLM."""
    inputs, outputs = 64, 96
    mini = Model()
    x, skip = mini.input("x", ["batch", "rows", inputs]), mini.input("skip", ["batch", "rows", outputs])
    weights = [
        mini.weight(rng.integers(0, 256, (outputs, 2, 16), np.uint8), "w"),
        mini.weight(rng.uniform(0.01, 0.1, (outputs, 2)).astype(np.float32)),
    ]
    attributes = {"K": inputs, "N": outputs, "bits": 4, "block_size": 32, "accuracy_level": 1}
    y = mini.add("MatMulNBits", x, *weights, domain=MICROSOFT, **attributes)
    norm = [y, skip, mini.weight(rng.uniform(0.5, 2, outputs).astype(np.float32))]
    if has_bias:
        norm.append(mini.weight(rng.standard_normal(outputs).astype(np.float32)))
    results = ["normed", "", "", "sum"] if has_sum else ["normed"]
    mini.add("SkipSimplifiedLayerNormalization", *norm, outputs=results, domain=MICROSOFT, epsilon=1e-5)
    for name in filter(None, results):
        mini.output(name, ["batch", "rows", outputs])
    feeds = {"x": rng.standard_normal((2, 3, inputs), np.float32), "skip": matrix(rng, 6, outputs).reshape(2, 3, -1)}
    assert_same_outputs(run(tandem_session(mini), **feeds), run(cpu_session(mini), **feeds), 1e-5)


def test_products_of_one_input_with_biases(rng):
    """As in Qwen2: each of q, k and v has one."""
    model = Model()
    x = model.input("x", ["batch", "rows", 64])
    for name, width in (("q", 96), ("k", 32), ("v", 48)):
        product = model.add("MatMul", x, model.weight(matrix(rng, 64, width)))
        bias = model.weight(rng.standard_normal(width).astype(np.float32))
        model.output(model.add("Add", bias, product, name=name), ["batch", "rows", width])
    feeds = {"x": rng.standard_normal((2, 3, 64), np.float32)}
    assert_same_outputs(run(tandem_session(model), **feeds), run(cpu_session(model), **feeds), 5e-6)
