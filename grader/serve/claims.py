"""Claims: each file that is marked is with one person at a time, for some minutes since the last answer.

They are in memory: answers are saved as they are given, so that a server that starts anew only gives the files
out again. Only the event loop calls them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

CLAIM_SECONDS = 600.0


class Claimed(NamedTuple):
    """A file to claim: its exercise, and its name in addresses."""

    exercise: str
    name: str


class _Claim(NamedTuple):
    who: str
    until: float


class Claims:
    """The files that are with somebody."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._claims: dict[Claimed, _Claim] = {}

    def take(self, who: str, files: Sequence[Claimed]) -> Claimed | None:
        """Give a person the first of these files that is with nobody else; None if there is none.

        Of each exercise a person has one file: another one that the person had is free again.
        """
        others = self._of_others(who)
        for file in files:
            if file not in others:
                self._drop(who, file.exercise)
                self._claims[file] = _Claim(who, self._clock() + CLAIM_SECONDS)
                return file
        return None

    def own(self, who: str, exercise: str) -> str:
        """Return the name of the file of an exercise that a person has, empty for none."""
        held = (
            f.name
            for f, claim in self._valid().items()
            if claim.who == who and f.exercise == exercise
        )
        return next(held, "")

    def renew(self, who: str, exercise: str, name: str) -> str:
        """Claim a file anew; if somebody else has it, return that person's name, else an empty text."""
        file = Claimed(exercise, name)
        if (claim := self._of_others(who).get(file)) is not None:
            return claim.who
        self._drop(who, exercise)
        self._claims[file] = _Claim(who, self._clock() + CLAIM_SECONDS)
        return ""

    def drop(self, who: str, exercise: str, name: str) -> None:
        """Free a file that a person had."""
        if self.own(who, exercise) == name:
            self._drop(who, exercise)

    def holders(self, exercise: str) -> list[str]:
        """Return the people who have a file of an exercise."""
        return sorted({c.who for f, c in self._valid().items() if f.exercise == exercise})

    def _drop(self, who: str, exercise: str) -> None:
        mine = [
            f for f, claim in self._valid().items() if (claim.who, f.exercise) == (who, exercise)
        ]
        for file in mine:
            del self._claims[file]

    def _of_others(self, who: str) -> dict[Claimed, _Claim]:
        return {file: claim for file, claim in self._valid().items() if claim.who != who}

    def _valid(self) -> dict[Claimed, _Claim]:
        """Return the claims that have not ended; the others are forgotten."""
        now = self._clock()
        self._claims = {f: claim for f, claim in self._claims.items() if claim.until > now}
        return self._claims
