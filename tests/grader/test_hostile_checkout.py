"""Modules in a student's checkout never run, even if named like imports of our scripts.

These scripts run with a student's files as current folder: those of the action, the example workflows, a
release and the Gradescope package, and `grade` itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from grader.authoring.scaffold import fill

from .test_ci_workflows import (
    ACTION,
    PLAIN,
    ROOT,
    WORKFLOWS,
    Runner,
    action,
    put_environment,
    repository,
    steps_of,
)

pytestmark = [
    pytest.mark.skipif(not shutil.which("bash"), reason="needs bash"),
    pytest.mark.thorough,
]

# Modules of the standard library and of the grader's packages, and modules imported at Python's start.
NAMES = ["secrets", "json", "venv", "subprocess", "pathlib", "tempfile", "pip", "ensurepip"]
NAMES += ["torch", "grader", "click", "msgspec", "pytest", "sitecustomize", "usercustomize"]
TEMPLATES = ROOT / "grader" / "authoring"
STEPS = TEMPLATES / "templates" / "workflow_commands.yml.txt"
SCRIPTS = [*(TEMPLATES / "gradescope").iterdir(), STEPS, ACTION, *WORKFLOWS]


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def checkout(tmp_path: Path, canary: Path) -> Path:
    folder = repository(tmp_path / "work")
    shutil.copy(PLAIN / "solutions" / "text" / "greeting.py", folder / "exercises" / "text")
    code = f"open({str(canary)!r}, 'a').write(__name__ + '\\n')\n"
    for name in NAMES:
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return folder


def runs(command: list[Any], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_these_modules_would_run_if_python_looked_there(checkout: Path, canary: Path) -> None:
    assert runs([sys.executable, "-c", "import secrets, venv"], checkout).returncode == 0
    assert canary.read_text(encoding="utf-8").split() == ["secrets", "venv"]


def test_the_action_runs_none_of_them(checkout: Path, canary: Path, tmp_path: Path) -> None:
    runner = action(checkout, tmp_path, {"fail-under": "0"}, reporter=True)
    assert runner.code == 0, runner.log
    assert runner.contexts["steps.judge.outputs.score"] == "2.5"
    assert not canary.exists()


def test_installing_for_the_action_runs_none_of_them(
    checkout: Path, canary: Path, tmp_path: Path
) -> None:
    """The step gets as far as pip, which finds no build backend without an index."""
    (step,) = [step for step in steps_of(ACTION) if step.get("name") == "Install the grader"]
    venv = tmp_path / "venv"
    contexts = {"github.action_path": str(ROOT), "steps.environment.outputs.venv": str(venv)}
    contexts["inputs.pip-options"] = "--no-index"
    runner = Runner(checkout, tmp_path / "temp", **contexts)
    assert runner.run(step) != 0
    assert "No matching distribution found for setuptools" in runner.log
    assert (venv / "bin" / "pip").exists()
    assert not canary.exists()


def test_the_workflow_of_a_release_runs_none_of_them(
    checkout: Path, canary: Path, tmp_path: Path
) -> None:
    steps = fill(STEPS.stem, grader="no-such-grader", suite="public", fail_under="100")
    install, grade = [step for step in yaml.safe_load(steps) if "run" in step]
    runner = Runner(checkout, tmp_path / "temp")
    put_environment(tmp_path / "temp")  # its bin folder is on the path
    install["run"] = install["run"] + "--no-index"
    (checkout / "constraints.txt").touch()
    assert runner.run(install) != 0
    assert "No matching distribution found for no-such-grader" in runner.log
    assert runner.run(grade) == 1, runner.log
    assert "::stop-commands::" in runner.log and (tmp_path / "temp" / "result.json").is_file()
    assert not canary.exists()


@pytest.mark.parametrize("beside", [False, True], ids=["fetched", "in the checkout"])
def test_the_script_for_classroom_50_runs_none_of_them(
    checkout: Path, canary: Path, tmp_path: Path, beside: bool
) -> None:
    bundle = checkout if beside else tmp_path / "bundle"
    repository(bundle / "course")
    script = bundle / "autograder.py"
    shutil.copy(ROOT / "examples" / "workflows" / "classroom50_autograder.py", script)
    put_environment(tmp_path / "lab-bench")
    names = {"CLASSROOM": "c", "ASSIGNMENT": "a", "SUBMISSION_TAG": "submit/1", "USERNAME": "ada"}
    names |= {"COMMIT_URL": "c", "RELEASE_URL": "r", "RUNNER_TEMP": str(tmp_path)}
    done = runs([sys.executable, script], checkout, **names)
    assert done.returncode == 0, done.stderr
    assert (checkout / "result.json").is_file()
    # Installing is isolated in the same way as judging.
    shutil.rmtree(tmp_path / "lab-bench")
    options = {"LAB_BENCH": "no-such-grader", "LAB_BENCH_PIP_OPTIONS": "--no-index"}
    done = runs([sys.executable, script], checkout, **names, **options)
    assert "No matching distribution found for no-such-grader" in done.stderr
    assert not canary.exists()


def test_the_scripts_of_gradescope_run_none_of_them(
    checkout: Path, canary: Path, tmp_path: Path
) -> None:
    root = tmp_path / "autograder"
    (root / "source").mkdir(parents=True)
    for name in ("setup.sh", "run_autograder"):
        text = (TEMPLATES / "gradescope" / f"{name}.txt").read_text(encoding="utf-8")
        for hole, value in {"PIP_OPTIONS": "", "REQUIRE_ISOLATION": "none", "SEED": "0"}.items():
            text = text.replace(f"@{hole}@", value)
        (root / "source" / name).write_text(text, encoding="utf-8")
    (root / "source" / "constraints.txt").touch()
    setup = ["bash", root / "source" / "setup.sh"]
    done = runs(setup, checkout, AUTOGRADER_ROOT=str(root), PIP_NO_INDEX="1")
    assert "lab_bench-*.whl" in done.stderr, done.stderr
    shutil.rmtree(root / "venv")

    put_environment(root / "venv")
    packed = runs(
        [root / "venv" / "bin" / "grade", "pack", "-o", root / "source/course.pack"], PLAIN
    )
    assert packed.returncode == 0, packed.stderr
    (checkout / "essay").mkdir()
    (root / "submission").symlink_to(checkout / "essay")
    judge = ["bash", root / "source" / "run_autograder"]
    done = runs(judge, checkout, AUTOGRADER_ROOT=str(root))
    assert done.returncode == 0, done.stderr
    assert "is missing: hand it in" in (root / "results" / "results.json").read_text(
        encoding="utf-8"
    )
    assert not canary.exists()


def test_grade_itself_runs_none_of_them(checkout: Path, canary: Path) -> None:
    grade = Path(sys.executable).with_name("grade")
    assert runs([grade, "run", "--all", "--json", "result.json"], checkout).returncode == 1
    assert runs([grade, "export", "result.json", "--format", "markdown"], checkout).returncode == 0
    assert runs([grade, "doctor"], checkout).returncode == 0
    assert not canary.exists()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_python_that_a_script_starts_is_isolated(path: Path) -> None:
    starts = re.findall(
        r"""(?<![\w-])("?(?:[\w$"/]*/)?\$?python3?"?) +(-\S*|"\$)""", path.read_text("utf-8")
    )
    assert starts or path.name in {"run_autograder", "classroom50.yml", "server.yml", "student.yml"}
    assert {option for _, option in starts} <= {"-I"}, starts
