"""A graded class, a platform, and `grade push` from one to the other."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from click.testing import Result

from grader import submissions
from grader.course.manifest import Course
from grader.gradebook import Gradebook, platforms
from grader.gradebook.corrections import Correction
from grader.gradebook.platforms import changing_platforms
from grader.gradebook.tool_key import jwks, made_key
from grader.results import ExerciseResult, Finding, Outcome, Status, StudentInfo, Visibility
from grader.submissions import ExerciseFile, Submission
from tests.grader.builders import checked, exercise
from tests.grader.command import invoke
from tests.grader.exports.platforms import TOKEN, LtiServer, Platform
from tests.grader.gradebook.conftest import HERE, key_of

SECRET = "CANARY_91c4"
CLASS = 300
FEW = 4
PATIENCE_SECONDS = 120
FILE = b"x = 1\n"
BUSY = ("busy",)
FIRST, SECOND, THIRD, LAST = range(1001, 1001 + FEW)


class School:
    """A graded class whose students have the ids of both platforms."""

    def __init__(self, course: Course, results: Path) -> None:
        self.course, self.results = course, results

    def grade(self, scores: dict[int, float], **changes: Any) -> None:
        """Keep an attempt for each student, with a verdict of these points out of 10."""
        with Gradebook.open_to_write(self.results) as book:
            book.begin(self.course)
            with book.transaction():
                for user, score in scores.items():
                    source = FILE + f"# {user} {score}\n".encode()
                    found = submissions.Attempt(
                        student=info_of(user),
                        submitted_at=f"2026-10-01T10:{len(book.tables.attempts_of(f's{user}')):02}:00Z",
                        origin="lab.zip",
                        path=Path("lab.zip"),
                    )
                    submission = Submission(f"s{user}", {"task": ExerciseFile(source)})
                    attempt = book.register(found, submission)
                    book.keep(attempt, key_of(source), 0, verdict(score, **changes), HERE)
            book.finish(())

    def correct(self, user: int, **fields: Any) -> None:
        made = Correction(
            student=f"s{user}",
            reason="shown in the lab",
            author="ben",
            time=datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC),
            **{"exercise": "task", **fields},
        )
        with Gradebook.open_to_write(self.results) as book:
            book.correct(made)


def info_of(user: int) -> StudentInfo:
    ids = {"canvas_id": str(user), "moodle_identifier": f"Participant {user + 5000}"}
    return StudentInfo(id=f"s{user}", name=f"First{user} Last{user}", ids=ids)


def verdict(score: float, **changes: Any) -> ExerciseResult:
    """Return a result whose hidden test failed with a value that students must not read."""
    found = Finding("It gives {value}.", values={"value": SECRET})
    hidden = checked(
        "test_hidden",
        Outcome.FAILED,
        visibility=Visibility.HIDDEN,
        message=f"It gives {SECRET}.",
        finding=found,
        printed=SECRET,
    )
    status = Status.PASSED if score == 10 else Status.PARTIAL
    given = {"name": "task", "worth": 10.0, "status": status, "score": score, "output": SECRET}
    return exercise(checked(), hidden, **{**given, **changes})


def scores(count: int) -> dict[int, float]:
    """Return points for this many students, few of them equal."""
    return {user: user % 97 / 10 for user in range(1001, 1001 + count)}


class Pushing:
    """A class and a platform, and `grade push` from one to the other."""

    def __init__(self, school: School, platform: Platform, option: str) -> None:
        self.school, self.platform, self.option = school, platform, option

    def arguments(self, *more: str, url: str = "") -> list[str]:
        return ["push", str(self.school.results), self.option, url or self.platform.url, *more]

    def __call__(self, *more: str, url: str = "", token: str = TOKEN) -> Result:
        words = self.arguments(*(more or ("--yes",)), url=url)
        tokens = {"CANVAS_TOKEN": token, "MOODLE_TOKEN": token}
        return invoke(*words, cwd=self.school.results, **tokens)

    def comments(self, user: int) -> list[str]:
        return self.platform.comments.get(user, [])


class LtiPushing(Pushing):
    """A push to a registered LTI platform. A launch has already brought the link of its course."""

    platform: LtiServer

    def __init__(self, school: School, platform: LtiServer) -> None:
        super().__init__(school, platform, "--lti")
        with changing_platforms(school.results) as book:
            platforms.add_platform(book, platform.registered)
            platforms.keep_launch(book, platform.link)
        made_key(school.results)
        platform.jwks = jwks(school.results)

    def arguments(self, *more: str, url: str = "") -> list[str]:
        return ["push", str(self.school.results), "--lti", *more]

    def launch(self, user: int = 0, student: str = "", **changes: Any) -> None:
        """Keep one more launch, from a link with these changes."""
        with changing_platforms(self.school.results) as book:
            link = msgspec.structs.replace(self.platform.link, **changes)
            platforms.keep_launch(book, link, f"u{user}" if user else "", student)


def kill_at(push: Pushing, write: int) -> None:
    """Push, and kill the command after `write` writes, before the platform answers the last one."""
    platform, started = push.platform, list[subprocess.Popen[bytes]]()

    def kill(written: int) -> None:
        if written == write:
            started[0].kill()
            started[0].wait(PATIENCE_SECONDS)

    platform.at_write = kill
    # The platform answers only once the process is known.
    with platform.lock:
        started.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "grader.cli", *push.arguments("--yes")],
                env={**os.environ, "CANVAS_TOKEN": TOKEN, "MOODLE_TOKEN": TOKEN},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    assert started[0].wait(PATIENCE_SECONDS) != 0
    with platform.lock:
        assert platform.written == write
    platform.at_write = lambda _: None
