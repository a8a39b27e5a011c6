"""What a measurement was made on: the machine and the versions of what ran."""

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "tandem": "onnxruntime-ep-tandem",
    "onnxruntime-genai": "onnxruntime-genai",
    "numpy": "numpy",
}
INSTRUCTIONS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")


def cores():
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine():
    """CPU, cores, memory in bytes, kernel and load average, as a dictionary for JSON."""
    info = dict(_fields("/proc/cpuinfo"))
    flags = info.get("flags", "").split()
    return {
        "cpu": info.get("model name", platform.machine()),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "cores": cores(),
        "memory_bytes": int(dict(_fields("/proc/meminfo"))["MemTotal"].split()[0]) * 1024,
        "kernel": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg()[0],
    }


def versions():
    """Versions by name; a package that is not installed is 'absent'."""
    return {"python": platform.python_version()} | {name: _version(package) for name, package in PACKAGES.items()}


def versions_in(folder):
    """Versions of the packages in a folder, by name."""
    return {found.name: found.version for found in metadata.distributions(path=[str(folder)])}


def describe(machine, versions):
    """Two lines for a person: the machine, and the versions."""
    gigabytes = machine["memory_bytes"] / 1e9
    return (
        f"machine   {machine['cpu']}, {machine['cores']} cores ({' '.join(machine['instructions'])}), "
        f"{gigabytes:.1f} GB, {machine['kernel']}, load {machine['load_average']:.1f} at the start\n"
        f"versions  {', '.join(f'{name} {version}' for name, version in versions.items())}"
    )


def _fields(path):
    """Name and value of each line 'name : value' of a file; of the last CPU, if there are several."""
    for line in Path(path).read_text().splitlines():
        name, separator, value = line.partition(":")
        if separator:
            yield name.strip(), value.strip()


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
