"""Requests of staff's programs and the answers to them: the JSON of the routes below `/api/staff/`.

The schemas of docs/openapi.json are made of these structs, and commands with `--server` read and write them.
This module imports nothing of the server, which need not be installed beside a command.
"""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

from grader.gradebook.marking import RubricItem
from grader.gradebook.work import Request
from grader.results import Entry


class StaffInfo(msgspec.Struct, frozen=True):
    """The holder of a token of staff; only an assistant has sections."""

    name: str
    role: str
    sections: tuple[str, ...]
    title: str


class PointsState(msgspec.Struct, frozen=True):
    """A student's points for an exercise that count now; `seen` is the digest of that state.

    After a release, `mates` are the others of the team for whom it counts, too.
    """

    student: str
    name: str
    exercise: str
    score: float
    max_score: float
    held: bool
    seen: str
    mates: tuple[str, ...] = ()


class CorrectionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of points, decided on the state `seen`: `points`, `add`, `release` or a comment."""

    student: str
    exercise: str
    seen: str
    points: float | None = None
    add: float | None = None
    release: bool = False
    reason: str = ""
    comment: str = ""


class ClassPoints(msgspec.Struct, frozen=True):
    """The points of a student for an exercise that count now; `is_open` if a verdict is to come."""

    student: str
    name: str
    score: float
    max_score: float
    is_open: bool


class ClassState(msgspec.Struct, frozen=True):
    """The points of the whole class for an exercise; `seen` is the digest of the corrections of the class.

    `said` is the correction that a request made or took back, in words.
    """

    exercise: str
    students: tuple[ClassPoints, ...]
    seen: str
    said: str = ""


class ClassCorrectionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change for the whole class, decided on the state `seen`: `add`, `drop`, `give` or a comment.

    `undo` takes the newest change back instead, or the one about the test in `drop` or `give`.
    """

    exercise: str
    seen: str
    add: float | None = None
    drop: str = ""
    give: str = ""
    reason: str = ""
    comment: str = ""
    undo: bool = False


class StaffRequest(msgspec.Struct, frozen=True):
    """A regrade request with the points that count; `entry` is set only in answers about a single request."""

    request: Request
    name: str
    score: float | None
    max_score: float
    entry: Entry | None = None


class AnswerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to the regrade request of this number."""

    number: int
    answer: str


# --- extensions -----------------------------------------------------------------------------------


class DueTime(msgspec.Struct, frozen=True):
    """When an exercise is due for a student, in UTC; an extension makes `until` later than `due`."""

    exercise: str
    due: str
    until: str
    reason: str


class ExtensionRow(msgspec.Struct, frozen=True):
    """An extension that a person gave, in words; times are ISO 8601."""

    words: str
    exercises: tuple[str, ...]
    until: str
    reason: str
    author: str
    time: str


class ExtensionsState(msgspec.Struct, frozen=True):
    """The due times and extensions of a student; `seen` is the digest of that state.

    `choices` are the names for which more time can be given, each with its label; an empty name means all
    exercises. `exams` are the titles of the exams among the assignments that are due.
    """

    student: str
    name: str
    timezone: str
    due: tuple[DueTime, ...]
    extensions: tuple[ExtensionRow, ...]
    choices: tuple[tuple[str, str], ...]
    exams: tuple[str, ...]
    seen: str


class ExtensionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """More time, given when the state was `seen`; or `take_back`, the number of an extension, from 0.

    `name` is an exercise, an assignment, or empty for all exercises. `until` without an offset is in the time
    zone of the course.
    """

    student: str
    seen: str
    name: str = ""
    until: datetime.datetime | None = None
    reason: str = ""
    take_back: int | None = None


# --- marking by a rubric --------------------------------------------------------------------------


# What a person does with the answers about a file.
Do = Literal["draft", "next", "skip", "stop"]


class MarkMade(msgspec.Struct, frozen=True):
    """A mark of a file."""

    points: float
    reason: str
    author: str
    time: str


class FileForMarking(msgspec.Struct, frozen=True, kw_only=True):
    """A file to mark, with the answers so far; `seen` is the digest of that state.

    `file` is its name on the server. `student` and `name` are empty if names are hidden.
    """

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


class Marking(msgspec.Struct, frozen=True, kw_only=True):
    """The rubric of an exercise, the number of waiting files, and the `file` that this person has now.

    `others` are people who have a file; if `file` is null, they have all remaining files.
    """

    items: tuple[RubricItem, ...]
    waiting: int
    files: int
    others: tuple[str, ...]
    file: FileForMarking | None


class MarkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answers about a file, made when its state was `seen`.

    `draft` keeps them; `next` makes them the mark, and leaves the file; `skip` and `stop` keep and leave it.
    """

    file: str
    seen: str
    do: Do
    keys: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()


class MarkSaved(msgspec.Struct, frozen=True):
    """The state of a file after its answers were kept."""

    seen: str
