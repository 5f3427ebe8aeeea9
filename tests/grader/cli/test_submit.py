"""`grade submit` and `grade login`: the server, the files, and the messages while you wait."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.cli.submit import (
    _changed,
    _earlier,
    _files,
    _newest,
    _status_line,
    login,
    signed_in_server,
)
from grader.course.manifest import Course
from grader.errors import SubmissionError, UsageError
from grader.student import client as remote
from grader.student.client import Server, ServerAnswer
from grader.student.progress import digest_of
from grader.student.workspace import Workspace
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import SUITE

HERE = Server("https://grade.example.org", "secret")
STUB, WORK = b"raise NotImplementedError\n", b"def double(x):\n    return 2 * x\n"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Callable[[Server | None, Server | None], None]:
    """Set the server of `grade login` and the server of a workflow."""

    def keep(server: Server | None, workflow: Server | None) -> None:
        monkeypatch.setattr(remote, "kept_server", lambda: server)
        monkeypatch.setattr(remote, "server_of_workflow", lambda _: workflow)

    return keep


Kept = Callable[[Server | None, Server | None], None]


def test_the_login_decides_the_server(kept: Kept) -> None:
    kept(HERE, None)
    assert signed_in_server() is HERE
    assert signed_in_server("grade.example.org/") is HERE
    kept(None, None)
    with pytest.raises(UsageError, match=r"Sign in first: grade login ADDRESS\."):
        signed_in_server()


def test_another_address_needs_a_login_or_a_workflow_of_its_own(kept: Kept) -> None:
    kept(HERE, None)
    with pytest.raises(
        UsageError, match=r"Sign in there first: grade login https://other\.example"
    ):
        signed_in_server("https://other.example")
    other = Server("https://other.example", "of the workflow")
    kept(HERE, other)
    assert signed_in_server("https://other.example") is other
    assert signed_in_server("https://grade.example.org") is HERE, "its own login is first"
    kept(None, other)
    with pytest.raises(UsageError):
        signed_in_server()


def workspace(tmp_path: Path, write_course: Callable[..., Course], source: bytes) -> Workspace:
    """Return a student's folder whose only file has this text."""
    course = write_course(tmp_path, SUITE)
    stub = tmp_path / "tests" / "stubs" / "one" / "task.py"
    stub.parent.mkdir(parents=True)
    stub.write_bytes(STUB)
    (course.folder / "one" / "task.py").write_bytes(source)
    return Workspace(course)


def server_has(monkeypatch: pytest.MonkeyPatch, file: str, *submissions: str) -> None:
    """Make the server report a file with this digest, and these submissions."""
    standing: dict[str, Any] = {
        "exercises": [{"name": "task", "file": file}],
        "submissions": [{"id": each} for each in submissions],
    }
    monkeypatch.setattr(remote, "standing", lambda _: standing)


@pytest.mark.parametrize(
    ("source", "on_server", "is_changed"),
    [
        (STUB, "", False),
        (WORK, "", True),
        (WORK, digest_of(WORK), False),
        (WORK, digest_of(STUB), True),
        (b"def double(:\n", "", True),
    ],
    ids=["the stub", "new", "known", "another one", "not valid Python"],
)
def test_only_changed_files_are_handed_in(
    tmp_path: Path,
    write_course: Callable[..., Course],
    monkeypatch: pytest.MonkeyPatch,
    source: bytes,
    on_server: str,
    is_changed: bool,
) -> None:
    here = workspace(tmp_path, write_course, source)
    server_has(monkeypatch, on_server)
    assert _changed(here, HERE) == list(here.course.exercises) * is_changed
    if is_changed:
        assert _files(here, HERE, ()) == [(here.course.exercises[0], source)]
    else:
        with pytest.raises(UsageError, match="Nothing changed"):
            _files(here, HERE, ())
        named = here.course.exercises
        assert _files(here, HERE, named) == [(named[0], source)], "named, it is handed in again"


def test_an_exercise_that_the_server_does_not_have_is_left_out(
    tmp_path: Path, write_course: Callable[..., Course], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = workspace(tmp_path, write_course, WORK)
    monkeypatch.setattr(remote, "standing", lambda _: {"exercises": [], "submissions": []})
    assert _changed(here, HERE) == []


def test_a_missing_named_file_is_refused(
    tmp_path: Path, write_course: Callable[..., Course]
) -> None:
    course = workspace(tmp_path, write_course, WORK).course
    (course.folder / "one" / "task.py").unlink()
    here = Workspace(course, allow_empty=True)
    with pytest.raises(SubmissionError, match=r"one/task\.py is missing"):
        _files(here, HERE, course.exercises)


def test_status_is_about_the_newest_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    server_has(monkeypatch, "d1gest")
    with pytest.raises(UsageError, match="You have handed in nothing yet"):
        _newest(HERE, remote.standing(HERE))
    server_has(monkeypatch, "d1gest", "s2", "s1")
    monkeypatch.setattr(remote, "submission", lambda _, id_: ServerAnswer(id_, "done", {}))
    newest, digests = _newest(HERE, remote.standing(HERE))
    assert (newest.id, digests) == ("s2", {"task": "d1gest"})


def test_earlier_exercises_without_a_verdict_have_no_points() -> None:
    def known(name: str, **changes: Any) -> dict[str, Any]:
        told = {"name": name, "file": "d1", "open": False, "status": "partial"}
        return {**told, "score": 0.5, "max_score": 2.0, **changes}

    own = {
        "exercises": [
            known("judged"),
            known("waiting", open=True),
            known("faulty", status="unjudged", score=0.0),
            known("never", file=""),
            known("shown"),
        ]
    }
    assert _earlier(own, {"shown"}) == [
        "judged 0.5 / 2",
        "waiting not judged yet",
        "faulty not judged yet",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"),
    [
        (io.StringIO, "waiting\njudged\n"),
        (Terminal, "\r\x1b[Kwaiting\r\x1b[Ktask: 1 of 2\r\x1b[Kjudged\r\x1b[K"),
    ],
)
def test_states_are_printed_once_and_tests_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], shown: str
) -> None:
    monkeypatch.setattr(sys, "stderr", err := stream())
    with _status_line() as tell:
        for event, text in (
            ("state", "waiting"),
            ("state", "waiting"),
            ("test", "task: 1 of 2"),
            ("state", "judged"),
        ):
            tell(event, text)
    assert err.getvalue() == shown


@pytest.mark.parametrize(
    "words",
    [("glu", "--all"), ("glu", "--status"), ("--all", "--status"), ("glu", "--all", "--status")],
)
def test_conflicting_selections_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = invoke("submit", *words, cwd=tmp_path)
    assert done.exit_code == 2
    assert "Give only one of exercises, --all and --status." in done.stderr


@pytest.mark.parametrize("typed", ["\n", "", "to\x1bken\n", "tökén\n", "a\tb\n"])
def test_an_invalid_token_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr(remote, "holder", lambda _: pytest.fail("it was sent"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert login.callback is not None
    with pytest.raises(Exception, match="This is not a token"):
        login.callback("https://grade.example.org")


def test_a_token_is_kept_only_after_the_server_accepts_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert login.callback is not None
    kept: list[Server] = []
    monkeypatch.setattr(remote, "keep_server", kept.append)

    def refused(server: Server) -> tuple[str, str]:
        raise remote.ServerError("This token is not valid.")

    monkeypatch.setattr(remote, "holder", refused)
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    with pytest.raises(remote.ServerError):
        login.callback("https://grade.example.org")
    assert kept == []
    monkeypatch.setattr(remote, "holder", lambda _: ("Ada", "Deep Learning"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(" secret \n"))
    login.callback("http://grade.example.org/")
    assert kept == [Server("http://grade.example.org", "secret")]
    shown = capsys.readouterr()
    assert shown.out == "Signed in as Ada: Deep Learning.\n"
    assert "not https, so others on the way can read the token" in shown.err
