"""Small examples for FlashAttention, which students may read."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student

# Scores of 0 and log(3): the weights are 1/4 and 3/4, from sums of 1 and 3.
Q, K, V = (
    torch.tensor([[1.0]]),
    torch.tensor([[0.0], [math.log(3)]]),
    torch.tensor([[10.0], [20.0]]),
)
NO_PAIR = "flash_forward does not return a pair: the output, and the logarithms."
NO_TRIPLE = "flash_backward does not return three gradients: one each for q, k and v."


@promise(
    "flash_forward",
    hint="After the first key: sum 1 and output 10. The second makes both a third first.",
)
def test_example(student: Student) -> None:
    """For weights 1/4 and 3/4 of 10 and 20 the output is 17.5, with one tile or with two."""
    for block in (2, 1):
        answer = student.function("flash_forward")(Q, K, V, block, False)
        output, logarithms = entry(answer, kind=(tuple, list), count=2, told=NO_PAIR)
        what = f"for block = {block}"
        assert_close(output, torch.tensor([[17.5]]), what=f"the output {what}", rtol=1e-4)
        assert_close(logarithms, torch.tensor([math.log(4)]), what=f"L {what}", rtol=1e-4)


@promise("flash_backward", hint="P is 1/4 and 3/4, dP is 10 and 20, D is 17.5.")
def test_example_gradients(student: Student) -> None:
    """The gradients of the same example, with one tile or with two."""
    one, output, logarithms = torch.ones(1, 1), torch.tensor([[17.5]]), torch.tensor([math.log(4)])
    rights = [[[1.875 * math.log(3)]], [[-1.875], [1.875]], [[0.25], [0.75]]]
    for block in (2, 1):
        answer = student.function("flash_backward")(one, Q, K, V, output, logarithms, block, False)
        gradients = entry(answer, kind=(tuple, list), count=3, told=NO_TRIPLE)
        for name, gradient, right in zip("qkv", gradients, rights, strict=True):
            what = f"the gradient of {name} for block = {block}"
            assert_close(gradient, torch.tensor(right), what=what, rtol=1e-4, atol=1e-5)


@promise(
    "FlashAttention", hint="FlashAttention.apply calls forward, and backward() calls backward."
)
def test_example_function(student: Student) -> None:
    """flash_attention gives 17.5, and the gradient of q is 1.875 * log(3)."""
    q = Q.clone().requires_grad_()
    output = student.function("flash_attention")(q, K, V, 1, False)
    assert_close(output, torch.tensor([[17.5]]), what="the output", rtol=1e-4)
    (gradient,) = torch.autograd.grad(output.sum(), q)
    assert_close(
        gradient, torch.tensor([[1.875 * math.log(3)]]), what="the gradient of q", rtol=1e-4
    )
