"""Cases that must not be mistaken for scores: stopped gradings, failed writes, and faults of the grader."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from grader.gradebook import Gradebook
from grader.results import Status

from .conftest import HALF, SOURCES, School, run, run_alone

pytestmark = pytest.mark.thorough


def export(results: Path) -> subprocess.CompletedProcess[str]:
    return run([*_program(), "export", str(results), "--format", "csv"])


def _program() -> list[str]:
    return [sys.executable, "-m", "grader.cli"]


def stopped(school: School, how: signal.Signals, *options: str) -> tuple[int, str]:
    """Stop a batch while it judges the endless loop of `cem`, and return its exit code and stderr."""
    command = school.command("batch", str(school.submissions), "-o", str(school.results), *options)
    # The exercise gets more time, so that the loop does not time out before the signal.
    manifest = school.course / "exercises" / "course.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace("seconds = 3", "seconds = 60"))
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not _is_next(school, "cem", after="bob") and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(how)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
        manifest.write_text(text)
    return process.returncode, stderr


def _is_next(school: School, student: str, after: str) -> bool:
    """Whether `student` waits for a verdict and `after` has one."""
    file = school.results / "gradebook.sqlite"
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        rows = connection.execute(
            "SELECT student, status FROM grades JOIN attempts ON attempts.id = attempt"
        )
        statuses: dict[str, str] = dict(rows.fetchall())
        return statuses.get(student) == "unjudged" != statuses.get(after, "unjudged")
    return False


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_an_unjudged_student_has_no_total(school: School) -> None:
    stopped(school, signal.SIGKILL, "--jobs", "1")
    assert school.entries()["cem"].result.exercises[0].status is Status.UNJUDGED
    done = export(school.results)
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert rows["cem"]["total"] == "" and rows["cem"]["one/task"] == ""
    assert rows["cem"]["max_score"] == "10"
    assert rows["ann"]["total"] == "10"
    assert "did not finish" in done.stderr and "grade batch" in done.stderr
    report = run([*_program(), "report", str(school.results), "-o", str(school.results / "report")])
    assert "did not finish" in report.stderr
    assert school.batch().returncode == 0
    assert school.entries()["cem"].result.exercises[0].status is Status.TIMEOUT
    # The timeout, and fay's code, which calls os._exit and has no points to hold.
    (note,) = export(school.results).stderr.splitlines()
    assert note.startswith("2 students with something to look at, such as a misnamed file, have 0 ")


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_an_interruption_prints_one_line(school: School) -> None:
    code, stderr = stopped(school, signal.SIGINT, "--jobs", "1")
    assert code == 130
    assert "Exception in thread" not in stderr
    assert stderr.strip().endswith("grade: interrupted.")
    assert "run `grade batch` with the same path again" in stderr


def test_a_result_that_cannot_be_written_is_reported_and_nothing_is_lost(school: School) -> None:
    in_the_way = school.results / "results" / "bob.json"
    in_the_way.mkdir(parents=True)
    done = school.batch()
    assert done.returncode == 3
    assert "please report it" not in done.stderr
    assert "bob.json cannot be written" in done.stderr
    in_the_way.rmdir()
    assert school.batch().returncode == 0
    assert len(list((school.results / "results").glob("*.json"))) == len(SOURCES)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_a_gradebook_on_a_read_only_medium_can_be_read(school: School) -> None:
    school.batch()
    there = export(school.results).stdout
    results = str(school.results)
    shut = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", results, results]
    done = run_alone([*shut, *_program(), "export", results, "--format", "csv"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == there
    done = run_alone(
        [*shut, *school.command("batch", str(school.submissions), "-o", results)],
    )
    assert done.returncode == 3
    assert f"Nothing can be written to {results}" in done.stderr
    assert "Another grading" not in done.stderr


def test_a_fault_while_regrading_costs_no_points_and_hides_no_change(school: School) -> None:
    school.batch()
    suite = school.course / "tests" / "hidden" / "one" / "test_task.py"
    good = suite.read_text()
    suite.write_text(good + '\n\ndef test_odd(student):\n    """An odd one."""\n    1 / 0\n')
    regrade = school.command("regrade", str(school.results))
    done = run(regrade)
    assert done.returncode == 3
    assert "0 gained, 0 lost" in done.stdout and "not judged" in done.stdout
    assert "without a final score" in done.stdout
    suite.write_text(good.replace("4.0", "6.0"))
    assert "1 gained, 2 lost" in run(regrade).stdout


def test_submissions_without_course_files_are_listed_in_every_grading(
    school: School, tmp_path: Path
) -> None:
    (school.submissions / "hal").mkdir()
    (school.submissions / "hal" / "work.docx").write_bytes(b"PK")
    with zipfile.ZipFile(school.submissions / "ivy.zip", "w") as archive:
        archive.writestr("inner.zip", b"PK\5\6" + bytes(18))
    (school.submissions / "kim.zip").write_bytes(b"PK\3\4 cut off")
    roster = tmp_path / "roster.csv"
    names = [*SOURCES, "hal", "ivy", "kim", "lou"]
    roster.write_text("id;name\n" + "".join(f"{each};{each.title()}\n" for each in names))
    done = school.batch("--roster", str(roster))
    assert "task: one/task.py is missing" in done.stdout and "(hal, Hal)" in done.stdout
    assert "work.docx" in done.stdout and "inner.zip" in done.stdout
    assert "In the roster, but handed in nothing: Lou." in done.stdout
    message = school.entries()["ivy"].result.exercises[0].message
    assert message.endswith("inner.zip. An archive in an archive is not opened.")
    again = run(school.command("regrade", str(school.results)))
    for student in ("hal", "ivy", "kim"):
        assert f"({student}, {student.title()})" in " ".join(again.stdout.split())
    # The second download is listed in addition to the first.
    more = tmp_path / "more" / "max" / "one"
    more.mkdir(parents=True)
    (more / "task.py").write_text(HALF)
    done = run(school.command("batch", str(tmp_path / "more"), "-o", str(school.results)))
    assert done.returncode == 0, done.stderr
    with Gradebook.open(school.results) as book:
        listed = {each.student for each in book.attention()}
    assert {"hal", "ivy", "kim", "cem", "fay"} <= listed


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_linked_folder_is_named_as_a_link(school: School) -> None:
    folder = school.submissions / "hal"
    folder.mkdir()
    (folder / "one").symlink_to(school.submissions / "ann" / "one")
    school.batch()
    written = json.loads((school.results / "results" / "hal.json").read_text())
    assert written["exercises"][0]["message"].endswith("Handed in instead: one (a link).")
