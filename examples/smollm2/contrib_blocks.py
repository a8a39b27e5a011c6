"""Norm and attention in ONNX Runtime's contrib operators, in the manner of ORT GenAI's model builder."""

import numpy as np
from decoder import Blocks
from forms import Cache
from graph_builder import CONTRIB_DOMAIN
from onnx import TensorProto


class ContribBlocks(Blocks):
    """See Blocks. GroupQueryAttention counts positions by itself, so there are no position_ids.

    It places the new rows behind the rows that the attention mask counts, not behind the whole past.
    Without past inputs ONNX Runtime's CPU provider runs it; OpenVINO's ONNX front end refuses it there, and takes a
    static past for a buffer that is updated in place, so a provider must lower prefill and decode itself.
    """

    def declare_inputs(self):
        graph, form = self.graph, self.form
        if form.cache is Cache.WINDOW:
            graph.input("past_sequence_length", "int32", [1, 1])
            graph.input("total_sequence_length", "int32", [1])
            self._last_row = graph.op("Reshape", ["past_sequence_length", graph.constant([-1])])
            self._total = graph.op("Squeeze", ["total_sequence_length", graph.constant([0])])
        else:
            graph.input("attention_mask", "int64", [form.batch, form.present])
            rows = graph.op("ReduceSum", ["attention_mask", graph.constant([1])], keepdims=0)
            self._last_row = self._to_int32(graph.op("Sub", [rows, graph.constant(1)]))
            self._total = self._to_int32(self.length("attention_mask", form.present))
        self._caches = [
            graph.weight("cos_cache", lambda: self._angles(np.cos)),
            graph.weight("sin_cache", lambda: self._angles(np.sin)),
        ]

    def norm(self, x, branch, name):
        weight, epsilon = self.norm_weight(name), self.settings.norm_epsilon
        if branch is None:
            normed = self.graph.op(
                "SimplifiedLayerNormalization", [x, weight], axis=-1, epsilon=epsilon, stash_type=TensorProto.FLOAT
            )
            return normed, x
        normed, _, _, total = self.graph.op_with_outputs(
            "SkipSimplifiedLayerNormalization",
            [x, branch, weight],
            [None, "", "", None],
            CONTRIB_DOMAIN,
            epsilon=epsilon,
        )
        return normed, total

    def attention(self, layer, x):
        settings = self.settings
        past_key, past_value, present_key, present_value = self.declare_cache(layer)
        parts = [f"blk.{layer}.attn_{part}" for part in "qkv"]
        packed = self.linear.apply(x, f"blk.{layer}.attn_qkv", parts)
        inputs = [packed, "", "", past_key or "", past_value or "", self._last_row, self._total, *self._caches]
        return self.graph.op_with_outputs(
            "GroupQueryAttention",
            inputs,
            [None, present_key, present_value],
            CONTRIB_DOMAIN,
            num_heads=settings.heads,
            kv_num_heads=settings.kv_heads,
            scale=settings.head_size**-0.5,
            do_rotary=1,
            rotary_interleaved=0,
        )[0]

    def _to_int32(self, x):
        return self.graph.op("Cast", [x], to=TensorProto.INT32)

    def _angles(self, function):
        """cos or sin of all angles of the rotary embedding, [context, head_size / 2]."""
        head_size = self.settings.head_size
        frequency = self.settings.rope_base ** -(np.arange(0, head_size, 2) / head_size)
        return function(np.outer(np.arange(self.settings.context), frequency)).astype(self.linear.dtype)
