"""A gradebook of a course with one exercise, for tests to add to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader import submissions
from grader.course.manifest import Course
from grader.gradebook import Attempt, Gradebook
from grader.gradebook.verdict_key import VerdictKey
from grader.results import Environment, ExerciseResult, Status, StudentInfo
from grader.submissions import ExerciseFile, Submission
from tests.grader import builders

HERE = Environment("1", "3.12", "2.13", "Linux", ("seccomp", "landlock"))
SUITE = '''
def test_double(student):
    """The double is twice the number."""
'''


class School:
    """A course and the folder of its results."""

    def __init__(self, course: Course, results: Path) -> None:
        self.course, self.results = course, results

    def hand_in(
        self,
        book: Gradebook,
        student: str,
        source: bytes,
        at: str = "",
        exercise: str = "task",
        origin: str = "",
    ) -> Attempt:
        """Register a student's only file."""
        found = submissions.Attempt(
            student=StudentInfo(id=student),
            submitted_at=at,
            origin=origin or f"{student}.zip",
            path=Path(student),
        )
        submission = Submission(student, {exercise: ExerciseFile(source)})
        with book.transaction():
            return book.register(found, submission)

    def keep(
        self,
        book: Gradebook,
        attempt: Attempt,
        score: float,
        source: bytes = b"x = 1\n",
        environment: Environment = HERE,
        exercise: str = "task",
    ) -> None:
        """Keep a verdict of `score` points out of ten."""
        status = Status.PASSED if score == 10 else Status.PARTIAL
        judged = result(status, score, exercise)
        with book.transaction():
            book.keep(attempt, key_of(source), 0, judged, environment)

    def wait_for(self, book: Gradebook, attempt: Attempt, source: bytes = b"x = 1\n") -> None:
        """Record that the grader waits for a verdict."""
        with book.transaction():
            open_one = result(Status.UNJUDGED, 0)
            book.keep(attempt, key_of(source), 0, open_one, HERE, waited_for=True)

    def fault(self, book: Gradebook, attempt: Attempt, source: bytes = b"x = 1\n") -> None:
        """Record that a fault of the grader left the file unjudged."""
        with book.transaction():
            book.keep(attempt, key_of(source), 0, result(Status.UNJUDGED, 0), HERE)


def key_of(source: bytes) -> VerdictKey:
    return VerdictKey(f"digest of {source!r}", "course", "grader", f"key of {source!r}")


def result(status: Status, score: float, exercise: str = "task") -> ExerciseResult:
    return builders.exercise(name=exercise, worth=10.0, status=status, score=score)


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Limit files to one byte, as if the disk were full."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def school(tmp_path: Path, write_course: Callable[..., Course]) -> School:
    return School(write_course(tmp_path / "course", SUITE), tmp_path / "results")
