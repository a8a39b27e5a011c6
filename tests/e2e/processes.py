"""Runs a function of a test module in a process of its own."""

import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples" / "smollm2"

_CALL = """
import importlib, json, sys
module, function, arguments, result = sys.argv[1:]
value = getattr(importlib.import_module(module), function)(*json.loads(arguments))
with open(result, "w") as file:
    json.dump(value, file)
"""


def in_process(function, *arguments, folder, environment=None, timeout=120):
    """What `function(*arguments)` returns in a new interpreter, which must end without an error.

    `function` is one of a module of this folder; arguments and result must be JSON, paths are passed as text. `folder`
    is for the result.
    """
    result = Path(folder) / "result.json"
    search = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(HERE), str(EXAMPLES)]))
    command = [sys.executable, "-c", _CALL, function.__module__, function.__name__]
    command += [json.dumps(arguments, default=str), str(result)]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": search, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert ended.returncode == 0, f"exit code {ended.returncode}\n{ended.stderr[-5000:]}"
    return json.loads(result.read_text())


def private_megabytes():
    """Memory of this process that is in no file, after everything that is free went back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon"))
