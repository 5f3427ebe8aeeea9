"""`python -m bench.term`: the cost of `grade term` for 300 students and 10 assignments, against a floor.

Each gradebook has three exercises of this course with all of their tests, a late policy, two regrades, five
teams and some corrections. The verdicts are made up, since nothing is judged here. The floor reads the newest
verdicts of the same gradebooks with sqlite3, zlib and json, adds them up and writes a CSV: no policy, no
corrections, no checks. The two alternate, and their ratio is of processor seconds, which depend less on other
work of the machine than seconds on the clock.
"""

from __future__ import annotations

import datetime
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from rich.console import Console
from rich.table import Table

from grader.course.manifest import Course, load_course
from grader.gradebook import Gradebook
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import change_corrections
from grader.gradebook.policy_file import policy_of
from grader.gradebook.verdict_key import VerdictKey, source_digest
from grader.grading import environment_of, grading_options, nothing_handed_in
from grader.results import ExerciseResult, Outcome, Status, StudentInfo
from grader.submissions import Attempt, ExerciseFile, Submission

ROOT = Path(__file__).resolve().parents[1]
MAX_SECONDS, MAX_MIB = 5.0, 300.0
_EXERCISES, _REGRADES, _TEAMS, _CORRECTED = 3, 2, 5, 10
_DUE = datetime.datetime(2026, 10, 12, 21, 59, 59, tzinfo=datetime.UTC)
_POLICY = 'timezone = "Europe/Warsaw"\n[late]\ngrace = "15 minutes"\nper_day = 10\nat_most = 50\n'
_TERM = "[term]\ndrop_lowest = 1\ncuts = {A = 90, B = 75, C = 60, F = 0}\n"
# The least that has to be read: the newest verdict of each student and exercise.
_FLOOR = """
import csv, json, pathlib, sqlite3, sys, zlib

totals = {}
for folder in sys.argv[2:]:
    connection = sqlite3.connect(pathlib.Path(folder, "gradebook.sqlite"))
    newest = {}
    for student, exercise, result in connection.execute(
        "SELECT student, exercise, result FROM attempts JOIN grades ON attempt = id ORDER BY number"
    ):
        newest[student, exercise] = result
    shares = {}
    for (student, _), packed in newest.items():
        result = json.loads(zlib.decompress(packed))
        earned, worth = shares.get(student, (0.0, 0.0))
        shares[student] = earned + result["score"], worth + result["max_score"]
    for student, (earned, worth) in shares.items():
        totals[student] = totals.get(student, 0.0) + earned / worth
with open(sys.argv[1], "w", newline="") as file:
    csv.writer(file).writerows(sorted(totals.items()))
"""


class Cost(NamedTuple):
    """Seconds on the clock, processor seconds, and the peak memory in MiB."""

    wall: float
    cpu: float
    mib: float


def write_course(folder: Path, assignments: int) -> Course:
    """Write a copy of this course with this many assignments, and return it."""
    for part in ("exercises", "tests", "solutions"):
        ignored = shutil.ignore_patterns("__pycache__", "grader", "wrong", "right")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    exercises = [exercise.id for exercise in load_course(folder).exercises]
    parts = [_TERM, 'timezone = "Europe/Warsaw"\n']
    for number in range(assignments):
        mine = exercises[_EXERCISES * number : _EXERCISES * (number + 1)]
        due = _DUE + datetime.timedelta(weeks=number)
        parts.append(
            f'[[assignment]]\nid = "a{number}"\ntitle = "A {number}"\nexercises = {mine}\n'
            f"due = {due:%Y-%m-%dT%H:%M:%SZ}\nseed = {number + 1}\n"
        )
    # Keys of the file itself must come before the first table.
    text = "\n".join([parts[1], *parts[2:], parts[0]])
    (folder / "exercises" / "assignments.toml").write_text(text, encoding="utf-8")
    (folder / "exercises" / "policy.toml").write_text(_POLICY, encoding="utf-8")
    return load_course(folder)


def write_results(folder: Path, course: Course, students: int, seed: int, digits: int = 3) -> None:
    """Write the gradebook of an assignment or a course, with a class in which each student handed in twice."""
    draw = random.Random(seed)
    options = grading_options(seed, "all", "none")
    here = environment_of("2.13", ("seccomp",))
    blank = nothing_handed_in(course, course.exercises, options)
    names = [f"student{number:0{digits}}" for number in range(students)]
    with Gradebook.open_to_write(folder) as book:
        book.assign(course)
        book.begin(course, blank, policy_of(course))
        attempts = []
        with book.transaction():
            for place, name in enumerate(names):
                team = {"team": f"team{place // 2}"} if place < 2 * _TEAMS else {}
                student = StudentInfo(id=name, name=f"Student {place}", ids=team)
                for days in (-1, draw.choice((-1, 0, 1, 2))):
                    files = {
                        each.id: ExerciseFile(each.id.encode() + draw.randbytes(200))
                        for each in course.exercises
                    }
                    at = _DUE + datetime.timedelta(days=days, seconds=draw.randrange(3600))
                    found = Attempt(
                        student=student,
                        submitted_at=f"{at:%Y-%m-%dT%H:%M:%SZ}",
                        path=Path(name),
                    )
                    attempts.append((book.register(found, Submission(name, files)), files))
        book.finish(())
        # The first grading, and one after each change of the suite.
        for _ in range(1 + _REGRADES):
            book.begin(course, blank)
            with book.transaction():
                for attempt, files in attempts:
                    for each in blank.exercises:
                        digest = source_digest(files[each.name])
                        key = VerdictKey(digest, "course", "grader", f"{digest} {draw.random()}")
                        book.keep(attempt, key, seed, _judged(each, draw), here)
            book.finish(())
    time_of = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    corrected = [
        Correction(
            student=name,
            exercise=course.exercises[0].id,
            add=-1,
            reason="shown in the lab",
            author="bench",
            time=time_of,
        )
        for name in names[:_CORRECTED]
    ]
    change_corrections(folder, corrected)


def _judged(blank: ExerciseResult, draw: random.Random) -> ExerciseResult:
    """Return a verdict with some of its tests passed."""
    share = blank.max_score / len(blank.tests)
    tests = []
    for test in blank.tests:
        passed = draw.random() < 0.8
        tests.append(
            msgspec.structs.replace(
                test,
                outcome=Outcome.PASSED if passed else Outcome.FAILED,
                score=share if passed else 0.0,
                message="" if passed else "Your output has the shape (3, 4), expected (4, 3).",
            )
        )
    score = round(sum(test.score for test in tests), 2)
    status = Status.PASSED if all(test.score for test in tests) else Status.PARTIAL
    return msgspec.structs.replace(
        blank, tests=tuple(tests), score=score, status=status, settled=False, message=""
    )


def cost(command: list[str]) -> Cost:
    """Return the cost of a command; a command that fails ends the benchmark."""
    begin = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ)
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed.")
    taken = time.perf_counter() - begin
    return Cost(taken, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def medians(costs: list[Cost]) -> Cost:
    """Return the median of each figure, and the largest memory."""
    wall, cpu, mib = zip(*costs, strict=True)
    return Cost(statistics.median(wall), statistics.median(cpu), max(mib))


@click.command()
@click.option("--students", type=click.IntRange(2 * _TEAMS), default=300, show_default=True)
@click.option("--assignments", type=click.IntRange(2, 12), default=10, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
def main(students: int, assignments: int, rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        course = write_course(folder / "course", assignments)
        results = [folder / each.id for each in course.assignments]
        for number, each in enumerate(course.assignments):
            write_results(results[number], course.assigned(each.id), students, number + 1)
        paths = [str(each) for each in results]
        term = [sys.executable, "-m", "grader.cli", "term", *paths]
        term += ["-o", str(folder / "term"), "--course", str(course.root)]
        floor = [sys.executable, "-c", _FLOOR, str(folder / "floor.csv"), *paths]
        pairs = [(cost(term), cost(floor)) for _ in range(rounds)]
    ours, least = medians([a for a, _ in pairs]), medians([b for _, b in pairs])
    table = Table("what", "seconds", "of a processor", "MiB")
    for what, took in (("grade term", ours), ("the floor", least)):
        table.add_row(what, f"{took.wall:.2f}", f"{took.cpu:.2f}", f"{took.mib:.0f}")
    table.add_row("ratio", f"{ours.wall / least.wall:.2f}", f"{ours.cpu / least.cpu:.2f}", "")
    table.add_row("bound", f"< {MAX_SECONDS:.0f}", "", f"< {MAX_MIB:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
