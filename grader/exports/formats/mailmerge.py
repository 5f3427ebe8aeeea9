"""A table for a mail merge: a row a student with the address, the name, a subject, and the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from grader.exports.disclosure import Audience
from grader.exports.feedback import plain_feedback
from grader.exports.files import ClassFormat, Options
from grader.exports.table import Table
from grader.exports.texts import one_line
from grader.results import Entry
from grader.text import counted

HEADER = ("address", "name", "subject", "text")


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write a row for each student; a missing address leaves its cell empty and is a note."""
    table = Table(out)
    table.row(HEADER)
    without = 0
    for entry in entries:
        student = entry.student
        without += not student.email
        subject = f"{options.column or entry.result.course.name}: your result"
        cells = [student.email, student.name or student.id, subject]
        # The text has lines of its own, which a cell in quotes may have.
        table.kept([*map(one_line, cells), plain_feedback(entry, options.column)])
    if not without:
        return []
    who = counted(without, "student has", "students have")
    return [f"{who} no address: give `grade batch` a class list with --roster."]


FORMAT = ClassFormat(
    "a row a student: address, name, subject, text", Audience.STUDENTS, ("column",), write
)
