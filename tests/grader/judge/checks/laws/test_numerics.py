"""Laws about the numbers in a tensor, tested without a sandbox."""

from __future__ import annotations

import math

import pytest
import torch

from grader.judge.checks.laws.numerics import (
    check_attached,
    check_finite,
    check_large_inputs,
    gradient_at,
)
from grader.judge.outcomes import CheckFailed


def test_finite_numbers_are_accepted() -> None:
    check_finite(torch.tensor([1e38, -1e38]))
    check_finite(torch.zeros(0, 3))
    check_finite(torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("values", "why", "message"),
    [
        (
            [math.nan],
            "",
            "nan: something overflows on the way, or a softmax has nothing but -inf.",
        ),
        ([math.inf], "", "The output is not finite (torch.float32): inf: something overflows on the way."),
        ([1.0, math.inf], "", "1 of 2 entries of the output is not finite (torch.float32): inf"),
        ([math.nan, -math.inf], "", "2 of 2 entries of the output are not finite"),
        ([math.nan], "is it filled?", "nan: is it filled?"),
    ],
)  # fmt: skip
def test_numbers_that_are_not_finite_are_counted_and_reported(
    values: list[float], why: str, message: str
) -> None:
    with pytest.raises(CheckFailed) as caught:
        check_finite(torch.tensor(values), why=why)
    assert message in str(caught.value)
    assert not str(caught.value).endswith("?.")


def test_an_output_without_a_graph_is_refused() -> None:
    x = torch.ones(2, requires_grad=True)
    check_attached(2 * x)
    with pytest.raises(CheckFailed, match="The output does not require a gradient"):
        check_attached((2 * x).detach())


def test_gradients_of_large_inputs_must_be_finite() -> None:
    x = torch.tensor([1e30], requires_grad=True)
    check_large_inputs(x * 2, {"x": x})
    x.grad = None
    # The root of 0 is finite, and its slope is infinite.
    root = (x - x.detach()).sqrt()
    with pytest.raises(CheckFailed, match=r"x\.grad for large inputs is not finite"):
        check_large_inputs(root, {"x": x})


def test_gradient_at_returns_a_gradient_of_the_input() -> None:
    x = torch.tensor([1.0, 2.0])
    found = gradient_at(lambda t: t**2, x, torch.tensor([1.0, 10.0], dtype=torch.float64))
    assert torch.equal(found, torch.tensor([2.0, 40.0]))
    assert not x.requires_grad
    with pytest.raises(CheckFailed, match="shape"):
        gradient_at(lambda t: t.sum(), x, torch.ones(2))
    with pytest.raises(CheckFailed, match="does not require a gradient"):
        gradient_at(lambda t: t.detach() * 2, x, torch.ones(2))
