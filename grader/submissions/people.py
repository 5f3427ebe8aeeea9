"""The people of a download, for `download`: each is matched with the roster, and has a unique id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from grader.results import StudentInfo
from grader.submissions.names import listed_names
from grader.submissions.platforms import Item, ItemInfo, Platform
from grader.submissions.roster import Roster


class Person(msgspec.Struct):
    """Somebody who handed in: as the download calls them, and then as the roster does."""

    student: StudentInfo
    items: list[tuple[Item, ItemInfo]] = []


def settle_ids(
    people: Sequence[Person], roster: Roster | None, platform: Platform
) -> Iterator[str]:
    """Match all people with the roster, and give unique ids to those with equal ones; yields notes."""
    listed: dict[int, StudentInfo] = {}
    if roster is not None:
        listed, disputed = _found_in(roster, people, platform)
        if disputed:
            yield f"More than one could be the same student of the roster: {listed_names(disputed)}."
    used = {student.id for student in roster.students} if roster is not None else set()
    strangers, doubled = [], []
    for person in people:
        if (student := listed.get(id(person))) is not None:
            person.student = _merged(student, person.student)
            continue
        strangers.append(_called(person))
        if person.student.id in used or not person.student.id:
            doubled.append(_called(person))
            person.student = _renumbered(person.student, used)
        used.add(person.student.id)
    if doubled:
        yield f"Graded under an id with a number, since theirs is another's: {listed_names(doubled)}."
    if roster is not None and strangers:
        yield f"Not in the roster, graded under their own ids: {listed_names(strangers)}."


def _found_in(
    roster: Roster, people: Sequence[Person], platform: Platform
) -> tuple[dict[int, StudentInfo], list[str]]:
    """Students by the `id()` of a person, and the names of people who claim the same student."""
    claims: dict[str, list[Person]] = {}
    students: dict[str, StudentInfo] = {}
    for person in people:
        if (student := in_roster(person.student, roster, platform)) is not None:
            claims.setdefault(student.id, []).append(person)
            students[student.id] = student
    settled, disputed = {}, []
    for student_id, claimants in claims.items():
        if len(claimants) > 1:
            disputed += [_called(person) for person in claimants]
            claimants = _best(claimants, students[student_id], roster)
        if len(claimants) == 1:
            settled[id(claimants[0])] = students[student_id]
    return settled, disputed


def _called(person: Person) -> str:
    """How the download calls a person."""
    return person.items[0][1].person if person.items else person.student.id


def in_roster(student: StudentInfo, roster: Roster, platform: Platform) -> StudentInfo | None:
    """The student of the roster: by an id that the platform wrote, by email, by name."""
    for kind, value in (*platform.ids(student), ("name", student.name)):
        if (listed := roster.find(kind, value)) is not None:
            return listed
    listed = roster.called(student.id)
    return listed if listed is not None and platform.may_be(student, listed) else None


def _best(claimants: list[Person], student: StudentInfo, roster: Roster) -> list[Person]:
    """Of several candidates for a student, those with exactly this id or name."""
    by_id = [p for p in claimants if p.student.id == student.id and not p.student.name]
    by_name = [p for p in claimants if roster.find("name", p.student.name) is student]
    return by_id or by_name


def _merged(listed: StudentInfo, student: StudentInfo) -> StudentInfo:
    """The student of the roster, with what the download says beyond it."""
    return StudentInfo(
        id=listed.id,
        name=listed.name or student.name,
        email=listed.email or student.email,
        ids={**student.ids, **listed.ids},
    )


def _renumbered(student: StudentInfo, used: set[str]) -> StudentInfo:
    number = 2
    while f"{student.id}~{number}" in used:
        number += 1
    return msgspec.structs.replace(student, id=f"{student.id or 'student'}~{number}")
