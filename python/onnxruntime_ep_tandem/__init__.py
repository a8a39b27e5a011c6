"""Tandem: an ONNX Runtime execution provider on OpenVINO that keeps one copy of a model family's weights.

A first run is three lines:

    import onnxruntime_ep_tandem as tandem
    session = onnxruntime.InferenceSession("prefill.onnx", tandem.session_options())
    other = onnxruntime.InferenceSession("decode.onnx", tandem.session_options())   # the same weights in memory

And to compile them ahead of time, into two small models and one file of weights:

    tandem.compile(["prefill.onnx", "decode.onnx"], "compiled")

The package contains neither ONNX Runtime nor OpenVINO: it works with the `onnxruntime` (1.23 or later) and the
`openvino` that are installed beside it.
"""

import ctypes
import importlib.util
import json
import pathlib

from .bundles import compile

__all__ = [
    "compile",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "read_report",
    "register",
    "session_options",
]

_EP_NAME = "TandemExecutionProvider"
_LIBRARY = pathlib.Path(__file__).parent / "libonnxruntime_ep_tandem.so"
_REGISTRATION_NAME = "tandem"


def get_library_path():
    """Path of the library that `onnxruntime.register_execution_provider_library` takes.

    OpenVINO's libraries are loaded first when they are not where the library looks for them itself, beside this
    package: in a user's site-packages, say. Raises FileNotFoundError when the library or OpenVINO is missing.
    """
    if not _LIBRARY.exists():
        raise FileNotFoundError(f"'{_LIBRARY}' is missing: install the onnxruntime-ep-tandem wheel")
    _load_openvino()
    return str(_LIBRARY)


def get_ep_name():
    """Name of the execution provider."""
    return _EP_NAME


def get_ep_names():
    """Names of the library's execution providers."""
    return [_EP_NAME]


def register(registration_name=_REGISTRATION_NAME):
    """Registers the library with `onnxruntime`, if that was not done before, and returns its OrtEpDevices."""
    import onnxruntime

    if not _devices(onnxruntime):
        onnxruntime.register_execution_provider_library(registration_name, get_library_path())
    return _devices(onnxruntime)


def session_options(*, intra_op_num_threads=0, **options):
    """SessionOptions of `onnxruntime` that run a session on Tandem; `options` are Tandem's (docs/options.md).

    The library is registered if need be. Two settings differ from ONNX Runtime's defaults:

    - graph optimizations are off: OpenVINO does its own, and ONNX Runtime's fold constants, which takes weights away
      from the file that holds them;
    - `intra_op_num_threads`, if it is given, goes to Tandem too, as `num_of_threads`: ONNX Runtime does not tell a
      provider how many threads a session has.
    """
    import onnxruntime

    devices = register()
    if intra_op_num_threads:
        options.setdefault("num_of_threads", intra_op_num_threads)
    session = onnxruntime.SessionOptions()
    session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session.intra_op_num_threads = intra_op_num_threads
    session.add_provider_for_devices(devices, {name: str(value) for name, value in options.items()})
    return session


def read_report(file):
    """The report that sessions with the option `report_file` keep in `file`; docs/report.md describes it."""
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def _devices(onnxruntime):
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == _EP_NAME]


def _load_openvino():
    if (_LIBRARY.parent.parent / "openvino" / "libs").is_dir():
        return
    spec = importlib.util.find_spec("openvino")
    if spec is None:
        raise FileNotFoundError("OpenVINO is missing: pip install 'openvino==2026.4.*'")
    libraries = pathlib.Path(spec.submodule_search_locations[0]) / "libs"
    # A library that is loaded already is found by its name, wherever it came from.
    for pattern in ("libtbb.so.*", "libopenvino.so.*"):
        for library in sorted(libraries.glob(pattern)):
            ctypes.CDLL(str(library))
