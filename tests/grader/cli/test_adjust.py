"""`grade adjust` refuses conflicting options before it opens a gradebook, and reports each effect."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from grader.cli import adjust as command
from grader.cli.extension import until_of
from grader.gradebook import Gradebook
from grader.gradebook.corrections import GivenExtension
from grader.grading import nothing_handed_in
from grader.judge.assignment import GradingOptions
from grader.serve.messages import PointsState
from grader.student.client import Server
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import School

REASON = ("--reason", "shown in the lab")


def error_of(tmp_path: Path, *words: str) -> str:
    """Return the error about these arguments after RESULTS, an empty folder."""
    done = invoke("adjust", tmp_path, *words, cwd=tmp_path)
    assert done.exit_code == 2, done.output
    assert list(tmp_path.iterdir()) == []
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("zoe", "relu"),
            "Say what to change: --points, --add, --drop, --give, --release, --until,",
        ),
        (("zoe", "relu", "--comment", " "), "Say what to change"),
        (("zoe", "relu", "--points", "8"), "Give a reason with --reason"),
        (("zoe", "relu", "--points", "8", "--reason", " "), "Give a reason with --reason"),
        (("zoe", "relu", "--points", "8", "--comment", "See me."), "Give a reason"),
        (("zoe", "relu", "--points", "nan", *REASON), "Points are a number."),
        (("zoe", "relu", "--add", "inf", *REASON), "Points are a number."),
        (
            ("zoe", "relu", "--points", "8", "--add", "1", *REASON),
            "one at a time of --points and --add.",
        ),
        (
            ("zoe", "relu", "--add", "1", "--release", *REASON),
            "one at a time of --add and --release.",
        ),
        (("zoe", "relu", "--drop", "test_a", *REASON), "add --all, and no STUDENT."),
        (("zoe", "relu", "--give", "test_a", *REASON), "add --all, and no STUDENT."),
        (
            ("--all", "relu", "--points", "8", *REASON),
            "--points is for one student; for the class, use",
        ),
        (("--all", "relu", "--release", *REASON), "--release is for one student's file"),
        (("--all", "relu", "--until", "2026-12-03", *REASON), "--until is for one student"),
        (("zoe", "--until", "2026-12-03", "--comment", "x", *REASON), "and has no --comment."),
        (("zoe", "--add", "1", *REASON), "Name STUDENT and EXERCISE; here: zoe."),
        (("--add", "1", *REASON), "Name STUDENT and EXERCISE; here: nothing."),
        (("zoe", "relu", "glu", "--add", "1", *REASON), "here: zoe relu glu."),
        (
            ("--all", "zoe", "relu", "--add", "1", *REASON),
            "Name EXERCISE alone with --all; here: zoe relu",
        ),
        (("--until", "2026-12-03", *REASON), "Name a STUDENT; here: nothing."),
        (("--list", "zoe"), "Name no names; here: zoe."),
        (("--list", "--undo"), "--list changes nothing: give it without other options."),
        (("--list", "--add", "1"), "--list changes nothing"),
        (("zoe", "relu", "--add", "1", "--number", "2", *REASON), "--number is for --undo."),
        (("--undo", "--number", "2", "zoe", "relu"), "Name no names; here: zoe relu."),
        (("--undo", "--number", "0"), "0 is not in the range x>=1."),
        (("--undo", "3"), "Give a number with --number: --undo --number 3."),
        (("--undo", "zoe"), "Name STUDENT and EXERCISE; here: zoe."),
    ],
)
def test_conflicting_options_are_refused(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    assert told in error_of(tmp_path, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("zoe", "relu", "--points", "0", *REASON),
        ("zoe", "relu", "--add", "-1", *REASON),
        ("zoe", "relu", "--release", *REASON),
        ("zoe", "relu", "--comment", "See me."),
        ("zoe", "--until", "2026-12-03", *REASON),
        ("zoe", "week1", "--until", "2026-12-03", *REASON),
        ("--all", "relu", "--give", "test_a", *REASON),
        ("--all", "relu", "--add", "1", *REASON),
        ("zoe", "relu", "--undo"),
        ("--all", "relu", "--undo", "--drop", "test_a"),
        ("--undo", "--number", "2"),
        ("--list",),
    ],
)
def test_valid_options_reach_the_gradebook(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "There is no gradebook" in error_of(tmp_path, *words)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--drop", "test_a", *REASON), "add --all, and no STUDENT."),
        (("--all", "--add", "1", *REASON), "Name EXERCISE alone with --all; here: zoe relu."),
        (("--all", "--undo"), "Name EXERCISE alone with --all; here: zoe relu."),
        (("--list",), "--list does not go with --server"),
        (("--undo",), "--undo does not go with --server"),
        (("--undo", "--number", "2"), "--number does not go with --server"),
        (("--number", "2"), "--number does not go with --server"),
        (("--all", "--undo", "--number", "0"), "0 is not in the range x>=1."),
        (("--author", "ben"), "--author does not go with --server"),
        (("--add", "1"), "Give a reason with --reason"),
    ],
)
def test_invalid_options_with_a_server_are_refused(
    tmp_path: Path, option: tuple[str, ...], told: str
) -> None:
    words = ("adjust", "--server", "https://grade.example.org", "zoe", "relu", *option)
    done = invoke(*words, cwd=tmp_path)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


def test_results_are_required(tmp_path: Path) -> None:
    done = invoke("adjust", cwd=tmp_path)
    assert (done.exit_code, "Name RESULTS, the folder" in done.stderr) == (2, True)
    done = invoke("adjust", "nowhere", "zoe", "relu", cwd=tmp_path)
    assert (done.exit_code, "nowhere" in done.stderr) == (2, True)


def test_an_unreadable_time_is_refused(tmp_path: Path) -> None:
    assert until_of("2026-12-03T23:59").isoformat() == "2026-12-03T23:59:00"
    done = invoke("adjust", tmp_path, "zoe", "--until", "noon", *REASON, cwd=tmp_path)
    assert done.exit_code == 2


# --- corrections, here and on a server ------------------------------------------------------------


@pytest.fixture
def graded(school: School) -> School:
    """Bob has 8 of 10 points."""
    course = school.course
    with Gradebook.open_to_write(school.results) as book:
        book.begin(course, nothing_handed_in(course, course.exercises, GradingOptions()))
        school.keep(book, school.hand_in(book, "bob", b"x = 1\n"), 8)
        book.finish(())
    return school


def adjusted(school: School, *words: str) -> Result:
    return invoke("adjust", school.results, *words, cwd=school.results)


def test_undo_takes_back_the_newest_correction_and_lists_the_others(graded: School) -> None:
    bob = ("bob", "task", *REASON, "--author", "ben")
    assert "8 to 9 of 10 points" in adjusted(graded, *bob, "--add", "1").stdout
    assert "9 to 10 of 10 points" in adjusted(graded, *bob, "--add", "3").stdout
    done = adjusted(graded, *bob, "--add", "2")
    assert "as before, 10 of 10 points" in done.stdout
    assert "It changes nothing now: points stay between 0 and the maximum" in done.stdout
    done = adjusted(graded, "bob", "task", "--undo")
    assert "taken back: 2 points" in done.stdout and "as before, 10 of 10" in done.stdout
    assert "Still in effect: 1, 2 of --list." in done.stderr
    assert "10 to 9 of 10" in adjusted(graded, "--undo", "--number", "2").stdout
    done = adjusted(graded, "--undo", "--number", "2")
    assert done.exit_code == 2 and "no correction with the number 2. Its only one" in done.stderr


def test_a_number_beyond_the_corrections_is_an_extension(graded: School) -> None:
    time = datetime.datetime(2026, 12, 3, 23, 59, tzinfo=datetime.UTC)
    given = GivenExtension(student="bob", until=time, reason="ill", author="ben", time=time)
    adjusted(graded, "bob", "task", *REASON, "--author", "ben", "--add", "1")
    with Gradebook.open_to_write(graded.results) as book:
        book.extend(given)
    assert adjusted(graded, "--undo", "--number", "2").exit_code == 0
    with Gradebook.open(graded.results) as book:
        assert len(book.corrections()) == 1 and book.extensions() == ()
    done = adjusted(graded, "--undo", "--number", "7")
    assert done.exit_code == 2 and "Its only one is number 1" in done.stderr


@pytest.mark.parametrize(
    ("option", "after", "said"),
    [
        (("--add", "1"), 9, "zoe relu\n8 to 9 of 10 points\n"),
        (("--add", "1"), 8, "zoe relu\nas before, 8 of 10 points\nIt changes nothing now"),
        (("--points", "8"), 8, "zoe relu\nas before, 8 of 10 points\n"),
        (("--release",), 8, "zoe relu: released, also for kim\nas before, 8 of 10 points\n"),
    ],
)
def test_a_correction_on_a_server_starts_from_the_points_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    after: float,
    said: str,
) -> None:
    server = Server("https://grade.example.org", "secret")
    seen = PointsState("zoe", "", "relu", 8, 10, False, "abc", ("kim",))
    sent: list[dict[str, object]] = []

    def correct(there: Server, before: PointsState, **change: object) -> PointsState:
        assert there is server and before is seen
        sent.append(change)
        return msgspec.structs.replace(before, score=after)

    monkeypatch.setattr(command, "signed_in", lambda _: server)
    monkeypatch.setattr(command, "points_on", lambda *words: seen)
    monkeypatch.setattr(command, "correct_on", correct)
    words = ("adjust", "--server", server.address, "zoe", "one/relu.py", *option, *REASON)
    done = invoke(*words, cwd=tmp_path)
    assert done.exit_code == 0 and done.stdout.startswith(said), done.output
    (change,) = sent
    assert change["reason"] == REASON[1]
    given = {name: change[name] for name in ("points", "add", "release") if change[name]}
    assert list(given) == [option[0].removeprefix("--")]
