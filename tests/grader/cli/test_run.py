"""`grade` and `grade run` as people and scripts see them: text, points, exit codes, JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import psutil
import pytest

from grader.cli.run import exit_code
from grader.results import Outcome, json_schema
from tests.grader.builders import checked, exercise, result, unjudged
from tests.grader.cli.conftest import modules_of

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade

PANEL = """\
Plain Python and NumPy

  ~ word_count    Counting words                 1.43 / 10  partly passed
    x Every word is counted
      You counted characters: split the text first.
      exercises/text/word_count.py:4  in word_count
      2 more tests fail there, too.
    x An n below 1 is a ValueError
      most_common('a', 0) returned normally, but should raise a ValueError that
      names n.
      exercises/text/word_count.py:8  in most_common
      > Raise ValueError with n in its message.
    1 more test waits for these.

  + greeting      A greeting [of a kind]         2.5 / 2.5  passed
  - running_mean  A running mean over neighbors    0 / 7.5  to do

Total: 3.93 of 20 points
Next: fix exercises/text/word_count.py:4, then run `grade run word_count`.
"""

FRESH = """\
Plain Python and NumPy

  - word_count  Counting words  0 / 10  to do
    Count with a dictionary.
    About 10 minutes, gentle.

0 of 3 done
Start: open exercises/text/word_count.py and run `grade watch`: it answers every save.
"""


def timeless(text: str) -> dict[str, Any]:
    """A result without the parts that differ between runs."""
    result: dict[str, Any] = json.loads(text)
    for part in (
        result,
        *result["exercises"],
        *(t for e in result["exercises"] for t in e["tests"]),
    ):
        del part["duration_seconds"]
    del result["started_at"]
    return result


def write(course: Path, exercise: str, source: str) -> Path:
    """Fill in a stub of the course, in place."""
    path = course / "exercises" / exercise
    path.write_text(source, encoding="utf-8")
    return path


# --- the panel ------------------------------------------------------------------------------------


def test_panel_of_a_mixed_submission(grade: Grade, mixed: Path) -> None:
    done = grade("--all", cwd=mixed)
    assert done.stdout == PANEL
    assert done.stderr == ""
    assert done.returncode == 1


def test_fresh_clone_says_where_to_start(grade: Grade, clone: Path) -> None:
    done = grade(cwd=clone)
    assert done.stdout == FRESH
    assert done.returncode == 1
    assert not (clone / ".grade").exists()


def test_full_marks(grade: Grade, clone: Path) -> None:
    done = grade("run", "--submission", "solutions", cwd=clone)
    assert done.stdout.endswith("Full marks: every test of every exercise passes. Well done!\n")
    assert "Total: 20 of 20 points" in done.stdout
    assert done.returncode == 0


def test_in_a_subfolder_paths_are_relative_to_it(grade: Grade, mixed: Path) -> None:
    done = grade("run", "word_count", cwd=mixed / "exercises" / "text")
    assert "      word_count.py:4  in word_count\n" in done.stdout


def test_verbose_shows_everything(grade: Grade, clone: Path) -> None:
    write(clone, "text/greeting.py", "print('[bold]hi[/]')\ngreeting = 'Hello, {}!'.format\n")
    done = grade("--all", "-v", "--seed", "7", cwd=clone)
    assert "    + Ada is greeted by her name  public 0." in done.stdout
    assert "      | [bold]hi[/]\n" in done.stdout
    assert "Seed 7, " in done.stdout
    assert "Walls: " in done.stdout
    # The tests of an exercise that is not begun are listed without messages.
    assert "    ~ Two neighbors are averaged  public 0.00s\n    ~ Every" in done.stdout


def test_several_tests_with_one_cause_show_once(grade: Grade, clone: Path) -> None:
    done_part = (clone / "solutions/text/word_count.py").read_text(encoding="utf-8")
    half, _, _ = done_part.partition("    if n < 1:")
    write(
        clone, "text/word_count.py", half + "    raise NotImplementedError('most_common: sort')\n"
    )
    done = grade("run", "word_count", cwd=clone)
    assert done.stdout.count("Still to do: most_common: sort") == 1
    assert "      2 tests need it.\n" in done.stdout
    assert "Next: finish exercises/text/word_count.py:17, then run" in done.stdout


def test_file_that_cannot_be_imported_is_explained_once(grade: Grade, clone: Path) -> None:
    write(clone, "text/word_count.py", "import nonsense\n")
    done = grade("run", "word_count", cwd=clone)
    assert done.stdout.count("No module named 'nonsense'") == 1
    assert "exercises/text/word_count.py:1" in done.stdout


def test_the_next_step_repeats_the_options(grade: Grade, mixed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    shutil.copytree(mixed / "exercises", folder)
    done = grade("run", "word_count", "--submission", folder, "--suite", "public", cwd=mixed)
    assert f"`grade run word_count --submission '{folder}' --suite public`" in done.stdout
    assert "points  by the public tests alone" in done.stdout


# --- progress through the course ------------------------------------------------------------------


def solve(course: Path, *names: str) -> None:
    """Copy reference solutions into place."""
    for name in names:
        shutil.copy(course / "solutions" / name, course / "exercises" / name)


def test_bare_grade_goes_on_until_everything_is_done(grade: Grade, clone: Path) -> None:
    names = "text/word_count.py", "text/greeting.py", "arrays/running_mean.py"
    for number, name in enumerate(names, 1):
        solve(clone, name)
        done = grade(cwd=clone)
        assert f"  + {Path(name).stem}  " in done.stdout
        assert f"\n{number} of 3 done" in done.stdout
        assert done.returncode == 0
    assert "Every exercise is done. Well done! `grade run --all`" in done.stdout
    complete = grade(cwd=clone)
    assert "\n3 of 3 done\nEvery exercise is done, as its file is now." in complete.stdout
    assert complete.returncode == 0

    # An edited file is no longer done. Its old content still is.
    edited = write(clone, "text/greeting.py", "def greeting(name: str) -> str:\n    return name\n")
    done = grade(cwd=clone)
    assert "  x greeting  " in done.stdout
    assert "then run `grade`." in done.stdout
    assert done.returncode == 1
    shutil.copy(clone / "solutions/text/greeting.py", edited)
    assert grade(cwd=clone).stdout == complete.stdout


def test_bare_grade_judges_again_after_tests_changed(grade: Grade, clone: Path) -> None:
    solve(clone, "text/word_count.py")
    grade(cwd=clone)
    suite = clone / "tests/hidden/text/test_word_count.py"
    suite.write_bytes(suite.read_bytes() + b"\n# changed\n")
    assert "  + word_count  " in grade(cwd=clone).stdout


def test_exercises_begun_out_of_order_are_mentioned(grade: Grade, clone: Path) -> None:
    write(clone, "text/greeting.py", "def greeting(name: str) -> str:\n    return name\n")
    named = grade("run", "word_count", cwd=clone).stdout
    assert "\nBegun and not done: greeting (`grade run greeting`).\n" in named
    assert "Begun and not done" not in grade(cwd=clone).stdout, "the begun exercise comes first"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--all"],
        ["run", "--all"],
        ["run", "--fail-under", "50"],
        ["run", "--submission", "exercises"],
        ["run", "--json", "result.json"],
    ],
)
def test_options_about_the_whole_course_judge_all(
    grade: Grade, clone: Path, arguments: list[str]
) -> None:
    assert "Total: 0 of 20 points" in grade(*arguments, cwd=clone).stdout


def test_another_submission_is_not_kept_as_progress(grade: Grade, clone: Path) -> None:
    done = grade("run", "--submission", "solutions", cwd=clone)
    assert "3 of 3" not in done.stdout
    assert not (clone / ".grade").exists()
    alone = grade("run", "greeting", "--submission", "solutions", cwd=clone)
    assert "Total: 2.5 of 2.5 points" in alone.stdout
    whole = "`grade run --all --submission solutions` judges the whole course."
    assert whole in " ".join(alone.stdout.split())


def test_unwritable_progress_costs_nothing(grade: Grade, clone: Path) -> None:
    solve(clone, "text/greeting.py")
    (clone / ".grade").write_bytes(b"in the way")
    done = grade("run", "greeting", cwd=clone)
    assert "2.5 / 2.5  passed" in done.stdout
    assert done.stderr.startswith("grade: Your progress in ")
    assert done.returncode == 0


# --- without a judge -----------------------------------------------------------------------------


def test_a_stub_that_is_edited_in_place_is_judged(grade: Grade, clone: Path) -> None:
    stub = clone / "exercises/text/greeting.py"
    write(clone, "text/greeting.py", "# A comment is no answer.\n" + stub.read_text("utf-8"))
    assert grade(cwd=clone).stdout == FRESH
    write(
        clone, "text/greeting.py", "def greeting(name: str) -> str:\n    return f'Hello, {name}!'\n"
    )
    done = grade("run", "greeting", cwd=clone)
    assert "2.5 / 2.5  passed" in done.stdout
    assert "Done. Next: open exercises/text/word_count.py and run `grade watch`" in done.stdout
    assert done.returncode == 0


def test_without_a_kept_stub_the_file_is_judged(grade: Grade, clone: Path) -> None:
    shutil.rmtree(clone / "tests" / "stubs")
    done = grade("run", "greeting", "--json", "-", cwd=clone)
    (exercise,) = json.loads(done.stdout)["exercises"]
    assert exercise["status"] == "not_attempted"
    assert exercise["tests"][0]["message"] == "Still to do: greeting: say hello"


def test_missing_and_invalid_files(grade: Grade, clone: Path) -> None:
    (clone / "exercises/text/word_count.py").unlink()
    write(clone, "text/greeting.py", "print(1 2)\n")
    done = grade("--all", cwd=clone)
    stub = "text/word_count.py is missing: `grade reset word_count` restores the stub."
    assert stub in " ".join(done.stdout.split())
    told = "is not valid Python: line 1: invalid syntax. Perhaps you forgot a comma? exercises/"
    assert told in " ".join(done.stdout.split())
    assert "exercises/text/greeting.py:1\n" in done.stdout
    assert "Next: put your file or the stub at exercises/text/word_count.py, then" in done.stdout


def test_a_file_missing_from_a_submission_is_to_be_handed_in(grade: Grade, clone: Path) -> None:
    shutil.copytree(clone / "exercises", clone / "alice")
    (clone / "alice" / "text" / "word_count.py").unlink()
    done = grade("run", "--submission", "alice", cwd=clone)
    assert "text/word_count.py is missing: hand it in under this name." in done.stdout
    assert "grade reset" not in done.stdout


def test_without_any_file_the_error_says_how_to_restore_one(grade: Grade, clone: Path) -> None:
    shutil.rmtree(clone / "exercises" / "text")
    shutil.rmtree(clone / "exercises" / "arrays")
    done = grade(cwd=clone)
    assert "`grade reset word_count` restores a stub." in " ".join(done.stderr.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert grade("reset", "word_count", cwd=clone).returncode == 0
    assert "Start: open exercises/text/word_count.py" in grade(cwd=clone).stdout


def test_a_forbidden_name_gets_no_hint(grade: Grade, clone: Path) -> None:
    right = (clone / "solutions/text/word_count.py").read_text("utf-8")
    counted = "    return dict(collections.Counter(text.split()))\n\n\ndef most_common"
    before, _, after = right.partition("    counts: dict")
    _, _, after = after.partition("def most_common")
    write(clone, "text/word_count.py", f"import collections\n{before}{counted}{after}")
    done = grade("run", "word_count", "--json", "result.json", cwd=clone)
    refused = "collections.Counter is not allowed here: count with a dictionary of your own."
    assert refused in " ".join(done.stdout.split())
    assert "> " not in done.stdout
    (exercise,) = json.loads((clone / "result.json").read_bytes())["exercises"]
    hints = {test["message"]: test["hint"] for test in exercise["tests"]}
    assert hints[refused] == ""


@pytest.mark.parametrize(
    ("exercise", "never"),
    [
        # Untouched: no module that judges is loaded.
        ("running_mean", ("grader.judge.process", "grader.sandbox.forking", "importlib.metadata")),
        # Judged in another process. (The judge's own tests check that it loads no torch.)
        ("word_count", ()),
    ],
)
def test_the_command_loads_nothing_heavy(
    clone: Path, exercise: str, never: tuple[str, ...]
) -> None:
    write(clone, "text/word_count.py", "x = 1\n")
    loaded = modules_of(clone, "run", exercise)
    assert "grader.cli.terminal.result" in loaded
    assert loaded.isdisjoint({"torch", "pytest", "rich.progress", "numpy", "asyncio", *never})


# --- JSON -----------------------------------------------------------------------------------------


def test_json_on_stdout_fits_the_schema_and_is_reproducible(grade: Grade, mixed: Path) -> None:
    runs = [grade("run", "--json", "-", "--seed", "3", cwd=mixed) for _ in range(2)]
    for done in runs:
        jsonschema.validate(json.loads(done.stdout), json_schema())
        assert done.stderr == ""
        assert done.returncode == 1
    first, second = (timeless(done.stdout) for done in runs)
    assert json.dumps(first) == json.dumps(second)
    assert first["seed"] == 3
    assert first["score"] == 3.93


def test_json_in_a_file_leaves_the_panel_on_stdout(
    grade: Grade, clone: Path, tmp_path: Path
) -> None:
    done = grade("run", "greeting", "--json", tmp_path / "result.json", cwd=clone)
    result = json.loads((tmp_path / "result.json").read_bytes())
    jsonschema.validate(result, json_schema())
    assert result["exercises"][0]["status"] == "not_attempted"
    assert "  - greeting  A greeting [of a kind]  0 / 2.5  to do" in done.stdout


def test_json_in_a_missing_folder_is_refused_before_judging(grade: Grade, clone: Path) -> None:
    done = grade("run", "--json", "no/where.json", cwd=clone)
    assert "There is no folder no." in done.stderr
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("level", ["nothing", "title", "mistake", "everything"])
def test_disclose_limits_what_is_shown_and_written(
    grade: Grade, mixed: Path, tmp_path: Path, level: str
) -> None:
    file, report = tmp_path / "result.json", tmp_path / "report.json"
    options = ("-v", "--disclose", level, "--json", file, "--pytest-report", report)
    done = grade("run", "word_count", *options, cwd=mixed)
    jsonschema.validate(json.loads(file.read_bytes()), json_schema())
    for text in (done.stdout, file.read_text(encoding="utf-8"), report.read_text(encoding="utf-8")):
        assert ("27, expected 9" in " ".join(text.split())) == (level == "everything")
    assert "Every word is counted" in done.stdout, "a public test"
    assert ("Any white space separates words" in done.stdout) == (level != "nothing")
    assert ("Further tests that did not pass" in done.stdout) == (level == "nothing")
    assert "1.43 / 10" in done.stdout


def test_the_manifest_sets_the_disclosure_of_hidden_tests(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises" / "course.toml"
    plain = json.loads(grade("run", "--json", "-", cwd=clone).stdout)["course"]
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(f'disclose = "title"\n{text}', encoding="utf-8")
    strict = json.loads(grade("run", "--json", "-", cwd=clone).stdout)["course"]
    assert (plain["disclose"], strict["disclose"]) == ("mistake", "title")
    manifest.write_text(f'disclose = "all"\n{text}', encoding="utf-8")
    told = grade("run", cwd=clone).stderr
    assert (
        "`disclose`: invalid enum value 'all', not one of nothing, title, mistake, everything."
        in told
    )
    manifest.write_text(text.replace("[[exercise]]", '[[exercise]]\nneeds = ["gpu!"]', 1))
    told = grade("run", cwd=clone).stderr
    assert "invalid enum value 'gpu!', not one of loopback, processes." in told


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("percent", "code"), [(0, 0), (12.5, 0), (12.6, 1), (100, 1)])
def test_fail_under(percent: float, code: int) -> None:
    part = exercise(checked(weight=2.5), checked("t", Outcome.FAILED, 17.5), worth=20)
    assert exit_code(result(part), percent) == code
    assert exit_code(result(exercise(checked())), 100) == 0


@pytest.mark.parametrize("percent", [0, 100])
def test_an_unjudged_exercise_exits_with_3_at_any_percentage(percent: float) -> None:
    assert exit_code(result(exercise(checked()), unjudged()), percent) == 3


def test_suites(grade: Grade, clone: Path) -> None:
    shutil.copy(clone / "solutions/text/greeting.py", clone / "exercises/text")
    everything = json.loads(grade("--json", "-", cwd=clone).stdout)
    assert [len(each["tests"]) for each in everything["exercises"]] == [6, 1, 3]
    # An exercise without a hidden suite is left out.
    hidden = json.loads(grade("--json", "-", "--suite", "hidden", cwd=clone).stdout)
    assert [len(each["tests"]) for each in hidden["exercises"]] == [4, 2]
    none = grade("run", "greeting", "--suite", "hidden", cwd=clone)
    assert "There is no hidden suite here for greeting" in none.stderr
    assert none.returncode == 2


def test_one_file_is_a_submission(grade: Grade, clone: Path) -> None:
    file = clone / "solutions" / "text" / "greeting.py"
    assert grade("--submission", file, cwd=clone).returncode == 0
    done = grade("run", "word_count", "--submission", file, cwd=clone)
    assert "greeting is a single file, not the one of 'word_count'." in done.stderr
    assert done.returncode == 2


def test_a_file_of_any_name_is_accepted_for_one_named_exercise(grade: Grade, clone: Path) -> None:
    file = clone / "wrong answer.py"
    shutil.copy(clone / "solutions/text/greeting.py", file)
    done = grade("run", "greeting", "--submission", file, cwd=clone)
    assert "2.5 / 2.5  passed" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    for names in ([], ["greeting", "word_count"]):
        refused = grade("run", *names, "--submission", file, cwd=clone)
        assert "is not named after an exercise" in refused.stderr


@pytest.mark.parametrize(
    "name",
    [
        "text/greeting",
        "text/greeting.py",
        "exercises/text/greeting.py",
        "./exercises/text/greeting",
    ],
)
def test_an_exercise_is_named_as_the_shell_completes_it(
    grade: Grade, clone: Path, name: str
) -> None:
    shutil.copy(clone / "solutions/text/greeting.py", clone / "exercises/text")
    done = grade("run", name, cwd=clone)
    assert "  + greeting  " in done.stdout
    assert "A greeting" in grade("explain", name, cwd=clone).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "word_cuont"], "There is no exercise 'word_cuont'. Did you mean 'word_count'?"),
        (["run", "exercises/text/word_cuont.py"], "Did you mean 'word_count'?"),
        (["run", "arrays/word_count"], "Did you mean 'word_count'?"),
        (["test"], "There is no command 'test'. Did you mean 'run'?"),
        (["wat"], "There is no command 'wat'. Did you mean 'watch'?"),
        (["solutoin"], "There is no command 'solutoin'. Did you mean 'solution'?"),
        (["next"], "There is no command 'next'. Did you mean 'run'?"),
        (["score"], "No such command 'score'."),  # not `restore`
        (["--course", ".", "list"], "If you mean the command, write it first: `grade list ...`."),
        (["run", "zzz"], "There are: word_count, greeting, running_mean."),
        (["word_count"], "To judge that exercise: grade run word_count"),
        (["word_cuont"], "To judge the exercise word_count: grade run word_count"),
        (
            ["exercises/text/word_count.py"],
            "To judge the exercise word_count: grade run word_count",
        ),
        (["hint", "greting"], "Did you mean 'greeting'?"),
        (["verify", "zzz"], "There is no exercise 'zzz'"),
        (["run", "--submission", "nowhere"], "Path 'nowhere' does not exist."),
        (["run", "--submission", "tests"], "has no file of Plain Python and NumPy"),
        (["run", "--submission", "exercises/course.toml"], "is not named after an exercise"),
        (["run", "--suite", "secret"], "'secret' is not one of"),
        (["run", "--fail-under", "101"], "101"),
        (["run", "greeting", "--all"], "Name exercises or give --all, not both."),
    ],
)
def test_usage(grade: Grade, clone: Path, arguments: list[str], said: str) -> None:
    done = grade(*arguments, cwd=clone)
    assert said in " ".join(done.stderr.split())
    assert done.stderr.startswith("Usage: grade")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("name", "folder", "judged"),
    [
        ("./greeting.py", "exercises/text", {"greeting"}),
        ("text", ".", {"word_count", "greeting"}),
        ("exercises/text/", ".", {"word_count", "greeting"}),
    ],
)
def test_a_file_in_its_folder_and_a_chapter(
    grade: Grade, clone: Path, name: str, folder: str, judged: set[str]
) -> None:
    done = grade("run", name, "--json", "-", cwd=clone / folder)
    assert {exercise["name"] for exercise in json.loads(done.stdout)["exercises"]} == judged


@pytest.mark.parametrize("submission", ["tests", "handed.zip", ""])
def test_an_empty_submission_still_has_a_json_result(
    grade: Grade, clone: Path, submission: str
) -> None:
    with zipfile.ZipFile(clone / "handed.zip", "w") as archive:
        archive.writestr("essay.txt", "my essay")
    if not submission:
        shutil.rmtree(clone / "exercises" / "text")
        shutil.rmtree(clone / "exercises" / "arrays")
    where = ["--submission", submission] if submission else []
    done = grade("run", *where, "--json", "-", cwd=clone)
    result = json.loads(done.stdout)
    assert (result["score"], result["max_score"]) == (0, 20)
    assert all("is missing" in exercise["message"] for exercise in result["exercises"])
    assert done.returncode == 1


def test_no_course(grade: Grade, tmp_path: Path) -> None:
    done = grade(cwd=tmp_path)
    assert "No course found" in done.stderr
    assert "--course" in done.stderr
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (b"\xff\xfe", "utf-8"),
        (b"format_version = [", "Invalid value"),
        (b"format_version = 1", "needs `"),
    ],
)
def test_broken_manifest(grade: Grade, clone: Path, manifest: bytes, said: str) -> None:
    (clone / "exercises" / "course.toml").write_bytes(manifest)
    done = grade(cwd=clone)
    assert done.stderr.startswith(f"grade: {clone / 'exercises' / 'course.toml'}: ")
    assert said in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_a_faulty_suite_costs_no_points(grade: Grade, clone: Path) -> None:
    suite = clone / "tests/public/text/test_greeting.py"
    suite.write_text(suite.read_text("utf-8").replace('("Ada")', "(nobody)"), encoding="utf-8")
    done = grade("run", "greeting", "--submission", "solutions", "--json", "-", cwd=clone)
    assert "The suite of 'greeting' is at fault in test_greeting: NameError" in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize("suite", ['student.function("nobody")["Ada"]', "raise SystemExit"])
def test_a_faulty_suite_does_not_affect_the_others(grade: Grade, clone: Path, suite: str) -> None:
    test = f'def test_greeting(student):\n    """A greeting."""\n    {suite}\n'
    (clone / "tests/public/text/test_greeting.py").write_text(test)
    result = clone / "result.json"
    done = grade("run", "--all", "--submission", "solutions", "--json", str(result), cwd=clone)
    assert (done.returncode, done.stderr) == (3, "")
    assert "not judged: a fault of the grader" in done.stdout
    assert "The suite of 'greeting' is at fault in test_greeting" in done.stdout
    assert "Full marks" not in done.stdout
    written = json.loads(result.read_text())
    assert {each["name"]: each["status"] for each in written["exercises"]} == {
        "word_count": "passed",
        "greeting": "unjudged",
        "running_mean": "passed",
    }
    assert written["score"] == 17.5


def test_an_unreadable_suite_does_not_affect_the_others(grade: Grade, clone: Path) -> None:
    (clone / "tests/public/text/test_greeting.py").write_text("def test_greeting(student): ...\n")
    done = grade("run", "--all", "--submission", "solutions", "--json", "-", cwd=clone)
    written = json.loads(done.stdout)
    statuses = [each["status"] for each in written["exercises"]]
    assert (done.returncode, statuses) == (3, ["passed", "unjudged", "passed"])
    assert "has no docstring" in written["exercises"][1]["message"]
    shown = grade("run", "--all", "--submission", "solutions", cwd=clone)
    # The path in the message decides where its lines break.
    assert shown.returncode == 3 and "has no docstring" in " ".join(shown.stdout.split())


@pytest.mark.skipif(os.name != "posix", reason="Windows sends signals differently")
def test_interrupted(clone: Path) -> None:
    write(clone, "text/greeting.py", "while True:\n    pass\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "grader.cli", "run", "greeting"],
        cwd=clone,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    ours = psutil.Process(process.pid)
    until = time.monotonic() + 60
    while len(ours.children()) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    children = ours.children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("", "grade: interrupted.\n", 130)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.wait_procs(children, timeout=20)
    assert not [child for child in children if child.is_running()]
