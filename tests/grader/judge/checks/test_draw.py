"""The inputs of a test: the same for the answer and the solution, and leaves of gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from grader.judge.checks.draw import Draw, Shapes
from grader.judge.outcomes import CheckFailed


def everything(draw: Draw) -> list[object]:
    """Draw one input of each kind."""
    return [
        draw.normal(2, 3).tolist(),
        draw.uniform(4, low=-1.0, high=1.0).tolist(),
        draw.integers(5, low=2, high=9).tolist(),
        draw.permutation(6).tolist(),
        draw.size(),
        draw.number(1.0, 2.0),
        draw.choice(["a", "b", "c"]),
        draw.seed(),
    ]


def test_the_seed_alone_decides_all_inputs() -> None:
    first = everything(Draw(3))
    torch.manual_seed(99)
    assert everything(Draw(3)) == first != everything(Draw(4))


def test_inputs_lie_in_the_requested_range() -> None:
    draw = Draw(0)
    uniform = draw.uniform(500, low=-2.0, high=-1.0)
    assert -2.0 <= float(uniform.min()) < float(uniform.max()) <= -1.0
    assert {*draw.integers(200, low=-1, high=2).tolist()} == {-1, 0, 1}
    assert sorted(draw.permutation(7).tolist()) == list(range(7))
    assert {draw.size(3, 5) for _ in range(50)} == {3, 4}
    assert 0.5 < float(draw.normal(1000, scale=1e-3).std()) / 1e-3 < 2.0


def test_all_dtypes_get_the_same_numbers() -> None:
    double = Draw(5).normal(8, dtype=torch.float64)
    assert double.dtype == torch.float64
    assert torch.equal(Draw(5).normal(8), double.float())
    assert torch.equal(Draw(5).normal(8, dtype=torch.bfloat16), double.bfloat16())


def test_a_tensor_with_a_name_is_a_leaf() -> None:
    draw = Draw(0)
    x, plain = draw.normal(3, grad="x"), draw.normal(3)
    assert draw.leaves == {"x": x}
    assert x.requires_grad and x.is_leaf and not plain.requires_grad


def test_a_layer_is_filled_by_name_in_the_order_of_the_solution() -> None:
    solution = Draw(7)
    expected = solution.fill(nn.Linear(3, 2), bias=0.0)
    answer = Draw(7, filled=lambda number: solution.shapes[number])
    layer = nn.Module()
    # The same parameters, made in another order.
    layer.bias, layer.weight = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, 3))
    assert answer.fill(layer) is layer
    assert torch.equal(layer.weight, expected.weight)
    assert {*answer.leaves} == {"weight", "bias"}


def test_a_keyword_scales_a_single_parameter() -> None:
    layer = Draw(7).fill(nn.Linear(3, 2), bias=0.0)
    assert layer.bias.tolist() == [0.0, 0.0]
    assert bool(layer.weight.any())


def test_a_parameter_may_be_in_a_submodule_and_a_missing_one_fails_the_check() -> None:
    shapes: Shapes = {"weight": (2, 3)}
    inner = nn.Sequential(nn.Linear(3, 2, bias=False))
    assert Draw(0, lambda _: shapes).fill(inner) is inner
    with pytest.raises(CheckFailed, match="no parameter named gate: make self"):
        Draw(0, lambda _: {"gate": (2, 3)}).fill(nn.Linear(3, 2))
    # Two parameters match, so neither is used.
    twice = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2))
    with pytest.raises(CheckFailed, match="no parameter named weight"):
        Draw(0, lambda _: shapes).fill(twice)


def test_a_parameter_of_a_wrong_shape_fails_the_check() -> None:
    with pytest.raises(CheckFailed, match="shape"):
        Draw(0, lambda _: {"weight": (3, 2)}).fill(nn.Linear(3, 2))
