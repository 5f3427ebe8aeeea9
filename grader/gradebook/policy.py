"""The policy of a class: which attempt counts, and what of its points; no judge is asked again.

A file that was handed in again unchanged counts as handed in when it first was.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from grader.results import StudentInfo


class HandedIn(msgspec.Struct, frozen=True):
    """The file for one exercise in one attempt: since when it is there, and what the judge gave for it.

    `submitted_at` is ISO 8601 in UTC, empty where it is not known; `late` is what the platform said;
    `judged` is None where there is no verdict.
    """

    attempt: int
    submitted_at: str
    late: bool
    judged: float | None


class Counted(msgspec.Struct, frozen=True):
    """What counts for an exercise: the attempt to show, its points, and a sentence for each reason."""

    attempt: int
    points: float
    reasons: tuple[str, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """The rules of a class; without any, the newest attempt counts for what the judge gave."""

    def counted(
        self, student: StudentInfo, exercise: str, worth: float, files: Sequence[HandedIn]
    ) -> Counted:
        """What counts of these files, at least one, in the order in which they were handed in.

        `worth` are the points that there are for the exercise.
        """
        del student, exercise, worth
        newest = files[-1]
        return Counted(newest.attempt, newest.judged or 0.0)

    def needed(
        self, student: StudentInfo, exercise: str, worth: float, files: Sequence[HandedIn]
    ) -> set[int]:
        """The attempts of these that have to be judged for `counted` to tell."""
        return {self.counted(student, exercise, worth, files).attempt}


def read_policy(text: str) -> Policy:
    """The policy of a TOML text; an empty one has no rules."""
    del text
    return Policy()
