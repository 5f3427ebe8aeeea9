"""`grade new`, `stub`, `release` and `pack`, as an author types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.course.manifest import load_course
from tests.grader.cli.conftest import copy_course, modules_of

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade


def test_a_new_course_and_an_exercise_in_it(grade: Grade, tmp_path: Path) -> None:
    made = grade("new", "--course", "my lab", cwd=tmp_path)
    lines = made.stdout.splitlines()
    assert lines[0] == "Made basics/scaling, small and complete, in 'my lab':"
    assert lines[-1] == "Next: `grade verify scaling --course 'my lab'` proves it; then edit it."
    assert (made.returncode, made.stderr) == (0, "")
    more = grade("new", "norms", "--title", "Layer norm", cwd=tmp_path / "my lab" / "tests")
    assert more.stdout.endswith("\nNext: `grade verify norms` proves it; then edit it.\n")
    for line in more.stdout.splitlines()[1:-1]:
        assert (tmp_path / "my lab" / line.split()[0]).is_file()
    course = load_course(tmp_path / "my lab")
    assert [each.title for each in course.exercises] == ["Scaling", "Layer norm"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["new", "norms"], "To begin one in a new folder: grade new norms --course FOLDER"),
        (["new"], "Name the new exercise."),
        (["new", "Norms", "--course", "lab"], "'Norms' cannot be the name of an exercise"),
        (["new", "label-Smoothing", "--course", "lab"], "60 in all, as in label_smoothing."),
        (["new", "norms", "--course", "full"], "full is not empty and holds no course"),
        (["pack"], "Missing option '-o'"),
        (["pack", "-o", "course.pack"], "No course found"),
        (["release", "out"], "No course found"),
        (["stub"], "No course found"),
    ],
)
def test_usage(grade: Grade, tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    done = grade(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in " ".join(done.stderr.split())
    assert sorted(tmp_path.rglob("*")) == before


def test_stub(grade: Grade, clone: Path) -> None:
    solution = clone / "solutions/text/greeting.py"
    none = grade("stub", cwd=clone)
    assert (none.returncode, none.stdout) == (2, "")
    assert "No solution of this course has markers" in none.stderr
    text = solution.read_text("utf-8").replace("    return", "    # begin solution: hi\n    return")
    solution.write_text(text + "    # end solution\n", encoding="utf-8")
    drifted = grade("stub", "--check", cwd=clone)
    assert "+    # TODO: hi." in drifted.stdout.splitlines()
    assert drifted.stdout.endswith("running_mean: up to date\n")
    assert drifted.returncode == 1
    lines = ["exercises/text/greeting.py: written", "tests/stubs/text/greeting.py: written"]
    assert grade("stub", cwd=clone).stdout.splitlines() == lines
    checked = grade("stub", "greeting", "--check", cwd=clone)
    assert (checked.returncode, checked.stdout) == (0, "greeting: up to date\n")
    (clone / "exercises/text/greeting.py").write_text("mine = 1\n", encoding="utf-8")
    refused = grade("stub", "greeting", cwd=clone)
    assert "a student has written in it" in refused.stderr
    assert (refused.returncode, refused.stdout) == (3, "")
    assert grade("stub", "greeting", "--force", cwd=clone).returncode == 0


def test_a_release_is_a_course_for_students(grade: Grade, clone: Path, tmp_path: Path) -> None:
    released = grade("release", tmp_path / "students", cwd=clone)
    assert released.stdout.startswith("21 files in ")
    assert (released.returncode, released.stderr) == (0, "")
    students = tmp_path / "students"
    # A student fills in one exercise and hands in the file.
    shutil.copy(clone / "solutions/text/word_count.py", students / "exercises/text/word_count.py")
    done = grade("run", "--json", "result.json", "--fail-under", "50", cwd=students)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((students / "result.json").read_text(encoding="utf-8"))
    tests = {test["visibility"] for each in result["exercises"] for test in each["tests"]}
    scores = {each["name"]: each["score"] for each in result["exercises"]}
    assert tests == {"public"}
    assert scores == {"word_count": 10.0, "greeting": 0.0, "running_mean": 0.0}
    # The points depend on the hidden tests.
    panel = grade("run", "word_count", cwd=students).stdout
    assert "  + word_count  Counting words  2 of 2 tests  passed\n" in panel
    assert (
        "\nExercises that pass all public tests: 1 of 3\nPublic tests passed. Next: open" in panel
    )
    everything = grade("run", "--all", cwd=students).stdout
    assert "\nTotal: 2 of 4 public tests  marks depend on others\n" in everything
    table = grade("list", cwd=students).stdout
    assert "word_count    public tests passed" in table
    for text in (panel, everything, table):
        assert "done" not in text.lower()
        assert "/ 10" not in text
        assert "points" not in text
    packed = grade("pack", "-o", "../students.pack", cwd=students)
    assert (packed.returncode, "keep it from students" in packed.stdout) == (0, False)


@pytest.mark.thorough
def test_a_release_for_self_study(grade: Grade, clone: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    assert grade("release", alone, "--suites", "all", cwd=clone).returncode == 0
    source = (clone / "solutions/text/word_count.py").read_text("utf-8")
    assert grade("solution", "word_count", cwd=alone).returncode == 2
    (alone / "exercises/text/word_count.py").write_text(source, encoding="utf-8")
    done = grade("run", "word_count", cwd=alone).stdout
    assert "10 / 10  passed" in done
    assert "\n1 of 3 done\nDone. Next: open" in done
    assert "hidden test" in grade("explain", "word_count", cwd=alone).stdout
    assert grade("solution", "word_count", cwd=alone).stdout == source


@pytest.mark.thorough
def test_a_pack_is_used_from_the_archive(grade: Grade, clone: Path, tmp_path: Path) -> None:
    pack, elsewhere = tmp_path / "course.pack", tmp_path / "elsewhere"
    elsewhere.mkdir()
    packed = grade("pack", "-o", pack, cwd=clone)
    assert packed.returncode == 0
    digest = load_course(clone).info().digest
    assert f"course {digest}\n" in packed.stdout
    run = ("run", "--course", pack, "--submission", clone / "solutions", "--json", "-")
    done = grade(*run, cwd=elsewhere, TMPDIR=str(elsewhere))
    result = json.loads(done.stdout)
    assert (done.returncode, result["score"], result["course"]["digest"]) == (0, 20.0, digest)
    proved = grade("verify", "greeting", "--course", pack, "--seeds", "1", cwd=elsewhere)
    assert (
        proved.stdout.splitlines()[0]
        == "+ greeting: 1 test, 2 right answers, 1 wrong answer: proved"
    )
    assert list(elsewhere.iterdir()) == [], "the unpacked files are removed after use"
    for command in (["stub"], ["release", "out"], ["pack", "-o", "other.pack"]):
        refused = grade(*command, "--course", pack, cwd=elsewhere)
        assert (refused.returncode, "needs the course's folder" in refused.stderr) == (2, True)
    ways = {"reset": "leave --course out.", "hint": "leave --course out.", "run": "--submission."}
    for name, way in ways.items():
        refused = grade(name, "greeting", "--course", pack, cwd=elsewhere)
        assert refused.returncode == 2
        assert " ".join(refused.stderr.split()).endswith(way)


def test_a_damaged_pack(grade: Grade, clone: Path, tmp_path: Path) -> None:
    pack = tmp_path / "course.pack"
    grade("pack", "-o", pack, cwd=clone)
    content = pack.read_bytes()
    pack.write_bytes(content.replace(b"Hello", b"Jello"))
    done = grade("run", "--course", pack, "--submission", clone / "solutions", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "course.pack is not a usable course pack: its archive is damaged" in done.stderr
    pack.write_bytes(content[:-100])
    done = grade("list", "--course", pack, cwd=tmp_path)
    assert "it is not an archive, or its end is missing" in done.stderr


@pytest.mark.parametrize("arguments", [["new", "norms"], ["stub", "--check"]])
def test_authors_commands_load_nothing_heavy(clone: Path, arguments: list[str]) -> None:
    loaded = modules_of(clone, *arguments)
    assert "grader.course.manifest" in loaded
    assert loaded.isdisjoint({"torch", "numpy", "pytest", "rich.console", "grader.grading"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-10-12", "'2026-10-12' is a date without a time: add the time of day"),
        ("next week", "'next week' cannot be read as a time: write it as"),
    ],
)
def test_a_due_date_needs_a_time_of_day(text: str, told: str, tmp_path: Path) -> None:
    course = copy_course(tmp_path / "course")
    given = ["new-assignment", "week1", "text", "--course", str(course), "--due", text]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert told in done.output
    assert not (course / "exercises" / "assignments.toml").exists()
