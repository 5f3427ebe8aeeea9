"""Small examples for a mixture of experts, which students may read."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import assert_close, promise
from grader.judge.student import Student

# Tokens whose best experts are 0, 1 and 0. The experts return only their biases, 10 and 20.
X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])


@promise("MoE.forward", hint="Tokens 0 and 2 go to expert 0, token 1 to expert 1.")
def test_example_one_expert(student: Student) -> None:
    """With k = 1 the tokens get 10, 20 and 10."""
    assert_close(
        student.run("example", X, 1),
        torch.tensor([10.0, 20.0, 10.0]),
        what="the first feature of the outputs",
    )


@promise("MoE.forward", hint="The probabilities of [1, 0] are 0.731 and 0.269.")
def test_example_two_experts(student: Student) -> None:
    """With k = 2, a token gets 10 and 20, weighted by the router's probabilities."""
    right = torch.tensor([12.689414, 17.310586, 10.474259])
    assert_close(
        student.run("example", X, 2),
        right,
        what="the first feature of the outputs",
        rtol=1e-4,
        atol=1e-4,
    )


@promise("load_balancing_loss", hint="f is [1, 0], and P is 0.731 for the first expert.")
def test_example_loss(student: Student) -> None:
    """If all tokens prefer the first of two experts by 1, the loss is 2 * 0.731; if none does, 1."""
    uneven, even = torch.tensor([[1.0, 0.0]] * 4), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    loss = student.function("load_balancing_loss")
    assert_close(
        loss(uneven, 1),
        number(1.462117),
        what="the loss if all prefer the first",
        rtol=1e-4,
        atol=1e-4,
    )
    assert_close(loss(even, 1), number(1.0), what="the loss if each has one token", rtol=1e-4)


def number(value: float) -> Tensor:
    return torch.tensor(value)
