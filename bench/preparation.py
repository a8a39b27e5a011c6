"""What has to be there before anything is measured: the exported models, and the files that all workers read."""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "smollm2"
STORY = Path(__file__).resolve().parent / "story.txt"


def export(folder, weights, operators="plain"):
    """Exports all forms of the model to `folder`, unless it holds them."""
    use_example()
    import export as smollm2

    with contextlib.redirect_stdout(sys.stderr):
        smollm2.export(folder, smollm2.Options(weights, operators))


def story_ids(folder):
    """The tokens of the story, for the tokenizer of an exported folder."""
    use_example()
    from chat import Chat

    return Chat(folder).encode(STORY.read_text(encoding="utf-8"))


def write_inputs(folder, exchange, tokens):
    """Writes the inputs of the prefill form, `tokens` tokens of the story, and of a step of the window decode form."""
    ids = story_ids(folder)[:tokens]
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


def use_example():
    """Makes the modules of the example importable."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
