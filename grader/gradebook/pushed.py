"""What `grade push` has sent to a platform: a row for each of its students.

What is about to be sent is kept before it is sent, and what was sent is kept afterwards. So after a killed push
it is known what may have arrived, and a grade that a person changed differs from one that we sent. Only this
module has the SQL of this table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.gradebook.tables import FILE, Tables, only_writer, opened, opened_to_add
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
    """What a platform got for a student: points, and the digest of the last comment.

    `sending` are the same of a push that is under way, or was killed before it had an answer: that may have
    arrived. With `sending_both`, they are in one request, and points that arrived show that the comment did.
    """

    student: str = ""
    points: float | None = None
    comment: str = ""
    sending_points: float | None = None
    sending_comment: str = ""
    sending_both: bool = False
    time: str = ""


class Memory:
    """What one assignment of a platform got, by the platform's ids of students."""

    def __init__(self, tables: Tables, target: str) -> None:
        self._tables, self._target = tables, target

    def all(self) -> dict[str, Pushed]:
        """Return what is kept; nothing if nothing was ever pushed."""
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
        """Keep what a student got; it is on the disk when this returns."""
        with self._tables.transaction():
            self._tables.connection.execute(
                "INSERT OR REPLACE INTO pushed VALUES (?, ?, ?)",
                (self._target, user, msgspec.json.encode(pushed).decode()),
            )


@contextlib.contextmanager
def reading(folder: Path, target: str) -> Iterator[Memory]:
    """Open what was pushed, to read it."""
    with opened(folder / FILE, create=False) as tables:
        yield Memory(tables, target)


@contextlib.contextmanager
def pushing(folder: Path, target: str) -> Iterator[Memory]:
    """Open what was pushed, to keep more, also while a server writes to the gradebook.

    Raises GraderError while another push goes on.
    """
    with (
        only_writer(folder, _LOCK, "Another push reads"),
        opened(folder / FILE, create=True) as tables,
    ):
        tables.connection.executescript(_TABLE)
        yield Memory(tables, target)


@contextlib.contextmanager
def pushing_beside_writer(folder: Path, target: str) -> Iterator[Memory]:
    """Open what was pushed, to keep more in the process of a server, which checked the gradebook.

    Raises GraderError while another push goes on.
    """
    with (
        only_writer(folder, _LOCK, "Another push reads"),
        opened_to_add(folder / FILE) as tables,
    ):
        tables.connection.executescript(_TABLE)
        yield Memory(tables, target)
