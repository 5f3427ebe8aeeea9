"""Laws: promises of nearly every exercise, checked by one call each inside an ordinary test of a suite.

A target is the name of a student's function or class, or the result of `student.function`, `student.module` or
`student.probe`. A law raises CheckFailed with a message that gives advice; `told` puts the suite's own
sentence before it. The modules are named after their subjects: `calls`, `modules`, `numerics`, `figures`.
`observation` finds the side effects of a call in the sandbox's `facts`; the `grader_probe` reports others.

    layer = student.module("GatedLinearUnit", 6, 5)
    laws.check_changes_nothing(student, layer, torch.randn(4, 6), call="forward")
"""

from grader.judge.checks.laws.calls import (
    check_changes_nothing,
    check_dtypes,
    check_errors,
    check_layouts,
    check_leading_dimensions,
    check_not_used,
    check_ordinary,
    check_restores,
    check_seeded,
    check_shapes,
    check_shares_no_memory,
    layouts_of,
)
from grader.judge.checks.laws.figures import (
    axes_of,
    check_axes,
    check_leaves_pyplot,
    figure_of,
    lines_of,
    points_of,
)
from grader.judge.checks.laws.modules import (
    check_epochs,
    check_filled,
    check_parameters,
    check_starts_random,
    check_starts_within,
    check_state_dict,
    dataset_of,
    epochs_of,
    parameter_named,
)
from grader.judge.checks.laws.numerics import (
    check_again_differentiable,
    check_applied,
    check_attached,
    check_declared,
    check_finite,
    check_float64,
    check_grad_fn,
    check_gradients,
    check_large_inputs,
    check_saved,
    gradient_at,
    gradients_again,
)
from grader.judge.checks.laws.observation import Observation, kinds_of, observe, same, shipped

__all__ = [
    "Observation",
    "axes_of",
    "check_again_differentiable",
    "check_applied",
    "check_attached",
    "check_axes",
    "check_changes_nothing",
    "check_declared",
    "check_dtypes",
    "check_epochs",
    "check_errors",
    "check_filled",
    "check_finite",
    "check_float64",
    "check_grad_fn",
    "check_gradients",
    "check_large_inputs",
    "check_layouts",
    "check_leading_dimensions",
    "check_leaves_pyplot",
    "check_not_used",
    "check_ordinary",
    "check_parameters",
    "check_restores",
    "check_saved",
    "check_seeded",
    "check_shapes",
    "check_shares_no_memory",
    "check_starts_random",
    "check_starts_within",
    "check_state_dict",
    "dataset_of",
    "epochs_of",
    "figure_of",
    "gradient_at",
    "gradients_again",
    "kinds_of",
    "layouts_of",
    "lines_of",
    "observe",
    "parameter_named",
    "points_of",
    "same",
    "shipped",
]
