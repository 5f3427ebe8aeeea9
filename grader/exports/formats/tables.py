"""Tables for spreadsheets and programs: CSV, the CSV of nbgrader, and JSON Lines."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable
from typing import IO

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, Options
from grader.exports.table import Table
from grader.exports.texts import one_line
from grader.exports.verdicts import is_judged, left_open, standing, total
from grader.gradebook.corrections import on_one_line
from grader.judge.scoring import scaled, sum_of
from grader.results import PRACTICE, Entry, ExerciseResult
from grader.student.blocks import on_requests
from grader.text import number, rounded

# --- CSV: a row for each student, a column for each exercise, the total, the judge's score, remarks --

_BEFORE = ("student", "name", "email", "attempt", "submitted_at", "late")
_AFTER = ("total", "max_score", "judged", "status", "origin", "remarks")


def write_csv(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write every entry; an unjudged exercise is an empty cell, and so is its total."""
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
    """Return the column of every exercise of any entry, in order; a first pass over the entries."""
    columns = (_column(exercise) for entry in entries for exercise in entry.result.exercises)
    return list(dict.fromkeys(columns))


def exercise_points(entry: Entry) -> dict[str, str]:
    """Return the points of each judged exercise by its column."""
    judged = filter(is_judged, entry.result.exercises)
    return {_column(exercise): number(exercise.score) for exercise in judged}


def _column(exercise: ExerciseResult) -> str:
    name = f"{exercise.chapter}/{exercise.name}"
    return f"{name} ({PRACTICE})" if exercise.practice else name


def _row(entry: Entry, columns: list[str], out_of: float | None) -> list[str]:
    """Return the cells of one student, in the order of the header."""
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
    """Return the judge's points only, before a policy or a person changed them."""
    exercises = [
        msgspec.structs.replace(e, score=e.mark.judged) if e.mark is not None else e
        for e in entry.result.exercises
    ]
    return _out_of(entry, sum_of(exercises)[0], out_of)


def _out_of(entry: Entry, score: float, out_of: float | None) -> float:
    """Scale points of an entry's exercises to `out_of`."""
    return score if out_of is None else scaled(score, entry.result.max_score, out_of)


def _remark(exercise: ExerciseResult) -> str:
    """Explain why the points of an exercise differ from the judge's, with other remarks."""
    held = f"{exercise.name}: {exercise.provisional}" if exercise.provisional else ""
    asked = [f"{exercise.name}: {text}" for text in on_requests(exercise)]
    mark = exercise.mark
    if mark is None or not (mark.reasons or mark.comment or mark.judged != exercise.score):
        return " ".join(filter(None, (held, *asked)))
    judged = f"{exercise.name}: judged {number(mark.judged)}."
    comment = on_one_line(mark.comment)
    return " ".join(filter(None, (held, judged, *mark.reasons, comment, *asked)))


# --- the CSV that `nbgrader export` writes, for programs that read it -------------------------------

_NBGRADER_HEADER = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)


def write_nbgrader(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write every entry.

    If exercises have several due times, the last is given. The raw score is the score plus the cost of
    lateness, scaled from the exact points like the score, and the penalty is their difference. For an average
    of attempts, the penalty is not known, and its cell is empty.
    """
    table = Table(out)
    table.row(_NBGRADER_HEADER)
    unfinished = 0
    for entry in entries:
        family, given = _split_name(entry.student.name)
        whole = total(entry, options.out_of)
        unfinished += whole is None
        counting = [e for e in entry.result.exercises if not e.practice]
        marks = [exercise.mark for exercise in counting if exercise.mark is not None]
        worth = entry.result.max_score
        lost = math.fsum(mark.lost for mark in marks)
        raw = _out_of(entry, rounded(entry.result.score + lost), options.out_of)
        table.row(
            [
                options.named(entry),
                max((mark.due for mark in marks), default=""),
                entry.submitted_at,
                entry.student.id,
                family,
                given,
                entry.student.email,
                "" if whole is None else number(raw),
                number(_out_of(entry, lost, options.out_of) if whole is None else raw - whole),
                "" if whole is None else number(whole),
                number(worth if options.out_of is None else options.out_of),
            ]
        )
    return left_open(unfinished)


def _split_name(name: str) -> tuple[str, str]:
    """Split `Smith, Ada` or `Ada Smith` into family and given name; a single word is a family name."""
    plain = one_line(name)
    if "," in plain:
        family, _, given = plain.partition(",")
        return family.strip(), given.strip()
    given, _, family = plain.rpartition(" ")
    return family, given


# --- every entry complete, one on each line, for programs -------------------------------------------


def write_jsonl(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:  # noqa: ARG001  # as every format
    """Write every `grader.results.Entry` as JSON."""
    encode = msgspec.json.Encoder().encode
    for entry in entries:
        # Legal in JSON, but many programs that read line by line take these for line breaks.
        line = (
            encode(entry).replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")
        )
        out.write(line + b"\n")
    return []


FORMATS = {
    "csv": ClassFormat(
        "a row for each student, a column for each exercise",
        Audience.STAFF,
        ("out_of", "excel"),
        write_csv,
    ),
    "nbgrader": ClassFormat(
        "the columns of `nbgrader export`", Audience.STAFF, ("column", "out_of"), write_nbgrader
    ),
    "jsonl": ClassFormat("everything, one entry per line", Audience.STAFF, (), write_jsonl),
}
