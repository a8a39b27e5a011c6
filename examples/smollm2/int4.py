"""Symmetric 4-bit block quantization, and the two layouts in which ONNX models keep the result."""

import numpy as np

BLOCK = 32  # consecutive input features that share a scale
ROWS_AT_ONCE = 4096  # bounds the temporary arrays


def quantize(matrix):
    """Quantizes f32 [outputs, inputs] in blocks of BLOCK inputs.

    Returns int8 [outputs, inputs], from -8 to 7, and f32 scales [outputs, inputs / BLOCK] so that
    matrix is about values * scales. The value of largest magnitude in a block becomes exactly -8.
    """
    outputs, inputs = matrix.shape
    values = np.empty((outputs, inputs), np.int8)
    scales = np.empty((outputs, inputs // BLOCK), np.float32)
    for start in range(0, outputs, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        blocks = matrix[rows].reshape(-1, inputs // BLOCK, BLOCK)
        largest = np.abs(blocks).argmax(axis=-1, keepdims=True)
        scale = np.take_along_axis(blocks, largest, axis=-1) / -8
        scale[scale == 0] = 1
        values[rows] = np.clip(np.rint(blocks / scale), -8, 7).reshape(-1, inputs)
        scales[rows] = scale[..., 0]
    return values, scales


def pack_for_dequantize_linear(values, scales):
    """Layout of ONNX INT4 with shape [inputs, outputs], to be dequantized along axis 0.

    Returns uint8 [inputs, outputs / 2], the lower output in the low half, and scales [inputs / BLOCK, outputs].
    """
    nibbles = np.ascontiguousarray(values.T).view(np.uint8) & 0x0F
    return _pack_pairs(nibbles), np.ascontiguousarray(scales.T)


def pack_for_matmul_nbits(values, scales):
    """Layout of MatMulNBits, which adds a zero point of 8.

    Returns uint8 [outputs, inputs / BLOCK, BLOCK / 2], the lower input in the low half, and scales as they are.
    """
    nibbles = (values + 8).view(np.uint8)
    return _pack_pairs(nibbles).reshape(len(values), -1, BLOCK // 2), scales


def _pack_pairs(nibbles):
    return nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)
