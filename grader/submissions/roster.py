"""The roster: the students of a class list, who are found by any of their names.

The people of a download are matched with it (`settle_ids`), and each gets a unique id.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions.class_list import OWN_IDS, merged, read_list
from grader.submissions.folder import listed_names
from grader.submissions.platforms import PLATFORMS, Item, ItemInfo, Platform
from grader.text import clean

_ALNUM = re.compile(r"[\W_]+")
_NUMBERED = frozenset(key for platform in PLATFORMS for key in platform.numbered)
# In what a folder or file may be named after, in this order.
_CALLED = (*OWN_IDS, "email", "local_part", "canvas_id", "name")


class Roster:
    """The students of a class, each with one id; two with the same one are a SubmissionError."""

    def __init__(self, students: Iterable[StudentInfo]) -> None:
        self.students = tuple(students)
        # A name that two of them share identifies neither.
        self._by_name: dict[tuple[str, str], StudentInfo | None] = {}
        self._by_id: dict[str, StudentInfo] = {}
        for student in self.students:
            if student.id in self._by_id:
                raise SubmissionError(
                    f"The roster has the id {clean(student.id)!r} twice: give each student one of "
                    "their own, in a column `id`."
                )
            self._by_id[student.id] = student
            for kind_and_name in set(_names_of(student)):
                is_shared = kind_and_name in self._by_name
                self._by_name[kind_and_name] = None if is_shared else student

    def find(self, kind: str, value: str) -> StudentInfo | None:
        """The one student for whom this kind of id (a key of `StudentInfo.ids`, `name`...) has the value."""
        return self._by_name.get((kind, _normal(kind, value))) if value else None

    def called(self, name: str) -> StudentInfo | None:
        """The one student who is called so, by any id, email or name."""
        if name in self._by_id:
            return self._by_id[name]
        for kind in _CALLED:
            if (student := self.find(kind, name)) is not None:
                return student
        return None


def read_roster(path: Path) -> Roster:
    """Read a class list (`class_list`): one's own, or a platform's.

    Raises SubmissionError, with the file and the reason, if there are no students in it.
    """
    students = merged(read_list(path, f"The roster {path}"))
    if not students:
        raise SubmissionError(f"The roster {path} has a header and no students.")
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
    """All that a student may be found by: the kind of each name, and the name as it is compared."""
    pairs = [("id", student.id), ("email", student.email), *student.ids.items()]
    pairs.append(("local_part", student.email.partition("@")[0]))
    for kind, value in pairs:
        if value and kind not in ("section", "team"):
            yield kind, _normal(kind, value)
    # "Doe, Jane", "Jane Doe", and the "doejane" of Canvas are one name.
    words = student.name.replace(",", " ").split()[:10]
    for turn in range(len(words)):
        if name := _normal("name", "".join(words[turn:] + words[:turn])):
            yield "name", name


# --- the people of a download ---------------------------------------------------------------------


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
