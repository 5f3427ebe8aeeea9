"""Small examples for gradient_norms, first_non_finite, watch_gradients and backward_nan."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

X = torch.tensor([[3.0, 1.0]])


@promise(
    "gradient_norms",
    hint="for name, parameter in model.named_parameters(), with the L2 norm of parameter.grad",
)
def test_example_norms(student: Student) -> None:
    """Gradients [[3, 1], [3, 1]], none, [[5, 5]] and [1] have the norms sqrt(20), None, sqrt(50), 1."""
    norms = {"0.weight": 20**0.5, "0.bias": None, "2.0.weight": 50**0.5, "2.0.bias": 1.0}
    report = student.run("norms", X)
    assert_close(report, norms, what="the dict", rtol=1e-5, atol=1e-6)


@promise(
    "first_non_finite",
    points=2,
    hint="Make each hook in a function that takes its name, and look at the output in the hook.",
)
def test_example_first(student: Student) -> None:
    """With a NaN in the last bias, "2.0" is the first module; in the first bias, "0"; without a NaN, None."""
    for spoiled, right in (("2.0.bias", "2.0"), ("", None), ("0.bias", "0")):
        report = student.run("first", spoiled, X)
        what = f"first_non_finite with a NaN in {spoiled or 'nothing'}"
        assert_equal(entry(report, "value"), right, what=what)
        assert_equal(entry(report, "left"), 0, what="the number of hooks left afterwards")


@promise(
    "watch_gradients",
    points=2,
    hint="parameter.register_hook(hook), and raise in the hook; remove it in a finally.",
)
def test_example_watch(student: Student) -> None:
    """A loss times NaN raises in the backward pass and names 2.0.weight or 2.0.bias; one times 1 does not."""
    report = student.run("watched", float("nan"), X)
    text = entry(report, "text")
    assert text is not None, "The gradients are NaN, and no RuntimeError is raised in the block."
    first = "2.0.weight or 2.0.bias, whose gradients come first"
    assert "2.0." in str(text), f"The message {str(text)[:80]!r} does not name {first}."
    assert_equal(entry(report, "left"), 0, what="the number of hooks left after the error")
    report = student.run("watched", 1.0, X)
    assert_equal(entry(report, "text"), None, what="the error for finite gradients")
    assert_equal(entry(report, "left"), 0, what="the number of hooks left after the block")


@promise(
    "backward_nan",
    points=2,
    hint="torch.autograd.set_detect_anomaly(True) as a context; the error's message has the name.",
)
def test_example_backward(student: Student) -> None:
    """For (x.sqrt() * 0).sum() at 0 the result is SqrtBackward0, and anomaly detection is off afterwards."""
    report = student.run("backward", torch.tensor([0.0, 4.0]))
    assert_equal(entry(report, "value"), "SqrtBackward0", what="backward_nan of the loss")
    assert_equal(entry(report, "mode"), False, what="the anomaly mode afterwards")
