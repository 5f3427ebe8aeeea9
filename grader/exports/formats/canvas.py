"""Canvas's gradebook CSV: the one that it exported, filled in, or one that makes a new assignment.

Canvas (lib/gradebook_importer.rb) finds its columns by their place: the student's name, ID, SIS ids, up to
Section. What follows are assignments and the teacher's columns. An upload replaces what was graded since:
only the one assignment is written back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import IO

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, ExportError, Options
from grader.exports.matching import Grades, Key, name_key, person_of
from grader.exports.table import Sheet, Table, read_sheet
from grader.exports.texts import one_line
from grader.exports.verdicts import left_open, total
from grader.results import Entry
from grader.text import number

_HEADER = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_POINTS = "Points Possible"
_WITH_ID = re.compile(r"(?P<name>.*\S)\s*\((?P<id>\d+)\)\s*")
# An excused student, and one to whom the assignment was not given: no score may undo that.
_LEFT_ALONE = ("EX", "N/A")
_KEYS = (
    Key("ID", "canvas_id"),
    Key("SIS User ID", "sis_user_id"),
    Key("SIS Login ID", "sis_login_id"),
    Key("SIS Login ID", "username", alias=True),
    Key("SIS Login ID", "email", alias=True),
    Key("SIS User ID", "id", alias=True),
    Key("SIS Login ID", "login", alias=True),
    Key("Student", "name", alias=True),
)


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Fill in the template, or without one write a file from which Canvas makes a new assignment."""
    if options.template is None:
        return _new(entries, out, options)
    return _Template(read_sheet(options.template), options).fill(entries, out)


def _new(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write the columns that Canvas asks for and one new assignment, worth what the course is."""
    table, nameless, unfinished = Table(out), 0, 0
    first = next(iter(entries), None)
    if first is None:
        return ["There is no result to export."]
    worth = first.result.max_score if options.out_of is None else options.out_of
    table.row([*_HEADER, options.named(first)])
    table.kept([f"    {_POINTS}", "", "", "", "", number(worth)])
    for entry in entries:
        whole, student = total(entry, options.out_of), entry.student
        ids = [student.ids.get(key, "") for key in ("canvas_id", "sis_user_id", "sis_login_id")]
        nameless += not any(ids)
        unfinished += whole is None
        table.row(
            [
                # Canvas would take a name with these words for the row of the points.
                one_line(student.name or student.id).replace(_POINTS, _POINTS.replace(" ", "_")),
                *ids,
                student.ids.get("section", ""),
                "" if whole is None else number(whole),
            ]
        )
    notes = left_open(unfinished)
    if nameless:
        notes.append(
            f"{nameless} of the rows have no id of Canvas's, only a name, which Canvas has to know "
            "exactly: better fill in the file that Canvas exports, with --template."
        )
    return notes


class _Template:
    """Canvas's own file: which column is the assignment, which rows are students."""

    def __init__(self, sheet: Sheet, options: Options) -> None:
        self._sheet, self._options = sheet, options
        self._section = self._find_section()
        self._assignment = self._find_assignment()
        self._id = sheet.header.index("ID")

    def fill(self, entries: Iterable[Entry], out: IO[bytes]) -> list[str]:
        """Write the columns up to Section and the assignment; every row is kept, in its order."""
        rows, mine = self._sheet.rows, self._assignment
        students = [
            at for at, row in enumerate(rows) if row[self._id].strip() and _POINTS not in row[0]
        ]
        grades = Grades(entries, lambda entry: person_of(entry.student), self._options.out_of)
        matched = grades.match([self._identity(rows[at]) for at in students], _KEYS)
        person_at = {students[row]: person for row, person in matched.items()}
        marks = [row[mine] for row in rows if _POINTS in row[0]]
        notes = grades.scale_note(
            "The assignment has {} points in Canvas", marks[0] if marks else ""
        )
        table = self._sheet.start(out)
        header, end = self._sheet.header, self._section + 1
        table.kept([*header[:end], header[mine]])
        for at, row in enumerate(rows):
            score = row[mine]
            if at in person_at:
                person = person_at[at]
                score = self._score(row, grades.totals[person], grades.whys.get(person, ""), notes)
            table.kept([*row[:end], score])
        empty = [one_line(rows[at][0]) for at in students if at not in person_at]
        return [*notes, *grades.notes(empty)]

    def _score(self, row: tuple[str, ...], whole: float | None, why: str, notes: list[str]) -> str:
        """The cell of a student: the points, or what is there where no score may undo it, with a note."""
        name, score = one_line(row[0]), row[self._assignment]
        if whole is None:
            notes.append(f"{name}: has no score. {why}")
        elif score.strip().upper() in _LEFT_ALONE:
            notes.append(f"{name}: stays {score.strip()}, as Canvas has it.")
        else:
            return number(whole)
        return score

    def _identity(self, row: tuple[str, ...]) -> dict[str, str]:
        cells = dict(zip(self._sheet.header, (cell.strip() for cell in row), strict=False))
        name = cells.get("Student") or f"{cells.get('LastName', '')}, {cells.get('FirstName', '')}"
        login = cells.get("SIS Login ID", "").casefold()
        return {**cells, "Student": name_key(name), "SIS Login ID": login}

    def _find_section(self) -> int:
        """The last column about the student; raises ExportError where the file is not Canvas's."""
        header = self._sheet.header
        if "ID" not in header[1:3] or "Section" not in header:
            raise ExportError(
                f"The template {self._options.template} is not what Canvas exports: its header has to "
                "begin with Student, ID, and to have a Section. Take it as Canvas exported it."
            )
        return header.index("Section")

    def _find_assignment(self) -> int:
        """The column to fill in: by its title or its id, or the only one. Raises ExportError."""
        titles = {at: title for at, title in enumerate(self._sheet.header) if self._is_open(at)}
        places, wanted = list(titles), self._options.column.strip()
        if wanted:
            places = [at for at, title in titles.items() if title.strip() == wanted] or [
                at
                for at, title in titles.items()
                if (parts := _WITH_ID.fullmatch(title))
                and wanted in (parts["name"].strip(), parts["id"])
            ]
        if len(places) == 1:
            return places[0]
        which = f"{len(places)} columns fit {wanted!r}" if wanted else "Which column is it"
        names = "; ".join(one_line(title) for title in titles.values()) or "none"
        raise ExportError(f"{which}: name one with --column. The assignments there are: {names}.")

    def _is_open(self, at: int) -> bool:
        """Whether it is an assignment, and none of the sums that Canvas computes itself."""
        if at <= self._section or not _WITH_ID.fullmatch(self._sheet.header[at]):
            return False
        marks = [row[at] for row in self._sheet.rows if _POINTS in row[0]]
        return not any("read only" in mark for mark in marks)


FORMATS = {
    "canvas": ClassFormat(
        "Canvas's gradebook; --template fills in its export",
        Audience.STAFF,
        ("template", "column", "out_of"),
        write,
    )
}
