"""Late imports of an exercise are learned from the course's own solution, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import Course
from grader.judge import preloading
from grader.judge.assignment import GradingOptions
from grader.judge.process import judge_source, judges
from grader.results import Status, Visibility

pytestmark = pytest.mark.thorough

WriteCourse = Callable[..., Course]

SUITE = '''
def test_late(student):
    """Its module is there before it is imported"""
    assert_equal(student.function("late")(), True)
'''
SOLUTION = "def late():\n    import colorsys\n    return True\n"
# Earns full marks only if the fork server has imported the solution's modules. It also imports another one.
SUBMISSION = "def late():\n    import sched, sys\n    return 'colorsys' in sys.modules\n"


@pytest.fixture
def course(tmp_path: Path, write_course: WriteCourse, monkeypatch: pytest.MonkeyPatch) -> Course:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "course/solutions/one/task.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOLUTION)
    return write_course(tmp_path / "course", SUITE)


def status(course: Course, source: str, *, learn: bool) -> Status:
    # These judges do not import torch, which would take longer than all judging here.
    with judges() as (judge,):
        (exercise,) = course.exercises
        judgment = judge_source(
            judge, course, exercise, source.encode(), GradingOptions(), learn=learn
        )
        return judgment.result.status


def test_modules_of_the_solution_are_preloaded(course: Course) -> None:
    (exercise,) = course.exercises
    assert preloading.learned(course, exercise) is None
    assert status(course, SUBMISSION, learn=True) is Status.PASSED
    assert preloading.learned(course, exercise) == ("colorsys",)
    assert preloading.modules_of(course, [exercise]) == ("colorsys",)
    # They are known from now on, even if only a single file is judged.
    assert status(course, SUBMISSION, learn=False) is Status.PASSED


def test_imports_of_a_probe_in_another_sandbox_are_learned(course: Course) -> None:
    (exercise,) = course.exercises
    suite = course.suites(exercise)[Visibility.HIDDEN]
    suite.write_text(suite.read_text() + "    student.apart('other')\n    student.anew('other')\n")
    suite.with_name("probe_task.py").write_text("def other(module):\n    import sched\n")
    assert status(course, SUBMISSION, learn=True) is Status.PASSED
    assert preloading.learned(course, exercise) == ("colorsys", "sched")


def test_nothing_is_learned_from_a_submission(course: Course) -> None:
    (exercise,) = course.exercises
    assert status(course, SUBMISSION, learn=False) is not Status.PASSED
    assert preloading.learned(course, exercise) is None
    course.solution(exercise).unlink()
    assert status(course, SUBMISSION, learn=True) is not Status.PASSED
    assert preloading.learned(course, exercise) is None


def test_a_changed_solution_is_learned_again(course: Course) -> None:
    (exercise,) = course.exercises
    assert status(course, SOLUTION, learn=True) is Status.PASSED
    course.solution(exercise).write_text(SOLUTION.replace("colorsys", "sched"))
    assert preloading.learned(course, exercise) is None
    assert status(course, SOLUTION, learn=True) is Status.PASSED
    assert preloading.learned(course, exercise) == ("sched",)


def test_judging_works_without_a_cache(course: Course, tmp_path: Path) -> None:
    (exercise,) = course.exercises
    (tmp_path / "cache").write_text("a file instead of a folder")
    assert status(course, SUBMISSION, learn=True) is Status.PASSED
    assert preloading.learned(course, exercise) is None


def test_a_failing_solution_is_tolerated(course: Course) -> None:
    (exercise,) = course.exercises
    course.solution(exercise).write_text("raise ValueError\n")
    assert status(course, SOLUTION, learn=True) is Status.PASSED


@pytest.mark.parametrize(
    "name",
    [
        "task",
        "grader.judge.run",
        "os.system('x')",
        "../os",
        "os; import sys",
        "os.",
        "",
        "x" * 100,
        "no_such_package",
        "torch._inductor.async_compile",
    ],
)
def test_only_installed_modules_are_imported_before_a_fork(name: str) -> None:
    assert preloading.importable([name, "colorsys", "msgspec.json"]) == ("colorsys", "msgspec.json")


def test_modules_of_the_callers_folder_do_not_count_as_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_course.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert preloading.importable(["beside_the_course"]) == ()
