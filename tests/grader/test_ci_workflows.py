"""The action and the example workflows: valid under GitHub's schemas, with steps that run in bash.

Only GitHub's own part is reproduced here: expressions, the files behind GITHUB_*, and commands in the log.
There is no network to install the grader, so an environment as from a cache is put in place.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from .exports.test_classroom50 import SCHEMA

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
PLAIN = Path(__file__).parent / "courses" / "plain"
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / "examples" / "workflows").glob("*.yml"))
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")

bash = pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")


def load(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps_of(path: Path) -> list[dict[str, Any]]:
    loaded = load(path)
    if "runs" in loaded:
        return list(loaded["runs"]["steps"])
    return [step for job in loaded["jobs"].values() for step in job["steps"]]


# --- the files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_files_are_valid_for_githubs_schemas(path: Path) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    if not program.exists():
        if "GRADE_CI" in os.environ:
            pytest.fail("check-jsonschema is not installed")
        pytest.skip("check-jsonschema is not installed")
    schemas = ["vendor.github-actions"]
    if path != ACTION:
        schemas = ["vendor.github-workflows", "custom.github-workflows-require-timeout"]
    for schema in schemas:
        done = subprocess.run(
            [program, "--builtin-schema", schema, path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@bash
@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_scripts_have_no_expressions_and_are_valid_bash(path: Path) -> None:
    for step in steps_of(path):
        if "run" in step:
            # The value of an expression would run as code, even if a stranger chose it.
            assert "${{" not in step["run"], step.get("name")
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
        else:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@v\d[\w.]*", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_only_the_permissions_it_needs(path: Path) -> None:
    loaded = load(path)
    wanted = {"contents": "write"} if path.stem == "classroom50" else {"contents": "read"}
    if path.stem == "server":
        wanted |= {"id-token": "write"}
    assert loaded["permissions"] == wanted
    triggers = loaded[True]  # `on`, to YAML 1.1
    assert "pull_request_target" not in triggers
    secrets = [step for step in steps_of(path) if "{{ secrets." in json.dumps(step)]
    assert len(secrets) == (path.stem == "instructor")
    assert all("STUDENT_REPOSITORIES" in json.dumps(step["env"]) for step in secrets)


def test_every_input_is_used_and_every_used_input_exists() -> None:
    action = load(ACTION)
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == set(action["inputs"])
    for path in WORKFLOWS:
        for step in steps_of(path):
            if step.get("uses", "").startswith("your-organization/lab-bench@"):
                assert set(step["with"]) <= set(action["inputs"])


def test_hidden_suites_are_used_only_where_students_cannot_look() -> None:
    assert load(ACTION)["inputs"]["suite"]["default"] == "public"
    for path in WORKFLOWS:
        suites = {
            step["with"]["suite"] for step in steps_of(path) if "suite" in step.get("with", {})
        }
        assert suites <= {"public"}


# --- a runner -------------------------------------------------------------------------------------


class Runner:
    """Runs the steps of a job in a folder one after the other, like a runner of GitHub Actions."""

    def __init__(self, workspace: Path, temp: Path, **contexts: str) -> None:
        self.workspace, self.temp = workspace, temp
        self.contexts = {
            "runner.temp": str(temp),
            "runner.os": "Linux",
            "runner.arch": "X64",
            **contexts,
        }
        self.environment: dict[str, str] = {}
        self.log = ""
        self.summary = ""
        self.code = 0
        temp.mkdir(parents=True, exist_ok=True)

    def run(self, step: Mapping[str, Any]) -> int:
        """Run one step with its `env`, and read outputs, environment and summary from its files."""
        files = {name: self.temp / name for name in ("OUTPUT", "ENV", "STEP_SUMMARY")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        script = self.temp / "script.sh"
        script.write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.workspace,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")},
                **self.environment,
                **{name: self.filled(str(value)) for name, value in step.get("env", {}).items()},
                **{f"GITHUB_{name}": str(file) for name, file in files.items()},
                "HOME": str(self.temp),
                "RUNNER_TEMP": str(self.temp),
                "PYTHONIOENCODING": "utf-8",
                "PATH": f"{self.temp / 'bin'}{os.pathsep}{os.environ['PATH']}",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=300,
        )
        self.log += done.stdout
        self.summary += files["STEP_SUMMARY"].read_text(encoding="utf-8")
        self.environment |= _pairs(files["ENV"])
        for name, value in _pairs(files["OUTPUT"]).items():
            self.contexts[f"steps.{step['id']}.outputs.{name}"] = value
        self.code = self.code or done.returncode
        return done.returncode

    def filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self.contexts.get(found[1], ""), text)

    def act(self, steps: list[dict[str, Any]], *, reporter: bool = False) -> None:
        """Run the `run` steps of a composite action until one fails."""
        for step in steps:
            if "run" in step and (reporter or "grading-reporter" not in step.get("if", "")):
                if self.run(step):
                    return
                self._bring_the_cache()

    def _bring_the_cache(self) -> None:
        venv = self.contexts.get("steps.environment.outputs.venv")
        if venv and not Path(venv).exists():
            put_environment(Path(venv))

    def commands(self) -> list[str]:
        """Return the lines of the log that the runner reads as commands. A token may stop it in between."""
        found, stopped = [], ""
        for line in self.log.splitlines():
            text = line.lstrip()
            if stopped:
                stopped = "" if text == f"::{stopped}::" else stopped
            elif text.startswith("::stop-commands::"):
                stopped = text.removeprefix("::stop-commands::")
            elif text.startswith("::") or "##[" in text:
                found.append(text)
        assert not stopped
        return found


def _pairs(file: Path) -> dict[str, str]:
    pairs = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        assert equals, line
        assert "<<" not in name, line
        pairs[name] = value
    return pairs


def put_environment(venv: Path) -> None:
    """Put the environment that runs these tests where a cache would restore one."""
    (venv / "bin").mkdir(parents=True)
    # Like the real script, it does not look for modules in the current folder.
    for name, command in (("grade", "-P -m grader.cli"), ("python", "")):
        script = venv / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)


def repository(folder: Path, *, hidden: bool = False) -> Path:
    """Make a student's repository, or the instructor's with `hidden`."""
    left_out = (
        ["__pycache__"] if hidden else ["__pycache__", "hidden", "wrong", "right", "solutions"]
    )
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns(*left_out))
    shutil.copytree(
        PLAIN / "exercises", folder / "tests" / "stubs", ignore=shutil.ignore_patterns("*.toml")
    )
    return folder


def break_suite(course: Path) -> None:
    """Make the suite of `greeting` fail to import, as a fault of the course."""
    suite = course / "tests" / "public" / "text" / "test_greeting.py"
    text = suite.read_text(encoding="utf-8")
    suite.write_text(f"{text}\nraise RuntimeError\n", encoding="utf-8")


@pytest.fixture
def student(tmp_path: Path) -> Path:
    return repository(tmp_path / "work")


def action(
    student: Path, tmp_path: Path, inputs: Mapping[str, str] = {}, *, reporter: bool = False
) -> Runner:
    """Run the action on a student's repository."""
    defaults = {name: each["default"] for name, each in load(ACTION)["inputs"].items()}
    given = {f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()}
    runner = Runner(student, tmp_path / "temp", **{"github.action_path": str(ROOT), **given})
    runner.act(steps_of(ACTION), reporter=reporter)
    return runner


# --- the action -----------------------------------------------------------------------------------


@bash
def test_the_action_gives_full_points_to_a_solved_repository(student: Path, tmp_path: Path) -> None:
    shutil.copytree(PLAIN / "solutions", student / "exercises", dirs_exist_ok=True)
    runner = action(student, tmp_path)
    assert runner.code == 0, runner.log
    assert runner.contexts["steps.judge.outputs.score"] == "20.0"
    assert runner.contexts["steps.judge.outputs.max-score"] == "20.0"
    assert "20 of 20 points" in runner.summary
    assert runner.commands() == []
    assert runner.environment == {}
    result = json.loads(
        Path(runner.contexts["steps.judge.outputs.result"]).read_text(encoding="utf-8")
    )
    assert all(
        test["visibility"] == "public" for each in result["exercises"] for test in each["tests"]
    )


@bash
def test_the_action_annotates_lines_of_a_wrong_answer_and_is_green(
    student: Path, tmp_path: Path
) -> None:
    wrong = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"
    shutil.copy(wrong, student / "exercises" / "text" / "word_count.py")
    runner = action(student, tmp_path)
    assert runner.code == 0, runner.log
    assert runner.log.splitlines()[-1].endswith("of 20.0 points")
    errors = runner.commands()
    assert errors
    files = {re.search(r"file=([^,]+),line=(\d+)", each) for each in errors}
    for found in filter(None, files):
        lines = (student / found[1]).read_text(encoding="utf-8").splitlines()
        assert 1 <= int(found[2]) <= len(lines)
    assert "<summary>Counting words</summary>" in runner.summary
    assert re.search(
        r"^## exercises: [\d.]+ of 20 points by the public tests alone$",
        runner.summary,
        re.MULTILINE,
    )
    assert runner.summary.endswith("\n\nJudged by the public tests alone.\n")


@bash
@pytest.mark.parametrize(("percent", "code"), [("100", 1), ("12.5", 0), ("13", 1)])
def test_an_instructor_can_require_points_for_green(
    student: Path, tmp_path: Path, percent: str, code: int
) -> None:
    # 2.5 of 20 points.
    shutil.copy(PLAIN / "solutions" / "text" / "greeting.py", student / "exercises" / "text")
    assert action(student, tmp_path, {"fail-under": percent}).code == code


@bash
def test_an_unjudged_exercise_is_shown_and_gives_no_score(student: Path, tmp_path: Path) -> None:
    shutil.copytree(PLAIN / "solutions", student / "exercises", dirs_exist_ok=True)
    break_suite(student)
    runner = action(student, tmp_path)
    assert runner.code == 3
    assert "## exercises: not judged as a whole" in runner.summary
    assert runner.contexts["steps.judge.outputs.result"]
    assert "steps.judge.outputs.score" not in runner.contexts
    warning, error = runner.commands()
    assert warning.startswith("::warning title=A greeting")
    assert error.startswith("::error title=No score::Something was not judged")


@bash
def test_a_single_exercise_can_be_chosen(student: Path, tmp_path: Path) -> None:
    shutil.copy(PLAIN / "solutions" / "text" / "greeting.py", student / "exercises" / "text")
    runner = action(student, tmp_path, {"exercises": "greeting"})
    assert (runner.code, runner.contexts["steps.judge.outputs.max-score"]) == (0, "2.5")


@bash
@pytest.mark.parametrize("inputs", [{"submission": "nowhere"}, {"exercises": "--no-isolation"}])
def test_without_a_result_there_is_no_score(
    student: Path, tmp_path: Path, inputs: dict[str, str]
) -> None:
    runner = action(student, tmp_path, inputs)
    assert runner.code == 3
    assert "steps.judge.outputs.score" not in runner.contexts
    (command,) = runner.commands()
    assert command.startswith("::error title=No result::Nothing was judged, and no points are lost")
    assert runner.summary == ""


@bash
def test_text_of_a_student_is_never_a_command(student: Path, tmp_path: Path) -> None:
    shout = "\\n::add-mask::a\\n::error::owned\\n##[add-mask]b\\n::stop-commands::c\\n<img src=x>|`"
    source = f'print("{shout}")\ndef word_count(text):\n    raise ValueError("{shout}")\n'
    (student / "exercises" / "text" / "word_count.py").write_text(source, encoding="utf-8")
    runner = action(student, tmp_path)
    assert runner.code == 0
    ours = [
        each for each in runner.commands() if not each.startswith("::error file=exercises/text/")
    ]
    assert ours == []
    assert "<img" not in runner.summary


@bash
def test_the_grading_reporter_gets_its_variables(student: Path, tmp_path: Path) -> None:
    shutil.copy(PLAIN / "solutions" / "text" / "greeting.py", student / "exercises" / "text")
    runner = action(student, tmp_path, {"fail-under": "0"}, reporter=True)
    names = runner.environment["GRADE_RUNNERS"].split(",")
    assert runner.contexts["steps.reporter.outputs.runners"].split(",") == names
    read = {
        each: json.loads(base64.b64decode(runner.environment[f"{each.upper()}_RESULTS"]))
        for each in names
    }
    assert read["greeting"]["status"] == "pass"
    assert sum(test["score"] for each in read.values() for test in each["tests"]) == 250
    assert sum(each["max_score"] for each in read.values()) == 2000, "in hundredths"


@bash
def test_the_cached_environment_depends_on_the_grader(tmp_path: Path) -> None:
    (name,) = [step for step in steps_of(ACTION) if step.get("id") == "environment"]
    digests = []
    for number, text in enumerate(("torch==1\n", "torch==2\n", "torch==2\n")):
        folder = tmp_path / str(number)
        (folder / "grader").mkdir(parents=True)
        (folder / "grader" / "course.py").write_text("x = 1\n", encoding="utf-8")
        (folder / "pyproject.toml").touch()
        (folder / "constraints.txt").write_text(text, encoding="utf-8")
        runner = Runner(folder, folder / "temp", **{"github.action_path": str(folder)})
        assert runner.run(name) == 0, runner.log
        digests.append(runner.contexts["steps.environment.outputs.digest"])
    assert digests[0] != digests[1] == digests[2]
    assert re.fullmatch("[0-9a-f]{24}", digests[0])


# --- Classroom 50 ---------------------------------------------------------------------------------


def _is_result_of(path: Path, owner: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(result)
    assert (result["owner"], result["classroom"], result["assignment"]) == (owner, "cs-101", "lab1")
    return result


@bash
def test_the_workflow_for_classroom_50_writes_its_result(student: Path, tmp_path: Path) -> None:
    shutil.copy(PLAIN / "solutions" / "text" / "greeting.py", student / "exercises" / "text")
    path = ROOT / "examples" / "workflows" / "classroom50.yml"
    judged = action(student, tmp_path, {"fail-under": "0"})
    job = Runner(
        student,
        tmp_path / "job",
        **{
            "github.server_url": "https://git.example",
            "github.repository": "school/cs-101-lab1-ada-l",
            "github.sha": "0123456789abcdef0123456789abcdef01234567",
            "steps.lab.outputs.result": judged.contexts["steps.judge.outputs.result"],
            "steps.lab.outputs.command": judged.contexts["steps.environment.outputs.venv"]
            + "/bin/grade",
        },
    )
    (grade,) = load(path)["jobs"].values()
    job.environment = dict(grade["env"])
    identify, write = [step for step in steps_of(path) if "run" in step][:2]
    assert job.run(identify) == 0, job.log
    assert job.run(write) == 0, job.log
    result = _is_result_of(student / "result.json", "ada-l")
    assert (result["score"], result["max-score"]) == (250, 2000)
    assert re.fullmatch(r"submit/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-0123456", result["submission"])
    assert result["release"].endswith("/releases/tag/" + result["submission"].replace("/", "%2F"))


def test_the_script_for_classroom_50_writes_its_result(student: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    repository(bundle / "course")
    shutil.copy(
        ROOT / "examples" / "workflows" / "classroom50_autograder.py", bundle / "autograder.py"
    )
    put_environment(tmp_path / "temp" / "lab-bench")
    given = {
        "CLASSROOM": "cs-101",
        "ASSIGNMENT": "lab1",
        "SUBMISSION_TAG": "submit/1",
        "USERNAME": "ada",
    }
    given |= {"COMMIT_URL": "c", "RELEASE_URL": "r", "RUNNER_TEMP": str(tmp_path / "temp")}
    shutil.copy(PLAIN / "solutions" / "text" / "greeting.py", student / "exercises" / "text")
    command = [sys.executable, str(bundle / "autograder.py")]
    done = subprocess.run(
        command,
        cwd=student,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    before, log = done.stdout.split("\n", 1)
    assert re.fullmatch("::stop-commands::[0-9a-f]{32}", before)
    assert log.endswith(f"\n::{before.rpartition(':')[2]}::\n")
    assert _is_result_of(student / "result.json", "ada")["score"] == 250
    shutil.rmtree(student / "exercises")
    (student / "result.json").unlink()
    done = subprocess.run(
        command,
        cwd=student,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode not in (0, 1), "an infrastructure error, to Classroom 50"
    assert not (student / "result.json").exists()


# --- the instructor's repository ------------------------------------------------------------------


def _push(remotes: Path, name: str, files: Mapping[str, str]) -> None:
    """Make a repository on the server, with a link in it."""
    folder = remotes / f"{name}.git"
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / "link").symlink_to("/etc/passwd")
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "work"]):
        subprocess.run([*git, *arguments], check=True)


@bash
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_the_instructors_workflow_grades_the_class(tmp_path: Path) -> None:
    work = repository(tmp_path / "work", hidden=True)
    solved = (PLAIN / "solutions" / "text" / "greeting.py").read_text(encoding="utf-8")
    stub = (PLAIN / "exercises" / "text" / "greeting.py").read_text(encoding="utf-8")
    remotes = tmp_path / "remotes"
    _push(remotes, "school/lab1-ada", {"exercises/text/greeting.py": solved})
    _push(remotes, "school/lab1-bob", {"exercises/text/greeting.py": stub, "README.md": "Hi."})
    lines = ["# the class", "school/lab1-ada", " school/lab1-bob  # late", "school/lab1-eve"]
    lines += ["--upload-pack=x/y", "a/../b", ""]
    (work / "repositories.txt").write_text("\n".join(lines), encoding="utf-8")
    path = ROOT / "examples" / "workflows" / "instructor.yml"
    runner = Runner(
        work,
        tmp_path / "temp",
        **{"github.server_url": remotes.as_uri(), "secrets.STUDENT_REPOSITORIES": "s3cret"},
    )
    put_environment(tmp_path / "temp" / "venv")
    (tmp_path / "temp" / "bin").mkdir()
    (tmp_path / "temp" / "bin" / "python").symlink_to(sys.executable)
    fetch, judge, write = [step for step in steps_of(path) if "run" in step][-3:]

    assert runner.run(fetch) == 0, runner.log
    assert sorted(each.name for each in (work / "submissions").iterdir()) == [
        "lab1-ada",
        "lab1-bob",
    ]
    assert not (work / "submissions" / "lab1-ada" / "link").is_symlink()
    assert "Fetched: 2." in runner.summary
    assert "Could not be fetched: 3." in runner.summary
    assert "school/lab1-eve" in runner.summary
    kept = [each for each in work.rglob("*") if each.is_file() and b"s3cret" in each.read_bytes()]
    assert kept == []
    assert "s3cret" not in runner.log

    assert runner.run(judge) == 0, runner.log
    assert runner.commands() == []
    assert runner.run(write) == 0, runner.log
    grades = (work / "out" / "grades.csv").read_text(encoding="utf-8")
    assert re.search(r"^ada,.*,2\.5,0,2\.5,20,2\.5,partial,", grades, re.MULTILINE), grades
    assert re.search(r"^bob,.*,0,0,0,20,", grades, re.MULTILINE), grades
    lines = (work / "out" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    results = [json.loads(line) for line in lines]
    visibilities = {
        t["visibility"] for r in results for e in r["result"]["exercises"] for t in e["tests"]
    }
    assert visibilities == {"public", "hidden"}
    assert any((work / "out" / "report").iterdir())


@bash
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_forks_with_the_same_name_are_distinguished_by_owner(tmp_path: Path) -> None:
    work = repository(tmp_path / "work", hidden=True)
    remotes = tmp_path / "remotes"
    for name in ("ada/lab1", "bob/lab1", "school/lab1-carol"):
        _push(remotes, name, {"exercises/text/greeting.py": f"# {name}\n"})
    listed = "ada/lab1\nbob/lab1 # late\r\nschool/lab1-carol"
    (work / "repositories.txt").write_text(listed, encoding="utf-8")
    contexts = {"github.server_url": remotes.as_uri(), "secrets.STUDENT_REPOSITORIES": "s3cret"}
    runner = Runner(work, tmp_path / "temp", **contexts)
    path = ROOT / "examples" / "workflows" / "instructor.yml"
    (fetch,) = [step for step in steps_of(path) if "TOKEN" in step.get("env", {})]
    assert runner.run(fetch) == 0, runner.log
    fetched = {
        file.relative_to(work / "submissions").parts[0]: file.read_text(encoding="utf-8")
        for file in (work / "submissions").rglob("greeting.py")
    }
    assert fetched == {
        "ada": "# ada/lab1\n",
        "bob": "# bob/lab1\n",
        "lab1-carol": "# school/lab1-carol\n",
    }
    (work / "repositories.txt").unlink()
    assert runner.run(fetch) != 0
