"""A stub is what the markers of its solution make of it, and drifting apart is noticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.authoring.stub import drift, has_markers, make_stub, write_stub
from grader.course.manifest import Course, load_course
from grader.errors import CourseError

ROOT = Path(__file__).resolve().parents[3]
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


def test_every_kind_of_block() -> None:
    assert make_stub(SOLUTION, "counter.py") == STUB


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
        ("x = 1\n# end solution\n", "x.py, line 2: a solution ends that has not begun"),
        ("# begin solution\n# begin solution\n", "line 2: a solution begins inside another"),
        ("# stub: pass\n", "line 1: `# stub:` stands outside"),
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
def test_markers_out_of_order(source: str, told: str) -> None:
    with pytest.raises(CourseError) as raised:
        make_stub(source, "x.py")
    assert told in str(raised.value)


def test_markers_are_comments_of_their_own() -> None:
    assert has_markers("    # begin solution: do it\n".lstrip())
    assert not has_markers('"""\n# begin solution\n"""\nx = 1  # begin solution\n')
    assert not has_markers("def f(:\n    '''")


@pytest.mark.parametrize("folder", [ROOT, PLAIN], ids=["shipped", "plain"])
def test_no_shipped_stub_has_drifted(folder: Path) -> None:
    course = load_course(folder)
    assert {each.id: drift(course, each) for each in course.exercises} == {
        each.id: [] for each in course.exercises
    }


@pytest.fixture
def course(tmp_path: Path) -> Course:
    shutil.copytree(PLAIN, tmp_path / "course")
    return load_course(tmp_path / "course")


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_drift_without_markers(course: Course) -> None:
    stub, solution = (
        course.folder / "text/word_count.py",
        course.root / "solutions/text/word_count.py",
    )
    given = "\n\nLIMIT = {}\n\n\ndef lower(text: str) -> str:\n    return text.{}()\n"
    for path, values in ((stub, ("3", "lower")), (solution, ("4", "casefold"))):
        path.write_text(path.read_text("utf-8") + given.format(*values), encoding="utf-8")
    change(solution, "text: str, n: int)", "text: str, count: int = 1)")
    change(stub, "def word_count", "@staticmethod\ndef words")
    name = "exercises/text/word_count.py"
    assert drift(course, course.exercise("word_count")) == [
        f"{name}: words is not in the solution.",
        (
            f"{name}: most_common is `def most_common(text: str, n: int) -> list[str]`, but "
            "`def most_common(text: str, count: int=1) -> list[str]` in the solution."
        ),
        f"{name}: lower is given, but its code is not that of the solution.",
        f"{name}: LIMIT is 3, but 4 in the solution.",
    ]


def test_drift_with_markers(course: Course) -> None:
    exercise = course.exercise("greeting")
    solution = course.solution(exercise)
    change(solution, "    return", "    # begin solution: say hello\n    return")
    solution.write_text(solution.read_text("utf-8") + "    # end solution\n", encoding="utf-8")
    (told,) = drift(course, exercise)
    assert told.splitlines() == [
        (
            "exercises/text/greeting.py: it is not what the markers of solutions/text/greeting.py make of "
            "it; `grade stub greeting` writes it anew."
        ),
        "@@ -5,3 +5,3 @@",
        '     """`Hello, NAME!` with the name in it."""',
        "-    # TODO: greet.",
        "+    # TODO: say hello.",
        '     raise NotImplementedError("greeting: say hello")',
    ]
    written = write_stub(course, exercise, force=True)
    assert written.parts == 1
    assert [path.relative_to(course.root).as_posix() for path in written.changed] == [
        "exercises/text/greeting.py",
        "tests/stubs/text/greeting.py",
    ]
    assert drift(course, exercise) == []
    assert write_stub(course, exercise).changed == ()


def test_markers_that_make_no_stub_are_a_complaint(course: Course) -> None:
    exercise = course.exercise("greeting")
    change(course.solution(exercise), "    return", "    # begin solution\n    return")
    (told,) = drift(course, exercise)
    assert told.startswith("solutions/text/greeting.py, line 6: this solution has no `# end")


def test_work_in_exercises_is_not_overwritten(course: Course) -> None:
    exercise = course.exercise("greeting")
    solution, mine = course.solution(exercise), course.folder / exercise.file
    change(solution, "    return", "    # begin solution: say hello\n    return")
    solution.write_text(solution.read_text("utf-8") + "    # end solution\n", encoding="utf-8")
    write_stub(course, exercise, force=True)
    work = mine.read_text("utf-8") + "# my own words\n"
    mine.write_text(work, encoding="utf-8")
    with pytest.raises(CourseError, match="a student has written in it"):
        write_stub(course, exercise)
    assert mine.read_text("utf-8") == work
