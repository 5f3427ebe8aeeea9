"""What `grade requests` prints: the queue, and one request beside its verdict."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import hang, print_lines
from grader.cli.terminal.student_result import show_scorecard
from grader.gradebook.times import local, submitted
from grader.gradebook.work import KeptRequest
from grader.results import Entry, Status
from grader.text import clean, counted, number

# A message is cleaned once more: a file of another hand may be no gradebook of ours.
_LONGEST = 2000
_WIDEST = 24


def show_requests(
    console: Console,
    requests: Sequence[KeptRequest],
    entry_of: Callable[[str], Entry | None],
    zone: datetime.tzinfo | None,
    answered: int,
) -> None:
    """Print requests as a table, each with its message below, and how many more are answered."""
    print_lines(console, _table(console, requests, entry_of, zone, answered))


def _table(
    console: Console,
    requests: Sequence[KeptRequest],
    entry_of: Callable[[str], Entry | None],
    zone: datetime.tzinfo | None,
    answered: int,
) -> Iterator[Text]:
    if requests:
        students = min(max(len("Student"), *(len(each.student) for each in requests)), _WIDEST)
        exercises = max(len("Exercise"), *(len(each.exercise) for each in requests))
        heads = (
            f"{'No.':>4}  {'Student':{students}}  {'Exercise':{exercises}}  {'Points':>9}  Asked"
        )
        yield Text(heads, "dim")
        for each in requests:
            row = (
                f"{each.number:>4}  {clean(each.student, students):{students}}  "
                f"{each.exercise:{exercises}}  {_points(entry_of(each.student), each):>9}  "
                f"{_time(each.asked_at, zone)}"
            )
            yield Text(row)
            yield from _said(console, each)
    if answered:
        yield Text(f"{counted(answered, 'request')} answered: --all shows them, too.", "dim")
    elif not requests:
        yield Text("No student asked for a regrade.")


def show_request(
    console: Console, request: KeptRequest, entry: Entry | None, zone: datetime.tzinfo | None
) -> None:
    """Print a request with every answer, and the verdict that it is about."""
    head = f"Request {request.number}, {_time(request.asked_at, zone)}, {clean(request.origin, 40)}"
    print_lines(console, iter([Text(head, "bold")]))
    print_lines(console, hang(console, Text("  "), Text(f"“{clean(request.message, _LONGEST)}”")))
    for each in request.answers:
        by = f"  Answered by {clean(each.author, 60)}, {_time(each.answered_at, zone)}"
        print_lines(console, iter([Text(by, "dim")]))
        print_lines(console, hang(console, Text("  "), Text(clean(each.text, _LONGEST))))
    print_lines(console, iter([Text()]))
    if entry is not None:
        show_scorecard(console, entry, [request.exercise])


def _said(console: Console, request: KeptRequest) -> Iterator[Text]:
    yield from hang(console, Text(" " * 6), Text(f"“{clean(request.message, _LONGEST)}”"))
    for each in request.answers[-1:]:
        answer = f"{clean(each.author, 60)}: {clean(each.text, _LONGEST)}"
        yield from hang(console, Text(" " * 6), Text(answer, "dim"))


def _points(entry: Entry | None, request: KeptRequest) -> str:
    exercises = entry.result.exercises if entry is not None else ()
    for each in exercises:
        if each.name == request.exercise:
            earned = "open" if each.status is Status.UNJUDGED else number(each.score)
            return f"{earned} / {number(each.max_score)}"
    return "-"


def _time(text: str, zone: datetime.tzinfo | None) -> str:
    time = submitted(text)
    return local(time, zone) if time is not None else clean(text, 40)
