"""`grade run --errors` and `grade watch --errors`, parsed as editors parse them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.release import release
from grader.cli.terminal.errors import error_lines
from grader.course.manifest import load_course
from grader.results import Outcome
from grader.student.next_step import Guide
from tests.grader.builders import checked, exercise
from tests.grader.cli.conftest import PLAIN, Grade

# Like VS Code: a line at a time, ignoring colors.
MATCHER = """
const [tasks, label, text] = [JSON.parse(process.argv[1]), process.argv[2], process.argv[3]];
const matcher = tasks.tasks.find((task) => task.label === label).problemMatcher;
const {regexp, ...groups} = matcher.pattern;
const {beginsPattern: begins = '(?!)', endsPattern: ends = '(?!)'} = matcher.background ?? {};
const found = [];
for (const line of text.split(/\\r?\\n/)) {
  const match = new RegExp(regexp).exec(line);
  if (new RegExp(begins).test(line)) found.push('begins');
  if (new RegExp(ends).test(line)) found.push('ends');
  if (match) found.push(Object.fromEntries(Object.entries(groups).map(([k, n]) => [k, match[n]])));
}
console.log(JSON.stringify(found));
"""
INDENTED = """\
def word_count(text):
    while 1:
        return text.words

def most_common(text, n):
    raise NotImplementedError('TODO: most_common')
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory, mixed: Path) -> dict[str, Any]:
    """The VS Code tasks of a release."""
    out = tmp_path_factory.mktemp("release") / "out"
    release(load_course(mixed), out)
    loaded: dict[str, Any] = json.loads((out / ".vscode" / "tasks.json").read_text("utf-8"))
    return loaded


def problems(tasks: dict[str, Any], label: str, text: str) -> list[Any]:
    """Return the problems that a task's matcher finds in a text, and the lines that begin and end a run."""
    if (node := shutil.which("node")) is None:
        if "GRADE_CI" in os.environ:
            pytest.fail("node is not installed")
        pytest.skip("node is not installed")
    command = [node, "-e", MATCHER, json.dumps(tasks), label, text]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def arguments(tasks: dict[str, Any], label: str, **values: str) -> list[str]:
    """Return the arguments that a task gives to `grade`, with its variables filled in."""
    (task,) = [task for task in tasks["tasks"] if task["label"] == label]
    for system in (task, task["windows"]):
        assert re.search(r"[/\\]grade(\.exe)?$", system["command"])
    filled = json.dumps(task["args"])
    for name, value in values.items():
        filled = filled.replace(f"${{{name}}}", value)
    assert "$" not in filled
    given: list[str] = json.loads(filled)
    return given


@pytest.mark.thorough
def test_vs_code_finds_each_finding_once(
    grade: Grade, mixed: Path, tmp_path: Path, tasks: dict[str, Any]
) -> None:
    clone = shutil.copytree(mixed, tmp_path / "clone")
    label = "grade: this exercise"
    asked = arguments(tasks, label, relativeFile="exercises/text/word_count.py")
    done = grade(*asked, cwd=clone)
    assert done.returncode == 1
    found = problems(tasks, label, done.stdout + done.stderr)
    panel = grade("run", "word_count", "-v", cwd=clone).stdout
    for problem in found:
        assert (clone / problem["file"]).is_file()
        assert problem["severity"] == "error"
        # The panel has the same words, broken into lines.
        for words in problem["message"].split(": ")[:2]:
            assert " ".join(words.split()) in " ".join(panel.split())
    messages = [problem["message"] for problem in found]
    assert "Every word is counted: You counted characters: split the text first." in messages
    assert len(set(messages)) == len(messages) == len(done.stdout.splitlines()) == 2
    assert done.stderr.startswith("Next: fix exercises/text/word_count.py:4")
    assert "\x1b" not in grade(*asked, cwd=clone, FORCE_COLOR="1").stdout


def test_errors_point_to_the_first_word_and_todos_are_warnings(grade: Grade, clone: Path) -> None:
    (clone / "exercises" / "text" / "word_count.py").write_text(INDENTED, encoding="utf-8")
    done = grade("run", "word_count", "--errors", cwd=clone)
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("exercises/text/word_count.py:3:9: error: ")
    assert "'str' object has no attribute 'words'" in first
    assert last == "exercises/text/word_count.py:6:5: warning: Still to do: TODO: most_common"


def test_a_broken_file_is_reported_at_its_line_or_at_line_1(grade: Grade, clone: Path) -> None:
    text = clone / "exercises" / "text"
    (text / "greeting.py").write_text("x = 1\n\ndef greeting(:\n", encoding="utf-8")
    (text / "word_count.py").unlink()
    done = grade("run", "--all", "--errors", cwd=clone)
    assert done.returncode == 1
    missing = "word_count.py is missing: `grade reset word_count` restores the stub."
    invalid = "greeting.py is not valid Python: line 3: invalid syntax."
    # The third exercise is not begun and has no line.
    assert done.stdout.splitlines() == [
        f"exercises/text/word_count.py:1:1: error: text/{missing}",
        f"exercises/text/greeting.py:3:1: error: text/{invalid}",
    ]


def test_an_unjudged_exercise_is_not_an_error_in_the_file(grade: Grade, clone: Path) -> None:
    for name in ("greeting.py", "word_count.py"):
        shutil.copy(clone / "solutions" / "text" / name, clone / "exercises" / "text")
    suite = clone / "tests" / "public" / "text" / "test_greeting.py"
    suite.write_text(suite.read_text("utf-8") + "\nraise RuntimeError\n", encoding="utf-8")
    done = grade("run", "greeting", "word_count", "--errors", cwd=clone)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("greeting was not judged, which costs no points: ")


def test_without_errors_nothing_is_printed(grade: Grade, mixed: Path, tmp_path: Path) -> None:
    clone = shutil.copytree(mixed, tmp_path / "clone")
    done = grade("run", "greeting", "--errors", cwd=clone)
    assert (done.returncode, done.stdout) == (0, "")
    shutil.copytree(clone / "solutions", clone / "exercises", dirs_exist_ok=True)
    grade("run", "--all", cwd=clone)
    done = grade("run", "--errors", cwd=clone)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Every exercise is done" in done.stderr


def test_the_same_mistake_with_other_details_is_reported_once() -> None:
    course = load_course(PLAIN)
    told = [
        checked(f"t{n}", Outcome.FAILED, message=f"It is {what}.\nSeed {n}.")
        for n, what in enumerate(("doubled", "doubled", "halved"))
    ]
    of = exercise(*told, checked("t3", Outcome.SKIPPED), name="greeting", left_out="No onnx here.")
    lines = list(error_lines(of, Guide(course, course.folder)))
    assert [line.rpartition(": ")[2] for line in lines] == ["It is doubled.", "It is halved."]


def test_errors_and_json_cannot_share_stdout(grade: Grade, mixed: Path) -> None:
    done = grade("run", "--errors", "--json", "-", cwd=mixed)
    assert done.returncode == 2
    assert "both write to stdout" in done.stderr


@pytest.mark.thorough
def test_vim_reads_the_errors(grade: Grade, mixed: Path, tmp_path: Path) -> None:
    if (vim := shutil.which("vim")) is None:
        pytest.skip("vim is not installed; development does not need it")
    clone = shutil.copytree(mixed, tmp_path / "clone")
    lines = grade("run", "word_count", "--errors", cwd=clone).stdout
    (clone / "lines.txt").write_text(lines, encoding="utf-8")
    listing = "map(getqflist(), '[bufname(v:val.bufnr), v:val.lnum, v:val.col, v:val.text]')"
    orders = ["cgetfile lines.txt", f"call writefile([json_encode({listing})], 'found.json')"]
    command = [
        vim,
        "-u",
        "NONE",
        "-N",
        "-es",
        *(part for order in orders for part in ("-c", order)),
    ]
    subprocess.run([*command, "-c", "qa!"], cwd=clone, stdin=subprocess.DEVNULL, check=False)
    found = json.loads((clone / "found.json").read_text(encoding="utf-8"))
    told = [f"{file}:{line}:{column}: {text.strip()}" for file, line, column, text in found]
    assert told == lines.splitlines()


def test_a_background_task_begins_and_ends(clone: Path, tasks: dict[str, Any]) -> None:
    label = "grade: watch"
    with subprocess.Popen(
        [sys.executable, "-m", "grader.cli", *arguments(tasks, label), "greeting"],
        cwd=clone,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []

        def until_judged() -> None:
            while not (lines and lines[-1].startswith("grade: judged")):
                lines.append(process.stdout.readline() if process.stdout else "")
                assert lines[-1], "it ended"

        try:
            until_judged()
            file = clone / "exercises" / "text" / "greeting.py"
            file.write_text("def greeting(name):\n    return name\n", encoding="utf-8")
            lines.append("# saved\n")
            until_judged()
        finally:
            process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    found = problems(tasks, label, "".join(lines))
    assert found[:2] == ["begins", "ends"], "the stub has no errors"
    begins, *errors, ends = found[2:]
    assert (begins, ends) == ("begins", "ends")
    assert {(error["file"], error["line"]) for error in errors} == {
        ("exercises/text/greeting.py", "1")
    }
