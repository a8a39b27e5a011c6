"""A process that runs one candidate, as its parent asks: a line of JSON in, a line of JSON out.

Worker is what the pair of a prefill and a decode session needs; llm_worker.py has another.
"""

import json
import os
import sys
import time

import memory
import numpy as np
from candidates import CANDIDATES

INPUTS, LOGITS = "{form}.inputs.npz", "{form}.logits.npy"  # files of the folder that parent and workers share


class Worker:
    """The open sessions of one candidate by form, and their arrays. Each public method is a request."""

    def __init__(self, candidate, models, exchange, threads):
        self._exchange = exchange
        self._candidate = CANDIDATES[candidate](models, exchange, threads)
        self._sessions, self._arrays = {}, {}

    def open(self, form, **options):
        """Opens a session and runs it once; times in ms, memory in bytes. `options` are the candidate's own.

        `anonymous` and `resident` are the growth by session and first run, `buffers` is that by the caller's own
        arrays, which do not count.
        """
        base = memory.read()
        create_ms = timed(lambda: self._create(form, **options))
        created = memory.read()
        self._bind(form)
        bound = memory.read()
        first_run_ms = timed(self._sessions[form].run)
        ran = memory.read()
        growth = (created - base) + (ran - bound)
        return {
            "create_ms": create_ms,
            "first_run_ms": first_run_ms,
            "anonymous": growth.anonymous,
            "resident": growth.resident,
            "buffers": (bound - created).resident,
            "process_before": base.resident,
            "process_after": ran.resident,
        }

    def step(self, form):
        """Milliseconds of one run; one before it, not timed, makes caches and threads as warm as in a series."""
        run = self._sessions[form].run
        run()
        return {"ms": timed(run)}

    def check(self, form):
        """The relative distance (Euclidean) of the logits of the last run from the reference's."""
        reference = np.load(self._exchange / LOGITS.format(form=form))
        return {"distance": distance(self._arrays[form]["logits"], reference)}

    def file_pages(self, path):
        """Bytes of the file's pages in this process, each divided by how many processes have it."""
        return {"pss": memory.file_pss(path)}

    def reference(self):
        """Writes the logits of both forms, and the inputs of the decode form that follow from the prefill's run."""
        self.open("prefill")
        self._create("decode")
        shapes = {name: shape for name, _, shape in self._sessions["decode"].inputs}
        inputs = decode_inputs(self._arrays["prefill"], shapes)
        np.savez(self._exchange / INPUTS.format(form="decode"), **inputs)
        self._bind("decode")
        self._sessions["decode"].run()
        for form, arrays in self._arrays.items():
            np.save(self._exchange / LOGITS.format(form=form), arrays["logits"])
        return {}

    def _create(self, form, **options):
        self._sessions[form] = self._candidate.open(form, **options)

    def _bind(self, form):
        session = self._sessions[form]
        arrays = memory.zeros([*session.inputs, *session.outputs])
        with np.load(self._exchange / INPUTS.format(form=form)) as inputs:
            for name in inputs.files:
                arrays[name][...] = inputs[name]
        session.bind(arrays)
        self._arrays[form] = arrays


def decode_inputs(prefill, shapes):
    """The inputs of the first decode step after a prefill whose rows are all in use.

    `prefill` has the prefill's arrays, `shapes` the decode form's shapes, both by name.
    """
    used, capacity = prefill["input_ids"].shape[1], shapes["past_key_values.0.key"][2]
    inputs = {
        "input_ids": prefill["logits"][:, -1:].argmax(-1),
        "attention_mask": np.array([[1] * used + [0] * (capacity - used) + [1]]),
        "position_ids": np.array([[used]]),
    }
    for name, shape in shapes.items():
        if name.startswith("past_key_values."):
            present = prefill[name.replace("past_key_values.", "present.")]
            inputs[name] = np.zeros(shape, present.dtype)
            inputs[name][:, :, :used] = present
    return inputs


def distance(found, reference):
    """The relative distance (Euclidean) of an array from the reference's."""
    found, reference = found.astype(np.float64), reference.astype(np.float64)
    return float(np.linalg.norm(found - reference) / np.linalg.norm(reference))


def timed(call):
    """Milliseconds of a call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def serve(make):
    """Answers the requests on standard input until it ends. What libraries print goes to standard error.

    `make()` gives the object whose methods are the requests; it is called at the first one, so that whatever fails is
    an answer {"error": reason}.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            worker = worker or make()
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
