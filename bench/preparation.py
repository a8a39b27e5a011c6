"""What has to be there before anything is measured: the exported models, and the files that all workers read."""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "smollm2"
TEXT = (
    "The ship left the harbour at seven in the morning, and nobody on board knew where it was going. The captain had "
    "opened his letter only when the coast was out of sight; now he stood on the bridge, read it once more, and said "
    "nothing. Below, the cook was boiling water for coffee. Two of the younger sailors were talking about the weather "
    "in the north, and about a girl who had waved to one of them from the end of the pier. It was not clear to which. "
    "By noon the wind had turned, and the first mate came up to ask whether the course was still the same. "
    "The captain folded the letter and put it into his coat."
)


def export(folder, weights):
    """Exports all forms of the model to `folder` with plain operators, unless it holds them."""
    sys.path.append(str(EXAMPLE))
    import export as smollm2

    with contextlib.redirect_stdout(sys.stderr):
        smollm2.export(folder, smollm2.Options(weights, "plain"))


def write_inputs(folder, exchange, tokens):
    """Writes the inputs of the prefill form, `tokens` tokens of TEXT, and of a step of the window decode form."""
    sys.path.append(str(EXAMPLE))
    from chat import Chat

    ids = Chat(folder).encode(TEXT)[:tokens]
    assert len(ids) == tokens, f"TEXT has only {len(ids)} tokens"
    mask, positions = np.ones((1, tokens), np.int64), np.arange(tokens)[None]
    np.savez(exchange / "prefill.inputs.npz", input_ids=[ids], attention_mask=mask, position_ids=positions)
    window = {"past_sequence_length": [[tokens]], "total_sequence_length": [tokens + 1]}
    np.savez(exchange / "window_decode.inputs.npz", input_ids=[ids[-1:]], **window)


def convert(folder, exchange, form):
    """Writes the form with its weights as inputs, and where the data file has each: {name: [offset, bytes]}."""
    model = onnx.load(folder / f"{form}.onnx", load_external_data=False)
    graph, spans = model.graph, {}
    for weight in [w for w in graph.initializer if w.data_location == onnx.TensorProto.EXTERNAL]:
        place = {entry.key: entry.value for entry in weight.external_data}
        spans[weight.name] = int(place["offset"]), int(place["length"])
        graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
        graph.initializer.remove(weight)
    onnx.save(model, exchange / f"{form}.onnx")
    (exchange / f"{form}.json").write_text(json.dumps(spans))


def warm(path):
    """Reads a file, so that it is in the page cache for whoever opens it first."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
