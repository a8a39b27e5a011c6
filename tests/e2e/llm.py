"""Exports of SmolLM2 with few layers, and what their forms are fed with. examples/smollm2 describes the forms."""

import export
import numpy as np
from checkpoint import Checkpoint
from forms import DECODE_PAST, PREFILL_TOKENS
from generate import ELEMENT_TYPES

PROMPT = [504, 5405, 1662, 260, 24308, 418, 216, 39, 281, 260, 4291, 28, 284, 5325, 335, 3037, 2165]
LAYERS = 2
DYNAMIC_PAST = 9


class Exports:
    """Folders of exported models, made when they are first asked for."""

    def __init__(self, root):
        self._root = root
        self._checkpoint = None
        self._folders = {}

    def folder(self, weights, operators, layers=LAYERS):
        key = weights, operators, layers
        if key not in self._folders:
            self._checkpoint = self._checkpoint or Checkpoint()
            folder = self._root / "-".join(map(str, key))
            # Level 0: MatMulNBits in f32, as Tandem computes it.
            options = export.Options(weights, operators, layers=layers, accuracy_level=0)
            export.export(folder, options, self._checkpoint)
            self._folders[key] = folder
        return self._folders[key]

    def model(self, weights, operators, form, layers=LAYERS):
        return self.folder(weights, operators, layers) / f"{form}.onnx"


def used_rows(form):
    """How many rows of a form's logits say something: those of tokens."""
    return len(PROMPT) if "prefill" in form or form == "dynamic" else 1


def feeds(session, form, rng):
    """Inputs of a form: PROMPT or its last token, with a past of random numbers."""
    ids = np.array([PROMPT])
    count = ids.shape[1]
    form = "dynamic" if form == "dynamic_last" else form
    given = {
        "prefill": lambda: {
            "input_ids": _padded(ids),
            "attention_mask": _padded(np.ones_like(ids)),
            "position_ids": np.arange(PREFILL_TOKENS)[None],
        },
        "decode": lambda: {
            "input_ids": ids[:, -1:],
            "attention_mask": np.array([[1] * count + [0] * (DECODE_PAST - count) + [1]]),
            "position_ids": np.array([[count]]),
        },
        "dynamic": lambda: {
            "input_ids": ids,
            "attention_mask": np.ones((1, DYNAMIC_PAST + count), np.int64),
            "position_ids": np.arange(DYNAMIC_PAST, DYNAMIC_PAST + count)[None],
        },
        "window_prefill": lambda: window_feeds(_padded(ids), last=PREFILL_TOKENS - 1),
        "window_decode": lambda: window_feeds(ids[:, -1:], last=count),
    }[form]()
    sizes = {"batch": 1, "past": DYNAMIC_PAST}
    complete = {}
    for argument in session.get_inputs():
        if argument.name in given:
            complete[argument.name] = given[argument.name]
        else:
            shape = [sizes.get(size, size) for size in argument.shape]
            complete[argument.name] = rng.standard_normal(shape).astype(ELEMENT_TYPES[argument.type])
    return complete


def window_feeds(ids, last):
    """Of a window form, for ids [1, tokens] of which the last is at row `last`; without the past."""
    return {
        "input_ids": np.array(ids),
        "past_sequence_length": np.array([[last]], np.int32),
        "total_sequence_length": np.array([last + 1], np.int32),
    }


def empty_window(session):
    """A window form's past, all zeros."""
    cached = [argument for argument in session.get_inputs() if argument.name.startswith("past_key_values.")]
    return {argument.name: np.zeros(argument.shape, ELEMENT_TYPES[argument.type]) for argument in cached}


def _padded(values):
    return np.concatenate([values, np.zeros((1, PREFILL_TOKENS - values.shape[1]), np.int64)], axis=1)
