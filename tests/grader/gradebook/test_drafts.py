"""Drafts in the gradebook: the newest one and the last ten versions, each visible to its student only."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.gradebook import Gradebook, drafts
from grader.gradebook.drafts import MAX_VERSIONS, VERSION_SECONDS
from grader.results import StudentInfo

NOW = 1_800_000_000.0


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        drafts.prepare(book)
        with book.transaction():
            for name in ("ada", "bob"):
                book.keep_student(StudentInfo(id=name))
        yield book


def save(
    book: Gradebook, source: str, now: float, *, who: str = "ada", keep: bool = False
) -> drafts.Draft:
    with book.transaction():
        return drafts.save_draft(book, who, "glu", source.encode(), now, keep=keep)


def versions(book: Gradebook, who: str = "ada") -> list[str]:
    """Return the texts of the versions, newest first."""
    found = [
        drafts.version_of(book, who, "glu", each.number)
        for each in drafts.versions_of(book, who, "glu")
    ]
    return [(source or b"?").decode() for source in found]


def test_the_newest_draft_is_kept_and_each_change_is_a_revision(book: Gradebook) -> None:
    assert drafts.draft_of(book, "ada", "glu") is None
    assert save(book, "a", NOW).revision == 1
    assert save(book, "b", NOW + 1) == drafts.Draft(2, b"b", NOW + 1)
    assert save(book, "b", NOW + 2) == drafts.Draft(2, b"b", NOW + 1), "the same text is no change"
    assert drafts.draft_of(book, "ada", "gelu") is None


def test_a_version_is_kept_from_time_to_time_while_writing(book: Gradebook) -> None:
    for second in range(int(3 * VERSION_SECONDS)):
        save(book, f"text {second}", NOW + second)
    *later, first = versions(book)
    assert first == "text 0" and len(later) == 3


def test_a_text_that_is_replaced_as_a_whole_is_kept_at_once(book: Gradebook) -> None:
    save(book, "work", NOW)
    save(book, "more work", NOW + 1)
    save(book, "the stub", NOW + 2, keep=True)
    assert versions(book) == ["more work", "work"]
    assert drafts.draft_of(book, "ada", "glu") == drafts.Draft(3, b"the stub", NOW + 2)


def test_the_last_ten_versions_of_each_student_are_kept(book: Gradebook) -> None:
    save(book, "his", NOW, who="bob")
    save(book, "his own", NOW + 1, who="bob", keep=True)
    for number in range(30):
        save(book, f"text {number}", NOW + number, keep=True)
    assert versions(book) == [f"text {number}" for number in range(28, 28 - MAX_VERSIONS, -1)]
    assert versions(book, "bob") == ["his"]


def test_a_clock_that_is_set_back_loses_no_version(book: Gradebook) -> None:
    save(book, "a", NOW)
    save(book, "b", NOW + 1, keep=True)
    save(book, "c", NOW - 100_000)
    assert versions(book)[0] == "b"


def test_a_version_of_another_student_is_not_found(book: Gradebook) -> None:
    save(book, "a", NOW)
    save(book, "b", NOW + 1, keep=True)
    (version,) = drafts.versions_of(book, "ada", "glu")
    assert drafts.version_of(book, "ada", "glu", version.number) == b"a"
    assert drafts.version_of(book, "bob", "glu", version.number) is None
    assert drafts.version_of(book, "ada", "gelu", version.number) is None
    assert drafts.versions_of(book, "bob", "glu") == []


def test_an_older_gradebook_gets_the_tables_without_a_format_change(
    tmp_path: Path,
) -> None:
    with Gradebook.open_to_write(tmp_path) as book:
        before = book.tables.connection.execute("PRAGMA user_version").fetchone()
        with book.transaction():
            book.keep_student(StudentInfo(id="ada"))
        drafts.prepare(book)
        save(book, "a", NOW)
    with Gradebook.open_to_write(tmp_path) as book:
        drafts.prepare(book)
        assert drafts.draft_of(book, "ada", "glu") == drafts.Draft(1, b"a", NOW)
        assert book.tables.connection.execute("PRAGMA user_version").fetchone() == before


def test_drafts_that_nobody_handed_in_are_listed_without_their_texts(
    book: Gradebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decompressing the drafts of a whole class would block every request for a second."""
    monkeypatch.setattr(zlib, "decompress", None)
    assert drafts.never_handed_in(book) == []
    for who in ("bob", "ada"):
        with book.transaction():
            assert drafts.save_draft(book, who, "glu", b"x = 1\n", NOW).revision == 1
    assert drafts.never_handed_in(book) == [("ada", "glu"), ("bob", "glu")]
