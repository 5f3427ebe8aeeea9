"""Where the class is stuck now: the newest practice runs of the last hour, counted without names.

Practice uses only public tests, so nothing here reveals hidden ones. The runs are kept in memory until the
server ends. Call this only from the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import msgspec

from grader.course.manifest import Exercise
from grader.exports.report.tally import Mistake, Mistakes
from grader.results import ExerciseResult, Outcome

STUCK_SECONDS = 3600.0
_MAX_MISTAKES = 3
# More runs than any class makes within an hour.
_MAX_KEPT = 20_000


class StuckRow(msgspec.Struct, frozen=True):
    """An exercise, the numbers of students who practiced it and who do not pass, and common findings."""

    exercise: Exercise
    practiced: int
    stuck: int
    findings: tuple[Mistake, ...]


class Stuck:
    """The newest practice run of each student at each exercise, for an hour."""

    def __init__(self) -> None:
        # Sorted by time. A result keeps only its first test that does not pass.
        self._newest: dict[tuple[str, str], tuple[float, ExerciseResult]] = {}

    def add(self, student: str, result: ExerciseResult) -> None:
        """Count a judged run, unless the file is still the stub."""
        if not result.attempted:
            return
        now, key = time.monotonic(), (student, result.name)
        self._newest.pop(key, None)
        first = [test for test in result.tests if test.outcome is not Outcome.PASSED][:1]
        self._newest[key] = now, msgspec.structs.replace(result, tests=tuple(first), output="")
        self._forget(now)

    def rows(
        self, exercises: Sequence[Exercise], reach: Collection[str] | None = None
    ) -> list[StuckRow]:
        """Return the exercises where somebody is stuck, most students first.

        With a `reach`, count only these students. Findings are included only if two students share them.
        """
        self._forget(time.monotonic())
        rows = []
        for exercise in exercises:
            results = [
                result
                for (student, name), (_, result) in self._newest.items()
                if name == exercise.id and (reach is None or student in reach)
            ]
            stuck, mistakes = [result for result in results if result.tests], Mistakes()
            for number, result in enumerate(stuck):
                mistakes.add(result, number)
            if stuck:
                common = tuple(mistakes.common(_MAX_MISTAKES))
                rows.append(StuckRow(exercise, len(results), len(stuck), common))
        return sorted(rows, key=lambda row: -row.stuck)

    def _forget(self, now: float) -> None:
        while self._newest:
            key, (at, _) = next(iter(self._newest.items()))
            if now - at <= STUCK_SECONDS and len(self._newest) <= _MAX_KEPT:
                return
            del self._newest[key]
