"""The checks of a suite: each one holds, or raises CheckFailed with a message for the student."""

from grader.judge.checks.assertions import assert_close, assert_equal, assert_tensor, must_raise
from grader.judge.checks.figures import (
    axes_of,
    check_axes,
    check_leaves_pyplot,
    figure_of,
    lines_of,
)
from grader.judge.checks.gradients import gradcheck, gradgradcheck
from grader.judge.checks.laws import (
    check_changes_nothing,
    check_errors,
    check_layouts,
    check_leading_dimensions,
    check_not_used,
    check_ordinary,
    check_pickles,
    check_restores,
    check_seeded,
    check_shapes,
    check_shares_no_memory,
)
from grader.judge.checks.loaders import check_epochs, dataset_of, epochs_of
from grader.judge.checks.modules import (
    check_filled,
    check_modes_inside,
    check_parameters,
    check_state_dict,
)
from grader.judge.checks.numerics import (
    attached,
    check_finite,
    check_float64,
    check_gradients,
    check_large_inputs,
    check_smooth,
)
from grader.judge.checks.observation import Observation, observe, shipped
from grader.judge.checks.reports import entry, fields

__all__ = [
    "Observation",
    "assert_close",
    "assert_equal",
    "assert_tensor",
    "attached",
    "axes_of",
    "check_axes",
    "check_changes_nothing",
    "check_epochs",
    "check_errors",
    "check_filled",
    "check_finite",
    "check_float64",
    "check_gradients",
    "check_large_inputs",
    "check_layouts",
    "check_leading_dimensions",
    "check_leaves_pyplot",
    "check_modes_inside",
    "check_not_used",
    "check_ordinary",
    "check_parameters",
    "check_pickles",
    "check_restores",
    "check_seeded",
    "check_shapes",
    "check_shares_no_memory",
    "check_smooth",
    "check_state_dict",
    "dataset_of",
    "entry",
    "epochs_of",
    "fields",
    "figure_of",
    "gradcheck",
    "gradgradcheck",
    "lines_of",
    "must_raise",
    "observe",
    "shipped",
]
