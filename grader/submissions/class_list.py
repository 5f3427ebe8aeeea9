"""Class lists: the students in a table, with a reader for each platform's file.

Rosters, lists of times and templates of exports are the same files of a platform. The readers are for Canvas's
gradebook, Moodle's grading worksheet in any language, and every list with a header in plain English (a
teacher's own, Gradescope's, Blackboard's, Brightspace's).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from grader.errors import SubmissionError
from grader.results import GROUPS, SECTION, StudentInfo
from grader.submissions.folder import normalized
from grader.submissions.platforms import PLATFORMS
from grader.submissions.sheet import Sheet, as_number, read_sheet
from grader.text import clean, listed, listed_names

_SIGNS = re.compile(r"[\W_]+")

# Titles of columns, in small letters without spaces and signs.
COLUMNS = {
    "id": "id", "studentid": "id", "key": "id",
    "name": "name", "fullname": "name", "student": "name", "studentname": "name", "displayname": "name",
    "firstname": "first", "givenname": "first", "first": "first",
    "lastname": "last", "surname": "last", "familyname": "last", "last": "last",
    "email": "email", "emailaddress": "email", "mail": "email",
    "section": "section", "sections": "section", "sectionname": "section",
    "group": "section", "groups": "section",
    "team": "team", "teamname": "team", "groupname": "team",
    "username": "username", "user": "username", "netid": "username",
    "idnumber": "id_number", "orgdefinedid": "id_number",
    "repository": "repository", "githubrepository": "repository",
    # Stud.IP and ILIAS write German titles.
    "vorname": "first", "nachname": "last", "familienname": "last",
    "emailadresse": "email", "mailadresse": "email", "matrikelnummer": "id_number", "idnummer": "id_number",
    "benutzername": "username", "nutzername": "username", "anmeldename": "username", "kennung": "username",
    **{column: key for platform in PLATFORMS for column, key in platform.columns.items()},
}  # fmt: skip
_OF_PLATFORMS = dict.fromkeys(key for platform in PLATFORMS for key in platform.columns.values())
# Ids that people know of themselves; other ids of platforms are numbers.
OWN_IDS = (
    "id",
    "username",
    "sis_login_id",
    "github_username",
    "gradescope_sid",
    "sis_user_id",
    "id_number",
)
# A student's id in the gradebook is the first of these that is not empty.
ID_ORDER = (
    *OWN_IDS,
    "email",
    *(key for key in sorted(_OF_PLATFORMS) if key not in OWN_IDS),
    "name",
)
_OTHER_IDS = (*GROUPS, "username", "id_number", "repository", *_OF_PLATFORMS)
# Columns of the time when somebody handed in; Moodle's worksheet calls it "Last modified (submission)".
_TIMES = (
    "submittedat",
    "submitted",
    "lastmodifiedsubmission",
    "submissiontime",
    "timestamp",
    "time",
    "handedinat",
)
# Names in rows of platforms that are not about students.
_NO_STUDENT = re.compile(r"Points Possible.*|Student, Test|Test Student|.*_PreviewUser", re.DOTALL)
# Gradescope's list of a course has its staff, too.
_STAFF = re.compile(r"instructor|ta|reader", re.IGNORECASE)
_TWO_VALUES = re.compile(r"\S\s*[;|]\s*\S|\S\s+/\s+\S")


class ListRow(NamedTuple):
    """A student's row: its number in `sheet.rows`, and its place for a message."""

    at: int
    where: str
    student: StudentInfo


class ClassList:
    """The students of a table whose header names the columns.

    `what` names the file in errors. Raises SubmissionError if no column names a student.
    """

    def __init__(self, what: str, sheet: Sheet) -> None:
        self.what, self.sheet = what, sheet
        self.titles = [squeezed(title) for title in sheet.header]
        self.columns = self._columns()
        if not set(self.columns.values()) & {*ID_ORDER, "first", "last"}:
            raise SubmissionError(
                f"{what} has no column that names a student: give it a header with `id`, "
                "`name`, `email`, `username` or the like. Its columns are "
                f"{listed_names(sheet.header, 20)}."
            )

    def rows(self) -> Iterator[ListRow]:
        """Yield the rows of students; raises SubmissionError for a student's row without a name."""
        # Brightspace marks ids as text by a sign, so that spreadsheets keep their zeros.
        marked = "orgdefinedid" in self.titles or "endoflineindicator" in self.titles
        for at, row in enumerate(self.sheet.rows):
            cells: dict[str, str] = {}
            for index, kind in self.columns.items():
                if not cells.get(kind):
                    cells[kind] = self._cell(row[index], kind)
                    if marked and kind in OWN_IDS:
                        cells[kind] = cells[kind].removeprefix("#")
            if not any(cells.values()) or not self._is_student(row, cells):
                continue
            where = self.sheet.where(at)
            self._refuse_torn(row, where)
            yield ListRow(at, where, self._student(where, cells))

    def time_column(self) -> int | None:
        """Return the column with times of submission, None if there is none."""
        return next((self.titles.index(name) for name in _TIMES if name in self.titles), None)

    def _columns(self) -> dict[int, str]:
        """Return the kind of each known column, by its place."""
        return {at: COLUMNS[title] for at, title in enumerate(self.titles) if title in COLUMNS}

    def _cell(self, cell: str, _kind: str) -> str:
        return normalized(cell)

    def _is_student(self, row: Sequence[str], cells: dict[str, str]) -> bool:
        """Whether a row that is not empty is a student's."""
        roles = [row[at] for at, title in enumerate(self.titles) if title == "role"]
        name = cells.get("name") or f"{cells.get('last', '')}, {cells.get('first', '')}"
        return not (
            _NO_STUDENT.fullmatch(name.strip(" ,"))
            or cells.get("username", "").endswith("_previewuser")
            or ("sid" in self.titles and any(_STAFF.fullmatch(role.strip()) for role in roles))
        )

    def _refuse_torn(self, row: Sequence[str], where: str) -> None:
        """Raise SubmissionError for a row with more cells than the header."""
        width = len(self.titles)
        if any(map(str.strip, row[width:])):
            raise SubmissionError(
                f"{self.what} has {len(row)} cells in {where}, and {width} columns: put quotes around a cell "
                f'with a "{self.sheet.separator}" in it.'
            )

    def _student(self, where: str, cells: dict[str, str]) -> StudentInfo:
        if not cells.get("name"):
            cells["name"] = f"{cells.get('first', '')} {cells.get('last', '')}".strip()
        key = next((cells[name] for name in ID_ORDER if cells.get(name)), "")
        if not key:
            raise SubmissionError(
                f"{self.what} has no student in {where}: give it an id or a name."
            )
        ids = {name: cells[name] for name in _OTHER_IDS if cells.get(name)}
        return StudentInfo(id=key, name=cells["name"], email=cells.get("email", ""), ids=ids)


class CanvasGradebook(ClassList):
    """The exported gradebook of Canvas (lib/gradebook_exporter.rb).

    Its columns are the name (in one or two), Canvas's own id, the school's ids, the section, columns that a
    teacher added, the assignments, and totals. One row has the points, another may have posting policies, and
    the last one may be the test student of a teacher.
    """

    _POINTS = "Points Possible"
    _POSTING = re.compile(r"\s*(Muted|Manual Posting.*)?\s*", re.IGNORECASE | re.DOTALL)
    _WITH_ID = re.compile(r"(?P<title>.*\S)\s+\((?P<id>\d+)\)\s*", re.DOTALL)
    # The login of the test student is a hash; the name depends on the language.
    _TEST_LOGIN = re.compile(r"[0-9a-f]{40}")
    # Canvas's importer skips every column with one of these in its title (gradebook_importer.rb).
    _COMPUTED = re.compile(r"(Current|Final) (Score|Points|Grade)|Override (Score|Grade|Status)")

    @classmethod
    def has_header(cls, header: Sequence[str]) -> bool:
        """Whether a header begins like Canvas's."""
        titles = [squeezed(title) for title in header]
        names = (["student"], ["lastname", "firstname"])
        return "section" in titles and any(
            titles[: len(name) + 1] == [*name, "id"] for name in names
        )

    @classmethod
    def recognizes(cls, sheet: Sheet) -> bool:
        """Whether a table is a gradebook of Canvas, and not a teacher's own list with similar columns."""
        titles = {squeezed(title) for title in sheet.header}
        has_names = "student" in titles or {"lastname", "firstname"} <= titles
        if has_names and {"id", "sisloginid"} <= titles:
            return True
        return cls.has_header(sheet.header) and (
            any(cls._POINTS in row[0] for row in sheet.rows)
            or any(cls._WITH_ID.fullmatch(title) for title in sheet.header)
        )

    @classmethod
    def is_passed_over(cls, title: str) -> str:
        """Return the words in a column's title that make Canvas's import skip it, empty if there are none."""
        words = cls._COMPUTED.search(title)
        return words[0] if words else ""

    @classmethod
    def title_and_id(cls, title: str) -> tuple[str, str]:
        """Split a column's title into the assignment's title and Canvas's id in brackets (maybe empty)."""
        parts = cls._WITH_ID.fullmatch(title)
        return (parts["title"].strip(), parts["id"]) if parts else (title, "")

    @property
    def section(self) -> int:
        """The last column about the student."""
        return self.titles.index("section")

    @property
    def points_rows(self) -> list[tuple[str, ...]]:
        """The rows with the maximum points; a gradebook has one."""
        return [row for row in self.sheet.rows if self._POINTS in row[0]]

    def assignments(self) -> dict[int, str]:
        """Return the titles of the assignments by column, without totals that Canvas computes itself."""
        read_only = {
            at for row in self.points_rows for at, cell in enumerate(row) if _is_words(cell)
        }
        return {
            at: title
            for at, title in enumerate(self.sheet.header)
            if at > self.section and self._WITH_ID.fullmatch(title) and at not in read_only
        }

    def _columns(self) -> dict[int, str]:
        columns = super()._columns()
        columns[self.titles.index("id")] = "canvas_id"
        return columns

    def _is_student(self, row: Sequence[str], cells: dict[str, str]) -> bool:
        is_posting = all(map(self._POSTING.fullmatch, row))
        is_test = self._TEST_LOGIN.fullmatch(cells.get("sis_login_id", ""))
        return not (is_posting or self._POINTS in row[0] or is_test) and super()._is_student(
            row, cells
        )


class MoodleWorksheet(ClassList):
    """Moodle's grading worksheet (mod/assign/gradingtable.php).

    Its headers are in the teacher's language, so the columns are recognized by their contents, in Moodle's
    order: an identifier (a word and a number), perhaps the full name and more about the person, the grade, the
    maximum grade, and dates.
    """

    _IDENTIFIER = re.compile(r"(?P<words>.*?\D)(?P<number>\d+)\s*", re.DOTALL)
    _ENGLISH = ("identifier", "moodleidentifier")
    # "Participant" in many languages; in others, the contents of columns decide.
    _PARTICIPANT = re.compile(
        r"participant|part[ei]cipante|teilnehme|deelnemer|deltag|uczestnik|účastník|résztvev|osallistuja|"
        r"kat.l.mc|участник|учасник|参加者|參與者|参与者|참가자|مشارك|משתתף|sodelujoč|partaide|sudionik|hidden",
        re.IGNORECASE,
    )
    _DATE = re.compile(r"(?=.*\d{4})(?=.*\d{1,2}[:.h]\d\d)", re.DOTALL)

    def __init__(self, what: str, sheet: Sheet) -> None:
        places = self._identifiers(sheet)
        if not places:
            raise SubmissionError(
                f"{what} is not an offline grading worksheet of Moodle: no column has an identifier such "
                "as 'Participant 123'. Use the file as it was downloaded."
            )
        self.identifier = places[0]
        super().__init__(what, sheet)

    @classmethod
    def recognizes(cls, sheet: Sheet) -> bool:
        """Whether a table is such a worksheet, in any language, and not a teacher's own list."""
        kinds = {COLUMNS.get(squeezed(title)) for title in sheet.header}
        for at in cls._identifiers(sheet):
            if squeezed(sheet.header[at]) in cls._ENGLISH:
                return True
            if kinds & {"name", "first", "last"}:
                continue
            if all(cls._PARTICIPANT.match(row[at].strip()) for row in _filled(sheet)):
                return True
            maxima = cls._maxima(sheet, at)
            # After the maximum, there is always the date of the grade.
            behind = range(maxima[0] + 1, len(sheet.header)) if len(maxima) == 1 else ()
            if any(cls._is_dates(sheet, place) for place in behind):
                return True
        return False

    @property
    def name(self) -> int | None:
        """The column of the full name, None if the marking is anonymous."""
        at = self.identifier + 1
        cells = [row[at].strip() for row in _filled(self.sheet)]
        if self.titles[at] in COLUMNS:
            return at if COLUMNS[self.titles[at]] == "name" else None
        is_status = self.titles[at] == "status" or len({*cells}) <= len(cells) // 2
        return None if is_status or not all(cells) or _is_email(cells) else at

    def maxima(self) -> list[int]:
        """Return the columns that may be the maximum grade, after a column of grades."""
        return self._maxima(self.sheet, self.identifier)

    def is_maximum(self, at: int) -> bool:
        """Whether a column has the same number in every row."""
        return self._is_maximum(self.sheet, at)

    def time_column(self) -> int | None:
        """Return the column "Last modified (submission)", by its title, or as the first of two with dates."""
        if (named := super().time_column()) is not None:
            return named
        maxima = self.maxima()
        if len(maxima) != 1:
            return None
        dates = [
            at for at in range(maxima[0] + 1, len(self.titles)) if self._is_dates(self.sheet, at)
        ]
        # A single one may be the date of the grade, which is always there.
        return dates[0] if len(dates) > 1 else None

    @classmethod
    def _is_dates(cls, sheet: Sheet, at: int) -> bool:
        """Whether each cell of a column is a date with a time, or a dash."""
        cells = [row[at].strip() for row in _filled(sheet)]
        return all(cell == "-" or cls._DATE.match(cell) for cell in cells)

    @classmethod
    def _identifiers(cls, sheet: Sheet) -> list[int]:
        """Return the columns that may have identifiers: the same word in each row, with another number."""
        rows = _filled(sheet)
        places: list[int] = []
        for at in range(len(sheet.header) - 1):
            cells = [cls._IDENTIFIER.fullmatch(row[at].strip()) for row in rows]
            matches = [match for match in cells if match is not None]
            if not rows or len(matches) < len(rows):
                continue
            word, *others = {match["words"].strip() for match in matches}
            if squeezed(sheet.header[at]) in cls._ENGLISH:
                places.insert(0, at)
            elif not others and cls._is_word(word):
                # A group may have such a name, too, but has several members.
                is_unique = len({match["number"] for match in matches}) == len(rows)
                places += [at] if is_unique or cls._PARTICIPANT.match(word) else []
        return places

    @staticmethod
    def _is_word(text: str) -> bool:
        letters = [sign for sign in text if sign.isalpha()]
        # Ids begin with small letters; scripts without a case have none.
        return len(letters) > 1 and "@" not in text and not letters[0].islower()

    @classmethod
    def _maxima(cls, sheet: Sheet, identifier: int) -> list[int]:
        maxima = [
            at for at in range(identifier + 2, len(sheet.header)) if cls._is_maximum(sheet, at)
        ]
        # If all grades are equal, the last of neighboring columns is the maximum.
        return [
            at
            for at in maxima
            if at + 1 not in maxima and at - 1 > identifier and cls._is_grade(sheet, at - 1)
        ]

    @staticmethod
    def _is_maximum(sheet: Sheet, at: int) -> bool:
        cells = {row[at].strip() for row in _filled(sheet)}
        return len(cells) == 1 and as_number(cells.pop()) is not None

    @staticmethod
    def _is_grade(sheet: Sheet, at: int) -> bool:
        cells = [row[at].strip() for row in sheet.rows]
        return all(cell in ("", "-") or as_number(cell) is not None for cell in cells)

    def _columns(self) -> dict[int, str]:
        # A column called "ID" in some language has Moodle's own numbers, not the students'.
        columns = {at: kind for at, kind in super()._columns().items() if kind != "id"}
        maxima = self.maxima()
        if self.name is not None:
            columns[self.name] = "name"
        for at in range(self.identifier + 1, maxima[0] - 1 if len(maxima) == 1 else 0):
            if at not in columns and _is_email([row[at].strip() for row in _filled(self.sheet)]):
                columns[at] = "email"
        columns[self.identifier] = "moodle_identifier"
        return columns

    def _cell(self, cell: str, kind: str) -> str:
        match = self._IDENTIFIER.fullmatch(cell.strip()) if kind == "moodle_identifier" else None
        # Write it as downloads do, whatever the worksheet's language is.
        return f"Participant {match['number']}" if match else super()._cell(cell, kind)


def squeezed(title: str) -> str:
    """Return a column's title in small letters, without spaces and signs."""
    return _SIGNS.sub("", title.casefold())


def value_key(value: str) -> str:
    """Return a value of a column in the form that is compared with claims: stripped, with A to Z in lower case.

    Text that is not ASCII keeps its case: in lower case, some of its characters become ASCII letters, so one
    person's address would equal another's.

    >>> value_key(" Ada@Example.org "), value_key("\u212aim@example.org") == value_key("kim@example.org")
    ('ada@example.org', False)
    """
    value = value.strip()
    return value.lower() if value.isascii() else value


def class_list(what: str, sheet: Sheet) -> ClassList:
    """Return a reader of a table: the one for the platform that wrote it, else the plain one."""
    readers = (CanvasGradebook, MoodleWorksheet)
    reader = next((reader for reader in readers if reader.recognizes(sheet)), ClassList)
    return reader(what, sheet)


def read_list(path: Path, what: str) -> ClassList:
    """Read the class list in a file; `what` names it in errors.

    Raises SubmissionError if the file is not a class list.
    """
    return class_list(what, read_sheet(path, what))


def students_of(class_list: ClassList) -> Iterator[ListRow]:
    """Yield the students of a list; raises SubmissionError for a cell with several values."""
    for row in class_list.rows():
        for kind, value in (
            ("email", row.student.email),
            *row.student.other_ids.items(),
            ("id", row.student.id),
        ):
            several = value.count("@") > 1 if kind == "email" else _TWO_VALUES.search(value)
            if several:
                raise SubmissionError(
                    f"{class_list.what}, {row.where}: {clean(value)!r} is more than one value for "
                    f"`{kind}`: keep one."
                )
        yield row


def merged(class_list: ClassList) -> list[StudentInfo]:
    """Return the students of a list, each once: rows of a student in several sections are joined.

    Raises SubmissionError if rows with the same id contradict each other.
    """
    students: dict[str, StudentInfo] = {}
    first: dict[str, str] = {}
    sections: dict[str, dict[str, None]] = {}
    for _, where, student in students_of(class_list):
        if section := student.section:
            sections.setdefault(student.id, {})[section] = None
        if student.id not in students:
            students[student.id], first[student.id] = student, where
            continue
        other = students[student.id]
        pairs = {
            "name": (other.name, student.name),
            "email": (other.email.casefold(), student.email.casefold()),
            **{kind: (other.ids.get(kind, ""), student.ids.get(kind, "")) for kind in _OTHER_IDS},
        }
        del pairs[SECTION]
        differing = [kind for kind, (one, two) in pairs.items() if one and two and one != two]
        if student.id == student.name and not (student.email or set(student.ids) - {SECTION}):
            raise SubmissionError(
                f"{class_list.what} has the name {clean(student.id)!r} twice, in {first[student.id]} and "
                f"{where}, and nothing says whether they are one person: give each student an id of their "
                "own, in a column `id`."
            )
        if differing:
            values = [f"{kind} ({clean(' and '.join(pairs[kind]))})" for kind in differing]
            raise SubmissionError(
                f"{class_list.what} has the id {clean(student.id)!r} twice, in {first[student.id]} and "
                f"{where}, and the rows differ in {listed(values)}. If they are two people, give each an id of "
                "their own in a column `id`; if they are one, keep one row. (Rows of one student that "
                "differ only in the section may stay.)"
            )
        ids = {**student.ids, **other.ids}
        if student.id in sections:
            ids[SECTION] = ", ".join(sections[student.id])
        students[student.id] = StudentInfo(
            id=student.id,
            name=other.name or student.name,
            email=other.email or student.email,
            ids=ids,
        )
    return list(students.values())


def _filled(sheet: Sheet) -> list[tuple[str, ...]]:
    return [row for row in sheet.rows if any(map(str.strip, row))]


def _is_email(cells: Sequence[str]) -> bool:
    """Whether a column has only addresses, at least one."""
    return any(cells) and all(not cell or re.fullmatch(r"[^@\s]+@[^@\s]+", cell) for cell in cells)


def _is_words(cell: str) -> bool:
    """Whether a cell for points has words instead, such as "(read only)" in the teacher's language."""
    return bool(cell.strip()) and as_number(cell) is None
