"""What `grade show` prints: one student's result, with the cost of each test and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.blocks import LONGEST_LINE, section_lines
from grader.cli.terminal.console import hang, marks_for, outcome_mark, print_lines, status_words
from grader.errors import SubmissionError
from grader.gradebook.times import moment
from grader.judge.scoring import shares
from grader.results import Entry, ExerciseResult, Outcome, Place, Status, StudentInfo
from grader.student.blocks import Section, every_test, fault, remarks
from grader.text import clean, counted, nearest, number

_SHOWN_STUDENTS = 5


def find_student(students: Sequence[StudentInfo], wanted: str) -> StudentInfo:
    """The student of this id; else the one whose id, name or email has `wanted` in it.

    Raises SubmissionError if there is none, or more than one.
    """
    for student in students:
        if student.id == wanted:
            return student
    matches = [s for s in students if any(wanted.casefold() in t.casefold() for t in _texts(s))]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise SubmissionError(
            f"No student here has {wanted!r} in the id, the name or the email. {_near(students, wanted)}"
        )
    names = ", ".join(student.id for student in matches[:_SHOWN_STUDENTS])
    more = f" and {len(matches) - _SHOWN_STUDENTS} more" if matches[_SHOWN_STUDENTS:] else ""
    raise SubmissionError(
        f"{wanted!r} may be {counted(len(matches), 'student')}: {names}{more}. Name the id."
    )


def named_student(students: Sequence[StudentInfo], wanted: str) -> StudentInfo:
    """The student of this very id, name or email: what changes points is not for one who only may be meant.

    Raises SubmissionError with those that are near.
    """
    matches = [student for student in students if student.id == wanted] or [
        s for s in students if wanted.casefold() in [text.casefold() for text in _texts(s)]
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(student.id for student in matches[:_SHOWN_STUDENTS])
        raise SubmissionError(f"{wanted!r} is the name of more than one: {names}. Name the id.")
    raise SubmissionError(f"There is no student {wanted!r} here. {_near(students, wanted)}")


def _near(students: Sequence[StudentInfo], wanted: str) -> str:
    also = {text: s.id for s in students for text in (s.name, s.email) if text}
    also |= {part: s.id for s in students for part in s.name.split()}
    return nearest(wanted, [student.id for student in students], also)


def _texts(student: StudentInfo) -> tuple[str, ...]:
    return student.id, student.name, student.email, *student.ids.values()


def show_scorecard(console: Console, entry: Entry, exercises: Sequence[str]) -> None:
    """Print the points of an attempt; of these exercises (all, if there are none) what each test cost."""
    print_lines(console, _lines(console, entry, exercises))


def _lines(console: Console, entry: Entry, chosen: Sequence[str]) -> Iterator[Text]:
    student, result = entry.student, entry.result
    name = f"  {clean(student.name, 60)}" if student.name and student.name != student.id else ""
    facts = ["handed in nothing" if entry.absent else f"attempt {entry.attempt}"]
    facts += [clean(moment(entry.submitted_at, entry.timezone), 40)] if entry.submitted_at else []
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
    mark, words = status_words(exercise.status, marks_for(console))
    points = f"{number(exercise.score)} / {number(exercise.max_score)}"
    yield Text.assemble(mark, " ", (exercise.name, "bold"), f"  {points}  ", words)
    if exercise.message:
        yield from section_lines(console, fault(exercise), _where)
    elif exercise.status is not Status.UNJUDGED:
        sections = every_test(exercise, exercise.tests)
        for section, share in zip(sections, shares(exercise), strict=True):
            yield from _test(console, section, share.missed)
    for line in remarks(exercise).splitlines():
        yield from hang(console, Text("      "), Text(clean(line, LONGEST_LINE), "dim"))


def _test(console: Console, section: Section, cost: float) -> Iterator[Text]:
    test = section.test
    if test is None or test.outcome is Outcome.PASSED:
        return
    mark = outcome_mark(test.outcome, marks_for(console))
    cost_text = (f"-{cost:.2f}", "bold") if cost else ("0", "dim")
    prefix = Text.assemble("  ", mark, " ", cost_text, "  ")
    about = f"  {test.visibility.value} {test.name}"
    yield from section_lines(console, section, _where, prefix=prefix, about=about)


def _where(place: Place) -> str:
    return f"{clean(place.file)}:{place.line}"
