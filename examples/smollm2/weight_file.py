"""The external data file that all the models of a folder read. Every weight is written once."""

import numpy as np
import onnx
from onnx import helper

FILE_NAME = "weights.data"
ALIGNMENT_BYTES = 4096


class WeightFile:
    """Writes weights one after the other and keeps, for each, the ONNX record that refers to it.

    Use it as a context manager: the file is complete when the block ends.
    """

    def __init__(self, folder):
        self.path = folder / FILE_NAME
        self._records = {}

    def __enter__(self):
        self._file = open(self.path, "xb")
        return self

    def __exit__(self, *_):
        self._file.close()

    def __contains__(self, name):
        return name in self._records

    def record(self, name):
        """The TensorProto of the weight `name`: type, shape, offset and length, without the data."""
        return self._records[name]

    def add(self, name, array, element_type=None, shape=None):
        """Appends `array` as the weight `name`, at the next multiple of ALIGNMENT_BYTES.

        `element_type` and `shape` describe data that numpy has no type for, such as packed INT4.
        """
        assert name not in self._records, name
        offset_bytes = -(-self._file.tell() // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._file.seek(offset_bytes)
        self._file.write(np.ascontiguousarray(array).data)

        record = onnx.TensorProto(name=name, data_location=onnx.TensorProto.EXTERNAL)
        record.data_type = element_type or helper.np_dtype_to_tensor_dtype(array.dtype)
        record.dims.extend(shape or array.shape)
        for key, value in (("location", FILE_NAME), ("offset", offset_bytes), ("length", array.nbytes)):
            record.external_data.add(key=key, value=str(value))
        self._records[name] = record
