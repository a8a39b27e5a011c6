"""The candidates of the benchmark behind one interface: each opens a form of the model as a session.

A candidate has `open(form)`. A session has `inputs` and `outputs`, lists of (name, dtype, shape); `bind(arrays)`,
once, with an array for each of them; and `run()`, which computes the output arrays from what the input arrays hold.
Libraries are imported when a candidate is made: a process has only those that its candidate needs.
"""

import json

import numpy as np

TANDEM, ORT_CPU = "tandem", "ort_cpu"
OPENVINO_CONSTANTS, OPENVINO_INPUTS = "openvino_constants", "openvino_inputs"
ORT_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


class OrtCpu:
    """ONNX Runtime's CPU provider with its default options."""

    def __init__(self, folder, converted, threads):
        import onnxruntime

        self._folder, self._threads, self._ort = folder, threads, onnxruntime
        onnxruntime.set_default_logger_severity(3)  # errors only

    def open(self, form):
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        return OrtSession(self._session(form, options, providers=["CPUExecutionProvider"]))

    def _session(self, form, options, **more):
        return self._ort.InferenceSession(self._folder / f"{form}.onnx", options, **more)


class Tandem(OrtCpu):
    """Tandem, as its documentation says."""

    def __init__(self, folder, converted, threads):
        import onnxruntime_ep_tandem

        super().__init__(folder, converted, threads)
        self._tandem = onnxruntime_ep_tandem
        self._tandem.register()

    def open(self, form, **options):
        """Opens a session; `options` are Tandem's."""
        session_options = self._tandem.session_options(intra_op_num_threads=self._threads, **options)
        return OrtSession(self._session(form, session_options))


class OpenVinoConstants:
    """OpenVINO with the weights as constants of the model, in f32 arithmetic.

    Dynamic quantization of activations stays as OpenVINO sets it, on: it concerns int4 weights, where it is fast.
    """

    def __init__(self, folder, converted, threads):
        import openvino

        self._folder, self._openvino, self._core = folder, openvino, openvino.Core()
        self._properties = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
        }

    def open(self, form):
        return OpenVinoSession(self._openvino, self._compile(self._folder / f"{form}.onnx"))

    def _compile(self, path):
        return self._core.compile_model(self._core.read_model(path), "CPU", self._properties)


class OpenVinoInputs(OpenVinoConstants):
    """OpenVINO with the weights as inputs of the model, bound once to one mapping of the file that holds them.

    `converted` has what preparation.convert() writes.
    """

    def __init__(self, folder, converted, threads):
        super().__init__(folder, converted, threads)
        self._converted = converted
        # Private and writable, as OpenVINO asks for; nobody writes, so the pages stay those of the file.
        self._data = np.memmap(folder / "weights.data", mode="c")

    def open(self, form):
        compiled = self._compile(self._converted / f"{form}.onnx")
        spans = json.loads((self._converted / f"{form}.json").read_text())
        weights = {name: self._weight(compiled.input(name), *span) for name, span in spans.items()}
        return OpenVinoSession(self._openvino, compiled, weights)

    def _weight(self, port, offset_bytes, size_bytes):
        """A tensor over the file's bytes, without a copy."""
        data = self._data[offset_bytes : offset_bytes + size_bytes]
        if port.element_type.bitwidth < 8:
            return self._openvino.Tensor(data, port.shape, port.element_type)
        array = data.view(port.element_type.to_dtype()).reshape(list(port.shape))
        return self._openvino.Tensor(array, shared_memory=True)


class OrtSession:
    """A session of ONNX Runtime with bound inputs and outputs; several may be made of one InferenceSession.

    Dynamic dimensions are names.
    """

    def __init__(self, session):
        self._session, self._binding = session, session.io_binding()
        self.inputs = [_ort_argument(argument) for argument in session.get_inputs()]
        self.outputs = [_ort_argument(argument) for argument in session.get_outputs()]

    def bind(self, arrays):
        for names, bind in ((self.inputs, self._binding.bind_input), (self.outputs, self._binding.bind_output)):
            for name, dtype, _ in names:
                bind(name, "cpu", 0, dtype, arrays[name].shape, arrays[name].ctypes.data)

    def run(self):
        self._session.run_with_iobinding(self._binding)


class OpenVinoSession:
    """An infer request of OpenVINO with bound inputs and outputs. `weights`: tensors by name, bound here.

    Dynamic dimensions are None.
    """

    def __init__(self, openvino, compiled, weights=None):
        self._openvino, self._request = openvino, compiled.create_infer_request()
        self._weights = weights or {}
        for name, tensor in self._weights.items():
            self._request.set_tensor(name, tensor)
        self.inputs = [_openvino_argument(port) for port in compiled.inputs if port.any_name not in self._weights]
        self.outputs = [_openvino_argument(port) for port in compiled.outputs]

    def bind(self, arrays):
        for name, _, _ in (*self.inputs, *self.outputs):
            self._request.set_tensor(name, self._openvino.Tensor(arrays[name], shared_memory=True))

    def run(self):
        self._request.infer(share_inputs=True, share_outputs=True)


CANDIDATES = {
    TANDEM: Tandem,
    ORT_CPU: OrtCpu,
    OPENVINO_CONSTANTS: OpenVinoConstants,
    OPENVINO_INPUTS: OpenVinoInputs,
}


def _ort_argument(argument):
    return argument.name, ORT_TYPES[argument.type], argument.shape


def _openvino_argument(port):
    return port.any_name, port.element_type.to_dtype(), [_openvino_size(size) for size in port.partial_shape]


def _openvino_size(size):
    """None if dynamic; the upper bound if there is one: OpenVINO gives 0..1 for a single row that a Slice takes."""
    if size.is_static:
        return size.get_length()
    return size.max_length if 0 < size.max_length < 2**31 else None
