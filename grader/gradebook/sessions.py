"""Sessions of `grade serve`: who signed in through a university or a platform, until when.

A session is a token that the server makes after a sign-in elsewhere and the browser keeps in a cookie. It holds
while the server is configured for its origin: where the person signed in, and by which rules people were found.
The table is made where a gradebook has none, and earlier graders pass it over. Only this module has its SQL.
Call functions that write within `Gradebook.transaction`.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection

from grader.gradebook.book import Gradebook
from grader.gradebook.queue import Holder, Role, digest_of

_TABLE = """
CREATE TABLE IF NOT EXISTS sessions (
    digest TEXT PRIMARY KEY,    -- SHA-256 of the token, which is kept nowhere
    role TEXT NOT NULL,
    holder TEXT NOT NULL,       -- a student's id, or the name of a member of staff
    origin TEXT NOT NULL,
    made_at REAL NOT NULL,      -- seconds since 1970
    ends_at REAL NOT NULL
) WITHOUT ROWID
"""
# What tells a session from a token of `grade tokens`.
_PREFIX = "session-"


def prepare(book: Gradebook) -> None:
    """Make the table if there is none."""
    book.tables.connection.execute(_TABLE)


def is_session(token: str) -> bool:
    """Whether a token is of a session, and not made by `grade tokens`."""
    return token.startswith(_PREFIX)


def start_session(
    book: Gradebook, role: Role, name: str, origin: str, now: float, ends_at: float
) -> str:
    """Start a session of a student (by id) or a member of staff (by name); returns its token.

    Sessions that ended by `now` are removed.
    """
    book.tables.connection.execute("DELETE FROM sessions WHERE ends_at <= ?", (now,))
    token = _PREFIX + secrets.token_hex(16)
    book.tables.connection.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
        (digest_of(token), role.value, name, origin, now, ends_at),
    )
    return token


def holder_of(book: Gradebook, token: str, origins: Collection[str], now: float) -> Holder | None:
    """Return whose session this is, if it began at one of the `origins` and has not ended.

    The index is asked only for the beginning of the hash; the rest is compared in constant time.
    """
    digest = digest_of(token)
    rows = book.tables.connection.execute(
        "SELECT digest, role, holder, origin FROM sessions"
        " WHERE digest >= ? AND digest < ? AND ends_at > ?",
        (digest[:8], digest[:8] + "g", now),
    )
    held = [
        Holder(Role(role), name)
        for stored, role, name, origin in rows
        if hmac.compare_digest(stored, digest) and origin in origins
    ]
    return held[0] if held else None


def end_session(book: Gradebook, token: str) -> None:
    """End a session, if there is one with this token."""
    book.tables.connection.execute("DELETE FROM sessions WHERE digest = ?", (digest_of(token),))


def end_sessions(book: Gradebook, role: Role, name: str, now: float) -> int:
    """End all sessions of a student or a member of staff; returns how many had not ended by `now`."""
    still_held = book.tables.connection.execute(
        "SELECT count(*) FROM sessions WHERE role = ? AND holder = ? AND ends_at > ?",
        (role.value, name, now),
    ).fetchone()[0]
    book.tables.connection.execute(
        "DELETE FROM sessions WHERE role = ? AND holder = ?", (role.value, name)
    )
    return int(still_held)
