"""`grade push`: the choice of a platform, and the question before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click
import pytest

from grader.cli.push import _linked, _pushed
from grader.errors import SubmissionError
from grader.exports.push import comparison
from grader.exports.push.comparison import Change, Mine, Options, Plan, Sent, There
from grader.exports.push.lti import RESULT, SCORE
from grader.gradebook import Gradebook, platforms, tool_key
from grader.gradebook.platforms import Link, Platform, changing_platforms
from grader.gradebook.review import Attention, Reason
from grader.results import Outcome
from tests.grader.builders import checked, exercise
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import HERE, School, key_of

CANVAS = ("--canvas", "https://canvas.example.edu/courses/12/assignments/34")
PLATFORM = Platform(
    issuer="https://lms.example.edu",
    client_id="X9",
    deployments=("1",),
    authorization="https://lms.example.edu/auth",
    token="https://lms.example.edu/token",
    keys="https://lms.example.edu/keys",
    name="The platform",
)
LINK = Link(
    issuer=PLATFORM.issuer,
    client_id=PLATFORM.client_id,
    deployment="1",
    context="c1",
    resource="r1",
    resource_title="Lab 1",
    lineitem="https://lms.example.edu/item/1",
    assignment="week1",
    scopes=(SCORE, RESULT),
)
CHANGE = Change(
    There(user="1", name="Ada", cells={}),
    Mine(student="ada", points=8, comment="", begins=()),
    new_points=True,
    new_comment=False,
)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name the assignment with --canvas, --moodle or --lti."),
        ((*CANVAS, "--lti"), "Name the assignment with --canvas, --moodle or --lti."),
        ((*CANVAS, "--moodle", "x"), "Name the assignment with"),
        ((*CANVAS, "--link", "Lab"), "--link goes with --lti."),
        (CANVAS, "There is no terminal to ask on"),
        ((*CANVAS, "--dry-run"), "There is no gradebook"),
        ((*CANVAS, "--yes"), "There is no gradebook"),
    ],
)
def test_conflicting_options_are_refused(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = invoke("push", tmp_path, *words, cwd=tmp_path)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_link_of_an_assignment_gets_no_points_of_the_whole_course(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Making a real key is slow.
    monkeypatch.setattr(tool_key, "made_key", lambda _: object())
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        book.finish(())
    with changing_platforms(school.results) as book:
        platforms.add_platform(book, PLATFORM)
        platforms.keep_launch(book, LINK)
    with Gradebook.open(school.results) as book:
        with pytest.raises(click.UsageError, match="give --assignment week1"):
            _linked(book, "", None)
        with pytest.raises(click.UsageError, match="give --assignment week1"):
            _linked(book, "Lab", "week2")
        assert _linked(book, "", "week1").name
        with pytest.raises(SubmissionError):
            _linked(book, "another", "week1")
    with Gradebook.open_to_write(school.results) as book:
        book.change(assignment="week1")
        assert _linked(book, "", None).name, "the gradebook is for that assignment"


class Target:
    name, address, notes = "Canvas", "https://canvas.example.edu/1", ["Lab 1 in Canvas."]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Record the plans that are sent. Each send reports one student sent and one failure."""
    plans: list[Plan] = []

    def send(plan: Plan, *_: object) -> Sent:
        plans.append(plan)
        return Sent(1, ["bob: Canvas refuses."])

    monkeypatch.setattr(comparison, "planned", lambda *_: Plan([CHANGE], left=["eve: held."]))
    monkeypatch.setattr(comparison, "send", send)
    return plans


def pushed(school: School, *, dry_run: bool, yes: bool) -> list[str]:
    """Push a class to the target."""
    platform = cast("comparison.Platform", Target())
    return _pushed(school.results, None, platform, Options(), dry_run=dry_run, yes=yes)


@pytest.mark.parametrize(
    ("dry_run", "yes", "agrees", "is_sent"),
    [
        (True, True, True, False),
        (True, False, True, False),
        (False, True, False, True),
        (False, False, True, True),
        (False, False, False, False),
    ],
)
def test_nothing_is_sent_without_a_yes(
    school: School,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sent: list[Plan],
    dry_run: bool,
    yes: bool,
    agrees: bool,
    is_sent: bool,
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
    monkeypatch.setattr(click, "confirm", lambda _: agrees)
    failures = pushed(school, dry_run=dry_run, yes=yes)
    assert len(sent) == is_sent
    shown = capsys.readouterr()
    assert "Lab 1 in Canvas.\neve: held.\n" in shown.err and "1 student to send." in shown.out
    assert failures == ["bob: Canvas refuses."] * is_sent
    assert ("1 student sent." in shown.out) == is_sent
    assert ("Nothing was sent." in shown.out) == (not dry_run and not is_sent)


def test_without_a_change_no_question_is_asked(
    school: School, monkeypatch: pytest.MonkeyPatch, sent: list[Plan]
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
    monkeypatch.setattr(comparison, "planned", lambda *_: Plan())
    monkeypatch.setattr(click, "confirm", lambda _: pytest.fail("asked"))
    pushed(school, dry_run=False, yes=False)
    assert len(sent) == 1, "even an empty plan settles earlier sends"


def test_zeros_with_something_to_look_at_are_counted(
    school: School, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = exercise(checked(outcome=Outcome.FAILED), name="task", worth=10)
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student in ("ann", "bob"):
            source = student.encode()
            book.keep(school.hand_in(book, student, source), key_of(source), 0, wrong, HERE)
        book.finish((Attention(Reason.MISNAMED, "ann", ("task",), "x"),))
    monkeypatch.setattr(comparison, "planned", lambda entries, *_: Plan(left=[*map(str, entries)]))
    pushed(school, dry_run=True, yes=False)
    told = "1 student with something to look at, such as a misnamed file, has 0 points in that exercise"
    assert told in " ".join(capsys.readouterr().err.split())
