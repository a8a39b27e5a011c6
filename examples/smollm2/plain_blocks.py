"""Norm and attention in standard ONNX operators."""

import numpy as np
from decoder import Blocks
from forms import Cache
from onnx import TensorProto, helper

MASKED = -10000.0  # added to the scores of columns that a row must not see; fits f16


class PlainBlocks(Blocks):
    """See Blocks. Scores, softmax and cache are of the linear layers' type; norms and angles are f32."""

    def declare_inputs(self):
        graph, form = self.graph, self.form
        if form.cache is Cache.WINDOW:
            graph.input("past_sequence_length", "int32", [1, 1])
            graph.input("total_sequence_length", "int32", [1])  # GenAI gives it; this form does not need it
            positions = self._window_positions()
            visible = self._window_visible(positions)
            self._rows = self._window_rows(positions)
        else:
            graph.input("attention_mask", "int64", [form.batch, form.present])
            positions = graph.input("position_ids", "int64", [form.batch, form.tokens])
            visible = self._masked_visible()
        constants = [graph.constant(value, self.linear.dtype) for value in (0, MASKED)]
        self._bias = graph.op("Where", [visible, *constants])
        self._cosine, self._sine = self._angles(positions)

    def norm(self, x, branch, name):
        if branch is not None:
            x = self.graph.op("Add", [x, branch])
        wide = self._cast(x, self.linear.dtype, np.float32)
        square = self.graph.op("Mul", [wide, wide])
        mean = self.graph.op("ReduceMean", [square, self.graph.constant([-1])], keepdims=1)
        epsilon = self.graph.constant(self.settings.norm_epsilon, np.float32)
        root = self.graph.op("Sqrt", [self.graph.op("Add", [mean, epsilon])])
        scaled = self.graph.op("Mul", [wide, self.graph.op("Reciprocal", [root])])
        return self.graph.op("Mul", [self._cast(scaled, np.float32, self.linear.dtype), self.norm_weight(name)]), x

    def attention(self, layer, x):
        settings, graph = self.settings, self.graph
        past_key, past_value, present_key, present_value = self.declare_cache(layer)
        query = self._rotate(self._project(layer, "attn_q", x, settings.heads))
        key_rows = self._project(layer, "attn_k", x, settings.kv_heads)
        if self.form.cache is Cache.NONE:
            key = self._rotate(key_rows, present_key)
            value = self._project(layer, "attn_v", x, settings.kv_heads, present_value)
        else:
            value_rows = self._project(layer, "attn_v", x, settings.kv_heads)
            key = self._append(past_key, self._rotate(key_rows), present_key)
            value = self._append(past_value, value_rows, present_value)

        key_columns = graph.op("Transpose", [self._repeat(key)], perm=[0, 1, 3, 2])
        scores = graph.op("MatMul", [query, key_columns])
        scale = graph.constant(settings.head_size**-0.5, self.linear.dtype)
        scores = graph.op("Add", [graph.op("Mul", [scores, scale]), self._bias])
        mixed = graph.op("MatMul", [graph.op("Softmax", [scores], axis=-1), self._repeat(value)])
        mixed = graph.op("Transpose", [mixed], perm=[0, 2, 1, 3])
        return graph.op("Reshape", [mixed, graph.constant([0, 0, settings.hidden])])

    def _masked_visible(self):
        """Which columns each row sees, bool [batch, 1, tokens, present]: not later than the row, not masked."""
        graph = self.graph
        mask = graph.op("Cast", ["attention_mask"], to=TensorProto.BOOL)
        mask = graph.op("Unsqueeze", [mask, graph.constant([1, 2])])
        if self.form.tokens == 1:
            return mask
        total = self.length("attention_mask", self.form.present)
        tokens = self.length("input_ids", self.form.tokens)
        one = graph.constant(1)
        columns = graph.op("Range", [graph.constant(0), total, one])
        rows = graph.op("Range", [graph.op("Sub", [total, tokens]), total, one])
        causal = graph.op("LessOrEqual", [columns, graph.op("Unsqueeze", [rows, graph.constant([1])])])
        return graph.op("And", [causal, mask])

    def _window_positions(self):
        """Positions of the window's tokens, int64 [1, tokens]: the last one is past_sequence_length."""
        last = self.graph.op("Cast", ["past_sequence_length"], to=TensorProto.INT64)
        if self.form.tokens == 1:
            return last
        return self.graph.op("Add", [last, self._constant_range(1 - self.form.tokens, 1)])

    def _window_visible(self, positions):
        """Which rows of the buffer each token sees, bool [1, 1, tokens, window]: those up to its own."""
        columns = self._constant_range(0, self.form.past)
        return self.graph.op("LessOrEqual", [columns, self._as_rows(positions)])

    def _window_rows(self, positions):
        """Where new rows go in the buffer, int64 [1, kv_heads, tokens, head_size]."""
        shape = [1, self.settings.kv_heads, self.form.tokens, self.settings.head_size]
        return self.graph.op("Expand", [self._as_rows(positions), self.graph.constant(shape)])

    def _constant_range(self, start, stop):
        """int64 [stop - start]: start, start + 1, ..."""
        return self.graph.op("Range", [self.graph.constant(n) for n in (start, stop, 1)])

    def _as_rows(self, positions):
        """[batch, tokens] to [batch, 1, tokens, 1]."""
        return self.graph.op("Unsqueeze", [positions, self.graph.constant([1, 3])])

    def _angles(self, positions):
        """Cosine and sine for the rotary embedding, [batch, 1, tokens, head_size] each."""
        head_size = self.settings.head_size
        frequency = self.settings.rope_base ** -(np.arange(0, head_size, 2) / head_size)
        frequency = self.graph.constant(np.tile(frequency, 2), np.float32)
        angle = self.graph.op("Mul", [self._as_rows(self._cast(positions, np.int64, np.float32)), frequency])
        waves = [self.graph.op(function, [angle]) for function in ("Cos", "Sin")]
        return [self._cast(wave, np.float32, self.linear.dtype) for wave in waves]

    def _project(self, layer, part, x, heads, output=None):
        """A projection split into heads, [batch, heads, tokens, head_size]."""
        name = f"blk.{layer}.{part}"
        shape = self.graph.constant([0, 0, heads, self.settings.head_size])
        split = self.graph.op("Reshape", [self.linear.apply(x, name, [name]), shape])
        return self.graph.op("Transpose", [split], output, perm=[0, 2, 1, 3])

    def _rotate(self, x, output=None):
        """Rotary embedding: x * cosine + (-second half, first half) * sine."""
        first, second = self.graph.op_with_outputs("Split", [x], [None, None], axis=3, num_outputs=2)
        turned = self.graph.op("Concat", [self.graph.op("Neg", [second]), first], axis=3)
        straight = self.graph.op("Mul", [x, self._cosine])
        return self.graph.op("Add", [straight, self.graph.op("Mul", [turned, self._sine])], output)

    def _append(self, past, rows, present):
        """The cache with the new rows, as the output `present`."""
        if self.form.cache is Cache.WINDOW:
            return self.graph.op("ScatterElements", [past, self._rows, rows], present, axis=2)
        return self.graph.op("Concat", [past, rows], present, axis=2)

    def _repeat(self, x):
        """Gives each query head its key or value head: [batch, kv_heads, ...] to [batch, heads, ...]."""
        group = self.settings.heads // self.settings.kv_heads
        x = self.graph.op("Unsqueeze", [x, self.graph.constant([2])])
        x = self.graph.op("Expand", [x, self.graph.constant([1, 1, group, 1, 1])])
        return self.graph.op("Reshape", [x, self.graph.constant([0, self.settings.heads, -1, self.settings.head_size])])

    def _cast(self, x, source, target):
        """x, of type `source`, as `target`."""
        if source is target:
            return x
        return self.graph.op("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))
