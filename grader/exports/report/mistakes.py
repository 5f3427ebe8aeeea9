"""Common mistakes: messages of failed tests, counted by student; those that differ only in numbers are one."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import msgspec

from grader.results import ExerciseResult, Outcome

_SAYING = (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT)
_NUMBER = re.compile(r"[-+]?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b")
_NUMBERS = re.compile(r"#(?:,\s*#)+,?")
# A message can hold a student's own text: this much of it is compared, and this many are kept.
_LONGEST = 300
_MOST_GROUPS = 5000


class Mistake(msgspec.Struct, frozen=True):
    """A message that several students got, as the first one got it, and the titles of its tests.

    `rows` are the places of the students in the tally.
    """

    rows: tuple[int, ...]
    message: str
    tests: tuple[str, ...]


class _Group:
    def __init__(self, message: str) -> None:
        self.message = message
        self.rows = array("I")
        self.tests: dict[str, None] = {}


class Mistakes:
    """The messages of one exercise, by what they say apart from numbers."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, result: ExerciseResult, row: int) -> None:
        """Count what the tests of one student's exercise said; each message once."""
        seen: set[str] = set()
        for test in result.tests:
            if test.outcome not in _SAYING or not test.message:
                continue
            # The first line names the mistake; the others are the numbers of one student.
            message = test.message.partition("\n")[0][:_LONGEST]
            kind = normalized(message)
            group = self._group(kind, message)
            if group is None:
                continue
            group.tests.setdefault(test.title)
            if kind not in seen:
                seen.add(kind)
                group.rows.append(row)

    def __len__(self) -> int:
        """The number of different messages."""
        return len(self._groups)

    def _group(self, kind: str, message: str) -> _Group | None:
        if kind not in self._groups and len(self._groups) < _MOST_GROUPS:
            self._groups[kind] = _Group(message)
        return self._groups.get(kind)

    def common(self, most: int) -> Iterator[Mistake]:
        """The messages that at least two students got, the most frequent first."""
        ordered = sorted(self._groups.items(), key=lambda item: (-len(item[1].rows), item[0]))
        for _, group in ordered[:most]:
            if len(group.rows) > 1:
                yield Mistake(tuple(group.rows), group.message, tuple(group.tests))


def normalized(message: str) -> str:
    """The message with every number, and every list of numbers, as `#`."""
    return _NUMBERS.sub("#", _NUMBER.sub("#", message)).casefold()
