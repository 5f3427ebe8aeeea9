"""Small examples for RMSNorm, which students may read."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_tensor, laws, promise
from grader.judge.student import Student

X = torch.tensor([[3.0, 4.0], [6.0, -8.0]])


@promise("RMSNormFunction.forward", hint="The mean squares are 12.5 and 50: divide by their roots.")
def test_example(student: Student) -> None:
    """[3, 4] and [6, -8] are divided by the roots of 12.5 and 50, and become equally long."""
    right = torch.tensor([[0.848528, 1.131371], [0.848528, -1.131371]])
    assert_close(student.function("rms_norm")(X, torch.ones(2)), right, rtol=1e-4, atol=1e-4)


@promise(
    "RMSNormFunction.backward",
    hint="r * (g - n * mean(g * n)), with n = x * r and g = grad_output * weight.",
    after="test_example",
)
def test_example_gradient(student: Student) -> None:
    """For the incoming gradient [1, 0], the gradient at [3, 4] is orthogonal to [3, 4]."""
    x = X[:1].clone().requires_grad_()
    output = assert_tensor(student.function("rms_norm")(x, torch.ones(2)), shape=(1, 2))
    laws.check_attached(output)
    (gradient,) = torch.autograd.grad(output[0, 0], x, allow_unused=True)
    right = torch.tensor([[0.181019, -0.135765]])
    assert_close(gradient, right, what="the gradient at [3, 4]", rtol=1e-4, atol=1e-4)
