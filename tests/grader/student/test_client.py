"""The client of a course's server with prepared answers: the address, the token, and each kind of answer."""

from __future__ import annotations

import email.message
import io
import json
import os
import stat
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.errors import GraderError, SubmissionError
from grader.student import client
from grader.student.client import (
    PAUSES_SECONDS,
    ChangedError,
    ForbiddenError,
    RefusedError,
    Server,
    ServerAnswer,
    ServerError,
    asked,
    checked_address,
    hand_in,
    holder,
    is_unprotected,
    keep_server,
    kept_server,
    token_file,
    wait_for,
)
from tests.grader import builders

HERE = Server("https://grade.example.org", "secret")
RESULT = builders.result(builders.exercise(builders.checked()))


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings folder of this test's own."""
    monkeypatch.setenv("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("grade.example.org", "https://grade.example.org"),
        ("https://grade.example.org/", "https://grade.example.org"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://example.org/lab//", "https://example.org/lab"),
    ],
)
def test_an_address_is_normalized(typed: str, kept: str) -> None:
    assert checked_address(typed) == kept


@pytest.mark.parametrize(
    "typed", ["", "ftp://example.org", "https://", "https://example.org/?a=1", "example.org#top"]
)
def test_an_invalid_address_is_refused_with_an_example(typed: str) -> None:
    with pytest.raises(SubmissionError, match=r"is not an address: write https://grade\.example"):
        checked_address(typed)


def test_only_a_local_server_may_be_used_without_tls() -> None:
    assert is_unprotected("http://grade.example.org")
    for address in ("https://grade.example.org", "http://localhost:8000", "http://[::1]:8000"):
        assert not is_unprotected(address)


def test_a_token_is_readable_only_by_its_user() -> None:
    server = Server("https://grade.example.org", "s3cret")
    assert kept_server() is None
    file = keep_server(server)
    assert file == token_file()
    assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept_server() == server
    keep_server(Server(server.address, "newer"))
    assert kept_server() == Server(server.address, "newer")


def test_the_error_about_a_damaged_file_says_what_to_do() -> None:
    keep_server(Server("https://grade.example.org", "s3cret")).write_bytes(b"{")
    with pytest.raises(GraderError, match=r"cannot be read.*`grade login ADDRESS` writes it anew"):
        kept_server()


def test_an_unwritable_token_file_is_an_error(settings: Path) -> None:
    (settings / "lab-bench").write_text("a file, and no folder")
    with pytest.raises(GraderError, match="The token cannot be kept in"):
        keep_server(Server("https://grade.example.org", "s3cret"))


# --- answers --------------------------------------------------------------------------------------


def refusal(code: int, body: bytes = b'{"error": "No."}', **headers: str) -> urllib.error.HTTPError:
    message = email.message.Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError(HERE.address, code, "", message, io.BytesIO(body))


class Answers:
    """Give the replies in order, each a body or an exception. Record requests and pauses."""

    def __init__(self) -> None:
        self.replies: list[bytes | Exception] = []
        self.requests: list[urllib.request.Request] = []
        self.pauses: list[float] = []

    def open(self, request: urllib.request.Request, timeout: float) -> io.BytesIO:
        assert timeout > 0
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return io.BytesIO(reply)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(client, "opener", made)
    monkeypatch.setattr(time, "sleep", made.pauses.append)
    return made


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (refusal(400), SubmissionError, "No."),
        (refusal(413), SubmissionError, "No."),
        (refusal(422), SubmissionError, "No."),
        (refusal(403), ForbiddenError, "No."),
        (refusal(409), ChangedError, "No."),
        (refusal(404), RefusedError, "No."),
        (refusal(401), RefusedError, "No. `grade login https://grade.example.org` accepts a new"),
        (
            refusal(429, Retry_After="600"),
            ServerError,
            "No. Nothing was handed in. Try again in 10 minutes.",
        ),
        (refusal(429, Retry_After="7201"), ServerError, "Try again in 3 hours."),
        (refusal(429, Retry_After="90"), ServerError, "Try again in 90 seconds."),
        (refusal(429, Retry_After="1"), ServerError, "Try again in 1 second."),
        (refusal(429, Retry_After="noon"), ServerError, "No."),
        (refusal(302, b"<html>"), ServerError, "not an answer of `grade serve`. Copy the address"),
        (refusal(404, b"[]"), RefusedError, "answers 404, which is not an answer"),
    ],
)
def test_each_refusal_has_its_kind_and_is_not_retried(
    answers: Answers, error: urllib.error.HTTPError, kind: type[GraderError], told: str
) -> None:
    answers.replies = [error]
    with pytest.raises(kind) as raised:
        asked(HERE, "GET", "/api/standing")
    assert type(raised.value) is kind and told in str(raised.value)
    assert answers.pauses == []
    # The exit code is 3 if the same request may succeed later.
    assert kind.exit_code == (3 if kind in (ServerError, ChangedError) else 2)


def test_control_characters_in_a_refusal_are_removed(answers: Answers) -> None:
    answers.replies = [refusal(404, json.dumps({"error": "a\x1b[31mb"}).encode())]
    with pytest.raises(ServerError) as raised:
        asked(HERE, "GET", "/api/standing")
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("failure", [refusal(503), refusal(502), OSError("no route")])
def test_a_lost_answer_is_retried_with_the_same_key(answers: Answers, failure: Exception) -> None:
    told: list[str] = []
    body = {"id": "s1", "state": "waiting", "exercises": {}}
    answers.replies = [failure, failure, json.dumps(body).encode()]
    handed = hand_in(HERE, {"glu.py": b"x"}, told.append)
    assert (handed.id, handed.is_open) == ("s1", True)
    assert told == [
        "https://grade.example.org does not answer yet; trying again for half a minute."
    ]
    assert answers.pauses == [*PAUSES_SECONDS[:2]]
    keys = {request.get_header("Idempotency-key") for request in answers.requests}
    assert len(keys) == 1 and keys != {None}
    assert {request.get_header("Authorization") for request in answers.requests} == {
        "Bearer secret"
    }


def test_without_a_network_the_error_says_that_nothing_is_lost(answers: Answers) -> None:
    answers.replies = [urllib.error.URLError("no route")] * (len(PAUSES_SECONDS) + 1)
    with pytest.raises(ServerError, match=r"cannot be reached: no route\. Nothing is lost"):
        hand_in(HERE, {"glu.py": b"x"})
    assert answers.pauses == [*PAUSES_SECONDS] and answers.replies == []


def test_the_holder_of_a_token_is_a_student_or_staff(answers: Answers) -> None:
    answers.replies = [b'{"student": "ada", "name": "", "title": "DL"}']
    assert holder(HERE) == ("ada", "DL")
    answers.replies = [refusal(403), b'{"name": "Ben", "role": "assistant", "title": "DL"}']
    assert holder(HERE) == ("Ben, assistant", "DL")


def events(*told: tuple[str, dict[str, Any]]) -> bytes:
    lines = (f"event: {name}\ndata: {json.dumps(data)}\n\n: a comment\n" for name, data in told)
    return "".join(lines).encode()


def state(name: str, glu: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    return "state", {"id": "s1", "state": name, "exercises": {"glu": glu}, **more}


def test_waiting_for_a_verdict_reports_each_event(answers: Answers) -> None:
    judged = state("judged", {"state": "judged"}, result=msgspec.to_builtins(RESULT))
    answers.replies = [
        events(
            state("waiting", {"state": "waiting", "place": 3}),
            ("place", {"exercise": "glu", "place": 1}),
        ),
        OSError("the server restarts"),
        events(("test", {"exercise": "glu", "ended": 1, "of": 2}), judged),
    ]
    told: list[tuple[str, str]] = []
    handed = ServerAnswer("s1", "waiting", {})
    assert wait_for(HERE, handed, lambda *event: told.append(event)) == RESULT
    assert told == [
        ("state", "glu: place 3 in the queue"),
        ("place", "glu: place 1 in the queue"),
        ("test", "glu: 1 of 2 tests"),
        ("state", "glu: judged"),
    ]
    assert answers.pauses == [PAUSES_SECONDS[0]]


def test_if_the_server_stays_away_the_files_are_still_handed_in(answers: Answers) -> None:
    answers.replies = [OSError("no route")] * (len(PAUSES_SECONDS) + 1)
    with pytest.raises(ServerError, match="Your files are handed in and will be judged"):
        wait_for(HERE, ServerAnswer("s1", "waiting", {}), lambda *_: None)
    assert answers.pauses == [*PAUSES_SECONDS]


def test_a_file_that_was_replaced_has_no_verdict(answers: Answers) -> None:
    with pytest.raises(SubmissionError, match="A newer file replaced this one"):
        wait_for(HERE, ServerAnswer("s1", "replaced", {}), lambda *_: None)
    assert answers.requests == []
