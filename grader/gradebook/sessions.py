"""Sessions of `grade serve`: people who signed in through a university or a platform.

A session is a token that the server makes after a sign-in elsewhere; the browser keeps it in a cookie. Its
origin names the place of the sign-in and the rules to find people, and it is valid while the server has that
origin. Earlier graders ignore the table. Only this module has its SQL. Call functions that write within
`Gradebook.transaction`.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection

from grader.gradebook.book import Gradebook
from grader.gradebook.tokens import Holder, Role, digest_of

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
# The prefix distinguishes sessions from tokens of `grade tokens`.
_PREFIX = "session-"


def prepare(book: Gradebook) -> None:
    """Make the table if there is none."""
    book.tables.connection.execute(_TABLE)


def is_session(token: str) -> bool:
    """Whether a token is a session's, rather than one of `grade tokens`."""
    return token.startswith(_PREFIX)


def start_session(
    book: Gradebook, role: Role, name: str, origin: str, now: float, ends_at: float
) -> str:
    """Start a session of a student (`name` is the id) or a member of staff, and return its token.

    `now` and `ends_at` are in seconds since 1970. Expired sessions are removed.
    """
    book.tables.connection.execute("DELETE FROM sessions WHERE ends_at <= ?", (now,))
    token = _PREFIX + secrets.token_hex(16)
    book.tables.connection.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
        (digest_of(token), role.value, name, origin, now, ends_at),
    )
    return token


def holder_of(book: Gradebook, token: str, origins: Collection[str], now: float) -> Holder | None:
    """Return the holder of a session with one of these `origins`; None if it is not valid or has ended.

    The index looks up only the beginning of the hash; the rest is compared in constant time.
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
    """End the session with this token, if there is one."""
    book.tables.connection.execute("DELETE FROM sessions WHERE digest = ?", (digest_of(token),))


def end_sessions(book: Gradebook, role: Role, name: str, now: float) -> int:
    """End all sessions of a student or a member of staff; return how many had not expired by `now`."""
    still_held = book.tables.connection.execute(
        "SELECT count(*) FROM sessions WHERE role = ? AND holder = ? AND ends_at > ?",
        (role.value, name, now),
    ).fetchone()[0]
    book.tables.connection.execute(
        "DELETE FROM sessions WHERE role = ? AND holder = ?", (role.value, name)
    )
    return int(still_held)
