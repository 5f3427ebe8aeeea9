"""LTI platforms that register themselves: one-time addresses for them, and platforms that wait for a person.

`grade platform invite` makes the secret of an address, which works once within an hour and is kept as a hash. A
platform that used one waits, and is not trusted, until `grade platform confirm`. Earlier graders ignore these
tables. Only this module has their SQL. Call functions that write within `Gradebook.transaction`.
"""

from __future__ import annotations

import secrets

import msgspec

from grader.gradebook.book import Gradebook
from grader.gradebook.platforms import Platform
from grader.gradebook.tokens import digest_of
from grader.gradebook.work import DamagedValueError

_TABLES = """
CREATE TABLE IF NOT EXISTS platform_invitations (
    digest TEXT PRIMARY KEY,            -- SHA-256 of the secret, which is kept nowhere
    ends_at REAL NOT NULL               -- seconds since 1970
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS platforms_waiting (
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    platform TEXT NOT NULL,             -- the struct Platform as JSON, perhaps without a deployment
    PRIMARY KEY (issuer, client_id)
) WITHOUT ROWID;
"""
# How long an address works.
VALID_SECONDS = 3600.0


def prepare(book: Gradebook) -> None:
    """Make the tables if there are none."""
    book.tables.connection.executescript(_TABLES)


def invite(book: Gradebook, now: float) -> str:
    """Return a new secret, which is valid for an hour from `now`; expired ones are removed."""
    connection = book.tables.connection
    connection.execute("DELETE FROM platform_invitations WHERE ends_at <= ?", (now,))
    secret = secrets.token_hex(16)
    connection.execute(
        "INSERT INTO platform_invitations VALUES (?, ?)", (digest_of(secret), now + VALID_SECONDS)
    )
    return secret


def is_valid(book: Gradebook, secret: str, now: float) -> bool:
    """Whether a secret is known, has not expired, and was not used."""
    found = book.tables.connection.execute(
        "SELECT 1 FROM platform_invitations WHERE digest = ? AND ends_at > ?",
        (digest_of(secret), now),
    )
    return found.fetchone() is not None


def use(book: Gradebook, secret: str, now: float) -> bool:
    """Use a secret up; return whether it was valid."""
    was_valid = is_valid(book, secret, now)
    book.tables.connection.execute(
        "DELETE FROM platform_invitations WHERE digest = ?", (digest_of(secret),)
    )
    return was_valid


def end_all(book: Gradebook) -> None:
    """Make every secret invalid: a restored gradebook does not know which were used since its backup."""
    if _has(book, "platform_invitations"):
        book.tables.connection.execute("DELETE FROM platform_invitations")


def keep_waiting(book: Gradebook, platform: Platform) -> None:
    """Keep a platform that registered itself, until a person confirms or removes it."""
    book.tables.connection.execute(
        "INSERT OR REPLACE INTO platforms_waiting VALUES (?, ?, ?)",
        (platform.issuer, platform.client_id, msgspec.json.encode(platform).decode()),
    )


def waiting(book: Gradebook) -> list[Platform]:
    """Return the platforms that wait for a person, sorted by issuer and client id."""
    if not _has(book, "platforms_waiting"):
        return []
    connection = book.tables.connection
    query = "SELECT platform FROM platforms_waiting ORDER BY issuer, client_id"
    try:
        return [msgspec.json.decode(text, type=Platform) for (text,) in connection.execute(query)]
    except msgspec.DecodeError as error:
        raise DamagedValueError(str(error)) from error


def wait_no_longer(book: Gradebook, issuer: str, client_id: str) -> None:
    """Remove a platform that waits."""
    book.tables.connection.execute(
        "DELETE FROM platforms_waiting WHERE issuer = ? AND client_id = ?", (issuer, client_id)
    )


def _has(book: Gradebook, table: str) -> bool:
    find = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return book.tables.connection.execute(find, (table,)).fetchone() is not None
