"""Requests of staff's commands to a running server, with `--server` and the token of `grade login`."""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Sequence
from typing import Any, TypeVar

import click
import msgspec

from grader.serve.messages import (
    AnswerRequest,
    ClassCorrectionRequest,
    ClassState,
    CorrectionRequest,
    Do,
    ExtensionRequest,
    ExtensionsState,
    FileForMarking,
    Marking,
    MarkRequest,
    MarkSaved,
    PointsState,
    StaffRequest,
)
from grader.student.client import Server, asked, checked_address, decoded_as, kept_server

T = TypeVar("T")

_OF_STUDENT = "/api/staff/corrections"
_OF_CLASS = "/api/staff/corrections/class"
_EXTENSIONS = "/api/staff/extensions"


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
    sent = AnswerRequest(number, text)
    return _told(server, "/api/staff/requests", sent, list[StaffRequest])[0]


def points_on(server: Server, student: str, exercise: str) -> PointsState:
    """Return the points of a student for an exercise; raises GraderError."""
    query = urllib.parse.urlencode({"student": student, "exercise": exercise})
    return decoded_as(asked(server, "GET", f"{_OF_STUDENT}?{query}"), PointsState)


def correct_on(server: Server, before: PointsState, **change: Any) -> PointsState:
    """Change a student's points from a state; the `change` has fields of `CorrectionRequest`.

    If an answer is lost, the request is sent again, which changes nothing twice: the server refuses it if the
    points have changed since. Raises as `correct_class_on` does.
    """
    sent = CorrectionRequest(before.student, before.exercise, before.seen, **change)
    return _told(server, _OF_STUDENT, sent, PointsState)


def extensions_on(server: Server, student: str) -> ExtensionsState:
    """Return the extensions of a student; raises GraderError."""
    query = urllib.parse.urlencode({"student": student})
    return decoded_as(asked(server, "GET", f"{_EXTENSIONS}?{query}"), ExtensionsState)


def extend_on(
    server: Server, before: ExtensionsState, name: str, until: datetime.datetime, reason: str
) -> ExtensionsState:
    """Give a student more time from a state, and return the state afterwards; raises GraderError.

    `name` is an exercise, an assignment, or empty for all exercises.
    """
    sent = ExtensionRequest(before.student, before.seen, name, until, reason)
    return _told(server, _EXTENSIONS, sent, ExtensionsState)


def class_points_on(server: Server, exercise: str) -> ClassState:
    """Return the points of the whole class for an exercise; raises GraderError."""
    query = urllib.parse.urlencode({"exercise": exercise})
    return decoded_as(asked(server, "GET", f"{_OF_CLASS}?{query}"), ClassState)


def correct_class_on(server: Server, before: ClassState, **change: Any) -> ClassState:
    """Change the points of the whole class from a state; the `change` has fields of `ClassCorrectionRequest`.

    Raises ChangedError if somebody else corrected the class since, SubmissionError if the change is impossible,
    and GraderError.
    """
    sent = ClassCorrectionRequest(before.exercise, before.seen, **change)
    return _told(server, _OF_CLASS, sent, ClassState)


def regrade_on(server: Server, exercises: Sequence[str]) -> int:
    """Queue a regrade of these exercises, of all if none is named; return how many files it judges."""
    return _told(server, "/api/staff/regrade", {"exercises": [*exercises]}, _Queued).queued


def next_to_mark(
    server: Server, exercise: str, *, after: str, again: bool, anonymous: bool
) -> Marking:
    """Return the next file to mark, which is with this person from then on; raises GraderError."""
    query = {"after": after} if after else {}
    query |= {"again": "1"} if again else {}
    query |= {"anonymous": "1"} if anonymous else {}
    address = f"{_marks(exercise)}?{urllib.parse.urlencode(query)}"
    return decoded_as(asked(server, "GET", address), Marking)


def keep_remarks(
    server: Server,
    exercise: str,
    file: FileForMarking,
    do: Do,
    keys: Sequence[str],
    comments: Sequence[str],
) -> FileForMarking:
    """Keep the answers about a file, and leave it unless `do` is `draft`; return the file as it is seen then.

    Raises ChangedError if somebody else has the file or changed something, and GraderError.
    """
    sent = MarkRequest(file.file, file.seen, do, tuple(keys), tuple(comments))
    saved = _told(server, _marks(exercise), sent, MarkSaved)
    return msgspec.structs.replace(file, seen=saved.seen)


def _marks(exercise: str) -> str:
    return f"/api/staff/marks/{urllib.parse.quote(exercise, safe='')}"


def _told(server: Server, path: str, sent: Any, kind: type[T]) -> T:
    """Send a request as JSON, and return the answer; raises GraderError."""
    return decoded_as(asked(server, "POST", path, msgspec.json.encode(sent)), kind)
