"""Mistakes that are made from a formula: each differs from it, and says what it is."""

from __future__ import annotations

import torch

from grader.judge.checks import fitted_constants, fitted_terms, formula_mistakes
from grader.judge.checks.comparison import Rule, first_mismatch

VALUE, GATE = torch.randn(4), torch.randn(4)


def told_of(wrong: torch.Tensor, formula: str = "value * sigmoid(gate)") -> list[str]:
    mistakes = formula_mistakes({"output": formula}, {"value": VALUE, "gate": GATE})
    return [told for told, f in mistakes.items() if first_mismatch(f(), wrong, Rule()) is None]


def test_usual_mistakes_are_among_them() -> None:
    for wrong in (
        VALUE.sigmoid() * GATE,
        VALUE * GATE,
        VALUE * GATE.tanh(),
        VALUE + GATE.sigmoid(),
        VALUE * (1 - GATE.sigmoid()),
        -VALUE * GATE.sigmoid(),
        GATE.sigmoid(),
        2 * VALUE * GATE.sigmoid(),
    ):
        (told, *_) = told_of(wrong)
        assert told.startswith("Your output equals ")
        assert told.endswith(", where value * sigmoid(gate) is expected.")


def test_what_is_right_is_none_of_them() -> None:
    assert told_of(VALUE * GATE.sigmoid()) == []


def test_a_part_has_a_name_and_a_list_of_cases_a_list_of_values() -> None:
    cases = [{"x": torch.ones(3)}, {"x": torch.arange(3.0)}]
    mistakes = formula_mistakes({"y": "x - 1", "norm": "sum(abs(y))"}, cases, what="It")
    by_text = {told.split(", where")[0]: f() for told, f in mistakes.items()}
    assert by_text["It has y = x + 1"] == [6.0, 6.0]
    assert by_text["It equals max(abs(y))"] == [0.0, 1.0]
    named = formula_mistakes({"y": "x - 1"}, cases, what="It", named={"x": "does not subtract 1"})
    assert next(iter(named)) == "It does not subtract 1."


def test_a_formula_without_a_value_is_no_mistake() -> None:
    mistakes = formula_mistakes({"y": "a * b"}, {"a": torch.ones(2), "b": torch.ones(3)})
    assert all(f() == "the formula has no value" or torch.is_tensor(f()) for f in mistakes.values())


def test_constants_and_factors_are_found() -> None:
    x = torch.linspace(-2, 2, 50, dtype=torch.float64)

    def f(x: torch.Tensor, k: float, a: float) -> torch.Tensor:
        return torch.tanh(k * (x + a * x**3))

    constants = {"k = 0.8": 0.8, "0.044715": 0.044715}
    (told,) = fitted_constants(f, x, f(x, 0.81, 0.044715), constants)
    assert told == "k = 0.8 is rounded or mistyped, you have 0.81: write it in full."
    assert fitted_constants(f, x, f(x, *constants.values()), constants) == {}
    (told,) = fitted_terms({"x": x, "x**2": x**2}, 2 * x + x**2, what="your sum")
    assert "x (times 2)" in told and "x**2" not in told
