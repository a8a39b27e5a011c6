"""Results do not depend on the instruction set of the kernels."""

import os
import subprocess
import sys

import pytest
from processes import HERE

NEEDED_FLAGS = {
    "portable": set(),
    "avx2": {"avx2", "fma", "f16c"},
    "avx_vnni": {"avx2", "fma", "f16c", "avx_vnni"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "avx512_vnni": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"},
    "amx": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "amx_tile", "amx_int8"},
}


def cpu_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next(set(line.split()) for line in file if line.startswith("flags"))


def supported():
    """From the slowest to the fastest, which is the default."""
    return [name for name, needed in NEEDED_FLAGS.items() if needed <= cpu_flags()]


def run_tests(isa, *files):
    """The tests of files of this folder, in a process whose kernels use `isa`."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *[HERE / file for file in files]]
    return subprocess.run(command, env={**os.environ, "TANDEM_ISA": isa}, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("isa", supported()[:-1])
def test_results_with_a_lesser_instruction_set(isa):
    result = run_tests(isa, "test_results.py", "test_quantized.py")
    assert result.returncode == 0, result.stdout[-5000:]
    assert " passed" in result.stdout


@pytest.mark.parametrize(
    ("isa", "message"),
    [
        ("sse9", "TANDEM_ISA=sse9: expected portable, avx2, avx_vnni, avx512, avx512_vnni or amx"),
        *[(isa, f"TANDEM_ISA={isa}: this machine lacks it") for isa in NEEDED_FLAGS if isa not in supported()],
    ],
)
def test_instruction_set_that_is_not_there_is_an_error(isa, message):
    result = run_tests(isa, "test_results.py::test_matmul")
    assert result.returncode == 1
    assert message in result.stdout
