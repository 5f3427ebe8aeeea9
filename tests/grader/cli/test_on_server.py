"""Requests that staff commands send to a server, and the server that gets the token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from grader.cli import on_server
from grader.cli.on_server import (
    class_points_on,
    correct_class_on,
    keep_remarks,
    next_to_mark,
    regrade_on,
    requests_on,
    signed_in,
)
from grader.serve.messages import ClassCorrectionRequest, ClassState, FileForMarking
from grader.student.client import Server
from tests.grader.command import invoke

HERE = Server("https://grade.example.org", "secret")
STATE = {"exercise": "glu", "students": [], "seen": "abc", "said": ""}
FILE = FileForMarking(
    file="f1",
    student="ada",
    name="Ada",
    score=1.0,
    max_score=2.0,
    source="x = 1\n",
    keys=(),
    comments=(),
    marks=(),
    seen="abc",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record each request. The reply to it is popped from the end of this list."""
    told: list[Any] = []

    def answer(server: Server, method: str, address: str, body: bytes = b"") -> bytes:
        assert server is HERE
        reply = told.pop()
        told.append((method, address, msgspec.json.decode(body) if body else None))
        return msgspec.json.encode(reply)

    monkeypatch.setattr(on_server, "asked", answer)
    return told


@pytest.mark.parametrize("kept", [None, Server("https://elsewhere.example.org", "secret")])
def test_a_token_goes_only_to_its_own_server(
    monkeypatch: pytest.MonkeyPatch, kept: Server | None
) -> None:
    monkeypatch.setattr(on_server, "kept_server", lambda: kept)
    with pytest.raises(click.UsageError, match=r"grade login https://grade\.example\.org"):
        signed_in("https://grade.example.org")


@pytest.mark.parametrize("typed", ["https://grade.example.org/", "grade.example.org"])
def test_the_address_may_be_typed_in_other_ways(
    monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr(on_server, "kept_server", lambda: HERE)
    assert signed_in(typed) is HERE


def test_requests_are_fetched_all_or_by_number(asked: list[Any]) -> None:
    asked.append([])
    assert requests_on(HERE) == []
    assert asked.pop() == ("GET", "/api/staff/requests", None)
    asked.append([])
    requests_on(HERE, 3)
    assert asked.pop() == ("GET", "/api/staff/requests?number=3", None)


def test_a_class_correction_starts_from_the_state_shown(asked: list[Any]) -> None:
    asked.append(STATE)
    before = class_points_on(HERE, "a b&c")
    assert asked.pop() == ("GET", "/api/staff/corrections/class?exercise=a+b%26c", None)
    assert before == ClassState("glu", (), "abc", "")
    asked.append({**STATE, "said": "1 point more"})
    assert correct_class_on(HERE, before, add=1, reason="unclear").said == "1 point more"
    method, address, sent = asked.pop()
    assert (method, address) == ("POST", "/api/staff/corrections/class")
    change = ClassCorrectionRequest("glu", "abc", add=1, reason="unclear")
    assert msgspec.convert(sent, ClassCorrectionRequest) == change


def test_a_regrade_names_its_exercises(asked: list[Any]) -> None:
    asked.append({"queued": 4})
    assert regrade_on(HERE, ("glu", "gelu")) == 4
    assert asked.pop() == ("POST", "/api/staff/regrade", {"exercises": ["glu", "gelu"]})


@pytest.mark.parametrize(
    ("after", "again", "anonymous", "query"),
    [
        ("", False, False, ""),
        ("f1", False, False, "after=f1"),
        ("", True, False, "again=1"),
        ("", False, True, "anonymous=1"),
        ("f1", True, True, "after=f1&again=1&anonymous=1"),
    ],
)
def test_the_next_file_to_mark(
    asked: list[Any], after: str, again: bool, anonymous: bool, query: str
) -> None:
    asked.append({"items": [], "waiting": 0, "files": 0, "others": [], "file": None})
    assert next_to_mark(HERE, "a/b", after=after, again=again, anonymous=anonymous).file is None
    assert asked.pop() == ("GET", f"/api/staff/marks/a%2Fb?{query}", None)


def test_marks_carry_the_state_shown_and_return_the_next_one(asked: list[Any]) -> None:
    asked.append({"seen": "def"})
    kept = keep_remarks(HERE, "glu", FILE, "draft", ("d",), ("Line 1: x",))
    assert kept == msgspec.structs.replace(FILE, seen="def")
    about = {"file": "f1", "seen": "abc", "do": "draft", "keys": ["d"], "comments": ["Line 1: x"]}
    assert asked.pop() == ("POST", "/api/staff/marks/glu", about)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name RESULTS"),
        (("--server", "x", "--jobs", "2"), "give only exercises"),
        (("--server", "x", "--seed", "1"), "give only exercises"),
    ],
)
def test_regrade_needs_results_or_exercises_on_a_server(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    done = invoke("regrade", *words, cwd=tmp_path)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
