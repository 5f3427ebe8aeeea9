"""The checks of a suite: each one holds, or raises CheckFailed with a message for the student.

Suites call the `assertions` and the `laws`. `comparison` finds where two values
differ, `explanation` says what that means (of numbers by `relations`, of shapes and dtypes by `shapes`) in
the words of `wording`; `reports` reads what a probe reports.
"""

from grader.judge.checks import laws
from grader.judge.checks.assertions import assert_close, assert_equal, assert_tensor, must_raise
from grader.judge.checks.reports import entry, fields

__all__ = [
    "assert_close",
    "assert_equal",
    "assert_tensor",
    "entry",
    "fields",
    "laws",
    "must_raise",
]
