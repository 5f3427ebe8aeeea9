"""All that one student handed in, as the gradebook has it: attempts in their order, files, and points."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from grader.results import StudentInfo


class Attempt(msgspec.Struct, frozen=True):
    """A submission as the gradebook knows it; the number counts from 1, in the order of being found."""

    id: int
    student: str
    number: int
    submitted_at: str = ""
    late: bool = False
    origin: str = ""
    digest: str = ""


class Verdict(NamedTuple):
    """The points of one exercise of an attempt, None without a verdict, and what there was to earn."""

    score: float | None
    worth: float
    untouched: bool = False


class Work(NamedTuple):
    """All that a student handed in: attempts, oldest first; digests of files and verdicts by exercise."""

    student: StudentInfo
    attempts: tuple[Attempt, ...]
    files: dict[str, dict[int, str]]
    verdicts: dict[str, dict[int, Verdict]]

    @property
    def is_dated(self) -> bool:
        """Whether every attempt has a time, by which they are in order."""
        return all(attempt.submitted_at for attempt in self.attempts)

    @property
    def has_versions(self) -> bool:
        """Whether there are several files for one exercise, and a rule says which of them counts."""
        return any(len(set(files.values())) > 1 for files in self.files.values())

    def sources(self, exercise: str) -> list[tuple[Attempt, str]]:
        """The attempts with a file for an exercise, oldest first, and its digest."""
        files = self.files.get(exercise, {})
        return [(each, files[each.id]) for each in self.attempts if each.id in files]

    def is_untouched(self, exercise: str, attempt: int) -> bool:
        """Whether an attempt's file was found to be still the stub."""
        verdict = self.verdicts.get(exercise, {}).get(attempt)
        return verdict is not None and verdict.untouched

    def judged_as(self, exercise: str, attempt: int) -> int | None:
        """The attempt in which this attempt's file was judged: itself, or one with the very same file."""
        files, verdicts = self.files.get(exercise, {}), self.verdicts.get(exercise, {})
        if attempt in verdicts:
            return attempt
        for other, source in files.items():
            if source == files[attempt] and other in verdicts and verdicts[other].score is not None:
                return other
        return None
