"""The workflow of a release, run with bash: green if everything was judged, with points in the summary."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.release import Tier, release
from grader.course.manifest import Course, load_course

from ..test_ci_workflows import PLAIN, Runner, break_suite, load, put_environment

pytestmark = [
    pytest.mark.skipif(not shutil.which("bash"), reason="needs bash"),
    pytest.mark.thorough,
]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(PLAIN / "exercises", tmp_path / "course/tests/stubs", ignore=ignored)
    return load_course(tmp_path / "course")


def solve(out: Path, *names: str) -> None:
    for name in names:
        shutil.copy(PLAIN / "solutions" / name, out / "exercises" / name)


def steps(out: Path) -> list[dict[str, Any]]:
    (job,) = load(out / ".github" / "workflows" / "grade.yml")["jobs"].values()
    return list(job["steps"])


def pushed(out: Path, temp: Path) -> Runner:
    """Run the grading step like GitHub's runner after a push."""
    runner = Runner(out, temp)
    put_environment(temp)  # its bin folder is on the path
    (grade,) = [step for step in steps(out) if step.get("name") == "Grade"]
    runner.run(grade)
    return runner


def test_the_workflow_is_valid_for_githubs_schema(course: Course, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    for number, action in enumerate(("", "somebody/lab-bench@v1")):
        out = tmp_path / str(number)
        release(course, out, action=action)
        workflow = out / ".github" / "workflows" / "grade.yml"
        for schema in ("vendor.github-workflows", "custom.github-workflows-require-timeout"):
            command = [str(program), "--builtin-schema", schema, str(workflow)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        assert not any("${{" in step.get("run", "") for step in steps(out))


def test_a_judged_submission_is_green_with_its_points_in_the_summary(
    course: Course, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    release(course, out)
    solve(out, "text/greeting.py")
    wrong = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"
    shutil.copy(wrong, out / "exercises" / "text" / "word_count.py")
    runner = pushed(out, tmp_path / "temp")
    assert runner.code == 0, runner.log
    assert re.search(
        r"^## \S+: [\d.]+ of 20 points by the public tests alone$", runner.summary, re.MULTILINE
    )
    assert runner.summary.endswith("\n\nJudged by the public tests alone.\n")
    assert runner.commands()
    files = {re.search(r"file=([^,]+),", each) for each in runner.commands()}
    assert {found and found[1] for found in files} == {"exercises/text/word_count.py"}
    # The next step uploads the output of this one.
    (kept,) = [step for step in steps(out) if "upload-artifact" in step.get("uses", "")]
    result = Path(kept["with"]["path"].replace("${{ runner.temp }}", str(tmp_path / "temp")))
    assert json.loads(result.read_text(encoding="utf-8"))["max_score"] == 20


def test_an_instructor_can_require_points_for_green(course: Course, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release(course, out, suites=Tier.ALL, fail_under=99.5)
    solve(out, "text/greeting.py", "text/word_count.py")
    below = pushed(out, tmp_path / "below")
    assert below.code == 1, below.log
    assert "points" in below.summary and "public tests alone" not in below.summary
    solve(out, "arrays/running_mean.py")
    assert pushed(out, tmp_path / "full").code == 0


def test_the_action_gets_the_same_settings(course: Course, tmp_path: Path) -> None:
    release(course, tmp_path / "out", action="somebody/lab-bench@v1", fail_under=50)
    (uses,) = [step for step in steps(tmp_path / "out") if "lab-bench" in step["uses"]]
    assert uses["with"] == {"suite": "public", "fail-under": 50}


def test_a_fault_of_the_course_is_red_and_shown(course: Course, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release(course, out)
    solve(out, "text/greeting.py", "text/word_count.py")
    break_suite(out)
    runner = pushed(out, tmp_path / "temp")
    assert runner.code == 3
    assert "not judged as a whole" in runner.summary


def test_nothing_judged_is_red(course: Course, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release(course, out)
    (out / "exercises" / "course.toml").write_text("title = 1\n", encoding="utf-8")
    runner = pushed(out, tmp_path / "temp")
    assert runner.code == 3
    (command,) = runner.commands()
    assert command.startswith("::error title=No result::Nothing was judged")


def test_the_grader_is_released_and_installed_from_there(course: Course, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release(course, out)
    (wheel,) = out.glob("*.whl")
    (install,) = [step for step in steps(out) if step.get("name") == "Install the grader"]
    for text in (install["run"], (out / "README.md").read_text(encoding="utf-8")):
        assert f'pip install -c constraints.txt "./{wheel.name}"' in text
    # pip accepts it, and the program in it runs.
    target = tmp_path / "site"
    pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", target, f"./{wheel.name}"], cwd=out, check=True)
    code = "from grader.cli import main; main(['--version'])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert zipfile.ZipFile(wheel).testzip() is None
    assert wheel.name.split("-")[1] in done.stdout
