"""Compare the points that count with those on a platform, and send each difference once.

A `Platform` reads and writes one assignment of a learning platform. Points that a person changed there since
the last push stay, and students whose total is open or held are skipped. The memory records a change before it
is sent and after it arrived. If no answer comes, the platform is read again before anything is sent again.
"""

from __future__ import annotations

import datetime
import hashlib
import html
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from grader.errors import UsageError
from grader.exports.disclosure import disclosed
from grader.exports.formats.feedback import beginnings
from grader.exports.matching import Grades, Key, TemplateRow
from grader.exports.push.client import PushError, Refused, Unclear
from grader.exports.texts import one_line
from grader.exports.verdicts import time_left, total, why_open
from grader.gradebook.policy import Policy
from grader.gradebook.pushed import Memory, Pushed
from grader.results import Disclosure, Entry
from grader.student.client import PAUSES_SECONDS
from grader.text import number, utc

# Points are sent with two decimals.
_SAME = 0.005
_TAG = re.compile(r"<[^<>]*>")
# Give up after this many students in a row without an answer.
_MAX_UNCLEAR = 3


class There(msgspec.Struct, frozen=True, kw_only=True):
    """A student's points and comments on the platform.

    `cells` has the values to match by. `comments` are texts, oldest first; None before they are read. With
    `is_hidden`, the platform may have a comment that it does not show. `stays` is the reason why nothing may be
    sent, if there is one.
    """

    user: str
    name: str
    cells: Mapping[str, str]
    points: float | None = None
    comments: tuple[str, ...] | None = None
    is_hidden: bool = False
    stays: str = ""


class Mine(msgspec.Struct, frozen=True, kw_only=True):
    """A student's points and comment here.

    Our comments start with one of `begins`; any other is a person's. `why` is the reason why nothing is sent:
    the total is open or held.
    """

    student: str
    points: float
    comment: str
    begins: tuple[str, ...]
    absent: bool = False
    why: str = ""


class Change(msgspec.Struct, frozen=True):
    """A difference to send: `new_points`, a `new_comment`, or both."""

    there: There
    mine: Mine
    new_points: bool
    new_comment: bool


class Left(msgspec.Struct, frozen=True):
    """The reason why nothing is sent for a student, as the rest of a sentence about the student."""

    why: str


class Platform(Protocol):
    """One assignment of a learning platform.

    `name` is the platform's name, and `address` identifies the assignment. `worth` is its points there; None if
    there is no column yet, or one that may not be read, until `planned` sets it. With `one_comment`, a new
    comment replaces the last one. With `reads_comments`, comments can be read back. `notes` are for staff to
    read before they send.
    """

    name: str
    address: str
    worth: float | None
    one_comment: bool
    reads_comments: bool
    notes: list[str]
    keys: Sequence[Key]

    def person(self, entry: Entry) -> Mapping[str, str]:
        """Return the names and ids to match a student by."""

    def worded(self, entry: Entry, title: str) -> str:
        """Return the comment, from an entry as its student may read it."""

    def students(self) -> list[There]:
        """Read all students of the assignment."""

    def student(self, there: There) -> There:
        """Read a student again, with the comments."""

    def points(self) -> Mapping[str, float | None]:
        """Read the points of all students."""

    def send(self, change: Change) -> None:
        """Send a change once. Raises Refused or Unclear."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a push: points are scaled to `out_of`, and comments limited by `disclose`.

    Without `absent`, skip students who handed in nothing. With a `policy`, skip only students whose time has
    not run out. Comments leave out exercises that are `not_open`.
    """

    title: str = ""
    not_open: frozenset[str] = frozenset()
    out_of: float | None = None
    disclose: Disclosure | None = None
    comments: bool = True
    overwrite: bool = False
    absent: bool = True
    policy: Policy | None = None


class Plan(msgspec.Struct):
    """The changes to send; `absent` counts the changes for students who handed in nothing.

    `left` has a sentence for each student who is left out, and `not_due` the due time of each student who
    handed in nothing yet. `already_arrived` has changes that arrived before, by the platform's ids.
    """

    changes: list[Change] = []
    absent: int = 0
    left: list[str] = []
    not_due: list[datetime.datetime] = []
    already_arrived: dict[str, Pushed] = {}


class Sent(msgspec.Struct):
    """The number of students whose change arrived, and a sentence about each of the others."""

    arrived: int = 0
    failures: list[str] = []


# --- differences ------------------------------------------------------------------------------------


def planned(
    entries: Iterable[Entry], platform: Platform, before: Mapping[str, Pushed], options: Options
) -> Plan:
    """Compare the class with the platform; `before` is the memory of earlier pushes. Nothing is sent.

    Raises UsageError if the assignment is worth other points there and `out_of` is not given.
    """
    grades = Grades(
        (),
        platform.person,
        options.out_of,
        place=f"among the students of the assignment in {platform.name}",
        outcome="nothing is sent",
    )
    mine: list[Mine] = []
    worths: list[float] = []
    not_due: list[datetime.datetime] = []
    sent, now = {pushed.student for pushed in before.values()}, datetime.datetime.now(datetime.UTC)
    # Read once: a server may add a student between two readings.
    for entry in entries:
        worths.append(entry.result.max_score)
        if entry.absent and not options.absent:
            continue
        until = None if options.policy is None else time_left(entry, options.policy, now)
        if until is not None and entry.student.id not in sent:
            not_due.append(until)
            continue
        mine.append(_mine(entry, platform, options))
        grades.add(entry)
    # The platform scales the points that it reads by this, so it is set before they are read.
    platform.worth = _worth(platform, worths, options.out_of)
    students = platform.students()
    rows = [TemplateRow(s.cells, one_line(s.name), f"number {s.user}") for s in students]
    matched = {person: students[row] for row, person in grades.match(rows, platform.keys).items()}
    plan = Plan(left=list(grades.unmatched), not_due=not_due)
    for person, own in enumerate(mine):
        if person not in matched:
            continue
        there = matched[person]
        known = before.get(there.user, Pushed())
        found = decided(own, there, known, platform, overwrite=options.overwrite)
        if isinstance(found, Change) and there.comments is None:
            there = platform.student(there)
            found = decided(own, there, known, platform, overwrite=options.overwrite)
        if isinstance(found, Change):
            plan.changes.append(found)
            plan.absent += own.absent
        elif isinstance(found, Left):
            plan.left.append(f"{own.student}: {found.why}")
        elif (after := _pushed(own, known)) != known:
            plan.already_arrived[there.user] = after
    return plan


def _mine(entry: Entry, platform: Platform, options: Options) -> Mine:
    points, why = total(entry, options.out_of), ""
    if points is None:
        why = f"has no total. {why_open(entry)}"
    elif any(each.provisional and not each.practice for each in entry.result.exercises):
        why = (
            "has held points, because of odd code in a file: `grade show` shows it, and `grade adjust "
            "--release` makes them final."
        )
    own = disclosed(entry, options.disclose, options.not_open)
    return Mine(
        student=entry.student.id,
        points=points or 0.0,
        comment=platform.worded(own, options.title) if options.comments else "",
        begins=tuple(map(_plain, beginnings(own, options.title))),
        absent=entry.absent,
        why=why,
    )


def _worth(platform: Platform, worths: Sequence[float], out_of: float | None) -> float | None:
    """Return the points that the assignment is worth; `worths` are the points of each student's course.

    Raises UsageError if it is worth other points on the platform, and they are not scaled.
    """
    if not worths or (platform.worth is not None and out_of is not None):
        return platform.worth
    if platform.worth is None:
        return max(worths) if out_of is None else out_of
    if _same(platform.worth, max(worths)):
        return platform.worth
    there, here = number(platform.worth), number(max(worths))
    scale = f"--out-of {there} scales them, and " if platform.worth else ""
    raise UsageError(
        f"The assignment is worth {there} points in {platform.name}, and the scores are out of {here}: "
        f"{scale}--out-of {here} sends them as they are."
    )


def decided(
    mine: Mine, there: There, before: Pushed, platform: Platform, *, overwrite: bool = False
) -> Change | Left | None:
    """Return the change for a student, or why it is not made; None if nothing differs."""
    if mine.why or there.stays:
        return Left(mine.why or there.stays)
    new_points = not _same(there.points, mine.points)
    new_comment = _is_new(mine, there, before, platform)
    if not (new_points or new_comment):
        return None
    if not overwrite:
        if new_points and not _is_ours(there.points, before):
            has = "no points any more" if there.points is None else f"{number(there.points)} points"
            return Left(
                f"has {has} in {platform.name}, which no push sent, and {number(mine.points)} here: left as "
                "entered by a person; --overwrite replaces it."
            )
        if platform.one_comment and _is_a_persons(mine, there, before):
            return Left(
                f"has a person's comment in {platform.name}, which is saved with the points: left alone; "
                "--overwrite replaces it."
            )
        if there.is_hidden and (before == Pushed() or not mine.comment):
            return Left(
                f"may have a comment, which {platform.name} hides before its release, and saves with the "
                "points: left alone; --overwrite replaces it."
            )
    return Change(there, mine, new_points, new_comment)


def _is_ours(points: float | None, before: Pushed) -> bool:
    """Return whether the points on the platform are from a push, even one that was killed."""
    if points is None:
        return before.points is None
    return _same(points, before.points) or _same(points, before.sending_points)


def _same(one: float | None, other: float | None) -> bool:
    return (one is None) is (other is None) and abs((one or 0.0) - (other or 0.0)) < _SAME


def _is_new(mine: Mine, there: There, before: Pushed, platform: Platform) -> bool:
    """Return whether our newest comment on the platform differs from the present one.

    A comment that a person removed there is not sent again.
    """
    if not mine.comment:
        return False
    now = digest_of(mine.comment)
    ours = {now, before.comment, before.sending_comment}
    digests = map(digest_of, reversed(there.comments or ()))
    newest = next((digest for digest in digests if digest in ours), None)
    if newest is not None:
        return newest != now
    if before.sending_both and not platform.reads_comments:
        has_arrived = _same(there.points, before.sending_points)
        return now != (before.sending_comment if has_arrived else before.comment)
    return now != before.comment


def _is_a_persons(mine: Mine, there: There, before: Pushed) -> bool:
    """Return whether the platform has a person's comment; ours begin with the name of the work."""
    ours = {digest_of(mine.comment), before.comment, before.sending_comment}
    return any(
        (plain := _plain(text))
        and digest_of(text) not in ours
        and not plain.startswith(mine.begins)
        for text in there.comments or ()
    )


def digest_of(comment: str) -> str:
    """Return the digest of a comment's words, without tags and spaces, which platforms change."""
    plain = _plain(comment)
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32] if plain else ""


def _plain(comment: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", comment)).split())


def _pushed(mine: Mine, before: Pushed) -> Pushed:
    """Return the record of a student whose points and comment have arrived."""
    comment = digest_of(mine.comment) or before.comment
    now = Pushed(student=mine.student, points=mine.points, comment=comment, time=before.time)
    return now if now == before else replace(now, time=utc())


# --- sending ----------------------------------------------------------------------------------------


def send(
    plan: Plan, platform: Platform, memory: Memory, tell: Callable[[], None] = lambda: None
) -> Sent:
    """Send every change, calling `tell` after each, and then check the points on the platform.

    Raises PushError if the platform is out of reach, or refuses everything; the memory has what was sent.
    """
    before = memory.all()
    sent, arrived, unclear = Sent(), dict[str, Change](), 0
    for user, pushed in plan.already_arrived.items():
        memory.keep(user, pushed)
    # The platform was read before a person was asked, which may be long ago.
    meanwhile = platform.points() if plan.changes else {}
    for change in plan.changes:
        user, own = change.there.user, change.mine
        if not _same(meanwhile.get(user), change.there.points):
            sent.failures.append(
                f"{own.student}: the points in {platform.name} have just changed. Run the command again to see "
                "them."
            )
            continue
        known = before.get(user, Pushed())
        sending = replace(
            known,
            student=own.student,
            sending_points=own.points,
            sending_comment=digest_of(own.comment) if change.new_comment else "",
            sending_both=change.new_points and change.new_comment,
            time=utc(),
        )
        memory.keep(user, sending)
        try:
            _deliver(change, platform, sending)
        except Refused as error:
            memory.keep(user, known)
            sent.failures.append(f"{own.student}: {error}")
        except Unclear as error:
            unclear += 1
            if unclear == _MAX_UNCLEAR:
                raise PushError(
                    f"{error} Sent so far: {len(arrived)} of {len(plan.changes)}. Run the command again: it "
                    "finds the changes that arrived, and sends the rest."
                ) from error
            sent.failures.append(f"{own.student}: {error}")
            continue
        else:
            memory.keep(user, _pushed(own, sending))
            arrived[user] = change
            tell()
        unclear = 0
    now = platform.points() if arrived else {}
    for user, change in arrived.items():
        if _same(now.get(user), change.mine.points):
            sent.arrived += 1
            continue
        has = number(points) if (points := now.get(user)) is not None else "no points"
        sent.failures.append(
            f"{change.mine.student}: {platform.name} took {number(change.mine.points)} points without error, "
            f"and has {has}. The grade may be locked or overridden there."
        )
        known = before.get(user, Pushed())
        memory.keep(user, replace(_pushed(change.mine, known), points=known.points))
    return sent


def _deliver(change: Change, platform: Platform, sending: Pushed) -> None:
    """Send a change; without an answer, see what arrived and send the rest. Raises Refused or Unclear."""
    for pause in (*PAUSES_SECONDS, None):
        try:
            platform.send(change)
        except Unclear:
            if pause is None:
                raise
        else:
            return
        time.sleep(pause)
        there = platform.student(change.there)
        left = decided(change.mine, there, sending, platform, overwrite=True)
        if not isinstance(left, Change):
            return
        change = left
    raise AssertionError("the last try returns or raises")
