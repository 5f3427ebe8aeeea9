"""The trial run before a release: unless solutions earn everything and stubs nothing, nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from grader.authoring import trial
from grader.authoring.trial import try_out
from grader.course.manifest import Course, load_course
from grader.errors import CourseError, GraderError
from grader.results import ExerciseResult, Outcome, Result, Status
from grader.submissions import Submission
from tests.grader.builders import checked, exercise, result

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
RIGHT, NOTHING = checked(), checked(outcome=Outcome.NOT_IMPLEMENTED)


class Grading:
    """Gives results for the solutions and the stubs, and records what was graded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: dict[str, ExerciseResult | GraderError] = {
            "solution": exercise(RIGHT, name="greeting"),
            "stub": exercise(NOTHING, name="greeting"),
        }
        self.graded: list[tuple[str, list[str], int]] = []
        monkeypatch.setattr(trial, "grade", self.grade)

    def grade(
        self, submission: Submission, *, course: Course, exercises: Collection[str], seed: int
    ) -> Result:
        self.graded.append((submission.name, list(exercises), seed))
        end = self.of[submission.name]
        if isinstance(end, GraderError):
            raise end
        return result(end)


@pytest.fixture
def grading(monkeypatch: pytest.MonkeyPatch) -> Grading:
    return Grading(monkeypatch)


@pytest.fixture
def course() -> Course:
    return load_course(PLAIN)


def refused(course: Course, handed_out: Course | None = None) -> str:
    with pytest.raises(CourseError) as raised:
        try_out(handed_out or course, course)
    message = str(raised.value)
    assert message.startswith("Nothing was written, because a trial run of it failed: ")
    return message.partition("failed: ")[2]


def test_a_course_that_works_is_graded_twice(grading: Grading, course: Course) -> None:
    try_out(course, course, seed=3)
    names = ["word_count", "greeting", "running_mean"]
    assert grading.graded == [("solution", names, 3), ("stub", names, 3)]


def test_an_exercise_without_a_solution_is_tried_only_with_its_stub(
    grading: Grading, tmp_path: Path
) -> None:
    shutil.copytree(PLAIN, tmp_path / "course")
    shutil.rmtree(tmp_path / "course" / "solutions")
    course = load_course(tmp_path / "course")
    try_out(course, course)
    assert [name for name, _, _ in grading.graded] == ["stub"]


def test_a_stub_that_earns_points_is_reported(grading: Grading, course: Course) -> None:
    grading.of["stub"] = exercise(RIGHT, checked("b", Outcome.FAILED), name="greeting", worth=5)
    assert refused(course) == (
        "the stub of 'greeting' earns 2.5 of 5 points. `grade verify greeting` shows why."
    )


@pytest.mark.parametrize(
    ("outcome", "advice"),
    [
        (Outcome.FAILED, "`grade verify greeting` shows why."),
        (Outcome.TIMEOUT, "Try again when the machine is less busy."),
    ],
)
def test_a_solution_that_loses_points_is_reported_with_its_test(
    grading: Grading, course: Course, outcome: Outcome, advice: str
) -> None:
    lost: Any = checked("b", outcome, title="The second")
    grading.of["solution"] = exercise(
        RIGHT, lost, checked("c", Outcome.FAILED), name="greeting", worth=6
    )
    assert refused(course) == (
        f"the solution of 'greeting' earns 2 of 6 points, for “The second” does not pass. {advice}"
    )
    assert [name for name, _, _ in grading.graded] == ["solution"]


def test_an_exercise_that_cannot_be_judged_is_reported(grading: Grading, course: Course) -> None:
    for what in ("stub", "solution"):
        grading.of[what] = exercise(
            name="greeting", status=Status.UNJUDGED, score=0.0, message="No fork."
        )
        assert refused(course) == f"the {what} of 'greeting' cannot be graded: No fork."


def test_a_fault_names_the_authors_files_and_not_their_copies(
    grading: Grading, course: Course, tmp_path: Path
) -> None:
    shutil.copytree(PLAIN, tmp_path / "copy")
    copy = load_course(tmp_path / "copy")
    grading.of["solution"] = GraderError(f"{copy.root}/tests/hidden is odd.")
    assert refused(course, copy) == (
        f"no solution can be graded. {course.root}/tests/hidden is odd."
    )
