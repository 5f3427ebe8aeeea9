"""The roster: the students of a class list, found by any of their names."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions.class_list import OWN_IDS, merged, read_list
from grader.submissions.platforms import NUMBERED
from grader.text import clean

_ALNUM = re.compile(r"[\W_]+")
# The ids and names after which a folder or file may be named, in order.
_CALLED = (*OWN_IDS, "email", "local_part", "canvas_id", "name")


class Roster:
    """The students of a class, with unique ids; raises SubmissionError if two have the same id."""

    def __init__(self, students: Iterable[StudentInfo]) -> None:
        self.students = tuple(students)
        # The members of each team, by its name in the roster.
        self.teams: dict[str, list[StudentInfo]] = {}
        # A name that two students share identifies neither.
        self._by_name: dict[tuple[str, str], StudentInfo | None] = {}
        self._by_id: dict[str, StudentInfo] = {}
        for student in self.students:
            if student.id in self._by_id:
                raise SubmissionError(
                    f"The roster has the id {clean(student.id)!r} twice: give each student a unique id "
                    "in a column `id`."
                )
            self._by_id[student.id] = student
            for kind_and_name in set(_names_of(student)):
                is_shared = kind_and_name in self._by_name
                self._by_name[kind_and_name] = None if is_shared else student
            if team := student.team:
                self.teams.setdefault(team, []).append(student)
        self._team_names: dict[str, str | None] = {}
        for team in self.teams:
            name = comparable("name", team)
            self._team_names[name] = None if name in self._team_names else team

    def find(self, kind: str, value: str) -> StudentInfo | None:
        """Return the only student with this value of a kind of id (a key of `StudentInfo.ids`, `name`...)."""
        return self._by_name.get((kind, comparable(kind, value))) if value else None

    def called(self, name: str) -> StudentInfo | None:
        """Return the only student with this id, email or name, else None."""
        if name in self._by_id:
            return self._by_id[name]
        for kind in _CALLED:
            if (student := self.find(kind, name)) is not None:
                return student
        return None

    def team(self, name: str) -> str | None:
        """Return the only team of this name, up to capitals, spaces and signs, else None."""
        return name if name in self.teams else self._team_names.get(comparable("name", name))


class Known:
    """The roster and other lists of people; the first one that knows a name decides."""

    def __init__(self, roster: Roster | None = None, *others: Roster | None) -> None:
        self.roster = roster
        self.lists = tuple(each for each in (roster, *others) if each is not None and each.students)

    def student(self, name: str) -> StudentInfo | None:
        """Return the only student with this id, email or name, else None."""
        students = (list_.called(name) for list_ in self.lists)
        return next((student for student in students if student is not None), None)

    def named(self, name: str) -> StudentInfo | None:
        """Return the only student with this full name, else None."""
        students = (list_.find("name", name) for list_ in self.lists)
        return next((student for student in students if student is not None), None)

    def team(self, name: str) -> str | None:
        """Return the only team of this name in the first list that has teams, else None."""
        return next((list_.team(name) for list_ in self.lists if list_.teams), None)

    def members(self, team: str) -> list[StudentInfo]:
        """Return the students of a team."""
        return next((list_.teams[team] for list_ in self.lists if team in list_.teams), [])

    def whom(self, name: str) -> tuple[str, str] | None:
        """Return the only student or team of this name, as a kind and an id or name, else None."""
        for list_ in self.lists:
            if (student := list_.called(name)) is not None:
                return "student", student.id
            if (team := list_.team(name)) is not None:
                return "team", team
        return None


def read_roster(path: Path) -> Roster:
    """Read a class list (`class_list`): a teacher's own, or a platform's.

    Raises SubmissionError, with the file and the reason, if there are no students in it.
    """
    students = merged(read_list(path, f"The roster {path}"))
    if not students:
        raise SubmissionError(f"The roster {path} has a header, but no students.")
    return Roster(students)


def comparable(kind: str, value: str) -> str:
    """Return an id of a kind (a key of `StudentInfo.ids`, `name`...) in the form in which it is compared."""
    text = unicodedata.normalize("NFC", value).strip().casefold()
    if kind == "name":
        return _ALNUM.sub("", text)
    if kind in NUMBERED:
        number = re.fullmatch(r".*?(\d+)\D*", text)
        return number[1] if number else text
    return text


def _names_of(student: StudentInfo) -> Iterator[tuple[str, str]]:
    """Yield all names by which a student may be found: their kind, and the name in comparable form."""
    pairs = [("id", student.id), ("email", student.email), *student.other_ids.items()]
    pairs.append(("local_part", student.email.partition("@")[0]))
    for kind, value in pairs:
        if value:
            yield kind, comparable(kind, value)
    # "Doe, Jane", "Jane Doe", and the "doejane" of Canvas are one name.
    words = student.name.replace(",", " ").split()[:10]
    for turn in range(len(words)):
        if name := comparable("name", "".join(words[turn:] + words[:turn])):
            yield "name", name


# --- sections and teams ---------------------------------------------------------------------------

# Canvas writes "A and B", in the language of the site, and Gradescope "A, B".
_BETWEEN = re.compile(
    r"\s*[,;&]\s*(?:(?:and|und|et|og|och|en|y|e)\s+)?|\s+(?:and|und|et|og|och|en|y|e)\s+"
)
_MAX_SECTIONS = 100


def sections(student: StudentInfo, whole: Collection[str] = ()) -> tuple[str, ...]:
    """Return the sections of a student: the parts of the roster's cell, unless the cell is in `whole`.

    >>> sections(StudentInfo(id="ada", ids={"section": "A and B"}))
    ('A', 'B')
    """
    cell = student.section.strip()
    if not cell or cell in whole:
        return (cell,) if cell else ()
    return parts_of(cell)


def parts_of(cell: str) -> tuple[str, ...]:
    """Return the names in a cell of sections or teams, each once."""
    parts = _BETWEEN.split(cell.strip(), _MAX_SECTIONS)
    return tuple(dict.fromkeys(part for part in parts if part))


def whole_sections(students: Iterable[StudentInfo]) -> set[str]:
    """Return the cells of a class that are a single section although they could be split.

    No part of such a cell, for example "Research and Development", occurs in another cell.
    """
    by_cell = {student.section.strip(): sections(student) for student in students}
    uses = Counter(part for parts in by_cell.values() for part in parts)
    return {cell for cell, parts in by_cell.items() if all(uses[part] == 1 for part in parts)}


def section_names(students: Iterable[StudentInfo]) -> list[str]:
    """Return the names of all sections of a class, sorted.

    >>> section_names([StudentInfo(id=cell, ids={"section": cell}) for cell in ("B", "A and B", "A")])
    ['A', 'B']
    """
    known = list(students)
    whole = whole_sections(known)
    return sorted({name for student in known for name in sections(student, whole)})


def is_in_group(cell: str, name: str) -> bool:
    """Whether a cell of sections or teams has this name, which may be one of several.

    A name that contains an "and" matches if it is the whole cell, or is between separators.

    >>> is_in_group("A and B", "B")
    True
    """
    cell = cell.strip()
    if not name or name not in cell:
        return False
    if cell == name:
        return True
    gaps = [match.span() for match in itertools.islice(_BETWEEN.finditer(cell), _MAX_SECTIONS)]
    starts = {0, *(end for _, end in gaps)}
    ends = {len(cell), *(start for start, _ in gaps)}
    places = (match.start() for match in re.finditer(re.escape(name), cell))
    return any(at in starts and at + len(name) in ends for at in places)
