"""Claims: one person at a time marks a file, until some minutes after the last answer.

Claims are kept in memory. Answers are saved at once, so a server that restarts loses only the claims. Call this
only from the event loop.
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
    """The files that people have claimed; `who` is a person's name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._claims: dict[Claimed, _Claim] = {}

    def take(self, who: str, files: Sequence[Claimed]) -> Claimed | None:
        """Claim the first of these files that nobody else has, and return it; None if there is none.

        A person has one file of each exercise, so this frees another one.
        """
        others = self._of_others(who)
        for file in files:
            if file not in others:
                self._drop(who, file.exercise)
                self._claims[file] = _Claim(who, self._clock() + CLAIM_SECONDS)
                return file
        return None

    def own(self, who: str, exercise: str) -> str:
        """Return the name of a person's file of an exercise; empty if there is none."""
        held = (
            f.name
            for f, claim in self._valid().items()
            if claim.who == who and f.exercise == exercise
        )
        return next(held, "")

    def renew(self, who: str, exercise: str, name: str) -> str:
        """Renew or make a claim; return the name of another person who has the file, else an empty text."""
        file = Claimed(exercise, name)
        if (claim := self._of_others(who).get(file)) is not None:
            return claim.who
        self._drop(who, exercise)
        self._claims[file] = _Claim(who, self._clock() + CLAIM_SECONDS)
        return ""

    def drop(self, who: str, exercise: str, name: str) -> None:
        """End a person's claim to a file."""
        if self.own(who, exercise) == name:
            self._drop(who, exercise)

    def holders(self, exercise: str) -> list[str]:
        """Return the people who have a file of an exercise, sorted."""
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
        """Forget the claims that have expired, and return the others."""
        now = self._clock()
        self._claims = {f: claim for f, claim in self._claims.items() if claim.until > now}
        return self._claims
