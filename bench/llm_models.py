"""The models that the LLM benchmark runs, in every form that a candidate reads.

`folder` is that of the plain operators, such as build/smollm2/int4; the others lie beside it.
"""

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path

import numpy as np
import preparation

CAPACITY = 1024  # tokens of context for which buffers are made
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_0.gguf"
RANDOM_LAYERS = 2


@dataclasses.dataclass(frozen=True)
class WeightsOfAToken:
    """What one token takes: bytes of weights that are read, and multiply-adds with weight matrices.

    `head_macs`: those of the multiply-adds that give the logits, which only the last token of a prompt needs.
    """

    bytes: int
    macs: int
    head_macs: int


def contrib(folder):
    """The model with ONNX Runtime's contrib operators."""
    return folder.with_name(f"{folder.name}-contrib")


def genai(folder):
    """The folder from which ORT GenAI loads the contrib model."""
    return folder.with_name(f"{folder.name}-contrib-genai")


def gguf_q4_0(folder):
    """The GGUF file with the same int4 weights as the ONNX models."""
    return folder.with_name(f"{folder.name}-gguf") / GGUF_NAME


def gguf_package():
    """The GGUF file that the model comes in."""
    preparation.use_example()
    import checkpoint

    return checkpoint.installed_file()


def prepare(folder, weights, threads):
    """Makes all of them, unless they are there."""
    preparation.export(folder, weights)
    preparation.export(contrib(folder), weights, "contrib")
    _write_genai(folder, threads)
    if weights == "int4":
        _write_gguf(gguf_q4_0(folder))
    for path in (folder, contrib(folder)):
        preparation.warm(path / "weights.data")


def prepare_random(folder):
    """Makes plain and contrib int4 models of RANDOM_LAYERS layers of a 1B LLM with random weights."""
    preparation.use_example()
    import export
    from checkpoint import Checkpoint

    checkpoint = RandomCheckpoint(Checkpoint())
    for path, operators in ((folder, "plain"), (contrib(folder), "contrib")):
        with contextlib.redirect_stdout(sys.stderr):
            export.export(path, export.Options("int4", operators, ("dynamic", "dynamic_last")), checkpoint)


def weights_of_a_token(folder):
    """The WeightsOfAToken of a model of plain operators. The embedding table is looked up, not read, by Gather."""
    import onnx

    graph = onnx.load(folder / "dynamic.onnx", load_external_data=False).graph
    read = {name for node in graph.node if node.op_type != "Gather" for name in node.input}
    weights = [w for w in graph.initializer if w.data_location == onnx.TensorProto.EXTERNAL and w.name in read]
    matrices = [w for w in weights if len(w.dims) == 2 and not w.name.endswith(".scales")]
    lengths = [int(entry.value) for w in weights for entry in w.external_data if entry.key == "length"]
    vocabulary = next(output for output in graph.output if output.name == "logits").type.tensor_type.shape.dim[2]
    heads = [w for w in matrices if vocabulary.dim_value in w.dims]
    macs, head_macs = (sum(int(np.prod(w.dims)) for w in group) for group in (matrices, heads))
    return WeightsOfAToken(sum(lengths), macs, head_macs)


class RandomCheckpoint:
    """Stands in for a Checkpoint: random weights in the shapes of a 1B LLM, all else from the real one."""

    HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, VOCABULARY = 2048, 32, 8, 8192, 4096

    def __init__(self, real):
        self.field = real.field
        self.settings = dataclasses.replace(
            real.settings,
            layers=RANDOM_LAYERS,
            hidden=self.HIDDEN,
            heads=self.HEADS,
            kv_heads=self.KV_HEADS,
            head_size=self.HIDDEN // self.HEADS,
            vocabulary=self.VOCABULARY,
        )
        kv = self.settings.head_size * self.KV_HEADS
        self._shapes = {
            "token_embd": (self.VOCABULARY, self.HIDDEN),
            "attn_q": (self.HIDDEN, self.HIDDEN),
            "attn_k": (kv, self.HIDDEN),
            "attn_v": (kv, self.HIDDEN),
            "attn_output": (self.HIDDEN, self.HIDDEN),
            "ffn_gate": (self.FEED_FORWARD, self.HIDDEN),
            "ffn_up": (self.FEED_FORWARD, self.HIDDEN),
            "ffn_down": (self.HIDDEN, self.FEED_FORWARD),
        }
        self._random = np.random.default_rng(0)
        self._weights = {}

    def weight(self, name):
        """The same array for the same name; matrices keep the size of what they multiply."""
        if name.endswith("norm"):
            return np.ones(self.HIDDEN, np.float32)
        if name not in self._weights:
            shape = self._shapes[name.split(".")[-1]]
            values = self._random.standard_normal(shape, np.float32)
            self._weights[name] = values / np.float32(shape[1] ** 0.5)
        return self._weights[name]


def _write_genai(folder, threads):
    preparation.use_example()
    import genai_config

    target = genai_config.use(contrib(folder), genai_config.DYNAMIC, genai(folder))
    file = target / "genai_config.json"
    config = json.loads(file.read_text())
    config["search"] |= {"max_length": CAPACITY, "past_present_share_buffer": True}
    config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = threads
    file.write_text(json.dumps(config, indent=2))


def _write_gguf(path):
    """Writes the model's GGUF with Q4_0 for every matrix that is int4 in the ONNX models.

    Q4_0 is the same arithmetic, but for scales in f16. The head is a matrix of its own, as there: the embedding table
    stays as it is.
    """
    import gguf

    if path.exists():
        return
    source = gguf.GGUFReader(gguf_package())
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    writer = gguf.GGUFWriter(partial, "llama")
    for key, field in source.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue  # the writer has its own
        of_elements = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), field.types[0], of_elements)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    kinds = gguf.GGMLQuantizationType
    for tensor in source.tensors:
        is_embedding = tensor.name == "token_embd.weight"
        if is_embedding or tensor.tensor_type == kinds.F32:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        if is_embedding or tensor.tensor_type != kinds.F32:
            values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            name = "output.weight" if is_embedding else tensor.name
            writer.add_tensor(name, gguf.quantize(values, kinds.Q4_0), raw_dtype=kinds.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    Path(partial).replace(path)
