"""The memory of pushes: a row for each student on a platform.

A push records each change before it sends it and after it has arrived. So the next push knows which changes of
a killed one may have arrived, and tells a person's grade from ours. Only this module has the SQL of this table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.gradebook.database import FILE, only_writer, opened, opened_to_add
from grader.gradebook.tables import Tables
from grader.gradebook.work import DamagedValueError

_TABLE = """
CREATE TABLE IF NOT EXISTS pushed (
    target TEXT NOT NULL,       -- the address of the platform's assignment
    user TEXT NOT NULL,         -- the platform's id of a student
    pushed TEXT NOT NULL,       -- the struct Pushed as JSON
    PRIMARY KEY (target, user)
) WITHOUT ROWID;
"""
_LOCK = "push.lock"


class Pushed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The points and the digest of the last comment that a platform got for a student.

    `sending_points` and `sending_comment` belong to a push that is under way or was killed, so they may have
    arrived. With `sending_both`, they are in one request: if the points arrived, so did the comment.
    """

    student: str = ""
    points: float | None = None
    comment: str = ""
    sending_points: float | None = None
    sending_comment: str = ""
    sending_both: bool = False
    time: str = ""


class Memory:
    """The records of one assignment on a platform, by the platform's ids of students."""

    def __init__(self, tables: Tables, target: str) -> None:
        self._tables, self._target = tables, target

    def all(self) -> dict[str, Pushed]:
        """Return all records."""
        find = "SELECT 1 FROM sqlite_master WHERE name = 'pushed'"
        if self._tables.connection.execute(find).fetchone() is None:
            return {}
        rows = self._tables.connection.execute(
            "SELECT user, pushed FROM pushed WHERE target = ?", (self._target,)
        )
        try:
            return {user: msgspec.json.decode(text, type=Pushed) for user, text in rows}
        except msgspec.DecodeError as error:
            raise DamagedValueError(str(error)) from error

    def keep(self, user: str, pushed: Pushed) -> None:
        """Keep a student's record, synced to the disk when this returns."""
        with self._tables.transaction():
            self._tables.connection.execute(
                "INSERT OR REPLACE INTO pushed VALUES (?, ?, ?)",
                (self._target, user, msgspec.json.encode(pushed).decode()),
            )


@contextlib.contextmanager
def reading(folder: Path, target: str) -> Iterator[Memory]:
    """Open the memory to read it."""
    with opened(folder / FILE, create=False) as tables:
        yield Memory(tables, target)


@contextlib.contextmanager
def pushing(folder: Path, target: str) -> Iterator[Memory]:
    """Open the memory to write to it, even while a server writes to the gradebook.

    Raises GraderError while another push is running.
    """
    with (
        only_writer(folder, _LOCK, "Another push reads"),
        opened(folder / FILE, create=True) as tables,
    ):
        tables.connection.executescript(_TABLE)
        yield Memory(tables, target)


@contextlib.contextmanager
def pushing_beside_writer(folder: Path, target: str) -> Iterator[Memory]:
    """Open the memory to write to it within a server, which has checked the gradebook already.

    Raises GraderError while another push is running.
    """
    with (
        only_writer(folder, _LOCK, "Another push reads"),
        opened_to_add(folder / FILE) as tables,
    ):
        tables.connection.executescript(_TABLE)
        yield Memory(tables, target)
