"""The time limits of an exercise's tests, for `session`: each share has a clock of its own."""

from __future__ import annotations

from collections import Counter

from grader.course.manifest import Exercise

# One test may use this part of the time, so that an endless loop costs a few of them.
TEST_PART = 0.25
# Each timeout of a share halves the time of its further tests, and after so many there is none: a loop that few
# tests meet costs those, and one that all meet less than half of the time.
_TIMEOUTS = 3


class Budget:
    """The seconds that each share has left, while one of them runs; "" is the share of all other tests.

    Once a share has run out, tests of the others get half: a loop in what all functions call does not cost
    the same again in each.
    """

    def __init__(self, exercise: Exercise) -> None:
        self._seconds = exercise.seconds
        self._left = dict.fromkeys(("", *exercise.shares), exercise.seconds)
        self._timeouts: Counter[str] = Counter()
        self.begin()

    def begin(self, share: str = "") -> None:
        """Begin a test of this share."""
        self.share = share
        self.limit = self._seconds * TEST_PART
        if share:
            another_is_out = any(self.is_out(other) for other in self._left if other != share)
            self.limit /= 2 ** (self._timeouts[share] + another_is_out)
        self._test_left = self.limit

    @property
    def left(self) -> float:
        """The seconds that the test may still use."""
        return min(self._test_left, self._left[self.share])

    @property
    def is_used_up(self) -> bool:
        """Whether the running share has used all of its seconds."""
        return self._left[self.share] <= 0

    def is_out(self, share: str) -> bool:
        """Whether further tests of this share have no time."""
        return self._left[share] <= 0 or (share != "" and self._timeouts[share] >= _TIMEOUTS)

    def spend(self, seconds: float) -> None:
        """Charge the running test."""
        self._test_left -= seconds
        self._left[self.share] -= seconds

    def time_out(self) -> None:
        """Count a timeout of the running test."""
        self._timeouts[self.share] += 1
