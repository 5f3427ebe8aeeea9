"""Plain CSV: a row a student, a column an exercise, the total, what the judge gave, and why that is not all."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import IO

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, Options
from grader.exports.table import Table
from grader.exports.verdicts import is_judged, left_open, standing, total
from grader.judge.scoring import scaled, sum_of
from grader.results import Entry, ExerciseResult
from grader.student.blocks import on_requests
from grader.text import number

_BEFORE = ("student", "name", "email", "attempt", "submitted_at", "late")
_AFTER = ("total", "max_score", "judged", "status", "origin", "remarks")


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
    remarks = ["Nothing was handed in."] if entry.absent else []
    remarks += map(_remark, entry.result.exercises)
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
        "" if whole is None else number(_judged(entry, out_of)),
        standing(entry),
        entry.origin,
        " ".join(filter(None, remarks)),
    ]


def _judged(entry: Entry, out_of: float | None) -> float:
    """The points of the judge alone, where a policy or a person made others of them."""
    exercises = [
        msgspec.structs.replace(e, score=e.mark.judged) if e.mark is not None else e
        for e in entry.result.exercises
    ]
    result = msgspec.structs.replace(entry.result, score=sum_of(exercises)[0])
    return result.score if out_of is None else scaled(result, out_of)


def _remark(exercise: ExerciseResult) -> str:
    """Why the points of an exercise are not those of the judge, and what else was said of it."""
    held = f"{exercise.name}: {exercise.provisional}" if exercise.provisional else ""
    asked = [f"{exercise.name}: {text}" for text in on_requests(exercise)]
    mark = exercise.mark
    if mark is None or not (mark.reasons or mark.comment or mark.judged != exercise.score):
        return " ".join(filter(None, (held, *asked)))
    judged = f"{exercise.name}: judged {number(mark.judged)}."
    return " ".join(filter(None, (held, judged, *mark.reasons, mark.comment, *asked)))


FORMAT = ClassFormat(
    "a row a student, a column an exercise", Audience.STAFF, ("out_of", "excel"), write
)
