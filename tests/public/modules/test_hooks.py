"""Small examples for trace_shapes, capture_activations and capture_gradients."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, must_raise, promise
from grader.judge.student import Student

X = torch.tensor([[3.0, 1.0]])


@promise(
    "trace_shapes",
    points=3,
    hint="register_forward_hook on each module without children, then model(x).",
)
def test_example_shapes(student: Student) -> None:
    """For x (5, 2), nn.Sequential(Linear(2, 3), ReLU, Linear(3, 1)) gives three names and shapes."""
    report = student.run("listed", student.made("model"), torch.ones(5, 2))
    right = [("0", (5, 3)), ("1", (5, 3)), ("2", (5, 1))]
    assert_equal(entry(report, "shapes"), right, what="the result")
    assert_equal(entry(report, "left"), 0, what="the number of hooks left afterwards")


@promise("capture_activations", points=3, hint="activations[name] = output.detach().clone()")
def test_example_activations(student: Student) -> None:
    """For x = [3, 1] layer 0 returns [2, 6, -1], and the ReLU after it, which works in place, [2, 6, 0]."""
    model = student.made("model", in_place=True)
    report = student.run("captured", "capture_activations", model, ["0", "1"], X)
    right = {"0": torch.tensor([[2.0, 6.0, -1.0]]), "1": torch.tensor([[2.0, 6.0, 0.0]])}
    told = "No gradient reaches layer 0 in the block: a hook has to return nothing."
    assert entry(report, "reached") is True, told
    assert_close(entry(report, "values"), right, what="the dict of activations")
    assert entry(report, "graph") == [False, False], (
        "The values keep the graph in memory: detach them."
    )
    assert_equal(entry(report, "left"), 0, what="the number of hooks left after the block")


@promise(
    "capture_gradients",
    points=3,
    hint="register_full_backward_hook calls hook(module, grad_input, grad_output).",
)
def test_example_gradients(student: Student) -> None:
    """The gradient of the output's sum is [1, 1, 1] at the ReLU's output, and [1] at the output."""
    report = student.run("captured", "capture_gradients", student.made("model"), ["1", "2"], X)
    right = {"1": torch.ones(1, 3), "2": torch.ones(1, 1)}
    assert_close(entry(report, "values"), right, what="the dict of gradients")
    assert_equal(entry(report, "left"), 0, what="the number of hooks left after the block")


@promise(
    "capture_activations", hint="try: yield activations finally: handle.remove() for each handle"
)
def test_example_activation_hooks(student: Student) -> None:
    """A block that raises leaves no hook behind, and the exception passes through."""
    check_interrupted(student, "capture_activations")


@promise(
    "capture_activations",
    hint="Look each name up in dict(model.named_modules()) before you register a hook.",
)
def test_example_activation_names(student: Student) -> None:
    """A name that the model does not have is a ValueError that contains the name."""
    check_unknown(student, "capture_activations")


@promise("capture_gradients", hint="try: yield gradients finally: handle.remove() for each handle")
def test_example_gradient_hooks(student: Student) -> None:
    """A block that raises leaves no hook behind, and the exception passes through."""
    check_interrupted(student, "capture_gradients")


@promise(
    "capture_gradients",
    hint="Look each name up in dict(model.named_modules()) before you register a hook.",
)
def test_example_gradient_names(student: Student) -> None:
    """A name that the model does not have is a ValueError that contains the name."""
    check_unknown(student, "capture_gradients")


def check_interrupted(student: Student, name: str) -> None:
    report = student.run("interrupted", name, student.made("model"), X)
    names = [str(key) for key in entry(report, "values", kind=dict)]
    assert_equal(names, ["0"], what="the list of the names in the dict")
    assert_equal(entry(report, "left"), 0, what="the number of hooks after a block that raised")
    told = "The block's exception disappears: let it pass through."
    assert entry(report, "came out") is True, told


def check_unknown(student: Student, name: str) -> None:
    with must_raise(ValueError, mentions="nope", call=f'{name}(model, ["nope"])'):
        student.run("captured", name, student.made("model"), ["nope"], X)
