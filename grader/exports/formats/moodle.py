"""Moodle: its offline grading worksheet filled in, or a file for its plain grade import.

The worksheet's headers are in the teacher's language, so its columns are recognized by their contents, in
Moodle's order (mod/assign/gradingtable.php): an identifier that ends in a number, perhaps the full name and
more about the person, the grade, and right after it the maximum grade.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO

from grader.errors import SubmissionError
from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, ExportError, Options
from grader.exports.formats.feedback import beginnings, html_feedback, in_comment
from grader.exports.formats.tables import exercise_columns, exercise_points
from grader.exports.matching import Grades, Key, TemplateRow, person_of
from grader.exports.table import Table, filled_in, read_template
from grader.exports.texts import one_line
from grader.exports.verdicts import left_open, total
from grader.results import Entry, StudentInfo
from grader.submissions.class_list import MoodleWorksheet
from grader.submissions.sheet import Sheet
from grader.text import number

# Moodle's import takes an empty cell of a new grade item for a broken number; a dash means no grade.
_NO_GRADE = "-"
_NUMBER_AT_END = re.compile(r".*?(\d+)\s*", re.DOTALL)
# Properties of a person that may be in columns between the full name and the grade.
_EXTRAS = ("email", "username", "id", "id_number", "sis_user_id", "sis_login_id")


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Fill in the worksheet, or without one write a file for the plain grade import, to be mapped by hand."""
    if options.template is None:
        return _plain(entries, out, options)
    return _Worksheet(read_template(options.template), options).fill(entries, out)


def _plain(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write a row for each student, with a dash if there is no grade."""
    columns = exercise_columns(entries)
    table = Table(out)
    comments = [options.feedback] if options.feedback else []
    table.row(["username", "email", *columns, options.column or "total", *comments])
    unfinished = 0
    for entry in entries:
        student, earned, whole = entry.student, exercise_points(entry), total(entry, options.out_of)
        unfinished += whole is None
        cells = [earned.get(column, _NO_GRADE) for column in columns]
        cells.append(_NO_GRADE if whole is None else number(whole))
        cells += [html_feedback(entry, options.title) for _ in comments]
        table.row([student.ids.get("username") or student.id, student.email, *cells])
    return left_open(unfinished)


def moodle_person(entry: Entry) -> dict[str, str]:
    """Return a student's names and ids, in the form in which they are compared with Moodle's."""
    person = {key: text.casefold() for key, text in person_of(entry.student).items()}
    identifier = _NUMBER_AT_END.fullmatch(person.get("moodle_identifier", ""))
    return {**person, "moodle_identifier": identifier[1] if identifier else ""}


def moodle_keys(columns: Iterable[str]) -> list[Key]:
    """Return the keys to match by: the participant's number, these columns about the person, the name."""
    extras = [Key(column, person, alias=True) for column in columns for person in _EXTRAS]
    return [
        Key("identifier", "moodle_identifier", reused=True),
        *extras,
        Key("name", "name", alias=True),
    ]


class _Worksheet:
    """Moodle's own file: the row of each student, and the column for the grade."""

    def __init__(self, sheet: Sheet, options: Options) -> None:
        self._sheet, self._options = sheet, options
        if not sheet.rows:
            raise ExportError(f"The worksheet {options.template} has no rows.")
        try:
            self._book = MoodleWorksheet(f"The template {options.template}", sheet)
        except SubmissionError as error:
            raise ExportError(str(error)) from error
        self._identifier = self._book.identifier
        self._grade, self._maximum = self._find_grade()
        self._about_the_person = range(self._identifier + 1, self._grade)
        self._comments = self._find_comments() if options.feedback else None

    def fill(self, entries: Iterable[Entry], out: IO[bytes]) -> list[str]:
        """Write every row with its grade; everything else stays, including Moodle's dates of change."""
        grades = Grades(entries, moodle_person, self._options.out_of)
        students = list(self._book.rows())
        rows = [
            TemplateRow(self._identity(row.at, row.student), self._name(row.at), row.where)
            for row in students
        ]
        matched = grades.match(rows, moodle_keys(map(str, self._about_the_person)))
        person_at = {students[row].at: (rows[row], person) for row, person in matched.items()}
        title = self._options.title
        # For each student: the feedback, and how feedback of this grader begins.
        feedback = [
            (html_feedback(entry, title), tuple(map(in_comment, beginnings(entry, title))))
            for entry in (entries if self._comments is not None else ())
        ]
        at = self._maximum
        maximum = (
            "" if at is None else next(filter(None, (row[at] for row in self._sheet.rows)), "")
        )
        notes = grades.scale_note("The maximum grade in Moodle is {}", maximum)
        table = filled_in(out, self._sheet)
        table.kept(self._sheet.header)
        for at, read in enumerate(self._sheet.rows):
            cells = list(read)
            if at in person_at:
                row, person = person_at[at]
                if (whole := grades.totals[person]) is not None:
                    # Write a decimal comma if the worksheet does.
                    grade = number(whole).replace(".", "," if "," in maximum else ".")
                    grades.replaces(row, cells[self._grade], grade)
                    cells[self._grade] = grade
                    if feedback and not self._comment(cells, feedback[person]):
                        notes.append(f"{row.name}: has another person's comment, which stays.")
                else:
                    notes.append(f"{row.name}: has no grade. {grades.whys[person]}")
            table.kept(cells)
        return [*notes, *grades.notes()]

    def _comment(self, cells: list[str], feedback: tuple[str, tuple[str, ...]]) -> bool:
        """Write the comment, unless a person's is there; comments of the grader have a common beginning."""
        assert self._comments is not None
        text, beginning = feedback
        there = cells[self._comments].strip()
        if there and not there.startswith(beginning):
            return False
        cells[self._comments] = text
        return True

    def _identity(self, at: int, student: StudentInfo) -> dict[str, str]:
        row, identifier = self._sheet.rows[at], student.ids.get("moodle_identifier", "")
        return {
            "identifier": identifier.removeprefix("Participant ").strip(),
            "name": person_of(student)["name"],
            **{str(at): row[at].strip().casefold() for at in self._about_the_person},
        }

    def _name(self, at: int) -> str:
        row, name = self._sheet.rows[at], self._book.name
        return one_line(row[self._identifier]) + (
            f" ({one_line(row[name])})" if name is not None else ""
        )

    def _find_grade(self) -> tuple[int, int | None]:
        """Return the columns of the grade and of the maximum, if there is one."""
        header = self._sheet.header
        if wanted := self._options.column.strip():
            places = [at for at, title in enumerate(header) if title.strip() == wanted]
            if len(places) != 1:
                raise ExportError(self._no_grade(f"There is no single column {wanted!r}"))
            after = places[0] + 1
            return places[0], after if after < len(header) and self._book.is_maximum(
                after
            ) else None
        maxima = self._book.maxima()
        if len(maxima) != 1:
            raise ExportError(self._no_grade("The column of the grade is not clear"))
        return maxima[0] - 1, maxima[0]

    def _find_comments(self) -> int:
        """Return the column for feedback after the grade, by its title; raises ExportError."""
        wanted, header = self._options.feedback.strip(), self._sheet.header
        places = [at for at, title in enumerate(header) if title.strip() == wanted]
        if len(places) == 1 and places[0] > self._grade:
            return places[0]
        names = "; ".join(one_line(title) for title in header[self._grade + 1 :])
        raise ExportError(
            f"There is no single column {wanted!r} after the grade in {self._options.template} for "
            f"--feedback. There are: {names}. Moodle writes one if the assignment has the feedback "
            "type 'Feedback comments'."
        )

    def _no_grade(self, why: str) -> str:
        names = "; ".join(one_line(title) for title in self._sheet.header)
        return f"{why} in {self._options.template}: name it with --column. There are: {names}."


FORMATS = {
    "moodle": ClassFormat(
        "Moodle's grade import; --template fills in its worksheet",
        Audience.STUDENTS,
        ("template", "column", "out_of", "feedback"),
        write,
    )
}
