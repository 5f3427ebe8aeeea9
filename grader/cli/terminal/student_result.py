"""One student's result out of a gradebook, for whoever has to explain it: what each test cost, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import hang, marks_for, outcome_mark, print_lines, status_words
from grader.errors import SubmissionError
from grader.exports.verdicts import shares
from grader.results import Entry, ExerciseResult, Outcome, Status, Student, TestResult
from grader.text import clean, counted, number

_LONGEST_LINE = 1000
_SHOWN_STUDENTS = 5


def find_student(students: Sequence[Student], wanted: str) -> Student:
    """The student of this id; else the one whose id, name or email has `wanted` in it.

    Raises SubmissionError if there is none, or more than one.
    """
    for student in students:
        if student.id == wanted:
            return student
    found = [s for s in students if any(wanted.casefold() in t.casefold() for t in _texts(s))]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SubmissionError(f"No student here has {wanted!r} in the id, the name or the email.")
    names = ", ".join(each.id for each in found[:_SHOWN_STUDENTS])
    more = f" and {len(found) - _SHOWN_STUDENTS} more" if len(found) > _SHOWN_STUDENTS else ""
    raise SubmissionError(
        f"{wanted!r} may be {counted(len(found), 'student')}: {names}{more}. Name the id."
    )


def _texts(student: Student) -> tuple[str, ...]:
    return student.id, student.name, student.email, *student.ids.values()


def show_scorecard(console: Console, entry: Entry, exercises: Sequence[str]) -> None:
    """Print the points of an attempt; of these exercises (all, if there are none) what each test cost."""
    print_lines(console, _lines(console, entry, exercises))


def _lines(console: Console, entry: Entry, chosen: Sequence[str]) -> Iterator[Text]:
    student, result = entry.student, entry.result
    name = f"  {clean(student.name, 60)}" if student.name and student.name != student.id else ""
    facts = [f"attempt {entry.attempt}"]
    facts += [clean(entry.submitted_at, 40)] if entry.submitted_at else []
    facts += ["late"] if entry.late else []
    yield Text.assemble((clean(student.id, 60), "bold"), name, "  ", (", ".join(facts), "dim"))
    yield Text()
    for exercise in result.exercises:
        if not chosen or exercise.name in chosen:
            yield from _exercise(console, exercise)
    yield Text()
    total = f"{number(result.score)} of {number(result.max_score)} points"
    yield Text.assemble("Total: ", (total, "bold"))


def _exercise(console: Console, exercise: ExerciseResult) -> Iterator[Text]:
    marks = marks_for(console)
    mark, words = status_words(exercise.status, marks)
    points = f"{number(exercise.score)} / {number(exercise.max_score)}"
    yield Text.assemble(mark, " ", (exercise.name, "bold"), f"  {points}  ", words)
    if exercise.message:
        # Every test says the same.
        yield from _message(console, exercise.message)
        return
    if exercise.status is Status.UNJUDGED:
        return
    for test, share in zip(exercise.tests, shares(exercise), strict=True):
        if test.outcome is not Outcome.PASSED:
            yield from _test(console, test, (share.max_score - share.score) / 100)


def _test(console: Console, test: TestResult, cost: float) -> Iterator[Text]:
    cost_text = (f"-{cost:.2f}", "bold") if cost else ("0", "dim")
    prefix = Text.assemble(
        "  ", outcome_mark(test.outcome, marks_for(console)), " ", cost_text, "  "
    )
    which = f"  {test.visibility.value} {test.name}"
    yield from hang(
        console, prefix, Text.assemble(clean(test.title, _LONGEST_LINE), (which, "dim"))
    )
    yield from _message(console, test.message)
    if test.place is not None and test.outcome is not Outcome.SKIPPED:
        function = f"  in {clean(test.place.function)}" if test.place.function else ""
        yield Text.assemble(
            "      ", (f"{clean(test.place.file)}:{test.place.line}", "cyan"), (function, "dim")
        )


def _message(console: Console, text: str) -> Iterator[Text]:
    for line in text.splitlines():
        shown = Text(clean(line.expandtabs(4), _LONGEST_LINE))
        yield from hang(console, Text("      "), shown)
