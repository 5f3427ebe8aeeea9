"""The name of a mistake: what a message says in words of the suite and of the checks, without a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.judge import suite_run
from grader.judge.naming import named_mistake
from grader.judge.outcomes import CheckFailed, Forbidden, Frame, TimedOut, student_error
from grader.judge.suite_run import meaning_of
from grader.results import Outcome

SUITE = '''\
"""A suite."""

WRONG = "Your gates are clamped to {}, so that none closes."
SECRET = "blue moon"

def test_glu(student):
    """Glu is glu."""
    mistakes = {"The halves are swapped: gate the other one.": 1, WRONG.format(10): 2}
    told = f"{name} is not learnable: its requires_grad is False."
    assert 0, told
    assert 0, f"The answer is {SECRET}."
    assert 0, f"{a}{b} {c}"
    check(what="the gradient of the loss", why=f"in {mode} mode it is that of the mean.")
'''

NUMBERS = """\
2 of 3 elements of the gradient of the loss (shape (3,), float64) differ.
The greatest difference is 0.25, at [1]: got 1.5, expected 1.25.
These are the expected values, transposed."""
RELATION = """\
… of … elements of the gradient of the loss (shape …, float64) differ.
These are the expected values, transposed."""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "test_glu.py"
    path.write_text(SUITE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (
            "The halves are swapped: gate the other one.\nThe output is 2.1, expected 3.2.",
            "The halves are swapped: gate the other one.",
        ),
        (
            "Your gates are clamped to 10, so that none closes.",
            "Your gates are clamped to …, so that none closes.",
        ),
        (
            "weight is not learnable: its requires_grad is False.",
            "… is not learnable: its requires_grad is False.",
        ),
        # A relation of our own below a line of numbers.
        (
            NUMBERS,
            RELATION,
        ),
        ("The output is 2.1, expected 3.2.", ""),
        ('The output is "blue moon", expected "red sun".', ""),
        ("The output is mean, expected mean.", ""),
        ("1.5 2.5", ""),
        ("something that no source says: 4.25", ""),
        ("", ""),
    ],
)
def test_named(suite: Path, message: str, named: str) -> None:
    assert named_mistake(suite_run.TestEnd(Outcome.FAILED, message), suite) == named


def test_what_a_run_filled_in_is_in_no_name(suite: Path) -> None:
    """Whatever stands in the holes of our own messages."""
    for value in ("3.25", "[1, 2]", "True", "'relu'", '"relu"', "None", "nan", "inf"):
        for message in (
            f"The output is {value}, expected {value}.",
            f"The entry {value} of the output is not expected.",
            f"Your gates are clamped to {value}, so that none closes.",
            f"pad_collate({value}) returned normally, it should raise a ValueError that names x.",
        ):
            assert value not in named_mistake(suite_run.TestEnd(Outcome.FAILED, message), suite)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (
            student_error("IndexError", ("IndexError",), "index 7 of 3.25", ()),
            "Your code raised an IndexError.",
        ),
        (
            student_error("RecursionError", ("RecursionError",), "3.25", ()),
            (
                "Your code raised a RecursionError. It recursed deeper than Python's limit, 1,000 calls "
                "unless the file changes it: use a loop, or end the recursion earlier."
            ),
        ),
        # A type of the student's own may be called as the input is.
        (student_error("X_3_25", ("ValueError",), "3.25", ()), "Your code raised a ValueError."),
        (student_error("X_3_25", ("Y_3_25",), "3.25", ()), "Your code raised an exception."),
        (
            student_error("NotImplementedError", ("NotImplementedError",), "3.25", ()),
            "This part is still to be written.",
        ),
        (TimedOut("No answer to glu(3.25)."), "Your code took too long."),
        (Forbidden("3.25", Frame(3, "f")), "Your code uses what this exercise does not allow."),
    ],
)
def test_what_ended_a_test_otherwise(suite: Path, error: Exception, named: str) -> None:
    assert named_mistake(meaning_of(error), suite) == named


def test_a_bare_assert_has_no_name(suite: Path) -> None:
    assert named_mistake(meaning_of(AssertionError()), suite) == ""
    assert named_mistake(meaning_of(CheckFailed("It is 3.25.")), suite) == ""
