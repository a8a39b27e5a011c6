"""Support for the tests: exports of the first layers only, and their runs on ORT's CPU provider."""

import export
import numpy as np
import onnxruntime
from decoder import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE
from forms import PREFILL_TOKENS
from generate import ELEMENT_TYPES

LAYERS = 2


class TinyModels:
    """Exported folders under `root` and their sessions; each is made when it is first needed.

    The run methods return the outputs by name. `past` is what an earlier run returned.
    """

    def __init__(self, root, checkpoint):
        self._root = root
        self._checkpoint = checkpoint
        self._folders = {}
        self._sessions = {}

    def folder(self, weights, operators):
        key = weights, operators
        if key not in self._folders:
            self._folders[key] = self._root / f"{weights}-{operators}"
            options = export.Options(weights, operators, layers=LAYERS, accuracy_level=0)
            export.export(self._folders[key], options, self._checkpoint)
        return self._folders[key]

    def session(self, weights, operators, form):
        key = weights, operators, form
        if key not in self._sessions:
            options = onnxruntime.SessionOptions()
            # Else ONNX Runtime computes DequantizeLinear and MatMul with int8 activations.
            options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
            path = self.folder(weights, operators) / f"{form}.onnx"
            self._sessions[key] = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return self._sessions[key]

    def pair(self, weights, operators):
        """The static prefill and decode sessions."""
        return [self.session(weights, operators, form) for form in ("prefill", "decode")]

    def run(self, weights, operators, form, feeds):
        """Runs any form. Feeds that the model does not have are dropped; a missing past is empty or zeros."""
        session = self.session(weights, operators, form)
        present = {"batch": len(feeds["input_ids"]), "past": 0}
        complete = {}
        for argument in session.get_inputs():
            shape = [present.get(size, size) for size in argument.shape]
            if argument.name in feeds:
                complete[argument.name] = feeds[argument.name]
            else:
                complete[argument.name] = np.zeros(shape, ELEMENT_TYPES[argument.type])
        names = [argument.name for argument in session.get_outputs()]
        return dict(zip(names, session.run(names, complete), strict=True))

    def run_dynamic(self, weights, operators, ids, past=None):
        """The dynamic form, for ids [batch, tokens]."""
        before = past["present.0.key"].shape[2] if past else 0
        batch, tokens = np.shape(ids)
        feeds = {
            "input_ids": np.array(ids),
            "attention_mask": np.ones((batch, before + tokens), np.int64),
            "position_ids": np.tile(np.arange(before, before + tokens), (batch, 1)),
            **as_past(past),
        }
        return self.run(weights, operators, "dynamic", feeds)

    def run_prefill(self, weights, operators, ids):
        """The static prefill form, for at most 128 ids; they are padded on the right."""
        feeds = {
            "input_ids": padded(ids),
            "attention_mask": padded([1] * len(ids)),
            "position_ids": np.arange(PREFILL_TOKENS)[None],
        }
        return self.run(weights, operators, "prefill", feeds)

    def run_window(self, weights, operators, form, ids, last, past=None):
        """A window form, for ids [1, tokens] of which the last is at position `last`."""
        feeds = {
            "input_ids": np.array(ids),
            "past_sequence_length": np.array([[last]], np.int32),
            "total_sequence_length": np.array([last + 1], np.int32),
            **as_past(past),
        }
        return self.run(weights, operators, form, feeds)


def as_past(outputs):
    """The past inputs that hold the present rows of `outputs`; none without outputs."""
    names = [(PAST_KEY, PRESENT_KEY), (PAST_VALUE, PRESENT_VALUE)] if outputs else []
    return {past % layer: outputs[present % layer] for past, present in names for layer in range(LAYERS)}


def padded(values):
    """[1, 128]: the values, then zeros."""
    return np.array([[*values, *[0] * (PREFILL_TOKENS - len(values))]])
