"""A gradebook of format 1 becomes one of today: at once or not at all, and a copy of it stays.

The file is that of `batch/test_before.py`.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.errors import GraderError
from grader.gradebook import Gradebook, Keeper, format1
from grader.results import Entry, Status, StudentInfo

from .test_durability import as_a_reader, in_a_child, shelf

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks")

__all__ = ["shelf"]  # a fixture

BEFORE = Path(__file__).parent / "batch" / "gradebook_before_the_move.sqlite.xz"
FILE, COPY = "gradebook.sqlite", "gradebook.format1.sqlite"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / FILE).write_bytes(lzma.decompress(BEFORE.read_bytes()))
    return folder


def version(file: Path) -> int:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def rows(file: Path, query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def read(folder: Path) -> list[tuple[Entry, dict[str, bytes]]]:
    with Gradebook.open(folder) as book:
        return [(entry, book.sources(entry)) for entry in book.entries()]


def test_a_reader_changes_nothing(results: Path) -> None:
    before = (results / FILE).read_bytes()
    entries = {entry.student.id: entry for entry, _ in read(results)}
    assert entries["bob"].result.score == 7.5
    assert entries["mia"].absent and entries["mia"].result.max_score == 10
    assert entries["mia"].result.exercises[0].message == "Nothing was handed in."
    assert (results / FILE).read_bytes() == before
    assert not (results / COPY).exists()


def test_a_writer_makes_it_one_of_today_and_keeps_a_copy(results: Path) -> None:
    seen, file = read(results), results / FILE
    kept = {
        table: rows(file, f"SELECT * FROM {table}")  # names of ours
        for table in ("students", "sources", "environments", "grades", "replaced")
    }
    attempts = rows(file, "SELECT id, student, number, digest, submitted_at FROM attempts")
    with Keeper.open(results):
        pass
    assert (version(file), version(results / COPY)) == (2, 1)
    assert read(results) == seen
    for table, before in kept.items():
        assert rows(file, f"SELECT * FROM {table}") == before
        assert rows(results / COPY, f"SELECT * FROM {table}") == before
    assert rows(file, "SELECT id, student, number, digest, submitted_at FROM attempts") == attempts
    assert rows(file, "SELECT attempt, exercise, source FROM files") == rows(
        file, "SELECT attempt, exercise, source FROM grades"
    )
    assert sorted(path.name for path in results.iterdir()) == sorted(
        ("batch.lock", FILE, COPY, "results")
    )


def test_what_is_in_the_log_alone_is_in_the_copy(results: Path) -> None:
    def act() -> None:
        connection = sqlite3.connect(results / FILE)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO students VALUES ('new', '', '', '{}')")
        connection.commit()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(act) == -signal.SIGKILL
    assert (results / f"{FILE}-wal").stat().st_size
    with Keeper.open(results) as book:
        assert "new" in {student.id for student in book.absent()}
    assert ("new",) in rows(results / COPY, "SELECT id FROM students")


def test_a_copy_is_never_replaced(results: Path) -> None:
    (results / COPY).write_bytes(b"of somebody")
    with Keeper.open(results):
        pass
    assert (results / COPY).read_bytes() == b"of somebody"
    assert version(results / "gradebook.format1-2.sqlite") == 1


def killed_at(number: int, act: Callable[[], None]) -> int:
    """Do this in a child that ends before the statement of this number."""

    def die() -> None:
        left = number
        connect = sqlite3.connect

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

        def counted(*arguments: object, **options: object) -> sqlite3.Connection:
            connection = connect(*arguments, **options)  # type: ignore[call-overload]  # as it is called
            connection.set_trace_callback(count)
            return connection  # type: ignore[no-any-return]

        sqlite3.connect = counted  # type: ignore[assignment]  # it has many signatures
        act()

    return in_a_child(die)


def test_killed_at_any_statement_it_is_the_one_before_or_the_one_of_today(results: Path) -> None:
    before, seen = (results / FILE).read_bytes(), read(results)
    versions, number = [], 0

    def act() -> None:
        with Keeper.open(results):
            pass

    while True:
        number += 1
        for path in results.glob("gradebook*"):
            path.unlink()
        (results / FILE).write_bytes(before)
        if killed_at(number, act) == 0:
            break
        versions.append(version(results / FILE))
        # The copy is there before anything is changed.
        assert versions[-1] == 1 or version(results / COPY) == 1
        assert read(results) == seen
        with Keeper.open(results):
            pass
        assert version(results / FILE) == 2
        assert len(list(results.glob("*format1*"))) == 1, "the same copy is not kept twice"
        assert read(results) == seen
    assert versions == sorted(versions)
    assert versions.count(1) > 20 and 2 in versions


@pytest.mark.parametrize("pages", [0, 5, 13])
def test_a_full_disk_leaves_it_as_it_is(results: Path, pages: int) -> None:
    seen = read(results)
    reader, writer = os.pipe()

    def act() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (pages * 4096, resource.RLIM_INFINITY))
        try:
            with Keeper.open(results):
                pass
        except GraderError as error:
            os.write(writer, str(error).encode())

    assert in_a_child(act) == 0
    os.close(writer)
    assert "make room" in os.read(reader, 10_000).decode()
    os.close(reader)
    assert version(results / FILE) == 1
    assert not list(results.glob("*.part"))
    assert read(results) == seen
    with Keeper.open(results):
        pass
    assert read(results) == seen


def test_a_disk_that_is_full_after_the_copy_leaves_it_as_it_is(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, migrate = read(results), format1.migrate

    def within(connection: sqlite3.Connection, tables: str, version: int) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        migrate(connection, tables, version)

    with monkeypatch.context() as patch:
        patch.setattr(format1, "migrate", within)
        with pytest.raises(GraderError, match=r"full.*make room"), Keeper.open(results):
            pass
    assert (version(results / FILE), version(results / COPY)) == (1, 1)
    assert read(results) == seen
    with Keeper.open(results):
        pass
    assert read(results) == seen


def test_a_folder_that_may_only_be_read_is_read(results: Path, shelf: Path) -> None:
    seen = read(results)
    (shelf / FILE).write_bytes((results / FILE).read_bytes())
    (shelf / FILE).chmod(0o444)
    shelf.chmod(0o555)

    def act() -> None:
        assert read(shelf) == seen
        with pytest.raises(GraderError), Keeper.open(shelf):
            pass

    assert as_a_reader(act) == 0
    assert [path.name for path in shelf.iterdir()] == [FILE]
    shelf.chmod(0o755)


def test_which_attempt_counts_is_no_more_what_was_graded_last(results: Path) -> None:
    """Format 1 let the last command choose; today the attempt found last counts where no time is known."""
    with contextlib.closing(sqlite3.connect(results / FILE)) as connection:
        connection.execute("UPDATE attempts SET counted = (number = 1) WHERE student = 'ann'")
        connection.commit()
    (ann,) = [entry for entry, _ in read(results) if entry.student.id == "ann"]
    assert (ann.attempt, ann.result.exercises[0].status) == (2, Status.PASSED)
    with contextlib.closing(sqlite3.connect(results / FILE)) as connection:
        for number, at in ((1, "2026-03-02T10:00:00Z"), (2, "2026-03-01T10:00:00Z")):
            connection.execute(
                "UPDATE attempts SET submitted_at = ? WHERE student = 'ann' AND number = ?",
                (at, number),
            )
        connection.commit()
    with Keeper.open(results) as book:
        entry = book.entry_of("ann")
        assert entry is not None and entry.attempt == 1
        assert book.entry_of("nobody") is None
        with book.transaction():
            book.keep_student(StudentInfo(id="new"))
        entry = book.entry_of("new")
        assert entry is not None and entry.absent and entry.result.score == 0
