"""Arrays and ONNX Runtime's values: also of types that its Python package neither takes nor gives, and comparisons."""

import ctypes

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

BFLOAT16_RTOL = 2**-6  # as the onnx package's runner has it: two units in the last place


def is_foreign(value):
    """Whether NumPy lacks the type: bfloat16 and floats of 8 bits or less, integers of less than 8 bits."""
    return isinstance(value, np.ndarray) and value.dtype.isbuiltin > 1


def to_ort(array):
    if not is_foreign(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    tensor = numpy_helper.from_array(array)
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def from_ort(value):
    if not value.is_tensor() or not is_foreign_type(value.element_type()):
        return value.numpy()
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(onnx.TensorProto(dims=value.shape(), data_type=value.element_type(), raw_data=data))


def is_foreign_type(element_type):
    return is_foreign(np.empty(0, onnx.helper.tensor_dtype_to_np_dtype(element_type)))


def assert_same(found, expected, rtol, atol):
    """As the onnx package's runner compares. Sequences, and all outputs of a model, are lists; nothing is None."""
    if isinstance(found, list):
        assert isinstance(expected, list | tuple), f"found a sequence, expected {expected}"
        assert len(found) == len(expected), f"found {len(found)} values, expected {len(expected)}"
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, rtol, atol)
        return
    if found is None or expected is None:
        assert found is expected, f"found {found}, expected {expected}"
        return
    expected = np.asarray(expected)
    assert found.shape == expected.shape, f"found shape {list(found.shape)}, expected {list(expected.shape)}"
    if expected.dtype.kind in "OUS":
        np.testing.assert_array_equal(found.astype(str), expected.astype(str))
        return
    assert found.dtype == expected.dtype, f"found {found.dtype}, expected {expected.dtype}"
    if is_foreign(expected):
        rtol = max(rtol, BFLOAT16_RTOL) if expected.dtype.name == "bfloat16" else rtol
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    is_close = np.isclose(found, expected, rtol, atol, equal_nan=True)
    if not is_close.all():
        place = tuple(int(i) for i in np.argwhere(~is_close)[0])
        count = f"{np.count_nonzero(~is_close)} of {is_close.size} elements differ"
        raise AssertionError(f"{count}, first at {list(place)}: found {found[place]}, expected {expected[place]}")
