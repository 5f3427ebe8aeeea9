"""Sessions: who holds one, until when, and from where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.gradebook import Gradebook, sessions
from grader.gradebook.tokens import Holder, Role

NOW = 1_000.0
UNIVERSITY, PLATFORM = "oidc https://id.example.edu", "lti https://moodle.example.edu"


@pytest.fixture
def book(memory_path: Path) -> Iterator[Gradebook]:
    with Gradebook.open_to_write(memory_path / "results") as book:
        sessions.prepare(book)
        yield book


def start(
    book: Gradebook,
    name: str = "ada",
    *,
    role: Role = Role.STUDENT,
    origin: str = UNIVERSITY,
    now: float = NOW,
    ends_at: float = NOW + 60,
) -> str:
    return sessions.start_session(book, role, name, origin, now, ends_at)


def holder(
    book: Gradebook, token: str, origins: tuple[str, ...] = (UNIVERSITY,), now: float = NOW
) -> Holder | None:
    return sessions.holder_of(book, token, origins, now)


def test_a_session_belongs_to_its_holder(book: Gradebook) -> None:
    ada, ben = start(book), start(book, "ben", role=Role.INSTRUCTOR)
    assert ada != ben
    assert holder(book, ada) == Holder(Role.STUDENT, "ada")
    assert holder(book, ben) == Holder(Role.INSTRUCTOR, "ben")
    assert holder(book, ada + "0") is None
    assert holder(book, "session-" + "0" * 32) is None


def test_a_session_has_a_prefix_and_is_kept_only_as_a_digest(book: Gradebook) -> None:
    token = start(book)
    assert sessions.is_session(token)
    assert not sessions.is_session(token.removeprefix("session-"))
    rows = book.tables.connection.execute("SELECT * FROM sessions").fetchall()
    assert token.removeprefix("session-") not in str(rows)


def test_a_session_ends_at_its_time(book: Gradebook) -> None:
    token = start(book, ends_at=NOW + 60)
    assert holder(book, token, now=NOW + 59) is not None
    assert holder(book, token, now=NOW + 60) is None


def test_an_expired_session_is_removed_when_the_next_one_starts(book: Gradebook) -> None:
    old, current = start(book, ends_at=NOW + 1), start(book, ends_at=NOW + 2)
    start(book, "ben", now=NOW + 1)
    assert holder(book, old, now=0) is None
    assert holder(book, current, now=0) is not None


def test_a_session_is_valid_only_while_the_server_has_its_origin(book: Gradebook) -> None:
    token = start(book, origin=PLATFORM)
    assert holder(book, token, (UNIVERSITY,)) is None
    assert holder(book, token, ()) is None
    assert holder(book, token, (UNIVERSITY, PLATFORM)) == Holder(Role.STUDENT, "ada")


def test_signing_out_ends_one_session(book: Gradebook) -> None:
    here, there = start(book), start(book)
    sessions.end_session(book, here)
    sessions.end_session(book, "session-unknown")
    assert holder(book, here) is None
    assert holder(book, there) is not None


def test_all_sessions_of_a_person_end_and_the_valid_ones_are_counted(book: Gradebook) -> None:
    tokens = [start(book, ends_at=NOW + 5), start(book), start(book)]
    staff, other = start(book, role=Role.INSTRUCTOR), start(book, "ben")
    assert sessions.end_sessions(book, Role.STUDENT, "ada", NOW + 5) == 2
    assert [holder(book, token) for token in tokens] == [None] * 3
    assert holder(book, staff) == Holder(Role.INSTRUCTOR, "ada")
    assert holder(book, other) == Holder(Role.STUDENT, "ben")
    assert sessions.end_sessions(book, Role.STUDENT, "ada", NOW) == 0
