"""Backups are complete and checked, the newest are kept, and any of them can be restored."""

from __future__ import annotations

import contextlib
import datetime
import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.errors import GraderError, SubmissionError, UsageError
from grader.gradebook import Gradebook, backup, database, invitations, tables
from grader.gradebook.backup import (
    BEFORE_RESTORE,
    backups_in,
    delete_older,
    make_backup,
    remove_unfinished,
    restore,
)
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import CORRECTIONS_FILE
from grader.gradebook.database import FILE, FORMAT_VERSION
from grader.gradebook.tables import Tables
from grader.results import StudentInfo

from .conftest import School, no_room

NOW = datetime.datetime(2026, 11, 30, 2, 10, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def graded(school: School) -> School:
    """Return a graded class of two students with one correction."""
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student in ("ann", "bob"):
            school.keep(book, school.hand_in(book, student, b"x = 1\n", "2026-11-29T10:00:00Z"), 8)
        book.finish(())
        correct(book, "ann")
    return school


def correct(book: Gradebook, student: str) -> None:
    book.correct(
        Correction(student=student, exercise="task", add=1, reason="shown", author="me", time=NOW)
    )


def scores(folder: Path) -> dict[str, float]:
    with Gradebook.open(folder) as book:
        return {entry.student.id: entry.result.score for entry in book.entries()}


def ids(folder: Path) -> list[str]:
    with Gradebook.open(folder) as book:
        return [student.id for student in book.students()]


def add_student(results: Path, student: str) -> None:
    """Add a student while another process writes, as `grade tokens` does."""
    with database.opened_to_add(results / FILE) as opened, opened.transaction():
        opened.put_student(StudentInfo(id=student))


def contents(folder: Path) -> dict[str, bytes]:
    """Read each file of a gradebook, except the lock and files that reading changes."""
    names = (FILE, "corrections.toml", "results/ann.json", "results/bob.json")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


# --- making them ----------------------------------------------------------------------------------


def test_a_backup_is_a_folder_that_every_command_reads(graded: School, tmp_path: Path) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    assert made.path == tmp_path / "backups" / "2026-11-30T021000Z"
    assert made.made_at == NOW
    assert sorted(path.name for path in made.path.iterdir()) == ["corrections.toml", FILE]
    assert scores(made.path) == scores(graded.results) == {"ann": 9, "bob": 8}
    assert backups_in(tmp_path / "backups") == [made]
    if os.name == "posix":
        modes = {path.stat().st_mode & 0o777 for path in made.path.iterdir()}
        assert (made.path.stat().st_mode & 0o777, modes) == (0o700, {0o600})
    done = CliRunner().invoke(main, ["show", str(made.path), "ann"])
    assert done.exit_code == 0 and "9 / 10" in done.output


def test_a_backup_is_a_snapshot_while_others_write(
    graded: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BACKUP_PAGES", 1)
    written: list[str] = []

    def write() -> None:
        written.append(f"student {len(written)}")
        add_student(graded.results, written[-1])

    with Gradebook.open_to_write(graded.results) as book:
        pages = book.tables.connection.execute("PRAGMA page_count").fetchone()[0]
        made = make_backup(graded.results, tmp_path, NOW, write)
        assert len(written) == pages, "a write does not make it start over"
        assert len(book.students()) == 2 + pages
    assert ids(made.path) == ["ann", "bob"]


def test_a_backup_and_a_restored_gradebook_are_synced(
    graded: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []

    def sync(folder: Path) -> None:
        synced.append((folder.name, sorted(path.name for path in folder.iterdir())))

    monkeypatch.setattr(backup, "sync_folder", sync)
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    (draft, files), (folder, backups) = synced
    # Its files are synced before it gets its name, and then the name.
    assert draft.endswith(".part") and {FILE, CORRECTIONS_FILE} <= {*files}
    assert (folder, backups) == ("backups", [made.path.name])
    synced.clear()
    restore(made.path, tmp_path / "new", NOW)
    # The gradebook, then its corrections.
    first, last = (files for _, files in synced)
    assert FILE in first and CORRECTIONS_FILE not in first and CORRECTIONS_FILE in last


def test_a_broken_corrections_file_is_backed_up(graded: School, tmp_path: Path) -> None:
    (graded.results / "corrections.toml").write_bytes(b"\xff = [")
    made = make_backup(graded.results, tmp_path, NOW)
    assert (made.path / "corrections.toml").read_bytes() == b"\xff = ["


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_kill_leaves_a_draft_and_every_earlier_backup(graded: School, tmp_path: Path) -> None:
    first = make_backup(graded.results, tmp_path, NOW)
    before = contents(first.path)
    killed = f"""
import datetime, os, pathlib, signal
from grader.gradebook import backup
backup.make_backup(
    pathlib.Path({str(graded.results)!r}), pathlib.Path({str(tmp_path)!r}),
    datetime.datetime({NOW.year}, 12, 1, tzinfo=datetime.UTC), lambda: os.kill(os.getpid(), signal.SIGKILL),
)
"""
    done = subprocess.run([sys.executable, "-c", killed], check=False)
    assert done.returncode == -signal.SIGKILL
    (draft,) = tmp_path.glob(".*.part")
    assert (draft / FILE).exists()
    assert backups_in(tmp_path) == [first] and contents(first.path) == before
    others = tmp_path / ".01234567-2026-12-01T000000Z.part"
    others.mkdir()
    remove_unfinished(graded.results, tmp_path)
    assert [*tmp_path.glob(".*.part")] == [others], "a draft of another gradebook stays"


def test_a_backup_without_room_leaves_nothing(
    graded: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    first = make_backup(graded.results, folder, NOW)
    with no_room(), pytest.raises(GraderError, match="Nothing can be written"):
        make_backup(graded.results, folder, NOW + HOUR)
    assert [*folder.iterdir()] == [first.path]
    # It leaves the space that submissions need.
    usage = shutil.disk_usage(folder)._replace(free=10_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(GraderError, match="No space left"):
        make_backup(graded.results, folder, NOW + HOUR)
    assert [*folder.iterdir()] == [first.path]


def lose_a_student(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        for table in ("grades", "files", "attempts"):
            connection.execute(f"DELETE FROM {table}")


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[5000:9000] = bytes(4000)
    file.write_bytes(data)


@pytest.mark.parametrize("harm", [lose_a_student, damage])
def test_an_incomplete_copy_is_not_kept_as_a_backup(
    graded: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    back_up = Tables.back_up

    def harmed(self: Tables, target: Path, pause: Callable[[], None]) -> None:
        back_up(self, target, pause)
        harm(target)

    monkeypatch.setattr(Tables, "back_up", harmed)
    with pytest.raises(GraderError):
        make_backup(graded.results, tmp_path / "backups", NOW)
    assert [*(tmp_path / "backups").iterdir()] == []


# --- keeping the newest ---------------------------------------------------------------------------


def test_only_the_newest_are_kept_and_everything_else_in_the_folder_stays(
    graded: School, tmp_path: Path
) -> None:
    folder, other = tmp_path / "backups", tmp_path / "other"
    with Gradebook.open_to_write(other):
        pass
    # Both gradebooks share the folder, and their backups are of the same second.
    of_other = [make_backup(other, folder, NOW) for _ in range(3)]
    own = [make_backup(graded.results, folder, NOW + n * HOUR) for n in range(5)]
    (own[0].path / "note.txt").write_text("before the exam", encoding="utf-8")
    (folder / "2020-01-01T000000Z").mkdir()
    (folder / "2020-01-02T000000Z").write_text("a file", encoding="utf-8")
    damage((damaged := make_backup(graded.results, folder, NOW - HOUR)).path / FILE)
    (damaged.path / FILE).write_bytes(b"not a database, at its very beginning")
    # `grade erase` opens a backup for writing, as here.
    with Gradebook.open_to_write(own[1].path):
        pass
    deleted = delete_older(folder, own[0].secret, 2)
    assert deleted == [own[1].path, own[2].path]
    left = [*of_other, own[0], *own[3:]]
    assert backups_in(folder) == sorted(left)
    assert (folder / "2020-01-02T000000Z").is_file() and (damaged.path / FILE).is_file()
    assert delete_older(folder, own[0].secret, 2) == []


def test_a_kill_during_a_deletion_leaves_a_draft(
    graded: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_backup(graded.results, tmp_path, NOW)
    second = make_backup(graded.results, tmp_path, NOW + HOUR)

    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stop)
        with pytest.raises(KeyboardInterrupt):
            delete_older(tmp_path, first.secret, 1)
    assert backups_in(tmp_path) == [second]
    remove_unfinished(graded.results, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


# --- restoring ------------------------------------------------------------------------------------


def test_restoring_brings_back_the_backup_and_sets_the_current_gradebook_aside(
    graded: School, tmp_path: Path
) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    with Gradebook.open_to_write(graded.results) as book:
        school_of = graded.hand_in(book, "eve", b"y = 1\n", "2026-11-30T10:00:00Z")
        graded.keep(book, school_of, 5, b"y = 1\n")
        book.finish(())
        correct(book, "bob")
        book.write_result("eve")
    (graded.results / "lti_key.pem").write_text("a key", encoding="utf-8")
    later = scores(graded.results)
    assert later == {"ann": 9, "bob": 9, "eve": 5}
    done = CliRunner().invoke(main, ["restore", str(made.path), "-o", str(graded.results)], "y\n")
    assert done.exit_code == 0, done.output
    assert "Restored 2 students" in done.output and "before-restore" in done.output
    assert scores(graded.results) == {"ann": 9, "bob": 8}
    assert sorted(p.name for p in (graded.results / "results").iterdir()) == [
        "ann.json",
        "bob.json",
    ]
    assert (graded.results / "lti_key.pem").exists()
    with Gradebook.open(graded.results) as book:
        assert not book.facts.is_stale and len(book.corrections()) == 1
    # Back again: the replaced gradebook is a backup, too.
    (aside,) = backups_in(graded.results / BEFORE_RESTORE)
    assert scores(aside.path) == later
    erased = CliRunner().invoke(main, ["erase", str(graded.results), "bob", "--yes"]).output
    assert f"`grade erase {aside.path.parent} bob` erases there, too." in erased
    restore(aside.path, graded.results, NOW)
    assert scores(graded.results) == later


def test_a_used_registration_address_stays_used_after_a_restore(
    graded: School, tmp_path: Path
) -> None:
    with Gradebook.open_to_write(graded.results) as book:
        invitations.prepare(book)
        with book.transaction():
            secret = invitations.invite(book, 0.0)
        assert invitations.is_valid(book, secret, 1.0)
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    with Gradebook.open_to_write(graded.results) as book, book.transaction():
        assert invitations.use(book, secret, 1.0)
    restore(made.path, graded.results, NOW)
    with Gradebook.open(graded.results) as book:
        assert not invitations.is_valid(book, secret, 1.0)


def test_declining_changes_nothing_and_a_new_folder_needs_no_confirmation(
    graded: School, tmp_path: Path
) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    before = contents(graded.results)
    done = CliRunner().invoke(main, ["restore", str(made.path), "-o", str(graded.results)], "n\n")
    assert done.exit_code == 1 and contents(graded.results) == before
    done = CliRunner().invoke(main, ["restore", str(made.path), "-o", str(tmp_path / "new")])
    assert done.exit_code == 0 and scores(tmp_path / "new") == {"ann": 9, "bob": 8}


def test_a_missing_backup_is_reported_before_any_question(graded: School) -> None:
    folder = graded.results / BEFORE_RESTORE
    folder.mkdir()
    done = CliRunner().invoke(main, ["restore", str(folder), "-o", str(graded.results)], "y\n")
    assert done.exit_code == 2 and "There is no backup at" in done.output
    assert "Replace the gradebook" not in done.output


def test_the_log_of_the_replaced_gradebook_is_not_applied(graded: School, tmp_path: Path) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    # A writer that is killed leaves a log.
    killed = f"""
import os, pathlib
from grader.gradebook import Gradebook
from grader.results import StudentInfo
with Gradebook.open_to_write(pathlib.Path({str(graded.results)!r})) as book:
    book.keep_student(StudentInfo(id="eve"))
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
    assert (graded.results / f"{FILE}-wal").stat().st_size
    done = restore(made.path, graded.results, NOW)
    assert done.before is not None and ids(done.before) == ["ann", "bob", "eve"]
    assert scores(graded.results) == {"ann": 9, "bob": 8}


def test_a_damaged_gradebook_is_kept_as_it_is(graded: School, tmp_path: Path) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    (graded.results / FILE).write_bytes(b"of a broken disk" * 1000)
    done = restore(made.path, graded.results, NOW)
    assert done.before is not None
    assert (done.before / FILE).read_bytes() == b"of a broken disk" * 1000
    assert scores(graded.results) == {"ann": 9, "bob": 8}


def test_corrections_of_a_damaged_gradebook_are_set_aside(graded: School, tmp_path: Path) -> None:
    corrections = graded.results / CORRECTIONS_FILE
    before = corrections.read_bytes()
    corrections.unlink()
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    corrections.write_bytes(before)
    (graded.results / FILE).write_bytes(b"of a broken disk" * 1000)
    done = restore(made.path, graded.results, NOW)
    assert done.before is not None
    assert (done.before / CORRECTIONS_FILE).read_bytes() == before
    # The backup had none.
    assert not corrections.exists()


def test_restoring_a_single_file_keeps_the_corrections(graded: School, tmp_path: Path) -> None:
    copy = tmp_path / "today.sqlite"
    with Gradebook.open(graded.results) as book:
        book.back_up(copy)
    with Gradebook.open_to_write(graded.results) as book:
        correct(book, "bob")
    done = CliRunner().invoke(main, ["restore", str(copy), "-o", str(graded.results), "--yes"])
    assert done.exit_code == 0 and f"The corrections in {graded.results} stay" in done.output
    assert scores(graded.results) == {"ann": 9, "bob": 9}
    (graded.results / CORRECTIONS_FILE).unlink()
    done = CliRunner().invoke(main, ["restore", str(copy), "-o", str(graded.results), "--yes"])
    assert done.exit_code == 0 and "corrections" not in done.output, done.output


def test_a_backup_of_an_older_format_is_updated(tmp_path: Path) -> None:
    folder = tmp_path / "2026-11-01T000000Z"
    folder.mkdir()
    packed = Path(__file__).with_name("gradebook_of_format_2.sqlite.xz")
    (folder / FILE).write_bytes(lzma.decompress(packed.read_bytes()))
    before = (folder / FILE).read_bytes()
    restore(folder, tmp_path / "results", NOW)
    assert scores(tmp_path / "results") == {"ada": 12.5, "ben": 11.5, "mia": 0}
    assert (folder / FILE).read_bytes() == before


def newer(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def other(file: Path) -> None:
    file.write_text("This is a letter.\n" * 100, encoding="utf-8")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (newer, "a newer grader wrote it"),
        (damage, "Use another one"),
        (empty, "no such table"),
        (other, "file is not a database"),
    ],
)
def test_a_backup_that_cannot_be_used_changes_nothing(
    graded: School, tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    before = contents(graded.results)
    harm(made.path / FILE)
    with pytest.raises(GraderError, match=f"nothing was changed: .*2026-11-30T021000Z.*{message}"):
        restore(made.path, graded.results, NOW)
    assert contents(graded.results) == before
    assert not (graded.results / BEFORE_RESTORE).exists()
    assert [*graded.results.glob(".*")] == []


def test_nothing_is_restored_while_another_process_uses_the_gradebook(
    graded: School, tmp_path: Path
) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    before = contents(graded.results)
    with (
        Gradebook.open_to_write(graded.results),
        pytest.raises(GraderError, match="running `grade serve`"),
    ):
        restore(made.path, graded.results, NOW)
    assert contents(graded.results) == before
    with Gradebook.open(graded.results), pytest.raises(UsageError, match="Another command reads"):
        restore(made.path, graded.results, NOW)
    assert scores(graded.results) == {"ann": 9, "bob": 8}
    with pytest.raises(SubmissionError, match="no backup"):
        restore(tmp_path, graded.results, NOW)
    with pytest.raises(SubmissionError, match=f"the newest is {made.path.name}"):
        restore(made.path.parent, graded.results, NOW)
    with pytest.raises(UsageError, match="itself"):
        restore(graded.results, graded.results, NOW)


@pytest.mark.parametrize(
    "step", ["_copied", "_set_aside", "end_log", "_replace_corrections", "_write_results"]
)
@pytest.mark.parametrize("before_it", [True, False])
def test_an_interrupted_restore_can_be_repeated(
    graded: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, before_it: bool
) -> None:
    made = make_backup(graded.results, tmp_path / "backups", NOW)
    add_student(graded.results, "eve")
    done = getattr(backup, step)

    def stop(*arguments: object) -> None:
        if not before_it:
            done(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backup, step, stop)
        with pytest.raises(KeyboardInterrupt):
            restore(made.path, graded.results, NOW + HOUR)
    assert ids(graded.results) in (["ann", "bob"], ["ann", "bob", "eve"])
    restore(made.path, graded.results, NOW + 2 * HOUR)
    assert ids(graded.results) == ["ann", "bob"]
    assert scores(graded.results) == {"ann": 9, "bob": 8}
    kept = backups_in(graded.results / BEFORE_RESTORE)
    assert any(ids(each.path) == ["ann", "bob", "eve"] for each in kept)
