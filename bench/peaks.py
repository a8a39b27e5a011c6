"""What the machine can do at most, as bench_kernels (peaks.cc) measures it with a thread for each core."""

import json
import subprocess
from pathlib import Path

from workers import BenchError

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "bench" / "bench_kernels"
KINDS = {"int8": "macs", "f32": "macs", "read": "bytes"}  # the first part of a benchmark's name, and its counter


def measure(threads):
    """Multiply-adds or bytes per second by kind, with the fastest instructions. Raises BenchError if it cannot."""
    command = [PROGRAM, f"--benchmark_filter=Peak/.*threads:{threads}$", "--benchmark_format=json"]
    command += ["--benchmark_min_time=0.1", "--benchmark_repetitions=3"]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        runs = json.loads(done.stdout)["benchmarks"]
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        raise BenchError(f"bench_kernels, which `make build` makes, gave no peaks of the machine: {error}") from error
    result = {}
    for run in runs:
        if run["run_type"] != "iteration":  # a mean or the like
            continue
        kind = run["name"].split("/")[1]
        result[kind] = max(result.get(kind, 0), run[KINDS[kind]])
    if result.keys() != KINDS.keys():
        raise BenchError(f"bench_kernels has no peaks with {threads} threads")
    return result
