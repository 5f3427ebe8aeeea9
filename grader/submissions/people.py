"""The people of a download, matched with the students of a list by the surest key that both have.

`match_people` matches them with the roster, and gives each a unique id. `Finder` finds students in any list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from grader.results import TEAM, StudentInfo
from grader.submissions.class_list import OWN_IDS
from grader.submissions.platforms import NUMBERED, Item, ItemInfo, Platform
from grader.submissions.roster import Known, Roster, comparable
from grader.text import MOST_NAMES, listed_names, names_differ


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
    platform: Platform,
    known: Known,
    *,
    by_team: bool = False,
    students_first: bool = False,
) -> MatchedPeople:
    """Match all people with the roster, and make equal ids unique.

    If teams hand in (`by_team`), a person with the name of a `known` team represents this team. A name that
    fits a student and another team matches neither; with `students_first`, the student.
    """
    roster = known.roster
    listed, notes = _found_in(roster, people, platform) if roster is not None else ({}, [])
    used = {student.id for student in roster.students} if roster is not None else set()
    strangers, doubled, either, alone = [], [], [], []
    teams: dict[str, str] = {}
    for person in people:
        student, team = listed.get(id(person)), _team_of(person, known)
        if by_team and not students_first and student is not None and team is not None:
            is_named = not (person.student.ids.keys() - {"username"})
            if is_named and student.team != team:
                either.append(_called(person))
                student = team = None
        if student is not None:
            person.student = _merged(student, person.student)
            continue
        if team is not None and by_team:
            id_ = _free(person.student.id or team, used)
            person.student = StudentInfo(id=id_, ids={TEAM: team})
            teams[id_] = team
        else:
            if team is not None:
                members = listed_names([member.id for member in known.members(team)])
                alone.append(f"{_called(person)} ({members})")
            strangers.append(person)
            if person.student.id in used or not person.student.id:
                doubled.append(_called(person))
                id_ = _free(f"{person.student.id or 'student'}~2", used)
                person.student = msgspec.structs.replace(person.student, id=id_)
        used.add(person.student.id)
    if roster is None:
        return MatchedPeople(tuple(_notes(either, doubled, alone)), teams)
    notes += _notes(either, doubled, alone, [_called(person) for person in strangers])
    return MatchedPeople(tuple(notes), teams, tuple(person.student for person in strangers))


def _notes(
    either: Sequence[str], doubled: Sequence[str], alone: Sequence[str], unknown: Sequence[str] = ()
) -> list[str]:
    """Return notes on names with two meanings, on used ids, on names of teams, and on `unknown` people."""
    notes = []
    if either:
        notes.append(
            f"Names of a student and of another student's team, so taken as neither: {listed_names(either)}."
        )
    if doubled:
        notes.append(
            f"Graded under an id with a number, since the id is already used: {listed_names(doubled)}."
        )
    if alone:
        notes.append(
            f"Named after teams, although everybody hands in alone here: {listed_names(alone)}. No member gets "
            "these results: rename each to the id of a member, or grade an assignment with `teams = true` into "
            "RESULTS of its own, with --assignment."
        )
    if unknown:
        names = listed_names(unknown, MOST_NAMES)
        notes.append(f"Not in the roster, graded under their own ids: {names}.")
    return notes


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

    A name does not match people whose ids or emails differ: the list may lack one of two people with the same
    name. Only ids of the same kind are compared. Moodle numbers participants anew for each assignment, and
    people may sign up with several emails, so both are compared only if most of the download's are in the list.
    """

    def __init__(
        self, listed: Roster, platform: Platform, students: Iterable[StudentInfo] = ()
    ) -> None:
        self._listed, self._platform = listed, platform
        here = {student.id: student for student in students}
        known: Counter[str] = Counter()
        for student in here.values():
            for kind in NUMBERED & student.ids.keys():
                row = listed.find(kind, student.ids[kind])
                known[kind] += row is not None and not names_differ(row.name, student.name)
            known["email"] += listed.find("email", _email(student)) is not None
            row = self._called(student)
            if row is not None and not names_differ(row.name, student.name):
                known.update(kind for kind in OWN_IDS if _same(kind, student.id, row.cell(kind)))
        most = min(len(here), len(listed.students))
        usual = {kind for kind, count in known.items() if count and 2 * count >= most}
        # The numbers, and the columns of the list, in which most of these students are found.
        self._numbers, self._own = usual & NUMBERED, usual & {*OWN_IDS}
        # Elsewhere, people may have signed up with addresses that the list does not have.
        self._separates_by_email = "email" in usual

    def find(self, student: StudentInfo) -> Found | None:
        """Return a student of the list by the platform's ids, the email, the student's own id or the name."""
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
        """Whether different names show that an equal number is from another assignment."""
        return kind in NUMBERED and names_differ(row.name, student.name)

    def _called(self, student: StudentInfo) -> StudentInfo | None:
        row = self._listed.called(student.id)
        return row if row is not None and self._platform.may_be(student, row) else None

    def _separates(self, student: StudentInfo, row: StudentInfo) -> bool:
        """Whether an id or the email shows that two students of the same name are different people."""
        # A person's user names may differ between systems.
        ids = [
            (kind, value)
            for kind, value in student.other_ids.items()
            if kind != "username" and (kind not in NUMBERED or kind in self._numbers)
        ]
        if student.id not in (student.email, student.name):
            ids += [(kind, student.id) for kind in self._own]
        return any(
            value and row.cell(kind) and not _same(kind, value, row.cell(kind))
            for kind, value in ids
        ) or (self._separates_by_email and _have_other_emails(student, row))


def _same(kind: str, one: str, other: str) -> bool:
    return comparable(kind, one) == comparable(kind, other)


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
    """Return the claimants who have exactly the student's id, else the surest ones, and last those by name."""
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
