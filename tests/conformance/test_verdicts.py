"""When a verdict is worse than the one on record."""

import pytest
from verdicts import ALL, PART, Verdict
from worker import CRASH, PASSED, REFUSED, WRONG


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        (Verdict(ALL, PASSED), False),
        (Verdict(PART, PASSED), True),
        (Verdict(ALL, WRONG), True),
        (Verdict(ALL, WRONG, onnxruntime=REFUSED), False),
        (Verdict(ALL, CRASH, onnxruntime=REFUSED), True),
    ],
)
def test_worse_than_passed(now, is_worse):
    assert now.is_worse_than(Verdict(ALL, PASSED)) == is_worse
