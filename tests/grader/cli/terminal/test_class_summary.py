"""A class on the terminal: no student hides the others."""

from __future__ import annotations

import io

from grader.cli.terminal.class_summary import show_attention, show_changes, show_class
from grader.cli.terminal.console import open_console
from grader.gradebook.batch import ScoreChange
from grader.gradebook.review import Attention, Reason
from grader.results import Outcome
from tests.grader.builders import checked, entry, exercise, unjudged


def shown(attention: list[Attention]) -> str:
    stream = io.StringIO()
    show_attention(open_console(stream), attention, {"ann": "Ann L."})
    return stream.getvalue()


def odd(student: str, count: int) -> list[Attention]:
    return [
        Attention(Reason.ODD_CODE, student, ("glu",), f"line {number + 3} imports ctypes{number}")
        for number in range(count)
    ]


def test_a_student_with_thousands_of_entries_hides_nobody() -> None:
    unreadable = [Attention(Reason.UNREADABLE, f"u{n}", ("glu",), f"File {n}.") for n in range(9)]
    text = shown([*odd("aaa-hostile", 19_000), *odd("ann", 2), *unreadable])
    lines = text.splitlines()
    assert lines[1] == "To look at: 9 unreadable, 19002 odd code"
    for number in range(9):
        assert f"glu: File {number}. (u{number})" in lines[2 + number]
    assert "line 3 imports ctypes0 (2 students: aaa-hostile; ann, Ann" in lines[11]
    assert "and 18990 more of 1 student; the report has them." in lines[-1]
    assert len(lines) == 22


def test_equal_entries_of_many_students_are_grouped() -> None:
    what = "imports ctypes0"
    entries = [
        Attention(Reason.ODD_CODE, f"s{n:02}", ("glu",), f"line {n + 1} {what}") for n in range(12)
    ]
    late = [Attention(Reason.TIMEOUT, "ann", (name,), "No answer.") for name in ("glu", "gelu")]
    text = shown([*late, *entries])
    assert text.splitlines()[1:] == [
        "To look at: 2 timeout, 12 odd code",
        "  timeout     glu: No answer. (ann, Ann L.)",
        "  timeout     gelu: No answer. (ann, Ann L.)",
        "  odd code    glu: imports ctypes0 (12 students: s00, s01, s02, s03, s04 and 7",
        "              more)",
    ]


def test_kinds_are_ordered_by_their_cost() -> None:
    entries = [Attention(kind, "ann", ("glu",), "so") for kind in reversed(Reason)]
    lines = shown(entries).splitlines()
    kinds = ["not judged", "unreadable", "misnamed", "no points", "other file", "draft"]
    kinds += ["timeout", "odd code"]
    assert [line[2:12].strip() for line in lines[2:]] == kinds


def test_the_mark_of_an_unjudged_exercise_is_explained() -> None:
    stream = io.StringIO()
    show_class(open_console(stream), [entry(unjudged(), student="ann")])
    assert "! not judged; student." in " ".join(stream.getvalue().split())


def test_the_exercises_of_a_short_course_are_named_above_their_marks() -> None:
    exercises = [exercise(checked(), name=name, chapter="first") for name in ("b", "a")]
    stream = io.StringIO()
    show_class(open_console(stream), [entry(*exercises, student="ann")])
    heading, line = stream.getvalue().splitlines()[1:3]
    assert heading == "From left to right: b, a."
    assert line.split("   ")[-2:] == ["+ +", "ann"]


def test_the_marks_of_a_long_course_are_grouped_by_chapter() -> None:
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
    legend, heading, line = stream.getvalue().splitlines()[:3]
    assert legend == (
        "Points; exercises: + passed, ~ partly, x nothing earned, - no attempt; student."
    )
    assert heading == "From left to right: first, second."
    assert line.split("   ")[-2:] == ["++++ x+++++", "ann"]


def test_changes_of_tests_without_a_change_of_the_score_are_only_counted() -> None:
    removed = (("test_grad_fn", Outcome.PASSED, None),)
    new = (
        ("test_sign", None, Outcome.FAILED),
        ("test_slope", Outcome.PASSED, Outcome.NOT_IMPLEMENTED),
    )
    same = [ScoreChange(f"s{n}", 1, "relu", 5.0, 5.0, removed) for n in range(300)]
    stream = io.StringIO()
    show_changes(open_console(stream), [*same, ScoreChange("ann", 1, "relu", 9.0, 7.5, new)], {})
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "0 gained, 1 lost, 300 with other tests but the same score.",
        "-1.50  ann relu: 9 to 7.5 (test_sign new: failed, test_slope passed to not",
        "implemented)",
        "relu: test_grad_fn removed (300 students)",
    ]
