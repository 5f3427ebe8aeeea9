"""Match people with the rows of a template: by the surest key first, and never by guessing.

A wrong match gives a student another student's grade. So a key counts only if it is unique on both sides, and a
weaker key never joins people whom a stronger one separates.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from grader.exports.texts import one_line
from grader.exports.verdicts import total, why_open
from grader.results import Entry, StudentInfo
from grader.submissions.sheet import as_number
from grader.text import names_differ, number

# An id that a spreadsheet took for a number.
_CHANGED_ID = re.compile(r"\d+[.,]0+|\d[.,]\d+E\+\d+")
# Grades are written with two decimals.
_SAME = 0.005


class TemplateRow(msgspec.Struct, frozen=True):
    """A student's row of a template: its values to match by, its name, and its position."""

    cells: Mapping[str, str]
    name: str
    where: str


class Key(msgspec.Struct, frozen=True):
    """A column of the template, and the property of a person that it contains.

    If both are an identity (as Canvas's ID), different values mean different people. An `alias` may differ,
    such as a login name in another system. A `reused` key, such as a number that is new in each assignment,
    matches only if the names fit.
    """

    column: str
    person: str
    alias: bool = False
    reused: bool = False


def name_key(name: str) -> str:
    """Return a name in the form in which names are compared: `Smith, Ada` becomes `ada smith`."""
    plain = one_line(unicodedata.normalize("NFKC", name)).casefold()
    family, comma, given = plain.partition(",")
    return f"{given.strip()} {family.strip()}" if comma else plain


def person_of(student: StudentInfo) -> dict[str, str]:
    """Return a student's names and ids, in the form in which they are compared with a template."""
    person = {key: value.strip() for key, value in student.ids.items()}
    for key in ("sis_login_id", "username"):
        person[key] = person.get(key, "").casefold()
    return person | {
        "id": student.id,
        "login": student.id.casefold(),
        "email": student.email.casefold(),
        "name": name_key(student.name),
    }


class Grades:
    """The people and totals of all entries, to be matched with the rows of a template.

    `identity` returns the properties to match a person by. A total is None if an exercise has no verdict, and
    `whys` has the reason. `out_of` scales the totals. Messages use `place`, the place of the search, and
    `outcome`, the consequence if a person is not found.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        identity: Callable[[Entry], Mapping[str, str]],
        out_of: float | None,
        *,
        place: str = "in the template",
        outcome: str = "none was filled in",
    ) -> None:
        self.totals: list[float | None] = []
        self.whys: dict[int, str] = {}
        self._people: list[Mapping[str, str]] = []
        self.unmatched: list[str] = []
        self._misnamed: list[str] = []
        self._rows_left: list[str] = []
        self._replaced: list[str] = []
        self._identity, self._worth, self._out_of = identity, 0.0, out_of
        self._place, self._outcome = place, outcome
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add a person, who gets the next number."""
        self._people.append(self._identity(entry))
        self.totals.append(total(entry, self._out_of))
        if self.totals[-1] is None:
            self.whys[len(self.totals) - 1] = why_open(entry)
        self._worth = max(self._worth, entry.result.max_score)

    def match(self, rows: Sequence[TemplateRow], keys: Sequence[Key]) -> dict[int, int]:
        """Match rows with people, both as numbers; a missing or empty value matches nothing.

        By each key, a person gets the row with the same value if that row is free, is the only one, is claimed
        by no other person, and differs from the person in no identity compared before. All others are left to
        the next key; people without a match at the end are in `unmatched`, with the reason. A match whose names
        differ is noted.

        Args:
            rows: the rows of students.
            keys: from the surest to the weakest.
        """
        row_of: dict[int, int] = {}
        person_of: dict[int, int] = {}
        # For each person, the matching rows that other people or rows contest.
        contested: dict[int, set[int]] = defaultdict(set)
        # For each person, the row with the same number and another name.
        renumbered: dict[int, int] = {}
        for place, key in enumerate(keys):
            stronger = [key for key in keys[:place] if not key.alias]
            by_value: dict[str, list[int]] = defaultdict(list)
            for row, each in enumerate(rows):
                by_value[each.cells.get(key.column, "")].append(row)
            claims: dict[int, list[int]] = defaultdict(list)
            for person, values in enumerate(self._people):
                if person in row_of or not (value := values.get(key.person)):
                    continue
                fitting = [
                    row
                    for row in by_value.get(value, ())
                    if row not in person_of and not _differ(values, rows[row].cells, stronger)
                ]
                differ = fitting and _have_other_names(values, rows[fitting[0]].cells)
                if len(fitting) == 1 and key.reused and differ:
                    renumbered[person] = fitting[0]
                elif len(fitting) == 1:
                    claims[fitting[0]].append(person)
                elif fitting:
                    contested[person] |= {*fitting}
            for row, claimants in claims.items():
                if len(claimants) == 1:
                    row_of[claimants[0]], person_of[row] = row, claimants[0]
                    self._note_names(claimants[0], rows[row])
                else:
                    for person in claimants:
                        contested[person].add(row)
        left = [person for person in range(len(self._people)) if person not in row_of]
        fought_over: set[int] = set()
        for person in left:
            other = rows[renumbered[person]] if person in renumbered else None
            fitting = sorted(contested[person])
            fought_over |= {*fitting}
            self._explain(person, other, [rows[row] for row in fitting])
        texts = (each.cells.get(key.column, "") for each in rows for key in keys)
        changed = next(filter(_CHANGED_ID.fullmatch, texts), None)
        if left and changed is not None:
            self.unmatched.append(
                f"A spreadsheet changed ids, for example to {changed}: use the file as it was exported."
            )
        self._rows_left = [
            f"There is no submission for the row {each.name}."
            for row, each in enumerate(rows)
            if row not in person_of and row not in fought_over
        ]
        return person_of

    def _explain(
        self, person: int, renumbered: TemplateRow | None, contested: Sequence[TemplateRow]
    ) -> None:
        """Note why a person has no row: the number is another's, several rows fit, or there is none."""
        who = self._people[person]["id"]
        if renumbered is not None:
            self.unmatched.append(
                f"{who}: has the number of {renumbered.name}, but another name, so {self._outcome}. Is it the "
                "file of this assignment?"
            )
        if contested:
            words = (
                "more than one row fits" if contested[1:] else "more than one row or person fits"
            )
            where = "; ".join(f"{row.name}, {row.where}" for row in contested[:5])
            self.unmatched.append(f"{who}: {words} ({where}), so {self._outcome}.")
        if renumbered is None and not contested:
            self.unmatched.append(f"{who}: is not {self._place}.")

    def _note_names(self, person: int, row: TemplateRow) -> None:
        """Note that a person and the matching row have names without a word in common."""
        values = self._people[person]
        if _have_other_names(values, row.cells):
            self._misnamed.append(
                f"{row.name}: matches {values['id']} ({values['name']}), but the names differ. Please check."
            )

    def replaces(self, row: TemplateRow, before: str, after: str) -> None:
        """Note that the export replaces the grade in a cell, which a person may have entered.

        The grades of an earlier export are not known, so grades changed by a regrade are noted, too.
        """
        if before.strip() in ("", "-", after):
            return
        one, other = as_number(before), as_number(after)
        if one is None or other is None or abs(one - other) >= _SAME:
            self._replaced.append(
                f"{row.name}: has {one_line(before)} in the template, and gets {after}."
            )

    def notes(self) -> list[str]:
        """Return notes about replaced grades, people without a row, and rows without a person."""
        keep = "If a person entered a replaced grade, keep it with `grade adjust --points`."
        return [
            *self._replaced,
            *[keep for _ in self._replaced[:1]],
            *self._misnamed,
            *self.unmatched,
            *self._rows_left,
        ]

    def scale_note(self, text: str, cell: str) -> list[str]:
        """Return a note if a column's worth, in a cell of the template, differs from the scores'.

        `text` has a placeholder for these points.
        """
        worth = as_number(cell)
        out_of = self._worth if self._out_of is None else self._out_of
        if worth is None or not self._worth or worth == out_of:
            return []
        scale = f"--out-of {number(worth)} scales them."
        return [f"{text.format(number(worth))}, the scores are out of {number(out_of)}: {scale}"]


def _have_other_names(person: Mapping[str, str], row: Mapping[str, str]) -> bool:
    return names_differ(person.get("name", ""), row.get("name", ""))


def _differ(person: Mapping[str, str], row: Mapping[str, str], keys: Sequence[Key]) -> bool:
    pairs = ((person.get(key.person), row.get(key.column)) for key in keys)
    return any(left and right and left != right for left, right in pairs)
