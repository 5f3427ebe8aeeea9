"""Laws about the state of a module, tested without a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from grader.findings import first_line, without_values
from grader.judge.checks.draw import Draw
from grader.judge.checks.laws.modules import (
    check_parameters,
    check_starts_within,
    check_state_dict,
    parameter_named,
)
from grader.judge.outcomes import CheckFailed
from grader.results import Cause


class Saved(nn.Linear):
    """A module like the judge's, which knows the names that are saved."""

    saved_names: Any = ("weight", "bias")


def test_a_state_dict_may_have_its_names_in_any_order() -> None:
    check_state_dict(Saved(2, 3), ["bias", "weight"])
    with pytest.raises(CheckFailed, match=r"Only weight belong in the state_dict.*bias"):
        check_state_dict(Saved(2, 3), ["weight"])
    with pytest.raises(CheckFailed, match=r"The state_dict lacks .*scale"):
        check_state_dict(Saved(2, 3), ["weight", "bias", "scale"])


def test_a_parameter_is_found_by_the_end_of_its_name() -> None:
    model = nn.Sequential(nn.Linear(2, 3))
    assert parameter_named(model, "weight").shape == (3, 2)
    assert not parameter_named(model, "bias").requires_grad
    with pytest.raises(CheckFailed, match="no parameter named eight"):
        parameter_named(model, "eight")


def test_a_missing_parameter_is_the_same_mistake_in_every_check() -> None:
    model = nn.Linear(2, 3)
    del model.weight
    model.weight = torch.ones(3, 2)
    checks: list[Callable[[], Any]] = [
        lambda: parameter_named(model, "weight"),
        lambda: check_parameters(model, {"weight": (3, 2)}),
        lambda: Draw(0, lambda _: {"weight": (3, 2)}).fill(model),
    ]
    for check in checks:
        with pytest.raises(CheckFailed) as caught:
            check()
        line = first_line(caught.value.finding)
        assert line.startswith("There is no parameter named weight: make self.weight an nn.Param")
        # It ranks before its consequences.
        assert caught.value.finding.cause is Cause.MISTAKE
        assert first_line(without_values(caught.value.finding)) == line


def test_a_buffer_in_place_of_a_parameter_is_recognized() -> None:
    model = nn.Linear(2, 3)
    del model.weight
    model.register_buffer("weight", torch.ones(3, 2))
    with pytest.raises(CheckFailed, match="weight is a buffer, which no optimizer sees"):
        parameter_named(model, "weight")


def test_a_parameter_holds_real_numbers() -> None:
    model = nn.Module()
    model.register_parameter("counts", nn.Parameter(torch.ones(2).int(), requires_grad=False))
    with pytest.raises(CheckFailed, match=r"counts has dtype torch.int32"):
        parameter_named(model, "counts")


@pytest.mark.parametrize(
    ("scale", "start"),
    [
        (1.0, "a standard normal start"),
        (0.02, "of deviation 0.02"),
        ((2 / 400) ** 0.5, "Kaiming's normal start"),
    ],
)
def test_a_start_that_is_too_large_names_its_likely_origin(scale: float, start: str) -> None:
    drawn = torch.randn(40, 400, generator=torch.Generator().manual_seed(0)) * scale
    with pytest.raises(CheckFailed) as caught:
        check_starts_within(drawn, 0.03, fans=(400, 40), what="the weight", formula="0.03")
    assert "The weight has an entry of magnitude" in str(caught.value)
    assert start in str(caught.value)


def test_a_start_on_the_bound_is_accepted() -> None:
    bound = 400**-0.5
    check_starts_within(torch.full((3,), bound), bound, fans=(400, 40), what="it", formula="b")
    with pytest.raises(CheckFailed, match="not finite"):
        check_starts_within(torch.tensor([torch.nan]), 1, fans=(1, 1), what="it", formula="b")
