"""Models compiled ahead of time, and their files."""

import gc
import json
import os

import onnx
from sessions import assert_same_outputs, run, tandem_session

GROUP = {"ep.share_ep_contexts": "1"}
LAST = {"ep.share_ep_contexts": "1", "ep.stop_share_ep_contexts": "1"}
SUFFIX = "_TandemExecutionProvider.safetensors"


def compile_model(model, path, entries=None, **options):
    """Compiles `model` (a path, bytes or a Model) to `path`; the session ends."""
    entries = {"ep.context_enable": "1", "ep.context_file_path": path, **(entries or {})}
    tandem_session(model, whole=False, entries=entries, **options)
    gc.collect()
    return path


def contexts(path):
    """The attributes of the EPContext nodes of a model."""
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == "EPContext"]
    return [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in nodes]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def damage(path, at):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def packed_tensor(path):
    """Where the first packed weight of a bundle begins in the file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return 8 + length + min(t["data_offsets"][0] for name, t in header.items() if name.startswith("packed/"))


def assert_computes(paths, feed, expected, **options):
    for path, outputs in zip(paths, expected, strict=True):
        assert_same_outputs(run(tandem_session(path, **options), **feed), outputs)
