"""A class on the terminal: no student hides the others."""

from __future__ import annotations

import io

import pytest

from grader.cli.terminal.class_summary import show_class, show_summary
from grader.cli.terminal.console import open_console
from grader.gradebook.batch import BatchSummary
from grader.gradebook.review import Attention, Reason
from grader.results import Outcome
from tests.grader.builders import checked, entry, exercise


def shown(attention: list[Attention]) -> str:
    stream = io.StringIO()
    summary = BatchSummary(attempts=1, judged=1, settled=0, known=0, attention=tuple(attention))
    show_summary(open_console(stream), summary, {"ann": "Ann L."})
    return stream.getvalue()


def odd(student: str, count: int) -> list[Attention]:
    return [
        Attention(Reason.FORGER, student, f"exercise{line % 6}", f"line {line} imports ctypes")
        for line in range(count)
    ]


def test_a_student_of_thousands_of_entries_hides_nobody() -> None:
    late = [Attention(Reason.TIMEOUT, f"late{n}", "glu", "No answer.") for n in range(9)]
    text = shown([*odd("aaa-hostile", 19_000), *odd("ann", 2), *late])
    lines = text.splitlines()
    assert len(lines) < 50
    for name in ("ann (Ann L.)", *(f"late{n}" for n in range(9))):
        assert name in text
    assert text.count("aaa-hostile exercise") == 2
    assert "18998 more of aaa-hostile" in text
    assert lines[2] == "To look at: 19002 odd code, 9 timeout"


@pytest.mark.parametrize("count", [1, 7, 30])
def test_what_one_student_has_is_shown_as_far_as_there_is_room(count: int) -> None:
    text = shown(odd("ann", count))
    assert text.count("ann (Ann L.) exercise") == count
    assert "more" not in text


def test_more_students_than_lines_are_counted() -> None:
    text = shown([entry for n in range(50) for entry in odd(f"s{n:02}", 3)])
    assert text.count("line 0 imports ctypes") == 30
    assert "and 20 more students; the report has them all." in text


def test_of_a_long_course_the_marks_stand_by_chapter() -> None:
    exercises = [
        exercise(
            checked(outcome=Outcome.FAILED if number == 4 else Outcome.PASSED),
            name=f"e{number}",
            chapter="first" if number < 4 else "second",
        )
        for number in range(10)
    ]
    stream = io.StringIO()
    show_class(open_console(stream), [entry(*exercises, student="ann")])
    heading, line = stream.getvalue().splitlines()[:2]
    assert heading == "From left to right: first, second."
    assert line.split("   ")[-2:] == ["++++ x+++++", "ann"]
