"""Gradebooks of older formats are updated after a copy is made."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import lzma
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from grader.errors import GraderError
from grader.gradebook import Gradebook, database
from grader.gradebook import migration as migrating
from grader.gradebook.corrections import Correction, Kind
from grader.gradebook.database import FORMAT_VERSION, only_writer
from grader.gradebook.facts import AssignmentPart, ClockChange, MarkDraft, Remarks
from grader.gradebook.policy import CountedAttempt, Due, Extension, Late, NamedPolicy, Rules
from grader.gradebook.times import Span
from grader.results import Outcome, Status

# A gradebook of format 3, from which the tests make older ones.
EARLIER = Path(__file__).with_name("batch") / "gradebook_of_an_earlier_grader.sqlite.xz"
# A gradebook of each older format, written by a grader of that time. The one of format 3 has an assignment for
# teams, a named policy, an unfinished mark and a queue.
WRITTEN = {
    number: Path(__file__).with_name(f"gradebook_of_format_{number}.sqlite.xz")
    for number in database.OLDER
}
FORMAT_3 = WRITTEN[3]
POINTS = {
    1: {"ada": 12.5, "ben": 12.5, "mia": 0},
    2: {"ada": 12.5, "ben": 11.5, "mia": 0},
    3: {"ada": 10, "ben": 3.93, "mia": 0},
}
# SQLite's header has the journal mode and a change counter. Pages follow it.
HEADER_BYTES = 100
SCORES = {"Zoë 東": 10, "ann": 10, "bob": 7.5, "dee": 0, "fay": 0, "gus": 0, "mia": 0}

FORMAT_2 = """
CREATE TABLE corrections (
    id INTEGER PRIMARY KEY,
    student TEXT NOT NULL,
    exercise TEXT NOT NULL,
    test TEXT NOT NULL,
    kind TEXT NOT NULL,
    points REAL NOT NULL,
    reason TEXT NOT NULL,
    comment TEXT NOT NULL,
    author TEXT NOT NULL,
    made_at TEXT NOT NULL,
    judged REAL,
    undone_at TEXT NOT NULL,
    undone_by TEXT NOT NULL
);
INSERT INTO corrections VALUES
    (1, 'bob', 'task', '', 'points', 8, 'shown', 'Good.', 'ben', '2026-10-12T10:00:00Z', 7.5, '', ''),
    (2, 'ann', 'task', '', 'add', -1, 'taken back', '', 'ben', '2026-10-12T10:00:01Z', 10, '2026-10-13', 'ben'),
    (3, 'ann', 'task', '', 'add', 0, '', 'Well done.', 'ben', '2026-10-12T10:00:02Z', NULL, '', ''),
    (4, '', 'task', 'test_zero', 'give', 0, 'unclear', '', 'ben', '2026-10-12T10:00:03Z', NULL, '', ''),
    (5, 'fay', 'task', 'c0ffee', 'release', 0, 'looked at', '', 'ben', '2026-10-12T10:00:04Z', NULL, '', '');
DELETE FROM facts WHERE name = 'pseudonyms';
PRAGMA user_version = 2;
"""
FORMAT_1 = """
CREATE TABLE old (
    id INTEGER PRIMARY KEY,
    student TEXT NOT NULL REFERENCES students (id),
    number INTEGER NOT NULL,
    digest TEXT NOT NULL,
    counted INTEGER NOT NULL,
    submitted_at TEXT NOT NULL,
    late INTEGER NOT NULL,
    origin TEXT NOT NULL,
    UNIQUE (student, number),
    UNIQUE (student, digest)
);
INSERT INTO old SELECT id, student, number, digest, 0, submitted_at, late, origin FROM attempts;
DROP TABLE attempts;
ALTER TABLE old RENAME TO attempts;
DROP TABLE files;
DELETE FROM facts WHERE name IN ('blank', 'pseudonyms');
-- As the very first grader kept them.
UPDATE grades SET result = inflated(result) WHERE exercise = 'task' AND score > 0;
PRAGMA user_version = 1;
"""
OLDER = {1: FORMAT_1, 2: FORMAT_2, 3: ""}


def older(folder: Path, version: int) -> Path:
    """Create `folder` with a gradebook of an older format, and return its file."""
    folder.mkdir()
    file = folder / "gradebook.sqlite"
    file.write_bytes(lzma.decompress(EARLIER.read_bytes()))
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.create_function("inflated", 1, lambda data: zlib.decompress(data).decode())
        connection.executescript(OLDER[version])
    return file


def version_of(file: Path) -> int:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return int(version)


def scores(folder: Path) -> dict[str, float]:
    with Gradebook.open(folder) as book:
        return {entry.student.id: entry.result.score for entry in book.entries()}


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("opened", [Gradebook.open, Gradebook.open_to_write])
def test_an_older_gradebook_is_updated_beside_a_copy(
    tmp_path: Path,
    version: int,
    opened: Callable[[Path], AbstractContextManager[Gradebook]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = older(tmp_path / "results", version)
    with opened(file.parent):
        pass
    assert version_of(file) == FORMAT_VERSION
    copy = file.with_name(f"gradebook.format{version}.sqlite")
    assert version_of(copy) == version
    if os.name == "posix":
        assert copy.stat().st_mode & 0o777 == 0o600
    (note,) = [record.getMessage() for record in caplog.records]
    assert f"was a gradebook of format {version}" in note and copy.name in note
    with Gradebook.open(file.parent) as book:
        # Nothing is reported twice.
        assert len(caplog.records) == 1
        assert len(book.facts.secret) == 32
        assert [student.id for student in book.absent()] == ["mia"]
        (mia,) = [entry for entry in book.entries() if entry.absent]
        (exercise,) = mia.result.exercises
        assert exercise.status is Status.NOT_ATTEMPTED
        assert {test.outcome for test in exercise.tests} == {Outcome.NOT_IMPLEMENTED}
        sources = {e.student.id: book.sources(e) for e in book.entries() if not e.absent}
        assert all(sources.values())
    assert scores(file.parent).keys() == SCORES.keys()
    # The copy is a gradebook that can replace the new one.
    copy.replace(tmp_path / "results" / "gradebook.sqlite")
    assert scores(file.parent).keys() == SCORES.keys()


def handed_in(file: Path) -> dict[tuple[str, int, str], bytes]:
    """Read each file in a gradebook of an older format, by student, attempt number and exercise."""
    with contextlib.closing(sqlite3.connect(file)) as old:
        # Format 1 kept only files with a verdict.
        has_files = old.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'").fetchone()
        table = "grades" if has_files is None else "files"
        rows = old.execute(
            f"SELECT student, number, exercise, deflated FROM {table}"
            " JOIN attempts ON attempts.id = attempt JOIN sources ON sources.digest = source"
        ).fetchall()
    return {(*place, exercise): zlib.decompress(data) for *place, exercise, data in rows}


@pytest.mark.parametrize("version", WRITTEN)
def test_a_gradebook_written_by_an_older_grader_keeps_every_file_and_point(
    tmp_path: Path, version: int
) -> None:
    written = lzma.decompress(WRITTEN[version].read_bytes())
    file = tmp_path / "gradebook.sqlite"
    file.write_bytes(written)
    assert version_of(file) == version
    before = handed_in(file)
    assert len({student for student, *_ in before}) == 2
    assert scores(tmp_path) == POINTS[version]
    assert version_of(file) == FORMAT_VERSION
    with Gradebook.open(tmp_path) as book:
        after = {
            (student.id, attempt.number, exercise): kept.source
            for student in book.students()
            for attempt in book.work(student).attempts
            for exercise, kept in book.files_of(attempt.id).items()
            if kept.source is not None
        }
    assert after == before
    copy = (tmp_path / f"gradebook.format{version}.sqlite").read_bytes()
    assert copy[HEADER_BYTES:] == written[HEADER_BYTES:]
    # It can be opened for grading.
    with Gradebook.open_to_write(tmp_path):
        pass
    assert scores(tmp_path) == POINTS[version]


def test_points_of_format_1_are_unchanged(tmp_path: Path) -> None:
    assert scores(older(tmp_path / "results", 1).parent) == SCORES


def test_corrections_of_format_2_move_to_the_corrections_file(tmp_path: Path) -> None:
    file = older(tmp_path / "results", 2)
    with Gradebook.open(file.parent) as book:
        made = book.corrections()
    assert [(c.kind, c.student, c.reason, c.comment) for c in made] == [
        (Kind.POINTS, "bob", "shown", "Good."),
        (Kind.COMMENT, "ann", "", "Well done."),
        (Kind.GIVE, "", "unclear", ""),
        (Kind.RELEASE, "fay", "looked at", ""),
    ]
    assert (made[0].points, made[0].judged, made[2].give, made[3].release) == (
        *(8, 7.5, "test_zero"),
        "c0ffee",
    )
    counted = scores(file.parent)
    # Removed corrections stay removed, and a correction for all applies to judged students.
    assert (counted["bob"], counted["ann"], counted["mia"]) == (8, 10, 0)


def test_facts_of_format_3_are_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "gradebook.sqlite"
    file.write_bytes(lzma.decompress(FORMAT_3.read_bytes()))
    with Gradebook.open(tmp_path) as book:
        facts, policy = book.facts, book.policy
        jobs = book.tables.connection.execute("SELECT state FROM jobs").fetchall()
        assert jobs.count(("waiting",)) == 1
    assert facts.secret == "ece5a95c68e7ff8acaf4fb76ef24d6b7"
    assert (facts.title, facts.course.name) == ("Plain Python and NumPy: Week 1", "plain")
    assert facts.exercises == facts.assigned == ("word_count", "greeting")
    assert (facts.assignment, facts.teams, facts.extra_credit) == ("week1", True, ())
    assert facts.assignments == {"week1": AssignmentPart("Week 1", facts.exercises)}
    assert facts.stubs.keys() == policy.chapters.keys() == set(facts.exercises)
    assert (facts.revision, facts.is_unfinished, facts.is_stale) == (1, False, True)
    assert facts.totals == {"ada": 11.25, "ben": 3.54, "mia": 0.0}
    assert facts.mark_drafts == (MarkDraft("greeting", (), "abc", Remarks(("d",), ("Name it.",))),)
    assert facts.clock == (ClockChange("2026-10-12T10:00:00Z", -3600),)
    assert facts.is_paused
    extension = Extension(student="ben", by=Span(days=2, hours=12), reason="ill")
    late = Late(per_day=20, closes=Span(days=7, hours=1))
    named = Rules("Europe/Warsaw", CountedAttempt.BEST, late=late, extension=(extension,))
    assert facts.named_policy == NamedPolicy("/course/named.toml", named)
    due = Due(datetime.datetime(2026, 10, 12, 23, 59, 59))
    assert facts.policy == msgspec.structs.replace(named, due=(due,))


@pytest.mark.parametrize("row", ["policy", "named policy"])
def test_an_unreadable_policy_is_reported_and_nothing_changes(tmp_path: Path, row: str) -> None:
    file = tmp_path / "gradebook.sqlite"
    file.write_bytes(lzma.decompress(FORMAT_3.read_bytes()))
    with contextlib.closing(sqlite3.connect(file)) as old, old:
        text = json.dumps("lateness = 3") if row == "named policy" else "lateness = 3"
        old.execute("UPDATE facts SET value = ? WHERE name = ?", (text, row))
        before = old.execute("SELECT * FROM facts").fetchall()
    with pytest.raises(GraderError, match=r"lateness.*was not changed"), Gradebook.open(tmp_path):
        pass
    assert version_of(file) == 3
    with contextlib.closing(sqlite3.connect(file)) as old:
        assert old.execute("SELECT * FROM facts").fetchall() == before


def test_grading_continues_in_a_gradebook_of_format_3(tmp_path: Path) -> None:
    file = tmp_path / "gradebook.sqlite"
    file.write_bytes(lzma.decompress(FORMAT_3.read_bytes()))
    assert scores(tmp_path) == {"ada": 10, "ben": 3.93, "mia": 0}
    with Gradebook.open_to_write(tmp_path) as book:
        book.correct(
            Correction(
                student="ben",
                exercise="word_count",
                add=1.0,
                reason="shown",
                author="me",
                time=datetime.datetime(2026, 10, 14, tzinfo=datetime.UTC),
            )
        )
        assert not book.facts.is_stale
        assert book.facts.corrections
    assert scores(tmp_path) == {"ada": 10, "ben": 4.93, "mia": 0}
    assert len([*(tmp_path / "results").iterdir()]) == 3


STEPS = ("_keep_copy", "put_corrections", "_unreadable_results", "_facts")


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_migration_leaves_the_old_gradebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = older(tmp_path / "results", 2)
    done = getattr(migrating, step)

    def stop(*arguments: object) -> None:
        done(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrating, step, stop)
        with pytest.raises(KeyboardInterrupt):
            Gradebook.open(file.parent).__enter__()
    assert version_of(file) == 2
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM corrections").fetchone() == (5,)
    assert scores(file.parent)["bob"] == 8
    with Gradebook.open(file.parent) as book:
        assert len(book.corrections()) == 4
    kept = sorted(path.name for path in file.parent.iterdir() if "format" in path.name)
    assert kept == ["gradebook.format2.sqlite"], "an identical copy is not kept twice"


def test_a_killed_migration_leaves_the_old_gradebook(tmp_path: Path) -> None:
    file = older(tmp_path / "results", 2)
    killed = f"""
import os, pathlib
from grader.gradebook import Gradebook, migration
migration._facts = lambda rows: os._exit(9)
Gradebook.open(pathlib.Path({str(file.parent)!r})).__enter__()
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
    assert version_of(file) == 2
    assert scores(file.parent)["bob"] == 8


def test_a_second_copy_does_not_overwrite_the_first(tmp_path: Path) -> None:
    file = older(tmp_path / "results", 2)
    first = file.with_name("gradebook.format2.sqlite")
    first.write_bytes(b"of another time")
    assert scores(file.parent)["bob"] == 8
    assert first.read_bytes() == b"of another time"
    assert version_of(file.with_name("gradebook.format2-2.sqlite")) == 2


def test_an_obstacle_is_reported_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = older(tmp_path / "results", 2)
    with only_writer(file.parent), pytest.raises(GraderError, match="Another grading writes"):
        scores(file.parent)
    other = file.with_name("corrections.toml")
    other.write_text(
        '[[correction]]\nstudent = "bob"\nexercise = "task"\npoints = 1\nreason = "x"\n'
        'author = "y"\ntime = 2026-10-12T10:00:00Z\n',
        encoding="utf-8",
    )
    text = other.read_bytes()
    with pytest.raises(GraderError, match="Move the file away"):
        scores(file.parent)
    assert other.read_bytes() == text
    other.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(GraderError, match=r"copy .* to a folder in which you may"):
            scores(file.parent)
    assert version_of(file) == 2
    assert scores(file.parent)["bob"] == 8


def test_an_unreadable_verdict_is_left_open_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = older(tmp_path / "results", 2)
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE grades SET result = ? WHERE attempt ="
            " (SELECT id FROM attempts WHERE student = 'bob')",
            (zlib.compress(b'{"name": "task"}'),),
        )
        connection.execute("UPDATE facts SET value = '[{}]' WHERE name = 'attention'")
    with Gradebook.open(file.parent) as book:
        (bob,) = [entry for entry in book.entries() if entry.student.id == "bob"]
        assert book.sources(bob).keys() == {"task"}
        assert book.attention() == ()
    assert "1 of its verdicts cannot be read" in caplog.text and "`grade regrade`" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING
