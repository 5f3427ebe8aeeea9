"""Bring a gradebook of an earlier format up to date, with the SQL of former tables.

First the file is copied, then all changes are made in one transaction. If the process is killed, the gradebook
is either the old one or the new one, and the next command goes on.

Format 1 kept only the files of judged attempts, and the attempt that was found last. Format 2 had corrections
in a table. Format 3 had a row for each fact, in several notations, and the text of the policy. Format 4 is the
present one.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.errors import GraderError
from grader.files import sync_folder
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import CORRECTIONS_FILE, put_corrections
from grader.gradebook.facts import (
    AssignmentPart,
    ClockChange,
    Facts,
    MarkDraft,
    encoded,
    mark_drafts,
    split_exercises,
)
from grader.gradebook.policy import NamedPolicy, Rules
from grader.gradebook.policy_file import PolicyError, read_policy
from grader.gradebook.review import Attention
from grader.gradebook.work import DamagedValueError, unpacked
from grader.judge.scoring import sum_of
from grader.results import (
    CourseInfo,
    Environment,
    ExerciseResult,
    Outcome,
    Result,
    Status,
    SubmissionInfo,
)

T = TypeVar("T")

_NOTHING = "Nothing was handed in."
_TABLES_OF_RESULTS = ("grades", "replaced")


def migrate(connection: sqlite3.Connection, file: Path, tables: str, version: int) -> None:
    """Bring a gradebook of an earlier format to this `version`, with these `tables`.

    A copy stays beside it, and a warning names it. Hold the lock of the folder, and check the file before.

    Raises GraderError if no copy can be kept, and sqlite3.DatabaseError. The gradebook is then unchanged.
    """
    (before,) = connection.execute("PRAGMA user_version").fetchone()
    kept = _keep_copy(connection, file, before)
    if before == 2:
        # After a kill, the next migration finds the same file and goes on.
        put_corrections(file.parent, _corrections(connection))
    connection.execute("PRAGMA synchronous = FULL")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if before == 1:
            _from_format_1(connection, tables)
        lost = _unreadable_results(connection)
        connection.execute("DROP TABLE IF EXISTS corrections")
        facts = _facts(dict(connection.execute("SELECT name, value FROM facts").fetchall()))
        connection.execute("DROP TABLE facts")
        connection.execute(next(each for each in _separate(tables) if "TABLE facts" in each))
        connection.execute("INSERT INTO facts VALUES (1, ?)", (encoded(facts),))
        connection.execute(f"PRAGMA user_version = {version}")
    told = (
        f"{file} was a gradebook of format {before} and now has format {version}. The old one is kept as "
        f"{kept.name} beside it."
    )
    if before == 2 and (file.parent / CORRECTIONS_FILE).is_file():
        told += f" Its corrections are now in {CORRECTIONS_FILE}."
    if lost:
        told += f" {lost} of its verdicts cannot be read by this grader: `grade regrade` judges them again."
    logging.getLogger(__name__).warning(told)


# --- the copy -------------------------------------------------------------------------------------


def _keep_copy(connection: sqlite3.Connection, file: Path, version: int) -> Path:
    """Write a synced copy of the gradebook to `gradebook.format2.sqlite` beside it; return its path.

    An earlier copy is not replaced: a further one gets the next number.
    """
    draft = file.with_name(f"{file.stem}.format{version}.part")
    try:
        draft.unlink(missing_ok=True)
        # Like the gradebook, only its owner may read it.
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
        # Copied by SQLite, so that it includes the write-ahead log.
        with contextlib.closing(sqlite3.connect(draft)) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        kept = _placed(draft, file, version)
        sync_folder(file.parent)
        return kept
    except OSError as error:
        raise GraderError(
            f"The gradebook {file} has the format {version} of an earlier grader, and no copy of it can be "
            f"kept beside it: {error.strerror}. Nothing was changed. Free some space, or copy {file.parent} to "
            "a folder where you may write, and run this again."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _placed(draft: Path, file: Path, version: int) -> Path:
    """Give the copy its name, or the next free one; an equal copy is not kept twice."""
    number = 1
    while True:
        end = f"-{number}" if number > 1 else ""
        kept = file.with_name(f"{file.stem}.format{version}{end}{file.suffix}")
        if not kept.exists():
            draft.rename(kept)
            return kept
        if kept.read_bytes() == draft.read_bytes():
            return kept
        number += 1


# --- format 3 -------------------------------------------------------------------------------------


def _facts(rows: Mapping[str, str]) -> Facts:
    """Return the facts from rows of formats 1 to 3, as far as this grader can read them.

    The next grading writes the missing facts again.
    """

    def read(name: str, kind: type[T], otherwise: T) -> T:
        try:
            return msgspec.json.decode(rows[name], type=kind) if rows.get(name) else otherwise
        except msgspec.DecodeError:
            return otherwise

    def attention() -> tuple[Attention, ...]:
        try:
            entries = split_exercises(read("attention", object, []))
            return msgspec.convert(entries, tuple[Attention, ...])
        except msgspec.ValidationError:
            return ()

    def drafts() -> tuple[MarkDraft, ...]:
        try:
            return mark_drafts(read("marking", object, {}))
        except msgspec.ValidationError:
            return ()

    def names(name: str) -> tuple[str, ...]:
        return tuple(filter(None, rows.get(name, "").split(",")))

    # Early gradebooks had only the text of the policy in force.
    named = read("named policy", str, rows.get("policy", ""))
    file, blank = rows.get("policy_file", ""), rows.get("blank", "")
    return Facts(
        secret=rows.get("pseudonyms") or secrets.token_hex(16),
        course=read("course", CourseInfo, Facts().course),
        title=rows.get("title", ""),
        exercises=names("exercises"),
        extra_credit=names("extra credit"),
        stubs=read("stubs", dict[str, str], {}),
        assignments=read("assignments", dict[str, AssignmentPart], {}),
        blank=read("blank", Result, None) if blank else None,
        assigned=names("assigned"),
        assignment=rows.get("assignment", ""),
        teams=bool(rows.get("teams")),
        policy=_rules(rows.get("policy", "")),
        named_policy=NamedPolicy(file, _rules(named)) if file else None,
        revision=int(rows.get("revision") or 0),
        is_unfinished=rows.get("finished") == "no",
        is_stale=True,
        corrections=rows.get("corrections", ""),
        totals=read("totals", dict[str, float], {}),
        totals_before=read("totals before", dict[str, float], {}),
        attention=attention(),
        mark_drafts=drafts(),
        is_paused=rows.get("serve paused") == "yes",
        clock=read("serve clock", tuple[ClockChange, ...], ()),
    )


def _rules(text: str) -> Rules:
    """Return the rules in the text of a policy; raises GraderError if it cannot be read.

    Going on without them would change points without telling anybody.
    """
    try:
        # A named policy of an assignment may have rules for lateness, and its due time elsewhere.
        return read_policy(text, due_elsewhere=True).rules
    except PolicyError as error:
        raise GraderError(
            f"The policy in this gradebook of an earlier grader cannot be read here: {error} The gradebook was "
            "not changed."
        ) from error


# --- format 2 -------------------------------------------------------------------------------------


def _corrections(connection: sqlite3.Connection) -> list[Correction]:
    """Return the corrections that were not undone, oldest first."""
    rows = connection.execute(
        "SELECT student, exercise, test, kind, points, reason, comment, author, made_at, judged"
        " FROM corrections WHERE undone_at = '' ORDER BY id"
    )
    return [_correction(*row) for row in rows]


def _correction(
    student: str,
    exercise: str,
    test: str,
    kind: str,
    points: float,
    reason: str,
    comment: str,
    author: str,
    made_at: str,
    judged: float | None,
) -> Correction:
    """Return the correction in a row; a comment alone was a correction of 0 points."""
    changes: dict[str, Any] = {kind: points if kind in ("points", "add") else test}
    if kind == "add" and not points and comment:
        changes = {}
    try:
        return Correction(
            student=student,
            exercise=exercise,
            reason=reason or ("" if not changes else "no reason was kept"),
            comment=comment,
            author=author or "unknown",
            time=datetime.datetime.fromisoformat(made_at),
            judged=judged,
            **changes,
        )
    except (TypeError, ValueError) as error:
        raise DamagedValueError(f"a correction of {student} {exercise}: {error}") from error


# --- format 1 -------------------------------------------------------------------------------------


def _from_format_1(connection: sqlite3.Connection, tables: str) -> None:
    """Replace the table of attempts, whose former version chose one, and make the missing tables."""
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    for statement in _separate(tables):
        kind, name = statement.split()[1:3]
        if kind == "TABLE" and name == "attempts":
            # Renaming the old table would change the references to it.
            connection.execute(statement.replace("attempts", "attempts_of_today", 1))
        elif kind == "TABLE" and name not in there:
            connection.execute(statement)
    # The column `counted` is dropped: it depended on the order of commands.
    connection.execute(
        "INSERT INTO attempts_of_today"
        " SELECT id, student, number, digest, submitted_at, late, origin FROM attempts"
    )
    connection.execute("DROP TABLE attempts")
    connection.execute("ALTER TABLE attempts_of_today RENAME TO attempts")
    # The first gradebooks had results as plain JSON.
    connection.create_function("deflated", 1, lambda text: zlib.compress(text.encode()))
    for table in _TABLES_OF_RESULTS:
        connection.execute(
            f"UPDATE {table} SET result = deflated(result) WHERE typeof(result) = 'text'"  # noqa: S608
        )
    _keep_files(connection)
    if (blank := _blank(connection)) is not None:
        text = msgspec.json.encode(blank).decode()
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('blank', ?)", (text,))


def _separate(tables: str) -> Iterator[str]:
    statement = ""
    for line in tables.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def _keep_files(connection: sqlite3.Connection) -> None:
    """Keep the files of verdicts; without a file, the verdict's message is the problem."""
    connection.execute(
        "INSERT INTO files SELECT attempt, exercise, source, '' FROM grades WHERE source != ''"
    )
    without = connection.execute("SELECT attempt, exercise, result FROM grades WHERE source = ''")
    rows = []
    for attempt, exercise, cell in without.fetchall():
        result = _read(cell)
        rows.append((attempt, exercise, "" if result is None else result.message))
    connection.executemany("INSERT INTO files VALUES (?, ?, '', ?)", rows)


def _blank(connection: sqlite3.Connection) -> Result | None:
    """Return the result of a student who handed in nothing, made from verdicts; None without any."""
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    rows = connection.execute(
        "SELECT exercise, result, environments.environment, seed, graded_at FROM grades"
        " JOIN environments ON environments.id = grades.environment GROUP BY exercise"
    ).fetchall()
    by_exercise = {row[0]: row for row in rows}
    names = facts.get("exercises", "").split(",")
    graded = [by_exercise[name] for name in names if name in by_exercise]
    results = [_read(row[1]) for row in graded]
    exercises = tuple(_emptied(result) for result in results if result is not None)
    if not exercises:
        return None
    try:
        course = msgspec.json.decode(facts["course"], type=CourseInfo)
        environment = msgspec.json.decode(graded[0][2], type=Environment)
    except (KeyError, msgspec.DecodeError):
        return None
    return Result(
        course=course,
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
    """Return an exercise's result as if nothing was handed in."""
    tests = tuple(
        msgspec.structs.replace(
            test,
            outcome=Outcome.NOT_IMPLEMENTED,
            score=0.0,
            duration_seconds=0.0,
            message=_NOTHING,
            hint="",
            place=None,
            printed="",
            refused=False,
            finding=None,
        )
        for test in result.tests
    )
    return msgspec.structs.replace(
        result,
        tests=tests,
        status=Status.NOT_ATTEMPTED,
        score=0.0,
        duration_seconds=0.0,
        message=_NOTHING,
        output="",
        settled=True,
    )


# --- unreadable results ---------------------------------------------------------------------------


def _unreadable_results(connection: sqlite3.Connection) -> int:
    """Remove verdicts that this grader cannot read, and return their number. Their files stay."""
    connection.create_function("is_read", 1, lambda cell: _read(cell) is not None)
    lost = {
        table: connection.execute(f"DELETE FROM {table} WHERE NOT is_read(result)").rowcount  # noqa: S608
        for table in _TABLES_OF_RESULTS
    }
    return lost["grades"]


def _read(cell: bytes) -> ExerciseResult | None:
    """Return the result in a cell; None if this grader cannot read it."""
    try:
        return unpacked(cell)
    except DamagedValueError:
        return None
