"""Grading a class with the real command: scores, resumption, and the list of things to look at."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import grader.cli.batch as batch_command
from grader.errors import GraderError
from grader.gradebook import Gradebook
from grader.gradebook.work import packed
from grader.results import Outcome, Status

from .conftest import HALF, RIGHT, School, run, run_alone
from .remembering import RememberingPool

EXPECTED = {
    "ann": (10.0, Status.PASSED),
    "bob": (7.5, Status.PARTIAL),
    "cem": (0.0, Status.TIMEOUT),
    "dee": (0.0, Status.ERROR),
    "eva": (10.0, Status.PASSED),
    "fay": (0.0, Status.ERROR),
    "gus": (0.0, Status.NOT_ATTEMPTED),
}
# Waiting for the timeout of `cem` takes time, so some tests leave it out.
WITHOUT_CEM = {student: score for student, score in EXPECTED.items() if student != "cem"}


def scores(school: School, results: Path | None = None) -> dict[str, tuple[float, Status]]:
    found = school.entries(results)
    return {name: (e.result.score, e.result.exercises[0].status) for name, e in found.items()}


def test_a_class_is_graded_and_things_to_look_at_are_listed(school: School) -> None:
    done = school.batch()
    assert done.returncode == 0, done.stderr
    assert scores(school) == EXPECTED
    assert "7 attempts of 7 students: 5 exercises judged, 2 settled" in done.stdout
    assert "odd code" in done.stdout and "task: line 2 uses os._exit (fay)" in done.stdout
    assert "timeout" in done.stdout and "task: " in done.stdout and "(cem)" in done.stdout
    assert "Traceback" not in done.stderr
    written = json.loads((school.results / "results" / "bob.json").read_text())
    assert written["score"] == 7.5 and written["submission"]["name"] == "bob"
    assert sorted(path.stem for path in (school.results / "results").iterdir()) == sorted(EXPECTED)


def test_nothing_is_judged_twice(school: School) -> None:
    school.batch()
    before = (school.results / "results" / "ann.json").read_bytes()
    again = school.batch()
    # A timeout may be due to a busy machine, so the file is judged again.
    assert "1 exercise judged, 0 settled without a judge, 6 known" in again.stdout
    # Things to look at are listed each time.
    assert "uses os._exit (fay)" in again.stdout
    assert (school.results / "results" / "ann.json").read_bytes() == before
    school.hand_in("bob", RIGHT + "# at last\n")
    third = school.batch()
    assert "2 exercises judged, 0 settled without a judge, 5 known" in third.stdout
    assert scores(school)["bob"] == (10.0, Status.PASSED)
    assert school.entries()["bob"].attempt == 2


def test_a_timeout_is_judged_again(school: School) -> None:
    school.batch()
    _run_out_of_time(school, "ann")
    assert scores(school)["ann"] == (0.0, Status.TIMEOUT)
    assert school.batch().returncode == 0
    assert scores(school) == EXPECTED
    _run_out_of_time(school, "ann")
    done = run(school.command("regrade", str(school.results)))
    assert "ann task: 0 to 10" in done.stdout
    assert scores(school) == EXPECTED


def _run_out_of_time(school: School, student: str) -> None:
    """Change the verdict on a student's file to a timeout, as from a busy machine."""
    with Gradebook.open_to_write(school.results) as book:
        (attempt,) = [each for each in book.tables.attempts() if each.student == student]
        result = book.tables.verdicts_of(student)["task"][attempt.id].result
        tests = tuple(
            msgspec.structs.replace(test, outcome=Outcome.TIMEOUT, score=0.0)
            for test in result.tests
        )
        late = msgspec.structs.replace(result, tests=tests, score=0.0, status=Status.TIMEOUT)
        with book.transaction():
            book.tables.connection.execute(
                "UPDATE grades SET status = 'timeout', score = 0, result = ? WHERE attempt = ?",
                (packed(late), attempt.id),
            )


def test_a_file_equal_to_another_students_is_not_judged_again(school: School) -> None:
    shutil.rmtree(school.submissions / "cem")
    school.hand_in("hal", RIGHT)
    school.batch("--jobs", "1")
    school.hand_in("ivy", HALF)
    done = school.batch()
    assert "0 exercises judged" in done.stdout
    assert scores(school)["ivy"] == EXPECTED["bob"]


def test_an_older_download_takes_nothing_away(school: School) -> None:
    shutil.rmtree(school.submissions / "cem")
    school.batch()
    school.hand_in("ann", HALF)
    done = school.batch()
    assert scores(school)["ann"] == (7.5, Status.PARTIAL)
    school.hand_in("ann", RIGHT)
    done = school.batch()
    assert "0 exercises judged" in done.stdout
    assert scores(school)["ann"] == (7.5, Status.PARTIAL), "it was found last"


@pytest.mark.thorough
@pytest.mark.usefixtures("judged_anew")
def test_results_are_the_same_at_any_number_of_jobs(school: School, tmp_path: Path) -> None:
    one, three = tmp_path / "one", tmp_path / "three"
    school.batch("--jobs", "1", results=one)
    school.batch("--jobs", "3", results=three)
    assert school.rows(one) == school.rows(three)


@pytest.mark.thorough
@pytest.mark.usefixtures("judged_anew")
def test_after_kills_the_gradebook_equals_that_of_an_undisturbed_run(
    school: School, tmp_path: Path
) -> None:
    # A timeout on a busy machine would differ, which has nothing to do with kills.
    shutil.rmtree(school.submissions / "cem")
    manifest = school.course / "exercises" / "course.toml"
    manifest.write_text(manifest.read_text().replace("seconds = 3", "seconds = 60"))
    for number in range(12):
        school.hand_in(f"more{number}", RIGHT + f"# {number}\n")
    undisturbed = tmp_path / "undisturbed"
    school.batch(results=undisturbed)
    moments = random.Random(0)
    kills = 0
    results = school.results / "results"
    # Kill after a number of results, since machines differ in speed. Each run continues the last one.
    for count in (0, 1, 3, 6, 9, 12):
        command = school.command("batch", str(school.submissions), "-o", str(school.results))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(results.glob("*.json"))) < count:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.3))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills >= 1
    assert school.batch().returncode == 0
    assert school.rows() == school.rows(undisturbed)
    for path in (undisturbed / "results").iterdir():
        there = json.loads(path.read_text())
        here = json.loads((school.results / "results" / path.name).read_text())
        assert here["score"] == there["score"]
        assert here["submission"] == there["submission"]
    assert not list((school.results / "results").glob("*.part"))


def test_two_gradings_do_not_write_at_once(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(school.submissions / "cem")
    refusals: list[str] = []

    class Beside(RememberingPool):
        """A pool during which another grading starts."""

        def __enter__(self) -> Beside:
            with (
                pytest.raises(GraderError) as refused,
                Gradebook.open_to_write(school.results),
            ):
                pass
            refusals.append(str(refused.value))
            super().__enter__()
            return self

    monkeypatch.setattr(batch_command, "LocalPool", Beside)
    assert school.batch().returncode == 0
    assert len(refusals) == 1 and "Another grading writes to" in refusals[0]
    with Gradebook.open_to_write(school.results):
        second = school.batch()
    assert second.returncode == 3
    assert "Another grading writes to" in second.stderr
    assert scores(school) == WITHOUT_CEM


def test_a_fault_of_the_suite_costs_no_points_and_is_judged_again(school: School) -> None:
    shutil.rmtree(school.submissions / "cem")
    suite = school.course / "tests" / "hidden" / "one" / "test_task.py"
    good = suite.read_text()
    suite.write_text(good + '\n\ndef test_odd(student):\n    """An odd one."""\n    1 / 0\n')
    done = school.batch()
    assert done.returncode == 3
    assert "not judged" in done.stdout and "ZeroDivisionError" in done.stdout
    assert scores(school)["ann"] == (0.0, Status.UNJUDGED)
    assert scores(school)["dee"] == EXPECTED["dee"]
    suite.write_text(good)
    assert school.batch().returncode == 0
    assert scores(school) == WITHOUT_CEM


def test_regrade_shows_who_gained_and_who_lost(school: School, tmp_path: Path) -> None:
    shutil.rmtree(school.submissions / "cem")
    school.batch()
    suite = school.course / "tests" / "hidden" / "one" / "test_task.py"
    text = suite.read_text()
    suite.write_text(text.replace("4.0", "6.0"))
    changes = tmp_path / "changes.json"
    done = run(school.command("regrade", str(school.results), "--json", str(changes)))
    assert done.returncode == 0, done.stderr
    assert "1 gained, 2 lost" in done.stdout
    assert "bob task: 7.5 to 10 (test_double failed to passed)" in done.stdout
    found = {each["student"]: each for each in json.loads(changes.read_text())}
    assert set(found) == {"ann", "bob", "eva"}
    assert found["ann"]["after"] == 7.5
    assert found["ann"]["tests"] == [["test_double", "passed", "failed"]]
    # The next regrade compares with this one.
    again = run(school.command("regrade", str(school.results)))
    assert "0 gained, 0 lost" in again.stdout


def test_a_dropped_exercise_no_longer_counts(school: School) -> None:
    shutil.rmtree(school.submissions / "cem")
    manifest = school.course / "exercises" / "course.toml"
    before = manifest.read_text()
    entry = before[before.index("[[exercise]]") :]
    manifest.write_text(before + "\n" + entry.replace('"task"', '"more"'))
    for path in school.course.rglob("*task.py"):
        shutil.copy(path, path.with_name(path.name.replace("task", "more")))
    for student in ("ann", "bob"):
        shutil.copy(
            school.submissions / student / "one" / "task.py",
            school.submissions / student / "one" / "more.py",
        )
    school.batch()
    ann = school.entries()["ann"].result
    assert (ann.score, ann.max_score) == (20, 20)
    manifest.write_text(before)
    done = run(school.command("regrade", str(school.results)))
    assert "more is no longer an exercise of the course: its 6 verdicts stay" in done.stdout
    assert scores(school) == WITHOUT_CEM
    assert {each.result.max_score for each in school.entries().values()} == {10}
    assert json.loads((school.results / "results" / "ann.json").read_text())["max_score"] == 10
    # The same download is not another attempt.
    assert "0 exercises judged" in school.batch().stdout
    assert {each.attempt for each in school.entries().values()} == {1}
    # Once restored, it counts again without another judgment.
    manifest.write_text(before + "\n" + entry.replace('"task"', '"more"'))
    assert "0 exercises judged" in school.batch().stdout
    assert school.entries()["ann"].result == ann


def test_a_file_for_a_new_exercise_is_an_attempt_of_its_own(school: School) -> None:
    shutil.rmtree(school.submissions / "cem")
    school.batch()
    manifest = school.course / "exercises" / "course.toml"
    before = manifest.read_text()
    manifest.write_text(
        before + "\n" + before[before.index("[[exercise]]") :].replace('"task"', '"more"')
    )
    for path in school.course.rglob("*task.py"):
        shutil.copy(path, path.with_name(path.name.replace("task", "more")))
    (school.submissions / "bob" / "one" / "more.py").write_text(RIGHT)
    school.batch()
    attempts = {name: each.attempt for name, each in school.entries().items()}
    assert attempts == {**dict.fromkeys(WITHOUT_CEM, 1), "bob": 2}


def test_a_folder_without_a_gradebook_is_reported(school: School, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(school.command("regrade", str(tmp_path / "empty")))
    assert done.returncode == 2
    assert "no gradebook" in done.stderr


def test_a_damaged_gradebook_is_reported(school: School) -> None:
    school.results.mkdir()
    (school.results / "gradebook.sqlite").write_bytes(b"nothing of the kind" * 100)
    done = school.batch()
    assert done.returncode == 3
    assert "cannot be opened" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux")
def test_a_missing_wall_stops_the_batch_before_any_code_runs(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")  # so that there is no bubblewrap
        command = ("batch", str(school.submissions), "-o", str(school.results))
        done = run_alone(school.command(*command, "--require-isolation", "full"))
    assert done.returncode == 3
    assert "isolation" in done.stderr and "bubblewrap" in done.stderr
    assert "Traceback" not in done.stderr
    before = scores(school)
    assert all(before[name] == (0.0, Status.UNJUDGED) for name in before.keys() - {"dee", "gus"})


def test_misnamed_work_beside_the_stub_is_reported_in_every_grading(
    school: School,
) -> None:
    stub = (school.course / "exercises" / "one" / "task.py").read_text()
    school.hand_in("hal", stub)
    (school.submissions / "hal" / "one" / "task_solution.py").write_text(RIGHT)
    note = "task: one/task.py is still the stub. Also handed in: task_solution.py"
    for done in (school.batch(), run(school.command("regrade", str(school.results)))):
        assert "1 misnamed" in done.stdout
        assert note in " ".join(done.stdout.split())
    # Changes come before the things to look at.
    assert done.stdout.index("0 gained, 0 lost") < done.stdout.index("To look at:")
    message = school.entries()["hal"].result.exercises[0].message
    assert message.endswith("Only task.py is judged: put the code there.")
