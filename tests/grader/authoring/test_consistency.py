"""The stub in exercises/ is made from its solution, and drift between them is reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.authoring.consistency import drift, write_stub
from grader.course.manifest import Course, Exercise, load_course
from grader.errors import CourseError

ROOT = Path(__file__).resolve().parents[3]
PLAIN = Path(__file__).parents[1] / "courses" / "plain"


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


def test_drift_without_markers_is_reported(course: Course) -> None:
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


def test_drift_from_markers_is_reported_and_repaired(course: Course) -> None:
    exercise = course.exercise("greeting")
    solution = course.solution(exercise)
    change(solution, "    return", "    # begin solution: say hello\n    return")
    solution.write_text(solution.read_text("utf-8") + "    # end solution\n", encoding="utf-8")
    (complaint,) = drift(course, exercise)
    assert complaint.splitlines() == [
        (
            "exercises/text/greeting.py: it differs from the stub that the markers of "
            "solutions/text/greeting.py make; `grade stub greeting` writes it anew."
        ),
        "@@ -5,3 +5,3 @@",
        '     """`Hello, NAME!` with the name in it."""',
        "-    # TODO: greet.",
        "+    # TODO: say hello.",
        '     raise NotImplementedError("greeting: say hello")',
    ]
    written = write_stub(course, exercise)
    assert written.parts == 1
    assert [path.relative_to(course.root).as_posix() for path in written.changed] == [
        "exercises/text/greeting.py"
    ]
    assert drift(course, exercise) == []
    assert write_stub(course, exercise).changed == ()


def test_markers_that_make_no_stub_are_reported(course: Course) -> None:
    exercise = course.exercise("greeting")
    change(course.solution(exercise), "    return", "    # begin solution\n    return")
    (complaint,) = drift(course, exercise)
    assert complaint.startswith("solutions/text/greeting.py, line 6: this solution has no `# end")


def marked(course: Course) -> Exercise:
    """Return the exercise `greeting` after adding markers to its solution."""
    exercise = course.exercise("greeting")
    solution = course.solution(exercise)
    change(solution, "    return", "    # begin solution: say hello\n    return")
    solution.write_text(solution.read_text("utf-8") + "    # end solution\n", encoding="utf-8")
    return exercise


@pytest.mark.parametrize(
    "work",
    [
        "def greeting(name: str) -> str:\n    return name\n",
        "def greeting(name: str) -> str:\n    return\n\n\ndef later() -> str:\n    raise NotImplementedError\n",
        "mine = 1\n",
        "def greeting(:\n",
    ],
    ids=["written", "written beside an open part", "something else", "no Python"],
)
def test_work_in_exercises_is_not_overwritten(course: Course, work: str) -> None:
    exercise = marked(course)
    mine = course.folder / exercise.file
    mine.write_text(work, encoding="utf-8")
    with pytest.raises(CourseError, match="a student has written in it"):
        write_stub(course, exercise)
    assert mine.read_text("utf-8") == work
    write_stub(course, exercise, force=True)
    assert drift(course, exercise) == []


def test_the_kept_copy_of_a_stub_is_written_too(course: Course) -> None:
    exercise = marked(course)
    kept = course.kept_stub(exercise)
    kept.parent.mkdir(parents=True)
    kept.write_text("old = 1\n", encoding="utf-8")
    assert len(drift(course, exercise)) == 2
    assert write_stub(course, exercise).changed == (course.folder / exercise.file, kept)
    assert drift(course, exercise) == []
