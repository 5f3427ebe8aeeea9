"""The explanation of a mismatch: one finding, one element, and no more of the expected value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from grader.judge.checks.comparison import DifferenceKind, Rule, first_mismatch
from grader.judge.checks.explanation import (
    cause_of,
    explain,
    explain_dtype,
    explain_shape,
    explain_type,
)
from grader.results import Cause
from grader.sandbox.wire.values import Opaque, Record


def lines_of(
    actual: Any, expected: Any, what: str = "the output", *, exact: bool = False
) -> list[str]:
    rule = Rule(exact=exact)
    mismatch = first_mismatch(actual, expected, rule)
    assert mismatch is not None
    return [str(line) for line in explain(mismatch, actual, expected, rule, what)]


@pytest.mark.parametrize(
    ("actual", "expected", "line"),
    [
        ([1.0, 2.0], [1.0], "The output has 2 entries, expected 1."),
        ({"a": 1}, {"a": 1, "b": 2, "c": 3}, 'The output lacks the entry "b" and 1 more.'),
        ({"a": 1, "b": 2}, {"a": 1}, 'The entry "b" of the output is not expected.'),
        (Record("R", {"x": 1}), Record("R", {"y": 1}), 'The output lacks the field "y".'),
        (1.5, 1.0, "The output is 1.5, expected 1."),
        (Opaque("x"), Opaque("x"), "The output is an object of type x, whose contents cannot be compared."),
        ([[1, 0]], [[1, 2]], "Entry 1 of entry 0 (counted from 0) of the output is 0, expected 2."),
        ("Ab", "ab", "The output differs only in upper and lower case."),
        ("a  b", "a b", "The output differs only in white space."),
    ],
)  # fmt: skip
def test_the_first_line_is_the_finding(actual: object, expected: object, line: str) -> None:
    assert lines_of(actual, expected)[0] == line


def test_a_wrong_order_names_the_first_entry_out_of_place() -> None:
    lines = lines_of({"b": 1, "a": 2}, {"a": 2, "b": 1}, exact=True)
    assert lines == [
        "The entries of the output are right, but in another order.",
        'The first one out of place is "b", expected "a".',
        'In full, the output is {"b": 1, "a": 2}.',
    ]


def test_the_worst_of_many_elements_is_shown_with_its_tolerance() -> None:
    expected = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    actual = expected.clone()
    actual[1, 2] += 1
    actual[2, 3] -= 2
    lines = lines_of(actual, expected, "the gradients of x")
    assert lines[0] == "2 of 12 elements of the gradients of x (shape (3, 4), float32) differ."
    assert lines[1].startswith("The greatest difference is 2, at [2, 3]: got ")
    assert lines[2] == "A difference of 1e-05 + 1.3e-06 · |expected| is allowed."
    assert "\n".join(lines).count("expected ") == 1


def test_a_mask_shows_its_first_wrong_element() -> None:
    mask = torch.tensor([True, False, True])
    assert "The first one is at [0]: got False, expected True." in lines_of(~mask, mask)


def test_a_relation_of_all_entries_is_named_once() -> None:
    drawn = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    expected = dict(zip("ab", drawn, strict=True))
    lines = lines_of({name: 2 * value for name, value in expected.items()}, expected)
    assert "Over all entries: every element is twice the expected value." in lines
    assert "\n".join(lines).count("twice") == 1


@pytest.mark.parametrize(
    ("value", "expected", "end"),
    [
        (None, "a Tensor", ": is it returned on every path, or was it never set?"),
        (None, "a string", "expected a string."),
        (Opaque("function"), "a float", ": are the parentheses of a call missing?"),
        (Opaque("generator"), "a list", ": list(...) makes one of it."),
        (torch.ones(1), "a float", ": call .item()."),
        (torch.ones(2), "a float", "; its shape is (2,)."),
        (np.ones(1), "a Tensor", ": torch.from_numpy converts it."),
        (torch.ones(1), "a numpy.ndarray", ": .numpy() converts it."),
        (1, "a bool", "returned an int as the output, expected a bool."),
    ],
)
def test_a_wrong_type_gets_a_remedy(value: object, expected: str, end: str) -> None:
    (line,) = explain_type(value, expected, "the output")
    assert line.startswith("Your code returned ")
    assert line.endswith(end)


def test_a_subject_that_ends_with_a_comma_gets_no_other() -> None:
    (line,) = explain_type(None, "a string", "the first, with an inf,")
    assert line == "Your code returned None as the first, with an inf, expected a string."


def test_a_missing_gradient_gets_its_own_advice() -> None:
    (line,) = explain_type(None, "a Tensor", "the gradient of x")
    assert line.endswith(": does a gradient reach it?")


def test_a_wrong_dtype_says_whether_the_values_are_right() -> None:
    x = torch.tensor([1.5, 2.5])
    right = "Apart from the dtype the values are right."
    dtype = "The output has dtype torch.float64, expected torch.float32."
    assert explain_dtype(x.double(), x.dtype, "the output", x) == [dtype, right]
    assert explain_dtype(x.double() + 1, x.dtype, "the output", x) == [dtype]


@pytest.mark.parametrize(
    ("given", "wanted", "hint"),
    [
        ((4, 3), (3, 4), "It is the expected shape transposed."),
        ((2, 4, 3), (2, 3, 4), "Dimensions 1 and 2 are swapped."),
        ((3, 4, 1), (3, 4), "It has 1 dimension of size 1 too many."),
        ((12,), (3, 4), "It is flattened."),
        ((3,), (3, 4), "The expected dimension 1, of size 4, is missing."),
        ((3, 8), (3, 4), "Dimension 1 is twice as long as expected."),
        ((9, 4), (10, 4), "Dimension 0 is one too short."),
    ],
)
def test_a_wrong_shape_gets_a_reason(
    given: tuple[int, ...], wanted: tuple[int, ...], hint: str
) -> None:
    shapes = f"The output has shape {given}, expected {wanted}."
    assert explain_shape(torch.zeros(given), wanted, "the output") == [shapes, hint]


def test_right_values_in_a_wrong_shape_are_recognized() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    lines = explain_shape(x.T, (2, 3), "the output", x)
    assert (
        lines[-1]
        == "Apart from the shape the values are right: it is the expected value transposed."
    )
    assert len(explain_shape(x.T + 1, (2, 3), "the output", x)) == 2


@pytest.mark.parametrize(
    ("kind", "what", "value", "cause"),
    [
        (DifferenceKind.VALUES, "the gradient of x", 1.0, Cause.GRADIENT),
        (DifferenceKind.VALUES, "x.grad", 1.0, Cause.GRADIENT),
        (DifferenceKind.VALUES, "gradient_norm(model)", 1.0, Cause.VALUES),
        (DifferenceKind.TYPE, "the output", None, Cause.NOTHING),
        (DifferenceKind.TYPE, "the output", 1.0, Cause.TYPE),
        (DifferenceKind.LENGTH, "the output", [], Cause.SHAPE),
    ],
)
def test_the_cause_depends_on_kind_and_name(
    kind: DifferenceKind, what: str, value: object, cause: Cause
) -> None:
    assert cause_of(kind, what, value) is cause
