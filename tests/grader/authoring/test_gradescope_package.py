"""The Gradescope package, set up and run like on Gradescope, in a temporary folder instead of /autograder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from grader import __version__
from grader.authoring.gradescope_package import (
    GradescopeOptions,
    installed_versions,
    write_gradescope,
)
from grader.authoring.part import extra_credit_file
from grader.course.manifest import load_course
from grader.errors import CourseError
from grader.sandbox.walls.survey import reached, survey

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
SETUP_OPTIONS = ("--no-deps", "--no-index")

linux = pytest.mark.skipif(sys.platform != "linux", reason="Gradescope runs Linux")


def grade(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=PLAIN, capture_output=True, encoding="utf-8", check=False)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package made by the command, which needs no walls on this machine."""
    path = tmp_path_factory.mktemp("package") / "autograder.zip"
    options = [f"--pip-option={each}" for each in SETUP_OPTIONS]
    done = grade("package", "gradescope", "-o", path, "--require-isolation", "none", *options)
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout
    return path


@pytest.fixture
def root(package: Path, tmp_path: Path) -> Path:
    """Return /autograder as it is when a submission arrives, with the Python that runs the tests."""
    root = tmp_path / "autograder"
    _unzip(package, root / "source")
    (root / "submission").mkdir()
    (root / "results").mkdir()
    binaries = root / "venv" / "bin"
    binaries.mkdir(parents=True)
    for name, command in (("grade", "-m grader.cli"), ("python", "")):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return root


def _unzip(package: Path, folder: Path) -> None:
    """Unpack a package with its permissions, like system tools."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
        for member in archive.infolist():
            (folder / member.filename).chmod(stat.S_IMODE(member.external_attr >> 16))


def run(program: str, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(root / "source" / program)],
        cwd=root,
        env={**os.environ, "AUTOGRADER_ROOT": str(root)},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


@linux
def test_a_right_submission_earns_everything(root: Path) -> None:
    shutil.copytree(PLAIN / "solutions", root / "submission", dirs_exist_ok=True)
    done = run("run_autograder", root)
    assert done.returncode == 0, done.stderr
    read = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
    assert read["score"] == 20
    assert all(test["status"] == "passed" for test in read["tests"])
    assert {test["visibility"] for test in read["tests"]} == {"visible", "after_published"}


@linux
def test_a_wrong_answer_earns_a_part_and_the_student_reads_why(root: Path) -> None:
    wrong = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"
    shutil.copy(wrong, root / "submission" / "word_count.py")
    assert run("run_autograder", root).returncode == 0
    read = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
    assert 0 < read["score"] < 10
    assert "greeting.py is missing" in read["output"]
    assert any(test["output"] for test in read["tests"] if test["status"] == "failed")


@pytest.mark.thorough
@linux
def test_an_unrelated_submission_gets_a_message_about_the_missing_file(root: Path) -> None:
    (root / "submission" / "essay.txt").write_text("=1+1", encoding="utf-8")
    assert run("run_autograder", root).returncode == 0
    read = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
    assert read["score"] == 0
    message = (
        "text/word_count.py is missing: hand it in under this name. Handed in instead: essay.txt."
    )
    assert message in read["output"]
    # Students see no paths of the container and no advice for instructors.
    assert str(root) not in read["output"] and "grade batch" not in read["output"]


@linux
@pytest.mark.parametrize("damage", ["pack", pytest.param("setup", marks=pytest.mark.thorough)])
def test_a_fault_of_the_grader_leaves_no_score(root: Path, damage: str) -> None:
    shutil.copytree(PLAIN / "solutions", root / "submission", dirs_exist_ok=True)
    (root / "results" / "results.json").write_text('{"score": 20}', encoding="utf-8")
    if damage == "pack":
        pack = root / "source" / "course.pack"
        pack.write_bytes(pack.read_bytes()[:-100])
    else:
        (root / "venv" / "bin" / "grade").unlink()
    done = run("run_autograder", root)
    assert done.returncode not in (0, 2)
    assert done.stderr
    assert not (root / "results" / "results.json").exists()


@pytest.mark.thorough
@linux
def test_nothing_is_graded_without_the_required_walls(root: Path) -> None:
    script = root / "source" / "run_autograder"
    text = script.read_text(encoding="utf-8")
    level = str(reached([wall.name for wall in survey() if wall.stands]).value)
    script.write_text(
        text.replace("--require-isolation none", "--require-isolation full"), encoding="utf-8"
    )
    shutil.copytree(PLAIN / "solutions", root / "submission", dirs_exist_ok=True)
    done = run("run_autograder", root)
    assert (done.returncode == 0) == (level == "full")
    assert (root / "results" / "results.json").exists() == (level == "full")


@pytest.mark.thorough
@linux
def test_setup_installs_the_grader_of_the_package(package: Path, tmp_path: Path) -> None:
    root = tmp_path / "autograder"
    _unzip(package, root / "source")
    done = run("setup.sh", root)
    assert done.returncode == 0, done.stderr
    ask = "import importlib.metadata as m; print(m.version('lab-bench'), *m.files('lab-bench'))"
    python = root / "venv" / "bin" / "python"
    asked = subprocess.run(
        [python, "-I", "-c", ask], capture_output=True, encoding="utf-8", check=True
    ).stdout.split()
    assert asked[0] == __version__
    assert "grader/judge/run.py" in asked
    assert "grader/authoring/gradescope/run_autograder.txt" in asked
    assert any(name.endswith("bin/grade") for name in asked)


def test_the_package_has_the_suites_but_no_solutions(package: Path, tmp_path: Path) -> None:
    _unzip(package, tmp_path)
    with zipfile.ZipFile(tmp_path / "course.pack") as pack:
        names = set(pack.namelist())
        text = b"".join(pack.read(name) for name in names)
    assert "tests/hidden/text/test_word_count.py" in names
    assert "tests/hidden/text/probe_word_count.py" in names
    assert not any(
        name.startswith(("solutions/", "tests/wrong/", "tests/right/")) for name in names
    )
    solution = (PLAIN / "solutions" / "text" / "word_count.py").read_bytes()
    assert solution.split(b"return")[-1] not in text
    assert load_course(tmp_path / "course.pack").info() == load_course(PLAIN).info()


def test_the_wheel_lists_its_contents(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".whl")]
        wheel = zipfile.ZipFile(io.BytesIO(archive.read(name)))
    with wheel:
        (record,) = [each for each in wheel.namelist() if each.endswith("RECORD")]
        rows = list(csv.reader(wheel.read(record).decode("utf-8").splitlines()))
        assert [row[0] for row in rows] == wheel.namelist()
        assert not [name for name in wheel.namelist() if "attacks" in name]
        assert all(len(wheel.read(row[0])) == int(row[2]) for row in rows if row[2])


def test_the_scripts_are_executable_and_valid_bash(package: Path, tmp_path: Path) -> None:
    _unzip(package, tmp_path)
    for name in ("setup.sh", "run_autograder"):
        script = tmp_path / name
        assert os.access(script, os.X_OK)
        text = script.read_text(encoding="utf-8")
        assert "@" not in text.replace('"$@"', "")
        assert "\r" not in text
        subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.thorough
@pytest.mark.usefixtures("kept_judges")
def test_options_are_quoted(tmp_path: Path) -> None:
    options = GradescopeOptions(pip_options=("--find-links", "a b; rm -rf /"), seed=8231)
    write_gradescope(tmp_path / "p.zip", load_course(PLAIN), options)
    with zipfile.ZipFile(tmp_path / "p.zip") as archive:
        assert b"--find-links 'a b; rm -rf /' \"$source\"" in archive.read("setup.sh")
        assert b"--seed 8231 --json" in archive.read("run_autograder")
        assert b"--require-isolation kernel" in archive.read("run_autograder")


@pytest.mark.usefixtures("kept_judges")
def test_a_package_of_one_exercise_has_nothing_of_others(tmp_path: Path) -> None:
    course = load_course(PLAIN)
    write_gradescope(
        tmp_path / "p.zip", course.only(course.select(["running_mean"])), GradescopeOptions()
    )
    _unzip(tmp_path / "p.zip", tmp_path)
    with zipfile.ZipFile(tmp_path / "course.pack") as pack:
        texts = {name: pack.read(name).decode() for name in pack.namelist()}
    everything = "".join((*texts, *texts.values()))
    assert "running_mean" in everything
    assert "word_count" not in everything and "greeting" not in everything
    (exercise,) = load_course(tmp_path / "course.pack").exercises
    assert exercise.points == 7.5


ASSIGNMENTS = """
[[assignment]]
id = "week1"
title = "Week 1"
exercises = ["word_count", "greeting"]
extra_credit = ["word_count"]

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["running_mean"]
"""


@pytest.mark.usefixtures("kept_judges")
def test_a_package_of_some_exercises_keeps_their_extra_credit(
    tmp_path: Path,
) -> None:
    shutil.copytree(PLAIN, tmp_path / "course")
    (tmp_path / "course/exercises/assignments.toml").write_text(ASSIGNMENTS, encoding="utf-8")
    course = load_course(tmp_path / "course")
    # The exercise for extra credit is chosen without the other one of its assignment.
    part = course.only(course.select(["word_count", "running_mean"]))
    write_gradescope(tmp_path / "p.zip", part, GradescopeOptions())
    _unzip(tmp_path / "p.zip", tmp_path)
    packed = load_course(tmp_path / "course.pack")
    assert packed.exercises == part.exercises
    assert packed.extra_credit == {"word_count"}
    for chosen in (["greeting"], ["running_mean"], ["greeting", "running_mean"], ["word_count"]):
        # If every exercise is for extra credit, they count as ordinary ones.
        assert extra_credit_file(course.only(course.select(chosen))) == {}


@pytest.mark.thorough
@pytest.mark.usefixtures("kept_judges")
def test_the_same_course_makes_the_same_bytes(tmp_path: Path) -> None:
    course = load_course(PLAIN)
    for name in ("a", "b"):
        write_gradescope(tmp_path / name, course, GradescopeOptions())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_versions_are_those_installed() -> None:
    versions = dict(line.split("==") for line in installed_versions())
    assert {"torch", "pytest", "msgspec", "click", "numpy"} <= set(versions)
    assert "lab-bench" not in versions
    assert not any("+" in version for version in versions.values())
    assert "mypy" not in versions, "packages that only the tests need are left out"


def test_a_release_for_students_cannot_be_packaged(tmp_path: Path) -> None:
    released = tmp_path / "course"
    shutil.copytree(PLAIN, released, ignore=shutil.ignore_patterns("hidden", "__pycache__"))
    with pytest.raises(CourseError, match="no hidden suite"):
        write_gradescope(tmp_path / "p.zip", load_course(released), GradescopeOptions())
    assert not (tmp_path / "p.zip").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        (
            "solutions/text/word_count.py",
            "return",
            "return None and",
            r"the solution of 'word_count' earns \d.* of 10 points, for “.*” does not pass",
        ),
        (
            "tests/hidden/text/test_word_count.py",
            "import",
            "import no_such_module;",
            "no solution can be graded.*no_such_module",
        ),
    ],
    ids=["solution", "suite"],
)
def test_a_package_that_fails_its_trial_is_not_written(
    tmp_path: Path, name: str, before: str, after: str, message: str
) -> None:
    course = tmp_path / "course"
    shutil.copytree(PLAIN, course)
    text = (course / name).read_text(encoding="utf-8")
    changed = re.sub(rf"(?m)^( *){before}\b", rf"\1{after}", text)
    assert changed != text
    (course / name).write_text(changed, encoding="utf-8")
    made = load_course(course)
    with pytest.raises(CourseError, match=f"(?s)Nothing was written.*{message}") as raised:
        write_gradescope(
            tmp_path / "p.zip", made.only([made.exercise("word_count")]), GradescopeOptions()
        )
    # The message names the author's files, not those of the package.
    assert "course-pack-" not in str(raised.value)
    packed = grade("pack", "-o", tmp_path / "course.pack", "--course", course)
    assert packed.returncode == 3
    assert "Nothing was written, because a trial run of it failed" in packed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["course"]


def test_wrong_arguments_are_explained() -> None:
    assert grade("package", "gradescope").returncode == 2
    assert grade("package", "moodle", "-o", "x.zip").returncode == 2
    done = grade("package", "gradescope", "-o", "x.zip", "--exercise", "gretting")
    assert done.returncode == 2
    assert "Did you mean 'greeting'?" in done.stderr
