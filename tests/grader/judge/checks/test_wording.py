"""Words of findings agree grammatically."""

from __future__ import annotations

import pytest

from grader.judge.checks.wording import verb


@pytest.mark.parametrize(
    ("noun", "has"),
    [
        ("the loss", "has"),
        ("the gradients of x", "have"),
        ("the gradient of the weights", "has"),
        ("the values cached for [1.0, 2.0]", "have"),
        ("the list returned by fit", "has"),
        ("the bias", "has"),
    ],
)
def test_a_verb_agrees_with_the_first_noun(noun: str, has: str) -> None:
    assert verb(noun, "has", "have") == has
