"""The checks of a suite. Each returns, or raises CheckFailed with a message for the student.

A test is a `promise`, with random inputs from `draw`. It compares with the solution, or calls the `assertions`
and the `laws`. `comparison` finds where two values differ, and `explanation` interprets the difference (for
numbers, by `relations`) in the words of `wording`.
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
from grader.judge.checks.draw import Draw
from grader.judge.checks.promise import (
    Cases,
    any_dtype,
    any_gradients,
    exactly,
    promise,
    raises,
    unordered,
    within,
)

__all__ = [
    "Cases",
    "Draw",
    "any_dtype",
    "any_gradients",
    "assert_close",
    "assert_equal",
    "assert_tensor",
    "entry",
    "exactly",
    "fields",
    "laws",
    "must_raise",
    "promise",
    "raises",
    "unordered",
    "within",
]
