"""Whose submission is read next: an archive may take two seconds, and nobody is to wait for twenty of them.

Used only by the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from grader.serve.http import Refusal
from grader.text import counted

# A student who mistypes a name tries a few times.
MOST_REFUSED = 20
_HOUR_SECONDS = 3600.0


class Turns:
    """Lets a few work at a time; whose last turn was longest ago is next, as in the queue of the judges."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count(1)
        self._last: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Wait for a turn, which lasts until the block ends."""
        waiting = _Waiting(who, next(self._numbers), asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._give()
        try:
            await waiting.given
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:  # the turn came and the client hung up in one moment
                self._end()
            raise
        try:
            yield
        finally:
            self._end()

    def _end(self) -> None:
        self._free += 1
        self._give()

    def _give(self) -> None:
        """Give each free place to the one who is next."""
        while self._free and self._waiting:
            chosen = min(self._waiting, key=lambda w: (self._last.get(w.who, 0), w.number))
            self._waiting.remove(chosen)
            self._last[chosen.who] = next(self._numbers)
            self._free -= 1
            chosen.given.set_result(None)


class _Waiting(NamedTuple):
    """Someone who waits for a turn since this number was drawn."""

    who: str
    number: int
    given: asyncio.Future[None]


class Rate:
    """How often a student did something within a time; what no gradebook keeps is counted here."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._times: dict[str, deque[float]] = {}

    def wait(self, who: str) -> int:
        """Return after how many seconds a student may do it again, 0 for now."""
        times, now = self._times.get(who, deque()), time.monotonic()
        while times and times[0] <= now - self._seconds:
            times.popleft()
        return math.ceil(times[0] + self._seconds - now) if len(times) >= self._most else 0

    def add(self, who: str) -> None:
        """Count that it was done."""
        self._times.setdefault(who, deque(maxlen=self._most)).append(time.monotonic())


class RefusedHandIns:
    """How often something was refused: what is not kept counts against no limit of the gradebook."""

    def __init__(self) -> None:
        self._rate = Rate(MOST_REFUSED, _HOUR_SECONDS)

    def check(self, who: str) -> None:
        """Raise Refusal where too much of a student's was refused within an hour."""
        if wait := self._rate.wait(who):
            raise Refusal(
                429,
                f"{counted(MOST_REFUSED, 'submission')} of yours within an hour could not be taken. Wait "
                f"{counted(math.ceil(wait / 60), 'minute')}, and read what was said of the last one.",
                retry_after=wait,
            )

    def add(self, who: str) -> None:
        """Count that something was refused."""
        self._rate.add(who)
