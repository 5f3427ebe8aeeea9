"""Matching people with the rows of a template: the surest key first, and never by guess.

A wrong match gives a student another student's grade. So a key counts only if it is unique on both sides, and a
weaker one never joins what a stronger one tells apart.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from grader.exports.texts import one_line
from grader.exports.verdicts import total
from grader.results import Entry, StudentInfo
from grader.text import number


class Key(msgspec.Struct, frozen=True):
    """A column of the template, and the property of a person that it holds.

    Where both are an identity (as in Canvas's ID), two that differ are two people; an `alias` may
    differ, such as a login name of another system.
    """

    column: str
    person: str
    alias: bool = False


class Matching(msgspec.Struct, frozen=True):
    """The person of each row, by number; people without a row, and those whom two rows would fit."""

    person_of: dict[int, int]
    missing: tuple[int, ...]
    ambiguous: tuple[int, ...]


def match(
    people: Sequence[Mapping[str, str]], rows: Sequence[Mapping[str, str]], keys: Sequence[Key]
) -> Matching:
    """Match people to rows, key by key; a missing or empty value matches nothing."""
    row_of: dict[int, int] = {}
    person_of: dict[int, int] = {}
    ambiguous: set[int] = set()
    for place, key in enumerate(keys):
        stronger = [key for key in keys[:place] if not key.alias]
        wanted: dict[int, list[int]] = defaultdict(list)
        by_value: dict[str, list[int]] = defaultdict(list)
        for at, cells in enumerate(rows):
            by_value[cells.get(key.column, "")].append(at)
        for person, values in enumerate(people):
            if person in row_of or not values.get(key.person):
                continue
            fitting = [
                row
                for row in by_value.get(values[key.person], ())
                if row not in person_of
                and not any(
                    (mine := values.get(key.person))
                    and (theirs := rows[row].get(key.column))
                    and mine != theirs
                    for key in stronger
                )
            ]
            if len(fitting) == 1:
                wanted[fitting[0]].append(person)
            elif fitting:
                ambiguous.add(person)
        for row, claimants in wanted.items():
            if len(claimants) == 1:
                row_of[claimants[0]], person_of[row] = row, claimants[0]
            else:
                ambiguous |= set(claimants)
    left = [person for person in range(len(people)) if person not in row_of]
    return Matching(
        person_of,
        tuple(person for person in left if person not in ambiguous),
        tuple(person for person in left if person in ambiguous),
    )


def name_key(name: str) -> str:
    """A name as it is compared: `Smith, Ada` is `ada smith`."""
    plain = one_line(unicodedata.normalize("NFKC", name)).casefold()
    family, comma, given = plain.partition(",")
    return f"{given.strip()} {family.strip()}" if comma else plain


def person_of(student: StudentInfo) -> dict[str, str]:
    """The names and ids of a student, as they are compared with a template."""
    person = {key: value.strip() for key, value in student.ids.items()}
    for key in ("sis_login_id", "username"):
        person[key] = person.get(key, "").casefold()
    return person | {
        "id": student.id,
        "login": student.id.casefold(),
        "email": student.email.casefold(),
        "name": name_key(student.name),
    }


def match_notes(
    people: Sequence[Mapping[str, str]], matching: Matching, empty_rows: Iterable[str]
) -> list[str]:
    """Notes about the people without a row of their own, and the rows without a person."""
    notes = [f"{people[at]['id']}: is in no row of the template." for at in matching.missing]
    notes += [
        f"{people[at]['id']}: more than one row or person fits, so none was filled in."
        for at in matching.ambiguous
    ]
    return [*notes, *[f"Nothing was handed in for the row {row}." for row in empty_rows]]


class Grades:
    """The people and the totals of all entries, to be matched with the rows of a template."""

    def __init__(
        self,
        entries: Iterable[Entry],
        identity: Callable[[Entry], Mapping[str, str]],
        out_of: float | None,
    ) -> None:
        self.people: list[Mapping[str, str]] = []
        self.totals: list[float | None] = []
        self._worth, self._out_of = 0.0, out_of
        for entry in entries:
            self.people.append(identity(entry))
            self.totals.append(total(entry, out_of))
            self._worth = max(self._worth, entry.result.max_score)

    def scale_note(self, text: str, cell: str) -> list[str]:
        """A note if a column is worth other points than the scores, by the cell of a template that says so.

        `text` has room for these points.
        """
        try:
            worth = float(cell.strip().replace(",", "."))
        except ValueError:
            return []
        out_of = self._worth if self._out_of is None else self._out_of
        if not self._worth or worth == out_of:
            return []
        scale = f"--out-of {number(worth)} scales them."
        return [f"{text.format(number(worth))}, the scores are out of {number(out_of)}: {scale}"]
