"""Findings that differ only in their values are one mistake."""

from __future__ import annotations

from grader.exports.report.tally import Mistakes
from grader.results import Finding, Outcome
from tests.grader.builders import checked, exercise
from tests.grader.exports.report.classes import an_exercise


def test_findings_differ_by_words_and_not_by_values() -> None:
    mistakes = Mistakes()
    for words, amount in (
        ("The value is {amount} too large.", "3"),
        ("The value is {amount} too large.", "-1.5e-07"),
        ("The value is {amount} too small.", "3"),
        ("The value is {amount} too small.", "4"),
        ("The value is {amount} too small.", "5"),
    ):
        failed = checked(outcome=Outcome.FAILED, finding=Finding(words, values={"amount": amount}))
        mistakes.add(exercise(failed), 0)
    assert [(len(each.rows), each.message) for each in mistakes.common(9)] == [
        (3, "The value is 3 too small."),
        (2, "The value is 3 too large."),
    ]


def test_only_the_first_line_names_the_mistake() -> None:
    mistakes = Mistakes()
    for name in "ab":
        message = f"The gate is on the first half.\nThe entry {name} differs."
        mistakes.add(an_exercise("glu", "f", messages={0: message}), 0)
    (found,) = mistakes.common(9)
    assert (len(found.rows), found.message) == (2, "The gate is on the first half.")


def test_a_student_with_two_findings_counts_once() -> None:
    mistakes = Mistakes()
    for _ in range(2):
        mistakes.add(an_exercise("glu", "ff", messages={0: "No bias.", 1: "No bias."}), 0)
    (found,) = mistakes.common(9)
    assert len(found.rows) == 2
    assert found.tests == ("The glu holds in case 0", "The glu holds in case 1")


def test_a_message_to_one_student_is_not_common() -> None:
    mistakes = Mistakes()
    mistakes.add(an_exercise("glu", "f", messages={0: "A secret of one."}), 0)
    assert list(mistakes.common(9)) == []


def test_unwritten_work_is_not_a_mistake() -> None:
    mistakes = Mistakes()
    for _ in range(2):
        mistakes.add(an_exercise("glu", "np", messages={0: "Still to do: the gate"}), 0)
    assert list(mistakes.common(9)) == []


def test_long_messages_are_cut() -> None:
    mistakes = Mistakes()
    for _ in range(2):
        mistakes.add(an_exercise("glu", "f", messages={0: "x" * 100_000}), 0)
    (found,) = mistakes.common(9)
    assert len(found.message) == 300


def test_the_number_of_messages_is_limited() -> None:
    mistakes = Mistakes()
    for number in range(6000):
        word = "".join(chr(97 + int(digit)) for digit in str(number))
        mistakes.add(an_exercise("glu", "f", messages={0: f"Your code raised {word}."}), 0)
    for _ in range(2):
        mistakes.add(an_exercise("glu", "f", messages={0: "Your code raised a."}), 0)
    (found,) = mistakes.common(9)
    assert (len(found.rows), found.message) == (3, "Your code raised a.")
    assert len(mistakes) == 5000
