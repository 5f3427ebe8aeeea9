"""Canvas's gradebook CSV: its own export, filled in, or a file for a new assignment.

Canvas (lib/gradebook_importer.rb) finds its columns by position: the student's name, ID, SIS ids, up to
Section. Assignments and the teacher's columns follow. An upload overwrites grades given since the export, so
only the one assignment is written back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, ExportError, Options
from grader.exports.matching import Grades, Key, TemplateRow, person_of
from grader.exports.table import Table, filled_in, read_template
from grader.exports.texts import one_line
from grader.exports.verdicts import left_open, total
from grader.results import Entry
from grader.submissions.class_list import CanvasGradebook
from grader.submissions.sheet import Sheet
from grader.text import number

_HEADER = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_POINTS = "Points Possible"
# An excused student, and one to whom the assignment was not given. No score may replace these.
_LEFT_ALONE = ("EX", "N/A")
KEYS = (
    Key("canvas_id", "canvas_id"),
    Key("sis_user_id", "sis_user_id"),
    Key("sis_login_id", "sis_login_id"),
    Key("sis_login_id", "username", alias=True),
    Key("sis_login_id", "email", alias=True),
    Key("sis_user_id", "id", alias=True),
    Key("sis_login_id", "login", alias=True),
    Key("name", "name", alias=True),
)


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Fill in the template, or without one write a file from which Canvas makes a new assignment."""
    if options.template is None:
        return _new(entries, out, options)
    return _Template(read_template(options.template), options).fill(entries, out)


def _new(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write the columns that Canvas requires and one new assignment, worth the points of the course."""
    table, nameless, unfinished = Table(out), 0, 0
    first = next(iter(entries), None)
    if first is None:
        return ["There is no result to export."]
    worth = first.result.max_score if options.out_of is None else options.out_of
    title = one_line(options.named(first))
    _refuse_reserved(title)
    table.row([*_HEADER, title])
    table.kept([f"    {_POINTS}", "", "", "", "", number(worth)])
    for entry in entries:
        whole, student = total(entry, options.out_of), entry.student
        ids = [student.ids.get(key, "") for key in ("canvas_id", "sis_user_id", "sis_login_id")]
        nameless += not any(ids)
        unfinished += whole is None
        table.row(
            [
                # Canvas would take a name with these words for the row of points.
                one_line(student.name or student.id).replace(_POINTS, _POINTS.replace(" ", "_")),
                *ids,
                student.section,
                "" if whole is None else number(whole),
            ]
        )
    notes = left_open(unfinished)
    if nameless:
        notes.append(
            f"{nameless} of the rows have no id of Canvas's, only a name, which Canvas must know "
            "exactly: it is better to fill in the file that Canvas exports, with --template."
        )
    return notes


def _refuse_reserved(title: str) -> None:
    """Raise ExportError for the title of a new assignment that Canvas's import would skip or cut."""
    advice = f'Choose another title, for example --column "{_free_title(title)}"'
    if words := CanvasGradebook.is_passed_over(title):
        raise ExportError(
            f'Canvas\'s import ignores every column with "{words}" in its title, so the upload would '
            f"change nothing. {advice}."
        )
    if number_of := CanvasGradebook.title_and_id(title)[1]:
        raise ExportError(
            f"Canvas's import reads ({number_of}) at the end of a title as the number of an existing "
            f"assignment. {advice}, or fill in the file that Canvas exports, with --template."
        )


def _free_title(title: str) -> str:
    """Return a similar title that Canvas takes unchanged."""
    while words := CanvasGradebook.is_passed_over(title):
        title = " ".join(title.replace(words, " ").split())
    name, number_of = CanvasGradebook.title_and_id(title)
    return f"{name} {number_of}".strip() or "Result"


class _Template:
    """Canvas's own file: the column of the assignment, and the rows of students."""

    def __init__(self, sheet: Sheet, options: Options) -> None:
        if not CanvasGradebook.has_header(sheet.header):
            raise ExportError(
                f"The template {options.template} is not an export of Canvas's: its header must begin with "
                "Student, ID, and contain Section. Use the file as Canvas exported it."
            )
        self._sheet, self._options = sheet, options
        self._book = CanvasGradebook(f"The template {options.template}", sheet)
        self._assignment = self._find_assignment()

    def fill(self, entries: Iterable[Entry], out: IO[bytes]) -> list[str]:
        """Write the columns up to Section and the assignment; every row is kept, in its order."""
        mine, end = self._assignment, self._book.section + 1
        students = list(self._book.rows())
        rows = [
            TemplateRow(person_of(row.student), one_line(self._called(row.at)), row.where)
            for row in students
        ]
        grades = Grades(entries, lambda entry: person_of(entry.student), self._options.out_of)
        matched = grades.match(rows, KEYS)
        person_at = {students[row].at: (rows[row], person) for row, person in matched.items()}
        marks = [row[mine] for row in self._book.points_rows]
        notes = grades.scale_note(
            "The assignment has {} points in Canvas", marks[0] if marks else ""
        )
        table = filled_in(out, self._sheet)
        table.kept([*self._sheet.header[:end], self._sheet.header[mine]])
        for at, cells in enumerate(self._sheet.rows):
            score = cells[mine]
            if at in person_at:
                row, person = person_at[at]
                score = self._score(row, score, grades, person, notes)
            table.kept([*cells[:end], score])
        return [*notes, *grades.notes()]

    def _called(self, at: int) -> str:
        """Return a row's name as Canvas writes it; if in two columns, the family name first."""
        name, *others = self._sheet.rows[at]
        return name if self._book.titles[0] == "student" else f"{name}, {others[0]}"

    def _score(
        self, row: TemplateRow, there: str, grades: Grades, person: int, notes: list[str]
    ) -> str:
        """Return the cell of a student: the points, or its content if that must stay, with a note."""
        whole = grades.totals[person]
        if whole is None:
            notes.append(f"{row.name}: has no score. {grades.whys.get(person, '')}")
        elif there.strip().upper() in _LEFT_ALONE:
            notes.append(f"{row.name}: stays {there.strip()}, as in Canvas.")
        else:
            grades.replaces(row, there, number(whole))
            return number(whole)
        return there

    def _find_assignment(self) -> int:
        """Return the column to fill in: by its title or its id, or the only one. Raises ExportError."""
        titles, wanted = self._book.assignments(), self._options.column.strip()
        places = list(titles)
        if wanted:
            places = [at for at, title in titles.items() if title.strip() == wanted] or [
                at for at, title in titles.items() if wanted in CanvasGradebook.title_and_id(title)
            ]
        if len(places) == 1:
            title = titles[places[0]]
            if words := CanvasGradebook.is_passed_over(title):
                raise ExportError(
                    f'Canvas\'s import ignores {one_line(title)}, because its title contains "{words}": '
                    "rename the assignment in Canvas, and export the gradebook again."
                )
            return places[0]
        which = f"{len(places)} columns fit {wanted!r}" if wanted else "Which column is it"
        names = "; ".join(one_line(title) for title in titles.values()) or "none"
        how = (
            "name one by its number with --column"
            if len(places) > 1 and wanted
            else "name one with --column"
        )
        raise ExportError(f"{which}: {how}. The assignments are: {names}.")


FORMATS = {
    "canvas": ClassFormat(
        "Canvas's gradebook; --template fills in its export",
        Audience.STAFF,
        ("template", "column", "out_of"),
        write,
    )
}
