"""Matrix products with the model's weights, one class for each way to store them.

`apply` multiplies hidden states [batch, sequence, inputs] with the named weights, side by side if there are several,
and returns [batch, sequence, outputs]. `head` gives the logits: the product with the embedding table, which the
model uses for both ends.
"""

import int4
import numpy as np
from checkpoint import EMBEDDING
from graph_builder import CONTRIB_DOMAIN
from onnx import TensorProto


class FloatLinear:
    """f32 or f16 weights [inputs, outputs]. The head reads the embedding table itself, transposed."""

    def __init__(self, graph, checkpoint, dtype):
        self.dtype = dtype
        self._graph = graph
        self._checkpoint = checkpoint

    def embedding(self):
        """The name of the embedding table [vocabulary, hidden]."""
        return self._graph.weight(EMBEDDING, lambda: self._checkpoint.weight(EMBEDDING).astype(self.dtype, copy=False))

    def apply(self, x, name, sources):
        weight = self._graph.weight(name, lambda: _stack(self._checkpoint, sources).T.astype(self.dtype))
        return self._graph.op("MatMul", [x, weight])

    def head(self, x, output):
        table = self._graph.op("Transpose", [self.embedding()], perm=[1, 0])
        return self._graph.op("MatMul", [x, table], output)


class Int4Linear:
    """INT4 weights; the head is quantized apart from the embedding table, which stays f32."""

    dtype = np.float32

    def __init__(self, graph, checkpoint):
        self._graph = graph
        self._checkpoint = checkpoint

    def embedding(self):
        """The name of the embedding table [vocabulary, hidden]."""
        return self._graph.weight(EMBEDDING, lambda: self._checkpoint.weight(EMBEDDING))

    def head(self, x, output):
        return self.apply(x, "lm_head", [EMBEDDING], output)


class DequantizedLinear(Int4Linear):
    """DequantizeLinear of INT4 [inputs, outputs], then MatMul."""

    def apply(self, x, name, sources, output=None):
        values, scales = f"{name}.values", f"{name}.scales"
        if values not in self._graph.weights:
            matrix = _stack(self._checkpoint, sources)
            packed, scale = int4.pack_for_dequantize_linear(*int4.quantize(matrix))
            self._graph.weights.add(values, packed, TensorProto.INT4, matrix.T.shape)
            self._graph.weights.add(scales, scale)
        inputs = [self._graph.use_weight(values), self._graph.use_weight(scales)]
        matrix = self._graph.op("DequantizeLinear", inputs, axis=0, block_size=int4.BLOCK)
        return self._graph.op("MatMul", [x, matrix], output)


class MatMulNBitsLinear(Int4Linear):
    """The contrib operator. `accuracy_level` is its attribute: 0 or 1 computes in f32, 4 takes int8 activations."""

    def __init__(self, graph, checkpoint, accuracy_level):
        super().__init__(graph, checkpoint)
        self._accuracy_level = accuracy_level

    def apply(self, x, name, sources, output=None):
        values, scales = f"{name}.values", f"{name}.scales"
        if values not in self._graph.weights:
            packed, scale = int4.pack_for_matmul_nbits(*int4.quantize(_stack(self._checkpoint, sources)))
            self._graph.weights.add(values, packed)
            self._graph.weights.add(scales, scale)
        outputs, blocks, _ = self._graph.weights.record(values).dims
        return self._graph.op(
            "MatMulNBits",
            [x, self._graph.use_weight(values), self._graph.use_weight(scales)],
            output,
            domain=CONTRIB_DOMAIN,
            K=blocks * int4.BLOCK,
            N=outputs,
            bits=4,
            block_size=int4.BLOCK,
            accuracy_level=self._accuracy_level,
        )


def _stack(checkpoint, sources):
    """The weights of `sources`, one under the other: f32 [sum of outputs, inputs]."""
    weights = [checkpoint.weight(source) for source in sources]
    return weights[0] if len(weights) == 1 else np.concatenate(weights)
