"""Pass-back of a server: compare the points that count with a link's column, and send the differences.

A round reads the platform, compares, and sends; a dry round only compares. Failures are kept in the round, for
staff. Rounds send nothing about students who handed in nothing: only `grade push` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from grader.errors import GraderError
from grader.exports.push.comparison import Options, Plan, planned, send
from grader.exports.push.lti import Lti, work_of
from grader.exports.verdicts import is_untouched
from grader.gradebook import Gradebook, platforms
from grader.gradebook.database import FILE, explaining_errors
from grader.gradebook.platforms import Link, Platform
from grader.gradebook.pushed import Memory, Pushed, pushing_beside_writer
from grader.gradebook.tool_key import made_key
from grader.results import Entry
from grader.text import number, utc


class Stopped(Exception):
    """Pass-back was turned off, or the server is ending."""


class Line(msgspec.Struct, frozen=True):
    """A student whose points or comment differ; `there` has the platform's points, empty if it has none."""

    student: str
    there: str
    here: str
    comment: bool


class Round(msgspec.Struct, kw_only=True):
    """The result of a comparison, and of sending the differences.

    `left` has a sentence for each student who is left out, `failures` one for each refused change. `error` is
    the reason if the round broke off.
    """

    made_at: str
    is_dry: bool
    notes: list[str] = []
    lines: list[Line] = []
    left: list[str] = []
    arrived: int = 0
    failures: list[str] = []
    error: str = ""

    @property
    def is_well(self) -> bool:
        """Whether every change arrived."""
        return not (self.error or self.failures)


def compared(folder: Path, platform: Platform, link: Link) -> Round:
    """Compare a link's column without sending anything; failures of the platform are in the round."""
    this_round = Round(made_at=utc(), is_dry=True)
    try:
        with explaining_errors(folder / FILE), _book_of(folder, link) as book:
            column = _column(book, platform, link)
            _planned(book, column, _known(book, column), this_round, part=bool(link.assignment))
    except GraderError as error:
        this_round.error = str(error)
    return this_round


def passed_back(
    folder: Path, platform: Platform, link: Link, go_on: Callable[[], bool] = lambda: True
) -> Round:
    """Send the differences to a link's column; failures of the platform are in the round.

    The round ends early if `go_on`, called before each student, returns False. The process may be killed at any
    time: each change is recorded on the disk.
    """
    this_round = Round(made_at=utc(), is_dry=False)

    def told() -> None:
        this_round.arrived += 1
        if not go_on():
            raise Stopped

    try:
        with explaining_errors(folder / FILE), _book_of(folder, link) as book:
            column = _column(book, platform, link)
            with pushing_beside_writer(folder, column.address) as memory:
                plan = _planned(book, column, memory.all(), this_round, part=bool(link.assignment))
                if go_on():
                    sent = send(plan, column, memory, told)
                    this_round.arrived, this_round.failures = sent.arrived, sent.failures
    except Stopped:
        pass
    except GraderError as error:
        this_round.error = str(error)
    return this_round


def known(book: Gradebook, link: Link) -> list[Pushed]:
    """Return what was sent to a link's column, sorted by student."""
    address = Lti.address_of(link, work_of(book, link.assignment))
    found = Memory(book.tables, address).all().values()
    return sorted(found, key=lambda each: each.student)


def _known(book: Gradebook, column: Lti) -> dict[str, Pushed]:
    return Memory(book.tables, column.address).all()


def _column(book: Gradebook, platform: Platform, link: Link) -> Lti:
    users = platforms.users(book, platform.issuer, platform.client_id)
    work = work_of(book, link.assignment)
    return Lti(platform, link, made_key(book.folder), users, work, book.work_title)


def _book_of(folder: Path, link: Link) -> AbstractContextManager[Gradebook]:
    """Open the gradebook with the exercises that a link opens."""
    return Gradebook.open_beside_writer(folder, link.assignment)


def _planned(
    book: Gradebook, column: Lti, before: dict[str, Pushed], this_round: Round, *, part: bool
) -> Plan:
    """Compare, and put the differences into the round."""
    sent = {each.student for each in before.values()}
    # Points are scaled to the column.
    options = Options(
        title=book.work_title,
        not_open=book.not_open,
        out_of=column.worth,
        absent=False,
        policy=book.policy,
    )
    course = 0.0

    def entries() -> Iterator[Entry]:
        nonlocal course
        for entry in book.entries():
            course = max(course, entry.result.max_score)
            # A student who handed in other assignments is not absent, but has nothing in this one.
            if entry.student.id in sent or not (part and is_untouched(entry)):
                yield entry

    plan = planned(entries(), column, before, options)
    this_round.notes = list(column.notes)
    if course and column.worth is not None and column.worth != course:
        this_round.notes.append(
            f"The column is worth {number(column.worth)} points and the course {number(course)}: points are "
            f"scaled to {number(column.worth)}."
        )
    this_round.left = plan.left
    this_round.lines = [
        Line(
            student=change.mine.student,
            there="" if change.there.points is None else number(change.there.points),
            here=number(change.mine.points),
            comment=change.new_comment,
        )
        for change in plan.changes
    ]
    return plan
