"""Files of a term: a CSV of all totals, an explanation of each, a page, and uploads for platforms."""

from __future__ import annotations

from pathlib import Path

from grader.exports.files import (
    README,
    ClassFormat,
    Options,
    folder_at,
    open_export,
    refuse_foreign,
)
from grader.exports.report.overview import histogram, mean, median
from grader.exports.report.render import Renderer
from grader.exports.table import Table
from grader.exports.texts import one_line
from grader.gradebook.term import Term, TermRow
from grader.results import (
    CourseInfo,
    Entry,
    Environment,
    ExerciseResult,
    Result,
    Status,
    SubmissionInfo,
)
from grader.text import number, utc

GRADES, EXPLAINED, PAGE = "grades.csv", "explained.txt", "index.html"
_FIRST_LINE = "Totals of a term, of Lab Bench."
_README_TEXT = f"""\
{_FIRST_LINE}

{PAGE:<14} the distribution, and everybody's total with its explanation; open it in any browser
{GRADES:<14} a row for each student
{EXPLAINED:<14} a line for each student
canvas.csv, moodle.csv: uploads, if --format asked for them.

All of it is for staff only. `grade term` overwrites these files and leaves others alone.
"""


def write_term(term: Term, folder: Path, title: str) -> tuple[Path, ...]:
    """Write the files of a term into a folder, each completely or not at all; return their paths.

    Raises SubmissionError if the folder contains anything else.
    """
    refuse_foreign(folder, _FIRST_LINE, "a term")
    folder = folder_at(folder)
    with open_export(folder / README) as out:
        out.write(_README_TEXT.encode())
    with open_export(folder / GRADES) as out:
        table = Table(out)
        ids = [assignment.id for assignment in term.assignments]
        table.row(["student", "name", "email", *ids, "total", "letter", "explanation"])
        for row in term.rows:
            student = row.student
            percents = ["" if p.percent is None else number(p.percent) for p in row.parts]
            total = "" if row.total is None else number(row.total)
            cells = [*percents, total, row.letter, one_line(row.words)]
            table.row([student.id, student.name, student.email, *cells])
    with open_export(folder / EXPLAINED) as out:
        for row in term.rows:
            out.write(f"{one_line(row.student.id)}: {one_line(row.words)}\n".encode())
    _write_page(term, folder / PAGE, title)
    return tuple(folder / name for name in (GRADES, EXPLAINED, PAGE))


def write_upload(
    term: Term, path: Path, chosen: ClassFormat, options: Options, course: CourseInfo
) -> list[str]:
    """Write the totals, out of 100, in a platform's format; return its notes."""
    entries = [_entry(row, course) for row in term.rows]
    with open_export(path) as out:
        return chosen.write(entries, out, options)


def _write_page(term: Term, path: Path, title: str) -> None:
    """Write the page of the term: the figures, a chart of the totals, and a row for each student."""
    totals = [row.total / 100 for row in term.rows if row.total is not None]
    letters: dict[str, int] = {}
    for row in term.rows:
        if row.letter:
            letters[row.letter] = letters.get(row.letter, 0) + 1
    Renderer().write(
        path,
        "term.html",
        title=title,
        assignments=term.assignments,
        rows=term.rows,
        notes=term.notes,
        chart=histogram(totals),
        mean=mean(totals),
        median=median(totals),
        open_totals=len(term.rows) - len(totals),
        letters=letters,
    )


def _entry(row: TermRow, course: CourseInfo) -> Entry:
    """Return a row's total as the student's only result: formats read results."""
    is_open = row.total is None
    whole = ExerciseResult(
        name="term",
        title="Term",
        chapter="term",
        status=Status.UNJUDGED if is_open else Status.PARTIAL,
        score=row.total or 0.0,
        max_score=100.0,
        duration_seconds=0.0,
        message=f"The total is open: {row.why}." if is_open else row.words,
        tests=(),
        output="",
        waiting=is_open,
    )
    result = Result(
        course=course,
        submission=SubmissionInfo(row.student.id, ""),
        score=whole.score,
        max_score=whole.max_score,
        seed=0,
        exercises=(whole,),
        started_at=utc(),
        duration_seconds=0.0,
        environment=Environment("", "", "", "", ()),
    )
    return Entry(student=row.student, result=result)
