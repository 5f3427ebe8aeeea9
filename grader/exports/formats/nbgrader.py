"""The CSV that `nbgrader export` writes, for what reads it already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, Options
from grader.exports.table import Table
from grader.exports.texts import one_line
from grader.exports.verdicts import left_open, total
from grader.judge.scoring import rounded
from grader.results import Entry
from grader.text import number

HEADER = (
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


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write every entry.

    Of exercises with several due times the last one is given. The raw score is the score and what lateness
    took off; for an average of attempts that is not known, and there is no penalty.
    """
    table = Table(out)
    table.row(HEADER)
    unfinished = 0
    for entry in entries:
        family, given = split_name(entry.student.name)
        whole = total(entry, options.out_of)
        unfinished += whole is None
        marks = [exercise.mark for exercise in entry.result.exercises if exercise.mark is not None]
        worth = entry.result.max_score
        scale = 1.0 if options.out_of is None or not worth else options.out_of / worth
        lost = rounded(scale * sum(mark.lost for mark in marks))
        table.row(
            [
                options.column or entry.result.course.name,
                max((mark.due for mark in marks), default=""),
                entry.submitted_at,
                entry.student.id,
                family,
                given,
                entry.student.email,
                "" if whole is None else number(whole + lost),
                number(lost),
                "" if whole is None else number(whole),
                number(worth if options.out_of is None else options.out_of),
            ]
        )
    return left_open(unfinished)


def split_name(name: str) -> tuple[str, str]:
    """Family and given name, of `Smith, Ada` or of `Ada Smith`; of one word, the family name."""
    plain = one_line(name)
    if "," in plain:
        family, _, given = plain.partition(",")
        return family.strip(), given.strip()
    given, _, family = plain.rpartition(" ")
    return family, given


FORMAT = ClassFormat(
    "the columns of `nbgrader export`", Audience.STAFF, ("column", "out_of"), write
)
