"""Rows of a gradebook as structs, and a student's work: attempts, files, verdicts and requests."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from grader.results import Environment, ExerciseResult, Status, StudentInfo, in_version_2
from grader.submissions.platforms import Canvas

_result_of = msgspec.json.Decoder(ExerciseResult).decode


# The origin of submissions to `grade serve`, which counts them itself.
SERVER = "grade serve"


class DamagedValueError(ValueError):
    """A value in a gradebook cannot be read; `database.opened` adds the name of the file."""


class Attempt(msgspec.Struct, frozen=True):
    """One of a student's submissions; numbers count from 1, in the order in which they were found.

    `submitted_at` is in UTC, empty if unknown; `late` is according to the platform.
    """

    id: int
    student: str
    number: int
    submitted_at: str = ""
    late: bool = False
    origin: str = ""
    digest: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict on one exercise of an attempt: points, circumstances, and the whole result, packed."""

    status: Status
    score: float
    max_score: float
    packed: bytes
    graded_at: str
    seed: int
    environment: Environment

    @property
    def judged(self) -> float | None:
        """The points; None if a fault of the grader, or an interruption, left it unjudged."""
        return None if self.status is Status.UNJUDGED else self.score

    @property
    def result(self) -> ExerciseResult:
        """The whole result, unpacked at each access. Raises DamagedValueError."""
        return unpacked(self.packed)

    def with_result(self, result: ExerciseResult) -> Verdict:
        """Return the same verdict with another result."""
        return msgspec.structs.replace(
            self,
            status=result.status,
            score=result.score,
            max_score=result.max_score,
            packed=packed(result),
        )


class Answer(msgspec.Struct, frozen=True):
    """An answer of staff to a request; `answered_at` is in UTC."""

    text: str
    author: str
    answered_at: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A student's request to look at an exercise again; the last answer counts.

    `number` counts from 1 in the gradebook, `asked_at` is in UTC, and `origin` is the way in which it came.
    """

    number: int
    student: str
    exercise: str
    message: str
    asked_at: str
    origin: str
    answers: tuple[Answer, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has no answer."""
        return not self.answers


class Replaced(msgspec.Struct, frozen=True):
    """A verdict that replaced an earlier one."""

    student: str
    attempt: int
    before: ExerciseResult
    after: ExerciseResult


def packed(result: ExerciseResult) -> bytes:
    """Return a result as deflated JSON, the form in which tables keep it."""
    return zlib.compress(msgspec.json.encode(result))


def unpacked(data: bytes) -> ExerciseResult:
    """Return a packed result; raises DamagedValueError."""
    try:
        return _result_of(in_version_2(zlib.decompress(data)))
    except (zlib.error, msgspec.DecodeError, UnicodeError, TypeError) as error:
        raise DamagedValueError(str(error)) from error


def work_of(
    student: StudentInfo,
    attempts: Iterable[Attempt],
    files: Mapping[str, Mapping[int, str]],
    verdicts: Mapping[str, Mapping[int, Verdict]],
    requests: Iterable[Request] = (),
) -> Work:
    """Return the work of a student from rows in any order.

    Attempts are sorted by time. If any has no time, they are sorted by Canvas's numbers of files, or else by
    their own number. An empty digest means that there is no file.
    """
    numbered = sorted(attempts, key=lambda attempt: attempt.number)
    ordered = numbered
    if all(attempt.submitted_at for attempt in numbered):
        times = _times(numbered)
        ordered = sorted(numbered, key=lambda attempt: times[attempt.id])
    elif numbers := _file_numbers(numbered):
        ordered = sorted(numbered, key=lambda attempt: numbers[attempt.id])
    in_order = {
        exercise: {a.id: sources[a.id] for a in numbered if sources.get(a.id)}
        for exercise, sources in files.items()
    }
    return Work(student, tuple(ordered), in_order, verdicts, tuple(requests))


def _file_numbers(attempts: Sequence[Attempt]) -> dict[int, int]:
    """Map attempts to Canvas's numbers of their newest files; empty if any has none.

    Only the origin has this number: tables have no column for it.
    """
    if len(attempts) < 2:
        return {}
    numbers = {attempt.id: Canvas.file_number(attempt.origin) for attempt in attempts}
    return numbers if all(numbers.values()) else {}


def _times(numbered: Iterable[Attempt]) -> dict[int, str]:
    """Map attempts to the times to sort them by.

    Attempts from a server keep their order even if its clock was set back.
    """
    times, latest = {}, ""
    for attempt in numbered:
        times[attempt.id] = attempt.submitted_at
        if attempt.origin == SERVER:
            times[attempt.id] = latest = max(latest, attempt.submitted_at)
    return times


class Work(NamedTuple):
    """A student's attempts, oldest first, requests, and digests of files and verdicts by exercise."""

    student: StudentInfo
    attempts: tuple[Attempt, ...]
    files: Mapping[str, Mapping[int, str]]
    verdicts: Mapping[str, Mapping[int, Verdict]]
    requests: tuple[Request, ...] = ()

    @property
    def is_dated(self) -> bool:
        """Whether every attempt has a time."""
        return all(attempt.submitted_at for attempt in self.attempts)

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the attempts is known, by times or by Canvas's numbers of files."""
        return self.is_dated or bool(_file_numbers(self.attempts))

    @property
    def has_versions(self) -> bool:
        """Whether an exercise has several files, so that a rule must choose one."""
        return any(len(set(files.values())) > 1 for files in self.files.values())

    def newest(self, ids: Container[int]) -> Attempt:
        """Return the newest of these attempts."""
        return next(attempt for attempt in reversed(self.attempts) if attempt.id in ids)

    def sources(self, exercise: str) -> list[tuple[Attempt, str]]:
        """Return the attempts with a file for an exercise, oldest first, each with the file's digest."""
        files = self.files.get(exercise, {})
        return [(attempt, files[attempt.id]) for attempt in self.attempts if attempt.id in files]

    def is_untouched(self, exercise: str, attempt: int) -> bool:
        """Whether an attempt's file is empty or the untouched stub, according to its verdict."""
        verdict = self.verdicts.get(exercise, {}).get(attempt)
        # Unpack the whole result only if necessary.
        if verdict is None or verdict.status is not Status.ERROR:
            return verdict is not None and verdict.status is Status.NOT_ATTEMPTED
        return not verdict.result.attempted

    def judged_as(self, exercise: str, attempt: int) -> int | None:
        """Return the attempt with the verdict on this attempt's file: itself, or one with the same file."""
        files, verdicts = self.files.get(exercise, {}), self.verdicts.get(exercise, {})
        if attempt in verdicts:
            return attempt
        for other, source in files.items():
            is_same = source == files[attempt] and other in verdicts
            if is_same and verdicts[other].judged is not None:
                return other
        return None
