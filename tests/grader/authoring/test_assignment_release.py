"""Releases and packs of an assignment: they have nothing of others, and extend a student's folder."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from grader.authoring.part import extracted
from grader.authoring.release import release
from grader.authoring.scaffold import new_assignment
from grader.course.manifest import Course, load_course
from grader.errors import CourseError, GraderError
from grader.student.workspace import Workspace

pytestmark = pytest.mark.usefixtures("kept_judges")
PLAIN = Path(__file__).parents[1] / "courses" / "plain"
TEXT = ("word_count", "greeting")


@pytest.fixture
def course(tmp_path: Path) -> Course:
    folder = tmp_path / "course"
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        PLAIN / "exercises", folder / "tests/stubs", ignore=shutil.ignore_patterns("*.toml")
    )
    home = load_course(folder)
    new_assignment(home, "week1", {"chapters": ["text"]})
    new_assignment(home, "week2", {"exercises": ["running_mean"], "weight": 2.0})
    file = folder / "exercises/assignments.toml"
    secret = 'graders = ["Professor Snape"]\n\n[assignment.policy]\nattempts = "best"\n'
    file.write_text(file.read_text("utf-8") + secret, encoding="utf-8")
    return load_course(folder)


def everything(folder: Path) -> dict[str, bytes]:
    """Read the files of a folder without the grader's wheel, which is not part of the course."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".whl"
    }


def test_a_new_assignment_is_read_back_and_has_its_own_seed(course: Course) -> None:
    week1, week2 = course.assignments
    assert (week1.title, week1.exercises) == ("Week 1", TEXT)
    assert week1.seed != week2.seed and week2.weight == 2
    before = (course.folder / "assignments.toml").read_bytes()
    with pytest.raises(
        CourseError, match=r"assignments.toml: assignment 'week3', line \d+: the exer"
    ):
        new_assignment(course, "week3", {"exercises": ["greeting"]})
    with pytest.raises(CourseError, match=r"assignments.toml has an assignment 'week2' already: "):
        new_assignment(course, "week2", {"exercises": ["greeting"]})
    assert (course.folder / "assignments.toml").read_bytes() == before
    assert not (course.folder / ".assignments.toml.new").exists()


def test_a_release_of_an_assignment_has_nothing_of_others(course: Course, tmp_path: Path) -> None:
    release(course.assigned("week2"), tmp_path / "week2")
    files = everything(tmp_path / "week2")
    text = "\n".join(files) + b"\n".join(files.values()).decode()
    assert "running_mean" in text
    for other in ("word_count", "greeting", "week1", "Week 1"):
        assert other not in text
    for secret in ("Snape", "best", str(course.assignments[1].seed)):
        assert secret not in text


def test_a_whole_release_has_the_assignments_and_no_secret(course: Course, tmp_path: Path) -> None:
    release(course, tmp_path / "out")
    text = (tmp_path / "out/exercises/assignments.toml").read_text(encoding="utf-8")
    assert "Snape" not in text and "seed" not in text and "policy" not in text
    released = load_course(tmp_path / "out")
    assert [each.exercises for each in released.assignments] == [TEXT, ("running_mean",)]


@pytest.mark.parametrize("how", ["unpacked", "written beside it"])
def test_a_second_release_extends_a_folder_and_keeps_work(
    course: Course, tmp_path: Path, how: str
) -> None:
    mine = tmp_path / "mine"
    release(course.assigned("week1"), mine)
    work = mine / "exercises/text/greeting.py"
    work.write_text("def greeting(name):\n    return 'mine'\n", encoding="utf-8")
    (mine / "notes.md").write_text("notes", encoding="utf-8")
    before = everything(mine)
    if how == "unpacked":
        release(course.assigned("week2"), tmp_path / "week2")
        shutil.copytree(tmp_path / "week2", mine, dirs_exist_ok=True)
    else:
        release(course.assigned("week2"), mine, force=True)
    after = everything(mine)
    changed = {name for name, content in before.items() if after.get(name) != content}
    assert changed == {"README.md"}
    grown = load_course(mine)
    assert [each.id for each in grown.exercises] == [*TEXT, "running_mean"]
    assert [each.id for each in grown.assignments] == ["week1", "week2"]
    assert Workspace(grown).first_open() == grown.exercise("greeting"), "it was begun"
    # Another release over the folder removes nothing and keeps the exercises of both weeks.
    assert release(course.assigned("week2"), mine, force=True).removed == 0
    assert load_course(mine).exercises == grown.exercises


@pytest.mark.thorough
def test_a_whole_release_and_one_of_an_assignment_cannot_share_a_folder(
    course: Course, tmp_path: Path
) -> None:
    release(course, tmp_path / "whole")
    with pytest.raises(GraderError, match="holds a release of the whole course"):
        release(course.assigned("week1"), tmp_path / "whole", force=True)
    release(course.assigned("week1"), tmp_path / "week1")
    with pytest.raises(GraderError, match="has no earlier release"):
        release(course, tmp_path / "week1", force=True)


def test_a_part_for_graders_has_the_seed_and_no_names(course: Course) -> None:
    week2 = course.assigned("week2")
    with extracted(week2, week2.files()) as part:
        assert [each.id for each in part.exercises] == ["running_mean"]
        (assignment,) = part.assignments
        assert assignment.seed == course.assignments[1].seed
        manifest = (part.folder / "assignments.toml").read_text(encoding="utf-8")
        assert "best" not in manifest and "week1" not in manifest
        exercise = tomllib.loads((part.folder / "course.toml").read_text("utf-8"))["exercise"][0]
        assert exercise["prerequisites"] == []
        assert part.solution(part.exercises[0]).is_file()
        assert json.dumps(sorted(part.files())).count("word_count") == 0
