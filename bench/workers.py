"""Processes that each run one candidate, and the turns in which they are timed."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

PAIR, LLM = "pair", "llm"  # what a process runs: Worker of worker.py, or LlmWorker of llm_worker.py
TOLERANCES = {"f32": 1e-3, "f16": 1e-2, "int4": 2e-1}  # relative distance of logits from the reference's
RUN = Path(__file__).resolve().parent / "run.py"


class BenchError(Exception):
    """The benchmark has no result; the message says why."""


class WrongResult(BenchError):
    """A candidate computes something else than the reference."""


@dataclass(frozen=True)
class Settings:
    """What to measure. Steps are counted by form or task, for each process."""

    weights: str
    models: Path
    repeat: int
    threads: int
    steps: dict
    options: dict = field(default_factory=dict)  # Tandem's

    @property
    def folder(self):
        """The models of plain operators."""
        return self.models / self.weights


class WorkerProcess:
    """A process with a worker. Use it as a context manager: the process ends with the block."""

    def __init__(self, candidate, settings, exchange, folder=None, kind=PAIR, packages=None):
        """`folder` has the models; None: the exported ones. `packages`: a folder of Python packages to be found."""
        self._candidate = candidate
        folder = folder or settings.folder
        command = [sys.executable, RUN, "worker", kind, candidate, folder, exchange, str(settings.threads)]
        environment = dict(os.environ)
        if packages:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):  # of a process that is gone
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, what, **arguments):
        """The worker's answer to a request. Raises BenchError with the reason if there is none."""
        try:
            print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
            answer = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError) as error:
            raise BenchError(f"the process of {self._candidate} ended at the request '{what}'") from error
        if "error" in answer:
            raise BenchError(f"{self._candidate} failed at the request '{what}': {answer['error']}")
        return answer


def interleaved(workers, form, steps, order):
    """Milliseconds of `steps` runs of each worker. One runs at a time; each step asks them in a new random order."""
    times = {name: [] for name in workers}
    for step in range(steps + 1):
        for name in order.sample(list(workers), len(workers)):
            milliseconds = workers[name].ask("step", form=form)["ms"]
            if step > 0:  # the first is to get warm
                times[name].append(milliseconds)
    return times


def check_distance(name, form, distance, tolerance, reference):
    """Returns the distance. Raises WrongResult if it is more than the tolerance, or not a number."""
    if not distance <= tolerance:
        raise WrongResult(
            f"{name} computes other {form} logits than {reference}: relative distance {distance:.1e}, "
            f"at most {tolerance:.0e} is allowed"
        )
    return distance
