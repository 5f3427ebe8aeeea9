"""Small examples for TorchScript, torch.export and ONNX."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, assert_equal, promise
from grader.judge.student import Student

BATCHES = [torch.tensor([[3.0], [-1.0]]), torch.tensor([[-3.0], [1.0]]), torch.tensor([[2.0]])]
ROUTED = [2 * BATCHES[0], -BATCHES[1], 2 * BATCHES[2]]


@promise("BranchFreeRouter", hint="torch.where takes the decision as a tensor.")
def test_example_router(student: Student) -> None:
    """Batches with a mean above 0 are doubled, others negated, each as a whole."""
    value = student.run("outputs", "BranchFreeRouter", BATCHES)
    assert_close(value, ROUTED, what="BranchFreeRouter")


@promise("to_torchscript", hint="A trace keeps the branch of its example: script the model.")
def test_example_script(student: Student) -> None:
    """The scripted router keeps both branches."""
    value = student.run("outputs", "to_torchscript", BATCHES)
    assert_close(value, ROUTED, what="the scripted router")


@promise("to_exported", hint="Eval mode, two rows, and dynamic_shapes for dimension 0.")
def test_example_exported(student: Student) -> None:
    """A dropout, exported from one row in train mode, returns batches of any size unchanged."""
    value = student.run("outputs", "to_exported", BATCHES)
    assert_close(value, BATCHES, what="the exported nn.Dropout")


@promise(
    "largest_difference",
    hint="Compare shapes first; then the largest absolute difference, where NaN counts as inf.",
)
def test_example_difference(student: Student) -> None:
    """[1, 2] and [1.5, 0] differ by 2; for different shapes and NaN the difference is infinity."""
    x = torch.tensor([1.0, 2.0])
    what = "largest_difference"
    y = torch.tensor([1.5, 0.0])
    assert_close(student.run("difference", x, y), 2.0, what=what)
    assert_close(student.run("difference", x, x[:1]), math.inf, what=what)
    assert_close(student.run("difference", x, x * math.nan), math.inf, what=what)


@promise("to_onnx", hint="input_names, output_names and dynamic_axes of torch.onnx.export.")
def test_example_onnx(student: Student) -> None:
    """The ONNX model has the input features, the output logits, and no fixed batch size."""
    what = "the names of input and output, and whether the batch size of each is fixed,"
    assert_equal(student.run("onnx_inputs"), ["features", "logits", False, False], what=what)
