"""The attempt that counts for an exercise, in any order of downloads, and absent students."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from grader import submissions
from grader.course.manifest import Course
from grader.gradebook import Attempt, Gradebook
from grader.gradebook.policy import CountedAttempt, Rules
from grader.gradebook.standing import handed_in, needed
from grader.grading import grading_options, nothing_handed_in, settle
from grader.results import Entry, Status, StudentInfo
from grader.submissions import ExerciseFile, Submission

from .conftest import HERE, SUITE, key_of, result

ONE, TWO, THREE = (f"2026-03-0{day}T10:00:00Z" for day in (1, 2, 3))


class Class:
    """A gradebook of a course with two exercises, `a` and `b`. Each file earns the points named in it."""

    def __init__(self, book: Gradebook, course: Course) -> None:
        (task,) = course.exercises
        exercises = tuple(msgspec.structs.replace(task, id=name) for name in ("a", "b"))
        for path in list(course.root.rglob("*task.py")):
            for name in ("a", "b"):
                path.with_name(path.name.replace("task", name)).write_bytes(path.read_bytes())
        self.book = book
        self.course = msgspec.structs.replace(course, exercises=exercises)
        self.blank = nothing_handed_in(self.course, exercises, grading_options())
        book.begin(self.course, self.blank)

    def hand_in(self, at: str = "", *, judged: bool = True, **points: int) -> Attempt:
        """Hand in files with these points."""
        files = {name: ExerciseFile(None, f"one/{name}.py is missing.") for name in ("a", "b")}
        files |= {
            name: ExerciseFile(f"points = {worth}\n".encode()) for name, worth in points.items()
        }
        found = submissions.Attempt(
            student=StudentInfo(id="ann"), submitted_at=at, path=Path("ann")
        )
        with self.book.transaction():
            attempt = self.book.register(found, Submission("ann", files))
            for name, worth in points.items():
                if judged:
                    status = Status.PASSED if worth == 10 else Status.PARTIAL
                    key = key_of(files[name].source or b"")
                    self.book.keep(attempt, key, 0, result(status, worth, name), HERE)
        return attempt

    @property
    def ann(self) -> Entry:
        entry = self.book.entry_of("ann")
        assert entry is not None
        return entry

    @property
    def points(self) -> list[float]:
        """The points that count for each exercise."""
        return [exercise.score for exercise in self.ann.result.exercises]


@pytest.fixture
def small_class(tmp_path: Path, write_course: Callable[..., Course]) -> Iterator[Class]:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        yield Class(book, write_course(tmp_path / "course", SUITE))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_with_submission_times_the_order_of_downloads_does_not_matter(
    small_class: Class, order: tuple[int, ...]
) -> None:
    downloads = [(ONE, 3), (TWO, 5), (THREE, 8)]
    for place in order:
        small_class.hand_in(downloads[place][0], a=downloads[place][1])
    assert small_class.points == [8, 0]
    assert small_class.ann.submitted_at == THREE


def test_an_attempt_without_a_file_does_not_change_the_exercise(small_class: Class) -> None:
    small_class.hand_in(ONE, a=8)
    small_class.hand_in(TWO, b=6)
    entry = small_class.ann
    assert small_class.points == [8, 6] and entry.result.score == 14
    assert small_class.book.sources(entry) == {"a": b"points = 8\n", "b": b"points = 6\n"}
    assert (entry.attempt, entry.submitted_at) == (2, TWO)
    both = Submission(
        "ann", {n: ExerciseFile(s) for n, s in small_class.book.sources(entry).items()}
    )
    assert entry.result.submission.digest == both.info().digest


def test_a_dated_return_to_an_earlier_file_counts(small_class: Class) -> None:
    for at, points in ((ONE, 8), (TWO, 5), (THREE, 8)):
        small_class.hand_in(at, a=points)
    assert small_class.points == [8, 0]
    assert small_class.ann.attempt == 3
    # It keeps the time of its first submission, so no later due time makes it late.
    work = small_class.book.work(StudentInfo(id="ann"))
    handed = handed_in(work, small_class.book.rules(), "a")
    assert [each.submitted_at for each in handed] == [ONE, TWO, ONE]


def test_a_file_without_a_verdict_is_unjudged_rather_than_zero(small_class: Class) -> None:
    small_class.hand_in(ONE, a=8)
    small_class.hand_in(TWO, a=5, judged=False)
    small_class.book.finish(())
    first = small_class.ann.result.exercises[0]
    assert first.status is Status.UNJUDGED
    assert "grade regrade" in first.message
    # The same file has the verdict of the attempt in which it was judged.
    small_class.hand_in(THREE, a=8, judged=False)
    assert small_class.points[0] == 8


def test_a_student_without_submissions_gets_zero_when_grading_finishes(
    small_class: Class,
) -> None:
    book = small_class.book
    with book.transaction():
        book.keep_student(StudentInfo(id="zed", name="Zed"))
    (open_one,) = book.entries()
    assert {each.status for each in open_one.result.exercises} == {Status.UNJUDGED}
    book.finish(())
    (zed,) = book.entries()
    assert zed.absent and (zed.attempt, zed.result.score, zed.result.max_score) == (0, 0, 20)
    assert [each.message for each in zed.result.exercises] == ["Nothing was handed in."] * 2
    assert book.sources(zed) == {}
    book.write_result("zed")
    written = json.loads((book.folder / "results" / "zed.json").read_bytes())
    assert written["submission"] == {"name": "zed", "digest": ""}


def test_an_exercise_that_was_never_handed_in_gets_zero(small_class: Class) -> None:
    small_class.hand_in(ONE, a=8)
    small_class.book.finish(())
    first, second = small_class.ann.result.exercises
    assert (first.score, second.score, second.max_score) == (8, 0, 10)
    assert second.message == "Nothing was handed in."
    small_class.book.begin(small_class.course)
    assert small_class.book.totals_before() == {"ann": 8}


def test_a_new_policy_changes_results_at_once(small_class: Class) -> None:
    book = small_class.book
    small_class.hand_in(ONE, a=8)
    small_class.hand_in(TWO, a=5)
    book.finish(())
    book.write_result("ann")
    written = book.folder / "results" / "ann.json"
    assert json.loads(written.read_bytes())["score"] == 5
    book.set_policy(Rules(attempts=CountedAttempt.BEST))
    assert small_class.points == [8, 0]
    exercise = json.loads(written.read_bytes())["exercises"][0]
    assert (exercise["score"], exercise["mark"]["judged"], exercise["mark"]["attempt"]) == (8, 8, 1)
    book.set_policy(Rules())
    assert json.loads(written.read_bytes())["score"] == 5
    assert json.loads(written.read_bytes())["exercises"][0]["mark"] is None


def test_results_missing_after_a_kill_are_written_by_the_next_grading(
    small_class: Class,
) -> None:
    book, course = small_class.book, small_class.course
    book.finish(())
    assert book.begin(course, small_class.blank), (
        "the last grading was killed before its last result"
    )
    book.finish(())
    book.mark_current()
    assert not book.begin(course, small_class.blank)
    book.finish(())
    book.change(is_stale=True)  # as between a new policy and the last result
    assert book.begin(course, small_class.blank)
    book.mark_current()
    assert book.begin(course, small_class.blank), "that grading was interrupted"


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_stub_or_an_empty_file_is_not_an_attempt(small_class: Class, is_empty: bool) -> None:
    course = small_class.course
    exercise = course.exercises[0]
    file = ExerciseFile(b"\n" if is_empty else course.stub(exercise).source)
    files = {"a": file, "b": ExerciseFile(None, "missing")}
    found = submissions.Attempt(student=StudentInfo(id="ann"), submitted_at=ONE, path=Path("ann"))
    with small_class.book.transaction():
        attempt = small_class.book.register(found, Submission("ann", files))
        if is_empty:
            settled = settle(course, exercise, file, grading_options())
            assert settled is not None
            small_class.book.keep(attempt, key_of(b"\n"), 0, settled, HERE)
    small_class.hand_in(TWO, a=7)
    small_class.book.set_policy(Rules(max_attempts=1))
    assert small_class.ann.result.exercises[0].score == 7
    work = small_class.book.work(StudentInfo(id="ann"))
    rules = small_class.book.rules()
    assert [each.number for each in needed(work, rules, "a")] == [2]
