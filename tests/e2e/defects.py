"""Marks of tests that fail for a defect which shows in several files. A mark goes with its defect."""

import pytest
from sessions import ORT_VERSION

unknown_rank_is_taken_for_a_scalar = pytest.mark.xfail(
    ORT_VERSION < (1, 24), strict=True, reason="a result of unknown rank is taken for a scalar before 1.24"
)
