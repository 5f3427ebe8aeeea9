"""A gradebook of format 1, which knew the files of judged attempts alone, and which attempt was found last.

It becomes one of today in one transaction, after a copy of it is on the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.errors import GraderError
from grader.gradebook.cells import read_course, read_environment, read_result
from grader.judge.scoring import sum_of
from grader.results import ExerciseResult, Outcome, Result, Status, SubmissionInfo

FORMAT_VERSION = 1
NOTHING = "Nothing was handed in."


def keep_copy(connection: sqlite3.Connection, file: Path) -> None:
    """Write the gradebook as it is to `gradebook.format1.sqlite` beside it, synced; no copy is replaced.

    Raises GraderError where there is no room, and sqlite3.DatabaseError as SQLite does.
    """
    draft = file.with_name(f"{file.stem}.format1.part")
    try:
        draft.unlink(missing_ok=True)
        # By SQLite, so that what is in the write-ahead log alone is in the copy.
        with contextlib.closing(sqlite3.connect(draft)) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        _place(draft, file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise GraderError(
            f"The gradebook {file} is one of before, and no copy of it can be kept beside it: "
            f"{error.strerror}. Nothing was changed; make room, and run this again."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _place(draft: Path, file: Path) -> None:
    """Give the copy its name, or the next one that is free; the same copy is not kept twice."""
    for number in itertools.count(1):
        name = f"{file.stem}.format1{f'-{number}' if number > 1 else ''}{file.suffix}"
        kept = file.with_name(name)
        if not kept.exists():
            draft.rename(kept)
            return
        if kept.read_bytes() == draft.read_bytes():
            return


def migrate(connection: sqlite3.Connection, tables: str, version: int) -> None:
    """Make it one of today, whose `tables` these are: all of it or, by an error, nothing."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _statements(connection, tables):
            connection.execute(statement)
        _keep_files(connection)
        if (blank := _blank(connection)) is not None:
            text = msgspec.json.encode(blank).decode()
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('blank', ?)", (text,))
        connection.execute(f"PRAGMA user_version = {version}")


def _statements(connection: sqlite3.Connection, tables: str) -> Iterator[str]:
    """Today's attempts, in which the order of commands chose none, and the tables that there were not."""
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    for statement in _separate(tables):
        kind, name = statement.split()[1:3]
        if kind == "TABLE" and name == "attempts":
            # Not by renaming the old one: what points to it would follow.
            yield statement.replace("attempts", "attempts_of_today", 1)
        elif kind == "TABLE" and name not in there:
            yield statement
    # Without `counted`, which was for the order of the commands to say.
    yield (
        "INSERT INTO attempts_of_today"
        " SELECT id, student, number, digest, submitted_at, late, origin FROM attempts"
    )
    yield "DROP TABLE attempts"
    yield "ALTER TABLE attempts_of_today RENAME TO attempts"


def _separate(tables: str) -> Iterator[str]:
    statement = ""
    for line in tables.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def _keep_files(connection: sqlite3.Connection) -> None:
    """The files that verdicts are about; why there is none is what a verdict on none says."""
    connection.execute(
        "INSERT INTO files SELECT attempt, exercise, source, '' FROM grades WHERE source != ''"
    )
    without = connection.execute("SELECT attempt, exercise, result FROM grades WHERE source = ''")
    connection.executemany(
        "INSERT INTO files VALUES (?, ?, '', ?)",
        ((attempt, exercise, read_result(cell).message) for attempt, exercise, cell in without),
    )


def _blank(connection: sqlite3.Connection) -> Result | None:
    """The result of who handed in nothing, from one verdict on each exercise; None where there is none."""
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    rows = connection.execute(
        "SELECT exercise, result, environments.environment, seed, graded_at FROM grades"
        " JOIN environments ON environments.id = grades.environment GROUP BY exercise"
    ).fetchall()
    found = {row[0]: row for row in rows}
    graded = [found[name] for name in facts.get("exercises", "").split(",") if name in found]
    if not graded:
        return None
    exercises = tuple(_emptied(read_result(row[1])) for row in graded)
    environment = read_environment(graded[0][2])
    return Result(
        course=read_course(facts["course"]),
        submission=SubmissionInfo("", ""),
        score=0.0,
        max_score=sum_of(exercises)[1],
        seed=graded[0][3],
        exercises=exercises,
        started_at=min(row[4] for row in graded),
        duration_seconds=0.0,
        environment=msgspec.structs.replace(environment, torch="", isolation=()),
    )


def _emptied(result: ExerciseResult) -> ExerciseResult:
    tests = tuple(
        msgspec.structs.replace(
            test,
            outcome=Outcome.NOT_IMPLEMENTED,
            score=0.0,
            duration_seconds=0.0,
            message=NOTHING,
            hint="",
            place=None,
            printed="",
            refused=False,
        )
        for test in result.tests
    )
    return msgspec.structs.replace(
        result,
        tests=tests,
        status=Status.NOT_ATTEMPTED,
        score=0.0,
        duration_seconds=0.0,
        message=NOTHING,
        output="",
        settled=True,
    )
