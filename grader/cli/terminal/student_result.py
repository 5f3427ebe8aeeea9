"""Output of `grade show` and `grade requests`: a student's result with the cost of each test, and requests."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import (
    hang,
    marks_for,
    outcome_mark,
    print_lines,
    printed,
    say,
    status_words,
)
from grader.cli.terminal.result import LONGEST_LINE, section_lines
from grader.exports.verdicts import unjudged
from grader.gradebook.times import local, moment, submitted
from grader.gradebook.work import Request
from grader.judge.scoring import shares, total_words
from grader.results import Entry, ExerciseResult, Outcome, Place, Result, Status
from grader.student.blocks import every_test, fault, remarks
from grader.text import clean, counted, number

# Cleaned again, since another program may have written the gradebook.
_LONGEST_MESSAGE = 2000
_WIDEST = 24


@printed
def show_scorecard(console: Console, entry: Entry, exercises: Sequence[str]) -> Iterator[Text]:
    """Print the points of an attempt, and the cost of each test of these exercises, or of all."""
    student, result = entry.student, entry.result
    name = f"  {clean(student.name, 60)}" if student.name and student.name != student.id else ""
    facts = ["handed in nothing" if entry.absent else f"attempt {entry.attempt}"]
    facts += [clean(moment(entry.submitted_at, entry.timezone), 40)] if entry.submitted_at else []
    facts += ["late"] if entry.late else []
    yield Text.assemble((clean(student.id, 60), "bold"), name, "  ", (", ".join(facts), "dim"))
    yield Text()
    for exercise in result.exercises:
        if not exercises or exercise.name in exercises:
            yield from _exercise(console, exercise)
    yield Text()
    yield total_line(result)


def total_line(result: Result) -> Text:
    """Return the line with the total, which is open while an exercise that counts is not judged."""
    total = total_words(result)
    if unjudged(result):
        total = "open, because an exercise is not judged"
    return Text.assemble("Total: ", (total, "bold"))


def _exercise(console: Console, exercise: ExerciseResult) -> Iterator[Text]:
    """Yield the points of an exercise, and each test that did not pass after its cost."""
    mark, words = status_words(exercise.status, marks_for(console), waiting=exercise.waiting)
    points = f"{number(exercise.score)} / {number(exercise.max_score)}"
    aside = (f"  {exercise.aside}" if exercise.aside else "", "dim")
    yield Text.assemble(mark, " ", (exercise.name, "bold"), f"  {points}  ", words, aside)
    if exercise.message:
        yield from section_lines(console, fault(exercise), _where)
    elif exercise.status is not Status.UNJUDGED:
        sections = every_test(exercise, exercise.tests)
        for section, share in zip(sections, shares(exercise), strict=True):
            test = section.test
            if test is not None and test.outcome is not Outcome.PASSED:
                cost = (f"-{share.missed:.2f}", "bold") if share.missed else ("0", "dim")
                mark = outcome_mark(test.outcome, marks_for(console))
                prefix = Text.assemble("  ", mark, " ", cost, "  ")
                about = f"  {test.visibility.value} {test.name}"
                yield from section_lines(console, section, _where, prefix=prefix, about=about)
    for line in remarks(exercise).splitlines():
        yield from hang(console, "      ", clean(line, LONGEST_LINE), "dim")


def _where(place: Place) -> str:
    return f"{clean(place.file)}:{place.line}"


# --- regrade requests ---------------------------------------------------------------------------------


@printed
def show_requests(
    console: Console,
    requests: Sequence[Request],
    points_of: Callable[[Request], str],
    zone: datetime.tzinfo | None,
    answered: int,
) -> Iterator[Text]:
    """Print requests as a table, each with its message below, and the number of answered ones."""
    if requests:
        wide = min(max(len("Student"), *(len(r.student) for r in requests)), _WIDEST)
        room = max(len("Exercise"), *(len(r.exercise) for r in requests))
        heads = f"{'No.':>4}  {'Student':{wide}}  {'Exercise':{room}}  {'Points':>9}  Asked"
        yield Text(heads, "dim")
        for request in requests:
            student = f"{request.number:>4}  {clean(request.student, wide):{wide}}"
            points = f"{request.exercise:{room}}  {points_of(request):>9}"
            yield Text(f"{student}  {points}  {_time(request.asked_at, zone)}")
            yield from hang(console, " " * 6, f"“{clean(request.message, _LONGEST_MESSAGE)}”")
            for answer in request.answers[-1:]:
                words = f"{clean(answer.author, 60)}: {clean(answer.text, _LONGEST_MESSAGE)}"
                yield from hang(console, " " * 6, words, "dim")
    if answered:
        yield Text(f"{counted(answered, 'request')} answered: --all also shows them.", "dim")
    elif not requests:
        yield Text("No student asked for a regrade.")


def show_request(
    console: Console, request: Request, entry: Entry | None, zone: datetime.tzinfo | None
) -> None:
    """Print a request with all its answers and the verdict that it is about."""
    asked = f"{_time(request.asked_at, zone)}, {clean(request.origin, 40)}"
    say(console, f"Request {request.number}, {asked}", "bold")
    message = clean(request.message, _LONGEST_MESSAGE)
    print_lines(console, hang(console, "  ", f"“{message}”"))
    for answer in request.answers:
        by = f"{clean(answer.author, 60)}, {_time(answer.answered_at, zone)}"
        say(console, f"  Answered by {by}", "dim")
        print_lines(console, hang(console, "  ", clean(answer.text, _LONGEST_MESSAGE)))
    say(console, "")
    if entry is not None:
        show_scorecard(console, entry, [request.exercise])


def requested_points(entry: Entry | None, request: Request) -> str:
    """Return the points of the exercise that a request is about, in words."""
    for exercise in entry.result.exercises if entry is not None else ():
        if exercise.name == request.exercise:
            is_open = exercise.status is Status.UNJUDGED
            return points_words(None if is_open else exercise.score, exercise.max_score)
    return "-"


def points_words(score: float | None, max_score: float) -> str:
    """Return points as a list shows them; without a score they are open."""
    return f"{'open' if score is None else number(score)} / {number(max_score)}"


def _time(text: str, zone: datetime.tzinfo | None) -> str:
    time = submitted(text)
    return local(time, zone) if time is not None else clean(text, 40)
