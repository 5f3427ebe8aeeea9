"""The checks of a suite: each one holds, or raises CheckFailed with a message for the student.

`assertions` and `gradients` are called by suites, and so are the `laws`. `comparison` finds where two values
differ, `explanation` says what that means (of numbers by `relations`, of shapes and dtypes by `shapes`) in
the words of `wording`; `formulas` makes known mistakes of a formula, and `reports` reads what a probe
reports.
"""

from grader.judge.checks import laws
from grader.judge.checks.assertions import assert_close, assert_equal, assert_tensor, must_raise
from grader.judge.checks.formulas import fitted_constants, fitted_terms, formula_mistakes
from grader.judge.checks.gradients import gradcheck, gradgradcheck
from grader.judge.checks.reports import entry, fields

__all__ = [
    "assert_close",
    "assert_equal",
    "assert_tensor",
    "entry",
    "fields",
    "fitted_constants",
    "fitted_terms",
    "formula_mistakes",
    "gradcheck",
    "gradgradcheck",
    "laws",
    "must_raise",
]
