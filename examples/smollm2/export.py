#!/usr/bin/env python3
"""Exports SmolLM2-135M-Instruct to ONNX: several forms of the model that read one file of weights.

usage: export.py OUTDIR --weights f32|f16|int4 --operators plain|contrib [--form NAME ...]

README.md beside this file describes the forms. A folder that holds what is asked for is left as it is.
"""

import argparse
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import checkpoint
import genai_config
import numpy as np
import tokenizer
import weight_file
from checkpoint import Checkpoint
from contrib_blocks import ContribBlocks
from decoder import build
from forms import FORM_NAMES, Sizes
from graph_builder import GraphBuilder
from linear import DequantizedLinear, FloatLinear, MatMulNBitsLinear
from plain_blocks import PlainBlocks
from weight_file import WeightFile

WEIGHTS = ("f32", "f16", "int4")
OPERATORS = ("plain", "contrib")
MANIFEST = "export.json"
VERSION = 2  # raise it when the same options give other files


@dataclass(frozen=True)
class Options:
    """What to export. `layers` None means all; `accuracy_level` is MatMulNBits' and used with int4 contrib only."""

    weights: str
    operators: str
    forms: tuple[str, ...] = FORM_NAMES
    sizes: Sizes = field(default_factory=Sizes)
    layers: int | None = None
    accuracy_level: int = 4

    def __post_init__(self):
        for value, known in (
            (self.weights, WEIGHTS),
            (self.operators, OPERATORS),
            *((f, FORM_NAMES) for f in self.forms),
        ):
            if value not in known:
                raise ValueError(f"'{value}' is none of {', '.join(known)}")


def export(folder, options, model=None):
    """Makes `folder` hold the export that `options` describe and prints a line for each file written.

    `model` is an open Checkpoint, for callers that export more than once. Returns False if nothing had to be done.
    """
    folder = Path(folder)
    options.sizes.check()
    arguments = {"version": VERSION, "source": checkpoint.FILE_NAME, **asdict(options)}
    arguments = json.loads(json.dumps(arguments))  # as a manifest gives them back
    if _is_complete(folder, arguments):
        return False
    model = model or Checkpoint()
    layers = _checked_layers(options, model.settings)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_export(folder)

    chosen = {name: options.sizes.form(name) for name in FORM_NAMES if name in options.forms}
    with WeightFile(folder) as weights:
        for form in chosen.values():
            _write_model(folder / form.file_name, form, options, layers, model, weights)
    tokenizer.write(folder, model)
    configs = genai_config.write(folder, model, layers, chosen, options.operators)

    names = [form.file_name for form in chosen.values()]
    names += [weight_file.FILE_NAME, *tokenizer.FILE_NAMES, *(path.name for path in configs)]
    sizes = {name: (folder / name).stat().st_size for name in names}
    for name, size in sizes.items():
        print(f"{folder / name}: {size:,} bytes")
    (folder / MANIFEST).write_text(json.dumps({"arguments": arguments, "files": sizes}, indent=2))
    return True


def _write_model(path, form, options, layers, model, weights):
    graph = GraphBuilder(weights)
    if options.weights != "int4":
        linear = FloatLinear(graph, model, np.float16 if options.weights == "f16" else np.float32)
    elif options.operators == "contrib":
        linear = MatMulNBitsLinear(graph, model, options.accuracy_level)
    else:
        linear = DequantizedLinear(graph, model)
    blocks = (ContribBlocks if options.operators == "contrib" else PlainBlocks)(graph, form, model, linear)
    build(blocks, layers)
    graph.save(path)


def _checked_layers(options, settings):
    """The number of layers to export. Raises ValueError if the model cannot have what the options ask for."""
    layers = settings.layers if options.layers is None else options.layers
    if not 1 <= layers <= settings.layers:
        raise ValueError(f"layers must be from 1 to {settings.layers}, it is {layers}")
    longest = max(options.sizes.decode_past + 1, options.sizes.window)
    if longest > settings.context:
        raise ValueError(f"the model takes {settings.context} tokens of context, {longest} are asked for")
    return layers


def _is_complete(folder, arguments):
    """Whether the folder's manifest has these arguments, and its files the sizes that were written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sizes = {name: (folder / name).stat().st_size for name in manifest["files"]}
    except (OSError, ValueError, KeyError):
        return False
    return manifest.get("arguments") == arguments and manifest["files"] == sizes


def _remove_export(folder):
    """Removes what an earlier export wrote, the manifest first.

    Files are removed, not overwritten: hard links to them elsewhere keep the old content.
    """
    models = [f"{name}.onnx" for name in FORM_NAMES]
    configs = genai_config.FILE_NAMES.values()
    for name in (MANIFEST, *models, *configs, weight_file.FILE_NAME, *tokenizer.FILE_NAMES):
        (folder / name).unlink(missing_ok=True)


def _parse(arguments):
    """The folder and the Options of a command line."""
    parser = argparse.ArgumentParser(description="Export SmolLM2-135M-Instruct to ONNX.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR", help="created if it does not exist")
    parser.add_argument("--weights", choices=WEIGHTS, required=True)
    parser.add_argument("--operators", choices=OPERATORS, required=True)
    parser.add_argument("--form", choices=FORM_NAMES, action="append", help="repeatable; default: all")
    for name, default in asdict(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--layers", type=int, help="keep only the first LAYERS layers; default: all")
    parser.add_argument("--accuracy-level", type=int, choices=range(5), help="of MatMulNBits; default: 4")
    parsed = parser.parse_args(arguments)

    chosen = {}
    if parsed.accuracy_level is not None:
        if (parsed.weights, parsed.operators) != ("int4", "contrib"):
            parser.error("--accuracy-level needs --weights int4 --operators contrib")
        chosen["accuracy_level"] = parsed.accuracy_level
    if parsed.form:
        chosen["forms"] = tuple(name for name in FORM_NAMES if name in parsed.form)
    sizes = Sizes(parsed.prefill_tokens, parsed.decode_past, parsed.window)
    return parsed.folder, Options(parsed.weights, parsed.operators, sizes=sizes, layers=parsed.layers, **chosen)


def main(arguments=None):
    folder, options = _parse(arguments)
    try:
        if not export(folder, options):
            print(f"{folder}: up to date")
    except (ValueError, FileNotFoundError) as error:
        raise SystemExit(f"export.py: {error}") from error


if __name__ == "__main__":
    main()
