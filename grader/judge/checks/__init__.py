"""The checks of a suite: each one holds, or raises CheckFailed with a message for the student.

Suites call the `assertions` and the `laws`. `comparison` finds where two values differ, and `explanation` says
what that means (of numbers by `relations`) in the words of `wording`.
"""

from grader.judge.checks import laws
from grader.judge.checks.assertions import (
    assert_close,
    assert_equal,
    assert_tensor,
    entry,
    fields,
    must_raise,
)

__all__ = [
    "assert_close",
    "assert_equal",
    "assert_tensor",
    "entry",
    "fields",
    "laws",
    "must_raise",
]
