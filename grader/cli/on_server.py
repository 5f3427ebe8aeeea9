"""Requests of staff's commands to a running server, with `--server` and the token of `grade login`."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from grader.gradebook.marking import RubricItem
from grader.gradebook.work import Request
from grader.results import Entry
from grader.student.server import Server, asked, checked_address, decoded_as, kept_server

_OF_CLASS = "/api/staff/corrections/class"


class MarkMade(msgspec.Struct, frozen=True):
    """A mark of a file."""

    points: float
    reason: str
    author: str


class FileForMarking(msgspec.Struct, frozen=True):
    """A file to mark, with the answers so far; see docs/openapi.json."""

    file: str
    student: str
    name: str
    score: float
    max_score: float
    source: str
    keys: tuple[str, ...]
    comments: tuple[str, ...]
    marks: tuple[MarkMade, ...]
    seen: str


class Marking(msgspec.Struct, frozen=True):
    """The rubric of an exercise, and the file that is with this person now."""

    items: tuple[RubricItem, ...]
    waiting: int
    files: int
    others: tuple[str, ...]
    file: FileForMarking | None


class StaffRequest(msgspec.Struct, frozen=True):
    """A regrade request with the points that count, and perhaps its verdict."""

    request: Request
    name: str
    score: float | None
    max_score: float
    entry: Entry | None = None


class ClassPoints(msgspec.Struct, frozen=True):
    """The points of a student that count now."""

    student: str
    name: str
    score: float
    max_score: float
    is_open: bool


class ClassState(msgspec.Struct, frozen=True):
    """The points of the whole class for an exercise; see docs/openapi.json."""

    exercise: str
    students: tuple[ClassPoints, ...]
    seen: str
    said: str


class _Saved(msgspec.Struct, frozen=True):
    seen: str


class _Queued(msgspec.Struct, frozen=True):
    queued: int


def signed_in(address: str) -> Server:
    """Return the server with the token of `grade login`; raises a usage error without one."""
    address, server = checked_address(address), kept_server()
    if server is None or server.address != address:
        raise click.UsageError(f"Sign in first, with a token of staff: grade login {address}")
    return server


def requests_on(server: Server, number: int | None = None) -> list[StaffRequest]:
    """Return the regrade requests, or the one of this number with its verdict; raises GraderError."""
    query = f"?number={number}" if number is not None else ""
    return decoded_as(asked(server, "GET", f"/api/staff/requests{query}"), list[StaffRequest])


def answer_on(server: Server, number: int, text: str) -> StaffRequest:
    """Answer a regrade request; raises GraderError."""
    sent = _json({"number": number, "answer": text})
    return decoded_as(asked(server, "POST", "/api/staff/requests", sent), list[StaffRequest])[0]


def class_points_on(server: Server, exercise: str) -> ClassState:
    """Return the points of the whole class for an exercise; raises GraderError."""
    query = urllib.parse.urlencode({"exercise": exercise})
    return decoded_as(asked(server, "GET", f"{_OF_CLASS}?{query}"), ClassState)


def correct_class_on(server: Server, before: ClassState, **change: Any) -> ClassState:
    """Change the points of the whole class from a state; the `change` has fields of `ClassCorrectionRequest`.

    Raises ChangedError if somebody else corrected the class since, SubmissionError if the change is impossible,
    and GraderError.
    """
    sent = {"exercise": before.exercise, "seen": before.seen, **change}
    return decoded_as(asked(server, "POST", _OF_CLASS, _json(sent)), ClassState)


def regrade_on(server: Server, exercises: Sequence[str]) -> int:
    """Queue a regrade of these exercises, of all if none is named; return how many files it judges."""
    answer = asked(server, "POST", "/api/staff/regrade", _json({"exercises": [*exercises]}))
    return decoded_as(answer, _Queued).queued


def next_to_mark(
    server: Server, exercise: str, *, after: str, again: bool, anonymous: bool
) -> Marking:
    """Return the next file to mark, which is with this person from then on; raises GraderError."""
    given = {"after": after} if after else {}
    given |= {"again": "1"} if again else {}
    given |= {"anonymous": "1"} if anonymous else {}
    address = f"{_marks(exercise)}?{urllib.parse.urlencode(given)}"
    return decoded_as(asked(server, "GET", address), Marking)


def keep_answers(
    server: Server,
    exercise: str,
    file: FileForMarking,
    do: str,
    keys: Sequence[str],
    comments: Sequence[str],
) -> FileForMarking:
    """Keep the answers about a file, and leave it unless `do` is `draft`; return the file as it is seen then.

    Raises ChangedError if somebody else has the file or changed something, and GraderError.
    """
    sent = {"file": file.file, "seen": file.seen, "do": do}
    body = _json({**sent, "keys": [*keys], "comments": [*comments]})
    saved = decoded_as(asked(server, "POST", _marks(exercise), body), _Saved)
    return msgspec.structs.replace(file, seen=saved.seen)


def _marks(exercise: str) -> str:
    return f"/api/staff/marks/{urllib.parse.quote(exercise, safe='')}"


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
