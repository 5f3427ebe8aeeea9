"""A stub comes from the markers in its solution or from a kept copy, never from a student's work."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.authoring.release import release
from grader.course.digest import exercise_digest
from grader.course.manifest import Course, load_course
from grader.course.stub import Stub, has_markers, make_stub, without_markers
from grader.errors import CourseError
from grader.student.workspace import reset_exercise
from grader.submissions import State, read_submission

PLAIN = Path(__file__).parents[1] / "courses" / "plain"

SOLUTION = '''\
"""Count; `# begin solution` in a docstring is no marker:

    # begin solution
"""

import torch

# begin solution
import math

HALF = math.tau / 4
# end solution


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        """Begin at `start`."""
        self.at = start
        # begin solution: remember the start.
        self.first = start

        self.half = HALF
        # end solution

    def step(self) -> int:
        """One more."""
        # Begin Solution:  say "one" more
        self.at += 1
        return self.at
        # END SOLUTION


def twice(x: int) -> int:
    """Two of it."""
    # begin solution
      # stub: # TODO: double it.
    # stub:
    # stub: if x is None:
    # stub:     return 0
    # stub: raise NotImplementedError("twice")
    return _helper(x)
    # end solution


# begin solution
def _helper(x):
    return x + x


# end solution
def given(x: int) -> int:
    """Given, complete."""
    return x  # begin solution
'''

STUB = '''\
"""Count; `# begin solution` in a docstring is no marker:

    # begin solution
"""

import torch


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        """Begin at `start`."""
        self.at = start
        # TODO: remember the start.
        raise NotImplementedError("Counter.__init__: remember the start")

    def step(self) -> int:
        """One more."""
        # TODO: say "one" more.
        raise NotImplementedError("Counter.step: say \\"one\\" more")


def twice(x: int) -> int:
    """Two of it."""
    # TODO: double it.

    if x is None:
        return 0
    raise NotImplementedError("twice")


def given(x: int) -> int:
    """Given, complete."""
    return x  # begin solution
'''


def test_every_kind_of_block_becomes_a_stub() -> None:
    assert make_stub(SOLUTION, "counter.py") == STUB


def test_a_solution_is_read_without_markers() -> None:
    shown = without_markers(SOLUTION)
    assert shown.count("begin solution") == 3, "in the docstring, and at the end of a line"
    for mark in ("Begin Solution", "# end solution", "END SOLUTION", "# stub:"):
        assert mark in SOLUTION
        assert mark not in shown
    assert "self.first = start\n\n        self.half = HALF\n\n    def step" in shown
    assert not has_markers(shown)
    compile(shown, "solution.py", "exec")
    assert without_markers("x = 1\n\n\n\ny = 2\n") == "x = 1\n\n\n\ny = 2\n"


def test_windows_line_ends_make_the_same_stub(tmp_path: Path) -> None:
    file = tmp_path / "counter.py"
    file.write_bytes(SOLUTION.replace("\n", "\r\n").encode())
    assert make_stub(file.read_text(encoding="utf-8"), "counter.py") == STUB


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n", "x.py marks nothing for the student to write"),
        ('"""\n# begin solution\n# end solution\n"""\n', "marks nothing"),
        ("# begin solution\nx = 1\n", "x.py, line 1: this solution has no `# end solution`"),
        ("x = 1\n# end solution\n", "x.py, line 2: a solution ends without a beginning"),
        ("# begin solution\n# begin solution\n", "line 2: a solution begins inside another"),
        ("# stub: pass\n", "line 1: `# stub:` is outside"),
        (
            (
                "def f():\n    if True:\n        # begin solution\n        return 1\n"
                "    return 0\n    # end solution\nf(\n"
            ),
            "x.py, line 7: ",
        ),
        (
            (
                "def f(x):\n    # begin solution\n    if x:\n        # stub: pass (\n"
                "        return 1\n    # end solution\n"
            ),
            "The stub that the markers of x.py make, line 2: ",
        ),
    ],
)
def test_misplaced_markers_are_errors(source: str, told: str) -> None:
    with pytest.raises(CourseError) as raised:
        make_stub(source, "x.py")
    assert told in str(raised.value)


def test_markers_are_comments_on_lines_of_their_own() -> None:
    assert has_markers("    # begin solution: do it\n".lstrip())
    assert not has_markers('"""\n# begin solution\n"""\nx = 1  # begin solution\n')
    assert not has_markers("def f(:\n    '''")


# --- the release, where a student works in exercises/ -----------------------------------------------


WORK = "def greeting(name: str) -> str:\n    return name\n"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A copy of the whole course, with markers in the solution of each exercise."""
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    course = load_course(tmp_path / "course")
    for exercise in course.exercises:
        # The solution is the stub and one more function.
        stub = (course.folder / exercise.file).read_text("utf-8")
        block = "# begin solution\ndef helper() -> None:\n    pass\n\n\n# end solution\n"
        course.solution(exercise).write_text(f"{stub}\n\n{block}", encoding="utf-8")
    return course


def test_a_student_s_work_is_never_the_stub_of_a_marked_solution(course: Course) -> None:
    exercise = course.exercise("greeting")
    mine = course.folder / exercise.file
    handed_out, info, digest = mine.read_bytes(), course.info(), exercise_digest(course, exercise)
    read = read_submission(course.folder, course)
    assert read.files["greeting"].state(course.stub(exercise)) is State.UNTOUCHED
    mine.write_text(WORK, encoding="utf-8")
    assert course.stub(exercise) == Stub(handed_out)
    assert (course.info(), exercise_digest(course, exercise)) == (info, digest)
    read = read_submission(course.folder, course)
    assert read.files["greeting"].state(course.stub(exercise)) is State.EDITED
    assert course.files()["exercises/text/greeting.py"] == handed_out
    reset_exercise(course, exercise)
    assert mine.read_bytes() == handed_out
    mine.unlink()
    assert load_course(course.root).stub(exercise) == Stub(handed_out)


def test_a_release_contains_stubs_made_from_markers(course: Course, tmp_path: Path) -> None:
    exercise = course.exercise("greeting")
    mine = course.folder / exercise.file
    handed_out = mine.read_bytes()
    mine.write_text(WORK, encoding="utf-8")
    release(course, tmp_path / "students", requirement="lab-bench")
    released = load_course(tmp_path / "students")
    assert (released.folder / exercise.file).read_bytes() == handed_out
    # Nothing that a student writes there changes the stub, not even a solution of their own.
    (released.folder / exercise.file).write_text(WORK, encoding="utf-8")
    own = released.solution(exercise)
    own.parent.mkdir(parents=True)
    own.write_text(f"# begin solution\n# end solution\n{WORK}", encoding="utf-8")
    assert released.stub(exercise) == Stub(handed_out)
    assert exercise_digest(released, exercise) == exercise_digest(course, exercise)


def test_without_markers_or_a_kept_stub_a_file_is_not_its_own_stub(tmp_path: Path) -> None:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    course = load_course(tmp_path / "course")
    exercise = course.exercise("greeting")
    mine = course.folder / exercise.file
    assert course.stub(exercise) == Stub(mine.read_bytes(), mine)
    mine.write_text(WORK, encoding="utf-8")
    read = read_submission(course.folder, course)
    assert read.files["greeting"].state(course.stub(exercise)) is State.EDITED


def test_an_error_about_markers_names_the_file(course: Course) -> None:
    exercise = course.exercise("greeting")
    course.solution(exercise).write_text("# begin solution\nx = 1\n", encoding="utf-8")
    with pytest.raises(
        CourseError, match=r"solutions/text/greeting.py, line 1: this solution has no"
    ):
        course.stub(exercise)
