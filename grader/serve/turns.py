"""Turns for reading submissions: an archive may take two seconds, and nobody should wait for ten others.

Use this module only from the event loop.
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

# A student who mistypes a name may need several tries.
MAX_REFUSED = 20
_HOUR_SECONDS = 3600.0
# A bound, since strangers' addresses have turns, too.
_MAX_REMEMBERED = 10_000


class Turns:
    """Turns for a few students at a time; as in the queue of jobs, the one served longest ago is next."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count(1)
        self._last: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def turn(self, student: str) -> AsyncIterator[None]:
        """Wait for a turn; it lasts until the block ends."""
        turn = asyncio.get_running_loop().create_future()
        waiting = _Waiting(student, next(self._numbers), turn)
        self._waiting.append(waiting)
        self._give()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:  # the client hung up just when its turn came
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
        """Give each free place to the next student."""
        while self._free and self._waiting:
            chosen = min(self._waiting, key=lambda w: (self._last.get(w.student, 0), w.number))
            self._waiting.remove(chosen)
            self._last.pop(chosen.student, None)
            self._last[chosen.student] = next(self._numbers)
            if len(self._last) > _MAX_REMEMBERED:
                del self._last[next(iter(self._last))]
            self._free -= 1
            chosen.turn.set_result(None)


class _Waiting(NamedTuple):
    """A student who waits for a turn; numbers grow with time."""

    student: str
    number: int
    turn: asyncio.Future[None]


class Rate:
    """A limit of `most` events per student in `seconds`, for events that the gradebook does not keep."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._times: dict[str, deque[float]] = {}

    def wait(self, who: str) -> int:
        """Return the seconds until the student's next event is allowed; 0 if it is allowed now."""
        times, now = self._times.get(who, deque()), time.monotonic()
        while times and times[0] <= now - self._seconds:
            times.popleft()
        return math.ceil(times[0] + self._seconds - now) if len(times) >= self._most else 0

    def add(self, who: str) -> None:
        """Count an event."""
        self._times.setdefault(who, deque(maxlen=self._most)).append(time.monotonic())


class RefusedHandIns:
    """Counts refused submissions; the gradebook does not keep them, so its limits ignore them."""

    def __init__(self) -> None:
        self._rate = Rate(MAX_REFUSED, _HOUR_SECONDS)

    def check(self, student: str) -> None:
        """Raise Refusal if too many submissions of a student were refused within an hour."""
        if wait := self._rate.wait(student):
            raise Refusal(
                429,
                f"{counted(MAX_REFUSED, 'submission')} of yours were refused within an hour. Wait "
                f"{counted(math.ceil(wait / 60), 'minute')}, and read the answer to the last one.",
                retry_after=wait,
            )

    def add(self, student: str) -> None:
        """Count a refused submission."""
        self._rate.add(student)
