"""Numbers in cells, in the notations of different countries."""

from __future__ import annotations

import pytest

from grader.submissions.sheet import as_number


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("15", 15),
        (" 15,50 ", 15.5),
        ("1,234.50", 1234.5),
        ("1.234,50", 1234.5),
        ("1 234,5", 1234.5),
        ("1'234.5", 1234.5),
        ("1,234,567", 1_234_567),
        # Canvas reads it this way.
        ("1,234", 1.234),
        ("-3.5", -3.5),
        ("", None),
        ("-", None),
        ("EX", None),
        ("85%", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("9" * 400, None),
        ("1,23,4", None),
    ],
)
def test_a_number_is_read_in_any_notation(cell: str, value: float | None) -> None:
    assert as_number(cell) == value
