"""Memory of this process, and page-aligned arrays in memory that no allocator shares."""

import ctypes
import gc
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PAGE_BYTES = mmap.PAGESIZE
ROLLUP = Path("/proc/self/smaps_rollup")


@dataclass(frozen=True)
class Reading:
    """Bytes that the process has in physical memory, or the difference of two such readings.

    `anonymous` is memory of its own. `resident` adds the pages of files that it has mapped and touched.
    """

    anonymous: int
    resident: int

    def __add__(self, other):
        return Reading(self.anonymous + other.anonymous, self.resident + other.resident)

    def __sub__(self, other):
        return Reading(self.anonymous - other.anonymous, self.resident - other.resident)


def read():
    """The Reading of now, after free memory went back to the system: Python's garbage and malloc's free pages."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    values = dict(line.split(":") for line in ROLLUP.read_text().splitlines()[1:])
    return Reading(_bytes(values["Anonymous"]), _bytes(values["Rss"]))


def file_pss(path):
    """The proportional set size of all mappings of a file, in bytes."""
    total, is_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if "-" in fields[0]:  # a mapping: range, permissions, offset, device, inode, path
            is_file = fields[-1] == str(path)
        elif is_file and fields[0] == "Pss:":
            total += int(fields[1]) * 1024
    return total


def zeros(arguments):
    """Zeroed arrays by name for `arguments`, (name, dtype, shape) each; every array starts on a page of its own.

    All are in one private mapping and every page of it is resident, so the arrays cost exactly what they take.
    """
    spans, end = [], 0
    for name, dtype, shape in arguments:
        size_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        spans.append((name, dtype, shape, end, size_bytes))
        end += -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
    memory = np.frombuffer(mmap.mmap(-1, end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    memory[...] = 0
    return {
        name: memory[start : start + size_bytes].view(dtype).reshape(shape)
        for name, dtype, shape, start, size_bytes in spans
    }


def _bytes(kilobytes):
    """The bytes of a value of smaps_rollup, such as ' 1234 kB'."""
    return int(kilobytes.split()[0]) * 1024
