"""examples/cpp, built against ONNX Runtime as a C++ user has it, generates what its CPU provider generates."""

import re
import shutil
import subprocess
from pathlib import Path

import onnxruntime
import onnxruntime_ep_tandem as tandem
import pytest
from generate import Pair
from llm import PROMPT
from sessions import ORT_VERSION, cpu_session

ROOT = Path(__file__).parents[2]
DEPENDENCIES = ROOT / "build" / "deps" / "usr"
NEW_TOKENS = 6


def headers_version():
    """The ONNX Runtime version of the headers that tools/bootstrap.py unpacked; (0, 0) if the system's are used."""
    header = DEPENDENCIES / "include" / "onnxruntime" / "onnxruntime_c_api.h"
    found = re.search(r"#define ORT_API_VERSION (\d+)", header.read_text()) if header.exists() else None
    return 1 if found else 0, int(found[1]) if found else 0


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The program, and a prefix as Debian's development package and a library make one."""
    if not (0, 0) < headers_version() <= ORT_VERSION:
        pytest.skip("needs headers that are not newer than this ONNX Runtime")
    folder = tmp_path_factory.mktemp("cpp")
    prefix, build = folder / "prefix", folder / "build"
    (config,) = DEPENDENCIES.glob("lib/*/cmake/onnxruntime")
    libraries = prefix / config.relative_to(DEPENDENCIES).parents[1]
    shutil.copytree(config, libraries / "cmake" / "onnxruntime")
    (prefix / "include").mkdir()
    (prefix / "include" / "onnxruntime").symlink_to(DEPENDENCIES / "include" / "onnxruntime")
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    imported = re.search(r"libonnxruntime\.so\.[\d.]+", (config / "onnxruntimeTargets-release.cmake").read_text())
    for name in {imported[0], "libonnxruntime.so.1"}:
        (libraries / name).symlink_to(library)
    for command in (
        ["cmake", "-S", ROOT / "examples" / "cpp", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", build],
    ):
        subprocess.run(command, check=True)
    return build / "generate"


def generate(example, *arguments):
    command = [example, tandem.get_library_path(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("weights", ["f32", "int4"])
def test_tokens_are_those_of_the_cpu_provider(example, exports, weights):
    sessions = [cpu_session(exports.model(weights, "plain", form)) for form in ("prefill", "decode")]
    expected = list(Pair(*sessions).generate(PROMPT, NEW_TOKENS))
    result = generate(example, exports.folder(weights, "plain"), NEW_TOKENS, *PROMPT)
    assert result.returncode == 0, result.stderr
    assert list(map(int, result.stdout.split())) == expected


def test_errors_are_told(example, exports, tmp_path):
    assert "usage: generate" in generate(example).stderr
    missing = generate(example, tmp_path, NEW_TOKENS, *PROMPT)
    assert missing.returncode == 1
    assert "prefill.onnx" in missing.stderr
    crowded = generate(example, exports.folder("f32", "plain"), 1000, *PROMPT)
    assert crowded.returncode == 2
    assert "room for 128 tokens" in crowded.stderr
