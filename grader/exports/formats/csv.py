"""Plain CSV: a row a submission, a column an exercise, the total, and whether anybody has to look."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import IO

from grader.exports.files import ClassFormat, Options
from grader.exports.table import Table
from grader.exports.verdicts import is_judged, left_open, standing, total
from grader.results import Entry, ExerciseResult
from grader.text import number

_BEFORE = ("student", "name", "email", "attempt", "submitted_at", "late")
_AFTER = ("total", "max_score", "status", "origin")


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write every entry; what is not judged is an empty cell, and so is the total over it."""
    columns = exercise_columns(entries)
    if options.excel:
        out.write(codecs.BOM_UTF8)
    table = Table(out)
    table.row([*_BEFORE, *columns, *_AFTER])
    unfinished = 0
    for entry in entries:
        table.row(_row(entry, columns, options.out_of))
        unfinished += total(entry) is None
    return left_open(unfinished)


def exercise_columns(entries: Iterable[Entry]) -> list[str]:
    """`chapter/exercise` of every exercise of any entry, in order; a first pass over the entries."""
    columns = (_column(exercise) for entry in entries for exercise in entry.result.exercises)
    return list(dict.fromkeys(columns))


def exercise_points(entry: Entry) -> dict[str, str]:
    """The points of each judged exercise by its column."""
    judged = filter(is_judged, entry.result.exercises)
    return {_column(exercise): number(exercise.score) for exercise in judged}


def _column(exercise: ExerciseResult) -> str:
    return f"{exercise.chapter}/{exercise.name}"


def _row(entry: Entry, columns: list[str], out_of: float | None) -> list[str]:
    student, earned, whole = entry.student, exercise_points(entry), total(entry, out_of)
    return [
        student.id,
        student.name,
        student.email,
        str(entry.attempt),
        entry.submitted_at,
        "yes" if entry.late else "no",
        *[earned.get(column, "") for column in columns],
        "" if whole is None else number(whole),
        number(entry.result.max_score if out_of is None else out_of),
        standing(entry),
        entry.origin,
    ]


FORMAT = ClassFormat("a row a student, a column an exercise", write, ("out_of", "excel"))
