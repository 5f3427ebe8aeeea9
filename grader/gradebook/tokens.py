"""Tokens in the gradebook, with which students and staff sign in to `grade serve`.

Only this module has the SQL of these tables. Call functions that write within `changing_tokens`.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from grader.gradebook.book import Gradebook

_TABLES = """
CREATE TABLE IF NOT EXISTS tokens (
    digest TEXT PRIMARY KEY,                   -- SHA-256 of the token, which is kept nowhere
    role TEXT NOT NULL,
    holder TEXT NOT NULL,                      -- a student's id, or the name of a member of staff
    made_at REAL NOT NULL,
    revoked_at REAL NOT NULL                   -- 0 while it holds
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS token_sections (    -- the sections of the class list that an assistant reaches
    digest TEXT NOT NULL REFERENCES tokens (digest),
    section TEXT NOT NULL,
    PRIMARY KEY (digest, section)
) WITHOUT ROWID;
"""


class Role(enum.Enum):
    """The role of a token's holder; roles of staff are in the order of their rights, most first.

    The value `staff` is from the time before there were several roles.
    """

    STUDENT = "student"
    OWNER = "owner"
    INSTRUCTOR = "staff"
    ASSISTANT = "assistant"
    OBSERVER = "observer"

    @property
    def word(self) -> str:
        """The name of the role in lower case."""
        return self.name.lower()


STAFF = tuple(role for role in Role if role is not Role.STUDENT)


class Holder(NamedTuple):
    """The holder of a token; only assistants have `sections`."""

    role: Role
    name: str
    sections: tuple[str, ...] = ()


def prepare(book: Gradebook) -> None:
    """Make the tables if there are none."""
    book.tables.connection.executescript(_TABLES)


def changing_tokens(folder: Path) -> AbstractContextManager[Gradebook]:
    """Open the gradebook in a folder to change tokens, as `Gradebook.open_to_change` does."""
    return Gradebook.open_to_change(folder, prepare)


def make_token(
    book: Gradebook, role: Role, name: str, now: float, sections: Collection[str] = ()
) -> str:
    """Return a new token of 128 random bits, and revoke the holder's earlier ones; only its hash is kept.

    A member of staff has one role: tokens for other roles are revoked, too. An assistant has access to the
    students in `sections`.
    """
    revoke_tokens(book, role, name, now)
    token = secrets.token_hex(16)
    book.tables.connection.execute(
        "INSERT INTO tokens VALUES (?, ?, ?, ?, 0)", (digest_of(token), role.value, name, now)
    )
    book.tables.connection.executemany(
        "INSERT INTO token_sections VALUES (?, ?)",
        [(digest_of(token), section) for section in sorted({*sections})],
    )
    return token


def revoke_tokens(book: Gradebook, role: Role, name: str, now: float) -> int:
    """Revoke the tokens of a student or of a member of staff; return how many were valid."""
    return book.tables.connection.execute(
        "UPDATE tokens SET revoked_at = ? WHERE (role = 'student') = ? AND holder = ? AND revoked_at = 0",
        (now, role is Role.STUDENT, name),
    ).rowcount


def holders(book: Gradebook, role: Role) -> set[str]:
    """Return the holders of valid tokens."""
    query = "SELECT holder FROM tokens WHERE role = ? AND revoked_at = 0"
    return {name for (name,) in book.tables.connection.execute(query, (role.value,))}


def held_tokens(book: Gradebook) -> list[tuple[Holder, float]]:
    """Return the holders of valid tokens, staff first, each with the token's time in seconds since 1970."""
    there = "SELECT 1 FROM sqlite_master WHERE name = 'tokens'"
    if book.tables.connection.execute(there).fetchone() is None:
        return []
    rows = book.tables.connection.execute(
        "SELECT digest, role, holder, made_at FROM tokens WHERE revoked_at = 0 ORDER BY holder"
    ).fetchall()
    held = [(_holder(book, digest, Role(role), name), at) for digest, role, name, at in rows]
    order = [*STAFF, Role.STUDENT]
    return sorted(held, key=lambda each: order.index(each[0].role))


def _holder(book: Gradebook, digest: str, role: Role, name: str) -> Holder:
    """Return the holder of a token, for an assistant with the sections."""
    if role is not Role.ASSISTANT:
        return Holder(role, name)
    query = "SELECT section FROM token_sections WHERE digest = ? ORDER BY section"
    rows = book.tables.connection.execute(query, (digest,))
    return Holder(role, name, tuple(section for (section,) in rows))


def holder_of(book: Gradebook, token: str) -> Holder | None:
    """Return the holder of a token; None if it is not valid.

    The index looks up only the beginning of the hash; the rest is compared in constant time.
    """
    digest = digest_of(token)
    rows = book.tables.connection.execute(
        "SELECT digest, role, holder FROM tokens WHERE digest >= ? AND digest < ? AND revoked_at = 0",
        (digest[:8], digest[:8] + "g"),
    )
    for stored, role, name in rows:
        if hmac.compare_digest(stored, digest):
            return _holder(book, digest, Role(role), name)
    return None


def digest_of(token: str) -> str:
    """Return the hash by which a token is kept."""
    # 128 random bits cannot be guessed, so no slow hash is needed.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
