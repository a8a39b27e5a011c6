"""Comparisons see what is different, in all types."""

import ml_dtypes
import numpy as np
import pytest
from values import assert_same, from_ort, to_ort

TYPES = [np.float32, np.int64, bool, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_values_pass_through_onnxruntime(dtype):
    array = np.array([[0, 1, 2], [1, 0, 1]]).astype(dtype)
    found = from_ort(to_ort(array))
    assert_same(found, array, 0, 0)
    with pytest.raises(AssertionError, match=r"1 of 6 elements differ, first at \[0, 1\]"):
        assert_same(found, np.array([[0, 0, found[0, 2]], [1, 0, 1]]).astype(dtype), 0, 0)


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        (np.zeros((1, 2)), np.zeros(2), "found shape"),
        (np.zeros(2), np.zeros(2, np.float32), "found float64"),
        ([np.zeros(2)], [np.zeros(2), np.zeros(2)], "found 1 values"),
        ([np.zeros(2)], None, "found a sequence"),
        (None, np.zeros(2), "found None"),
        (np.array([np.nan]), np.zeros(1), "1 of 1 elements"),
    ],
)
def test_differences(found, expected, message):
    with pytest.raises(AssertionError, match=message):
        assert_same(found, expected, 1e-3, 1e-7)


def test_what_is_not_a_number_in_both_is_the_same():
    assert_same(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), 0, 0)
