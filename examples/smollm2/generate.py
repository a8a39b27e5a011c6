#!/usr/bin/env python3
"""Greedy generation with the static forms: a prefill session and a decode session, on any provider.

usage: generate.py FOLDER PROMPT [--new-tokens N]     (runs prefill.onnx and decode.onnx on ORT's CPU provider)
"""

import argparse
from pathlib import Path

import numpy as np

ALIGNMENT_BYTES = 4096
HOST_MEMORY = "Cpu"
ELEMENT_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}


class BoundSession:
    """A session with static shapes whose inputs and outputs are bound to arrays that stay.

    `tensors` holds the arrays by name; they start as zeros. `past` and `present` view those of the cache together:
    [2 * layers, 1, kv_heads, rows, head_size], key and value of each layer in turn; None if the session has none.
    Raises ValueError for a dynamic dimension.
    """

    def __init__(self, session):
        self._session = session
        self._inputs, self.past = _allocate(session.get_inputs(), "past_key_values.")
        outputs, self.present = _allocate(session.get_outputs(), "present.")
        self.tensors = self._inputs | outputs
        self._binding = session.io_binding()
        self._bind_inputs()
        for name, array in outputs.items():
            self._binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        # Where inputs live in a device's own memory, ONNX Runtime copies them when they are bound, not when it runs.
        self._reads_in_place = all(memory.name == HOST_MEMORY for memory in session.get_input_memory_infos())

    def run(self):
        """Computes the output arrays from what the input arrays hold now."""
        if not self._reads_in_place:
            self._bind_inputs()
        self._session.run_with_iobinding(self._binding)

    def fill(self, name, values):
        """Sets an input, if the session has it."""
        if name in self._inputs:
            self._inputs[name][...] = values

    def _bind_inputs(self):
        for name, array in self._inputs.items():
            self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)


class Pair:
    """The static prefill and decode sessions of one model and the cache between them.

    Contrib models put a new row behind the rows that are in use, plain ones behind the whole past. Contrib models
    are known by having no position_ids.
    """

    def __init__(self, prefill, decode):
        self._prefill = BoundSession(prefill)
        self._decode = BoundSession(decode)
        self.prompt_capacity = self._prefill.tensors["input_ids"].shape[1]
        self.capacity = self._decode.past.shape[3]
        self._appends_behind_past = "position_ids" in self._decode.tensors

    def generate(self, prompt, new_tokens, stop=()):
        """An iterator over at most `new_tokens` token ids that follow the ids `prompt`; one in `stop` is the last.

        Each step computes one token, the first step runs the prefill session. Raises ValueError, before anything is
        computed, if the prompt or the whole text has no room. One generation at a time: they share the cache.
        """
        if not 1 <= len(prompt) <= self.prompt_capacity:
            raise ValueError(f"a prompt has from 1 to {self.prompt_capacity} tokens, this one has {len(prompt)}")
        if new_tokens < 1 or len(prompt) + new_tokens > self.capacity:
            room = self.capacity - len(prompt)
            raise ValueError(f"there is room for 1 to {room} tokens behind this prompt, {new_tokens} are asked for")
        return self._tokens(prompt, new_tokens, frozenset(stop))

    def _tokens(self, prompt, new_tokens, stop):
        token = self._run_prefill(prompt)
        yield token
        for position in range(len(prompt), len(prompt) + new_tokens - 1):
            if token in stop:
                return
            token = self._run_decode(token, position)
            yield token

    def _run_prefill(self, prompt):
        """Fills the cache with the rows of the prompt and returns the first new token."""
        session, used = self._prefill, len(prompt)
        padding = self.prompt_capacity - used
        session.fill("input_ids", [*prompt, *[0] * padding])
        session.fill("attention_mask", [1] * used + [0] * padding)
        session.fill("position_ids", np.arange(self.prompt_capacity))
        session.run()
        self._decode.past[..., :used, :] = session.present[..., :used, :]
        return int(session.tensors["logits"][0, used - 1].argmax())

    def _run_decode(self, token, position):
        """Adds `token` at `position` to the cache and returns the token after it."""
        session = self._decode
        session.fill("input_ids", token)
        session.fill("attention_mask", [1] * position + [0] * (self.capacity - position) + [1])
        session.fill("position_ids", position)
        session.run()
        new_row = self.capacity if self._appends_behind_past else position
        session.past[..., position, :] = session.present[..., new_row, :]
        return int(session.tensors["logits"][0, 0].argmax())


def _allocate(arguments, cache_prefix):
    """Zeroed arrays by name for a session's inputs or outputs, and one array over those of the cache, or None."""
    arrays, cache = {}, None
    cached = [argument for argument in arguments if argument.name.startswith(cache_prefix)]
    if cached:
        cache = _aligned_zeros(cached[0].type, [len(cached), *_static_shape(cached[0])])
        arrays = {argument.name: part for argument, part in zip(cached, cache, strict=True)}
    for argument in arguments:
        if argument.name not in arrays:
            arrays[argument.name] = _aligned_zeros(argument.type, _static_shape(argument))
    return arrays, cache


def _static_shape(argument):
    if not all(isinstance(dimension, int) for dimension in argument.shape):
        raise ValueError(f"'{argument.name}' must have a static shape, it has {argument.shape}")
    return argument.shape


def _aligned_zeros(element_type, shape):
    """Zeros that start on a page, so that a provider may use them in place."""
    dtype = np.dtype(ELEMENT_TYPES[element_type])
    size_bytes = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + size_bytes].view(dtype).reshape(shape)


def main():
    import onnxruntime
    from chat import Chat

    parser = argparse.ArgumentParser(description="Answer a prompt with prefill.onnx and decode.onnx of FOLDER.")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("prompt", metavar="PROMPT")
    parser.add_argument("--new-tokens", type=int, default=100, help="at most; default: 100")
    arguments = parser.parse_args()
    chat = Chat(arguments.folder)
    sessions = [
        onnxruntime.InferenceSession(arguments.folder / f"{form}.onnx", providers=["CPUExecutionProvider"])
        for form in ("prefill", "decode")
    ]
    ids = chat.encode_prompt(arguments.prompt)
    print(chat.decode(list(Pair(*sessions).generate(ids, arguments.new_tokens, stop=[chat.eos_id]))))


if __name__ == "__main__":
    main()
