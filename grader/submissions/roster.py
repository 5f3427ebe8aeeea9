"""The roster: the students of a class list, found by any of their names.

`match_people` matches the people of a download with it, and gives each a unique id.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.errors import SubmissionError
from grader.results import TEAM, StudentInfo
from grader.submissions.class_list import OWN_IDS, merged, read_list
from grader.submissions.platforms import PLATFORMS, Item, ItemInfo, Platform
from grader.text import MOST_NAMES, clean, listed_names, names_differ

_ALNUM = re.compile(r"[\W_]+")
_NUMBERED = frozenset(key for platform in PLATFORMS for key in platform.numbered)
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
            name = _normal("name", team)
            self._team_names[name] = None if name in self._team_names else team

    def find(self, kind: str, value: str) -> StudentInfo | None:
        """Return the only student with this value of a kind of id (a key of `StudentInfo.ids`, `name`...)."""
        return self._by_name.get((kind, _normal(kind, value))) if value else None

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
        return name if name in self.teams else self._team_names.get(_normal("name", name))


class Known:
    """Several lists of people; the first one that knows a name decides."""

    def __init__(self, *lists: Roster | None) -> None:
        self.lists = tuple(list_ for list_ in lists if list_ is not None and list_.students)

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


def _normal(kind: str, value: str) -> str:
    text = unicodedata.normalize("NFC", value).strip().casefold()
    if kind == "name":
        return _ALNUM.sub("", text)
    if kind in _NUMBERED:
        number = re.fullmatch(r".*?(\d+)\D*", text)
        return number[1] if number else text
    return text


def _names_of(student: StudentInfo) -> Iterator[tuple[str, str]]:
    """Yield all names by which a student may be found: their kind, and the name in comparable form."""
    pairs = [("id", student.id), ("email", student.email), *student.other_ids.items()]
    pairs.append(("local_part", student.email.partition("@")[0]))
    for kind, value in pairs:
        if value:
            yield kind, _normal(kind, value)
    # "Doe, Jane", "Jane Doe", and the "doejane" of Canvas are one name.
    words = student.name.replace(",", " ").split()[:10]
    for turn in range(len(words)):
        if name := _normal("name", "".join(words[turn:] + words[:turn])):
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


# --- the people of a download ---------------------------------------------------------------------


class Person(msgspec.Struct):
    """A person in a download, first with the download's facts, then with the roster's."""

    student: StudentInfo
    items: list[tuple[Item, ItemInfo]] = []


class MatchedPeople(NamedTuple):
    """The result of matching people: notes, teams by the id of their attempts' student, and strangers."""

    notes: tuple[str, ...] = ()
    teams: Mapping[str, str] = {}
    strangers: tuple[StudentInfo, ...] = ()


def match_people(
    people: Sequence[Person],
    roster: Roster | None,
    platform: Platform,
    known: Known | None = None,
    *,
    by_team: bool = False,
    students_first: bool = False,
) -> MatchedPeople:
    """Match all people with the roster, and make equal ids unique.

    If teams hand in (`by_team`), a person with the name of a `known` team represents this team. A name that
    fits a student and another team matches neither; with `students_first`, the student.
    """
    known = known or Known(roster)
    listed: dict[int, StudentInfo] = {}
    notes: list[str] = []
    if roster is not None:
        listed, notes = _found_in(roster, people, platform)
    used = {student.id for student in roster.students} if roster is not None else set()
    strangers, doubled, either, alone = [], [], [], []
    teams: dict[str, str] = {}
    for person in people:
        student, team = listed.get(id(person)), _team_of(person, known)
        is_named = student is not None and not (person.student.ids.keys() - {"username"})
        is_either = by_team and not students_first and is_named and team is not None
        if student is not None and is_either and student.team != team:
            either.append(_called(person))
            student = team = None
        if student is not None:
            person.student = _merged(student, person.student)
            continue
        if team is not None and by_team:
            person.student = StudentInfo(
                id=_free(person.student.id or team, used), ids={TEAM: team}
            )
            teams[person.student.id] = team
            used.add(person.student.id)
            continue
        if team is not None:
            members = listed_names([member.id for member in known.members(team)])
            alone.append(f"{_called(person)} ({members})")
        strangers.append(person)
        if person.student.id in used or not person.student.id:
            doubled.append(_called(person))
            name = person.student.id or "student"
            person.student = msgspec.structs.replace(person.student, id=_free(f"{name}~2", used))
        used.add(person.student.id)
    if either:
        notes.append(
            f"Names of both a student and another student's team, so taken as neither: {listed_names(either)}."
        )
    if doubled:
        notes.append(
            f"Graded under an id with a number, since the id is already used: {listed_names(doubled)}."
        )
    if alone:
        notes.append(
            f"Names of teams, under which nobody hands in here: {listed_names(alone)}. No member gets these "
            "results: rename each to the id of a member, or grade an assignment with `teams = true` into "
            "RESULTS of its own, with --assignment."
        )
    if roster is not None and strangers:
        called = listed_names([_called(person) for person in strangers], MOST_NAMES)
        notes.append(f"Not in the roster, graded under their own ids: {called}.")
    unknown = tuple(person.student for person in strangers) if roster is not None else ()
    return MatchedPeople(tuple(notes), teams, unknown)


def _team_of(person: Person, known: Known) -> str | None:
    """Return the team whose name is a person's id or name, None if there is none."""
    names = (person.student.id, person.student.name)
    return next((team for name in names if name and (team := known.team(name))), None)


class Found(NamedTuple):
    """A student of a list, and how sure the match is: the lower the rank, the surer the key."""

    student: StudentInfo
    rank: int


class Finder:
    """Finds the students of a download in a list by the surest key that both have.

    A name joins nobody whom an id or email separates: the list may lack one of two people with the same name.
    Ids separate people only if they are of the same kind. Moodle numbers participants anew for each
    assignment, so its numbers are of the same kind if most of the download's are in the list, and so are
    emails, since people may sign up with several.
    """

    def __init__(
        self, listed: Roster, platform: Platform, students: Iterable[StudentInfo] = ()
    ) -> None:
        self._listed, self._platform = listed, platform
        here = {student.id: student for student in students}
        known: Counter[str] = Counter()
        for student in here.values():
            for kind in _NUMBERED & student.ids.keys():
                row = listed.find(kind, student.ids[kind])
                known[kind] += row is not None and not names_differ(row.name, student.name)
            known["email"] += listed.find("email", _email(student)) is not None
            row = self._called(student)
            if row is not None and not names_differ(row.name, student.name):
                known.update(kind for kind in OWN_IDS if _same(kind, student.id, row.cell(kind)))
        most = min(len(here), len(listed.students))
        usual = {kind for kind, count in known.items() if count and 2 * count >= most}
        # The numbers, and the columns of the list, in which most of these students are found.
        self._numbers, self._own = usual & _NUMBERED, usual & {*OWN_IDS}
        # Elsewhere, people may have signed up with addresses that the list does not have.
        self._separates_by_email = "email" in usual

    def find(self, student: StudentInfo) -> Found | None:
        """Return the student in the list, by the platform's ids, the email, its own id or the name."""
        keys = self._platform.ids(student)
        for rank, (kind, value) in enumerate(keys):
            row = self._listed.find(kind, value)
            if row is not None and not self._is_renumbered(kind, student, row):
                return Found(row, rank)
        called, named = self._called(student), self.named(student)
        if called is not None and any(
            _same(kind, student.id, called.cell(kind)) for kind in self._own
        ):
            return Found(called, len(keys))
        if named is not None and not self._separates(student, named):
            return Found(named, len(keys) + 1)
        if called is not None and not (student.name and self._separates(student, called)):
            return Found(called, len(keys) + 2)
        return None

    def named(self, student: StudentInfo) -> StudentInfo | None:
        """Return the only student of the list with the same full name, who may be another person."""
        return self._listed.find("name", student.name)

    def renumbered(self, student: StudentInfo) -> StudentInfo | None:
        """Return the student of the list with the same number and another name, None if there is none."""
        rows = ((kind, self._listed.find(kind, value)) for kind, value in student.ids.items())
        return next(
            (r for kind, r in rows if r is not None and self._is_renumbered(kind, student, r)),
            None,
        )

    @staticmethod
    def _is_renumbered(kind: str, student: StudentInfo, row: StudentInfo) -> bool:
        """Whether an equal number is of another assignment, as the names show."""
        return kind in _NUMBERED and names_differ(row.name, student.name)

    def _called(self, student: StudentInfo) -> StudentInfo | None:
        row = self._listed.called(student.id)
        return row if row is not None and self._platform.may_be(student, row) else None

    def _separates(self, student: StudentInfo, row: StudentInfo) -> bool:
        """Whether an id or the email shows that two students of the same name are different people."""
        # The name of a user in one system is not the one in another.
        ids = [
            (kind, value)
            for kind, value in student.other_ids.items()
            if kind != "username" and (kind not in _NUMBERED or kind in self._numbers)
        ]
        if student.id not in (student.email, student.name):
            ids += [(kind, student.id) for kind in self._own]
        return any(
            value and row.cell(kind) and not _same(kind, value, row.cell(kind))
            for kind, value in ids
        ) or (self._separates_by_email and _have_other_emails(student, row))


def _same(kind: str, one: str, other: str) -> bool:
    return _normal(kind, one) == _normal(kind, other)


def _have_other_emails(one: StudentInfo, other: StudentInfo) -> bool:
    """Whether two students have different emails, not only at different servers; an id may be one."""
    first, second = (_email(each).partition("@")[0].casefold() for each in (one, other))
    return bool(first and second) and first != second


def _email(student: StudentInfo) -> str:
    return student.email or (student.id if "@" in student.id else "")


def _found_in(
    roster: Roster, people: Sequence[Person], platform: Platform
) -> tuple[dict[int, StudentInfo], list[str]]:
    """Return students by the `id()` of a person, and notes on people who may be somebody else."""
    finder = Finder(roster, platform, (person.student for person in people))
    claims: dict[str, list[tuple[Person, Found]]] = {}
    namesakes, renumbered = [], []
    for person in people:
        if (other := finder.renumbered(person.student)) is not None:
            renumbered.append(f"{_called(person)} (there {other.name})")
        if (match := finder.find(person.student)) is not None:
            claims.setdefault(match.student.id, []).append((person, match))
        elif (named := finder.named(person.student)) is not None:
            namesakes.append(f"{_called(person)} (not {named.id})")
    found, disputed, misnamed = {}, [], []
    for claimants in claims.values():
        student = claimants[0][1].student
        if len(claimants) > 1:
            disputed += [_called(person) for person, _ in claimants]
            claimants = _best(claimants, roster)
        for person, _ in claimants if len(claimants) == 1 else ():
            found[id(person)] = student
            if names_differ(person.student.name, student.name):
                misnamed.append(f"{_called(person)} as {student.name} ({student.id})")
    notes = []
    if disputed:
        notes.append(f"Several could be the same student of the roster: {listed_names(disputed)}.")
    if namesakes:
        notes.append(
            "Namesakes of students in the roster, who have another id or email and so are taken as other "
            f"people: {listed_names(namesakes)}."
        )
    if renumbered:
        notes.append(
            "The roster has these numbers under other names, so the names decide: "
            f"{listed_names(renumbered)}. Is it the list of this assignment?"
        )
    if misnamed:
        notes.append(
            "Found in the roster by an id or email, but under other names, so please check: "
            f"{listed_names(misnamed)}."
        )
    return found, notes


def _called(person: Person) -> str:
    """Return the download's name of a person."""
    return person.items[0][1].person if person.items else person.student.id


def _best(claimants: list[tuple[Person, Found]], roster: Roster) -> list[tuple[Person, Found]]:
    """Return the candidates for a student who have exactly this id, else the surest ones, by name at last."""
    student = claimants[0][1].student
    if by_id := [c for c in claimants if c[0].student.id == student.id and not c[0].student.name]:
        return by_id
    first = min(match.rank for _, match in claimants)
    surest = [c for c in claimants if c[1].rank == first]
    if len(surest) == 1:
        return surest
    return [c for c in surest if roster.find("name", c[0].student.name) is student]


def _merged(listed: StudentInfo, student: StudentInfo) -> StudentInfo:
    """Return the student of the roster, with further facts from the download."""
    return StudentInfo(
        id=listed.id,
        name=listed.name or student.name,
        email=listed.email or student.email,
        ids={**student.ids, **listed.ids},
    )


def _free(name: str, used: Collection[str]) -> str:
    """Return the name if it is a free id, else with the next number."""
    base, number = name.removesuffix("~2"), 2
    while name in used:
        name, number = f"{base}~{number}", number + 1
    return name
