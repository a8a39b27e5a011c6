"""Sessions on Tandem and on ONNX Runtime's CPU provider, and comparisons of what they compute."""

import numpy as np
import onnxruntime
import onnxruntime_ep_tandem as tandem

ORT_VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
WHOLE_GRAPH = "session.disable_cpu_ep_fallback"
DATA_FOLDER = "session.model_external_initializers_file_folder_path"


def tandem_session(model, *, whole=True, optimized=False, entries=None, **options):
    """A session on Tandem; a failure is never hidden by a fallback. `model` is a path, bytes or a models.Model.

    `whole`: it is an error if a node is left to another provider. `optimized`: with ONNX Runtime's optimizations.
    `entries` are configuration entries of the session, `options` Tandem's; activations are f32 unless these say else.
    """
    settings = tandem.session_options(**{"activation_precision": "f32"} | options)
    if optimized:
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if whole:
        settings.add_session_config_entry(WHOLE_GRAPH, "1")
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, str(value))
    return onnxruntime.InferenceSession(_source(model), settings, enable_fallback=0)


def cpu_session(model, entries=None):
    """A session on ONNX Runtime's own provider that computes what the model says, without optimizations."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, str(value))
    return onnxruntime.InferenceSession(_source(model), settings, providers=["CPUExecutionProvider"])


def run(session, **feeds):
    """The outputs by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def run_bound(session, inputs, outputs):
    """Runs with the memory of arrays as inputs and outputs, by name. Returns the binding, which can run again."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)
    return binding


def assert_close(found, expected, tolerance=2e-6):
    """Same type and shape, and as close as `tolerance` times the largest finite expected value."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    scale = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def assert_same_outputs(found, expected, tolerance=2e-6):
    """For the outputs of two sessions, by name."""
    assert found.keys() == expected.keys()
    for name in expected:
        assert_close(found[name], expected[name], tolerance)


class Report:
    """The report that sessions keep in `file`."""

    def __init__(self, file):
        self.file = file

    def read(self):
        return tandem.read_report(self.file)

    @property
    def process(self):
        return self.read()["process"]

    @property
    def sessions(self):
        return self.read()["sessions"]

    @property
    def last(self):
        """The session that came last."""
        return self.sessions[-1]

    def forms(self, weight):
        """The forms in which the last session has a weight, by its name in the model."""
        return {entry["form"] for entry in self.last["weights"] if entry["name"] == weight}

    def declined(self):
        """Reasons of the last session's declined nodes, by operator."""
        return {node["op_type"]: node["reason"] for node in self.last["nodes"]["declined"]}


def _source(model):
    return model.bytes() if hasattr(model, "bytes") else model
