"""Staff commands with --server: marking, regrade requests and regrades, as on the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from grader.cli import main, marking
from grader.gradebook import Gradebook
from tests.grader.serve.conftest import PLAIN, Answer, Served, sql
from tests.grader.serve.test_marking import marks, with_files
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_staff import work

__all__ = ["work"]

Command = Callable[..., Result]
API = "/api/staff/marks/greeting"


@pytest.fixture
def busy(serving: Callable[..., Served]) -> Served:
    """A server with a file of each student."""
    return with_files(serving())


def signed_in(served: Served, who: str) -> Command:
    """Sign in with `grade login`. Returns a function that runs a command with --server."""
    here = f"http://127.0.0.1:{served.port}"
    token = served.tokens.get(who, served.staff)
    assert CliRunner().invoke(main, ["login", here], input=f"{token}\n").exit_code == 0

    def called(command: str, *arguments: str, keys: str = "") -> Result:
        with patch("grader.cli.mark.refuse_without_terminal"):
            return CliRunner().invoke(main, [command, "--server", here, *arguments], input=keys)

    return called


# --- marking --------------------------------------------------------------------------------------


def test_grade_mark_marks_on_a_running_server_as_the_page_does(busy: Served, work: Path) -> None:
    command = signed_in(busy, "staff")
    # ada: an item and a comment on a line; bob: skipped; eve: an item, then quit.
    done = command("mark", "greeting", keys="dc2\nName it.\nnsdq")
    assert done.exit_code == 0, done.output
    assert "Ada Test  3 of 3 left  2.5 / 2.5" in done.output
    assert "Bob Test  2 of 3 left" in done.output and "Eve Test  2 of 3 left" in done.output
    assert "1 marked, 2 of 3 left." in done.output
    (mark,) = marks(busy)
    assert (mark.student, mark.add, mark.author) == ("ada", -1.0, "prof")
    assert mark.comment == "Line 2: Name it." and len(mark.marked) == 64
    # Another person finds the answers so far, and sees each file once.
    done = signed_in(busy, "owner")("mark", "greeting", "--anonymous", keys="ss")
    assert done.exit_code == 0 and "0 marked, 2 of 3 left." in done.output
    assert "d: -1 point" in done.output and not re.search("bob|eve", head_of(done), re.IGNORECASE)
    done = command("mark", "greeting", keys="nn")
    assert "2 marked, 0 of 3 left." in done.output
    assert {each.student: each.add for each in marks(busy)} == {"ada": -1.0, "bob": 0, "eve": -1.0}
    assert "0 marked, 0 of 3 left." in command("mark", "greeting").output
    again = command("mark", "greeting", "--again", keys="q")
    assert "Ada Test" in again.output


def head_of(done: Result) -> str:
    """The lines with which each file begins."""
    return "\n".join(line for line in done.output.splitlines() if " left  " in line)


def test_an_assistant_marks_only_their_section(busy: Served, work: Path) -> None:
    done = signed_in(busy, "assistant")("mark", "greeting", keys="n")
    assert done.exit_code == 0 and "1 marked, 0 of 1 left." in done.output
    assert [mark.student for mark in marks(busy)] == ["ada"]


def test_page_and_terminal_share_claims(busy: Served, work: Path) -> None:
    page = busy.ask("GET", "/class/mark/greeting", "owner").body.decode()
    assert "Ada Test" in page
    done = signed_in(busy, "staff")("mark", "greeting", keys="nn")
    assert "Ada Test" not in done.output and "2 marked, 1 of 3 left." in done.output
    assert "Others have the files that are left: owner." in done.output


def test_a_mark_with_an_outdated_state_is_refused(busy: Served) -> None:
    def asked(who: str) -> dict[str, str]:
        file = busy.ask("GET", API, who).json["file"]
        return {"file": file["file"], "seen": file["seen"]}

    def sent(who: str, file: dict[str, str], do: str, **more: object) -> Answer:
        return busy.ask("POST", API, who, json.dumps({**file, "do": do, **more}).encode())

    def status_of(more: Mapping[str, object]) -> int:
        body = {**now, "do": "draft", **more}
        return busy.ask("POST", API, "staff", json.dumps(body).encode()).status

    mine = asked("staff")
    kept = sent("staff", mine, "draft", keys=["d", "nothing"], comments=["Line 1: x", " "])
    assert kept.status == 200
    # Refused: an old state, and another person.
    assert sent("staff", mine, "next").status == 409
    now = {**mine, "seen": kept.json["seen"]}
    assert sent("owner", now, "next").status == 409
    file = busy.ask("GET", API, "staff").json["file"]
    assert (file["keys"], file["comments"]) == (["d"], ["Line 1: x"])
    assert sent("staff", now, "next", keys=["d"]).status == 200
    assert [(mark.student, mark.author) for mark in marks(busy)] == [("ada", "prof")]
    for more, status in (
        ({"do": "erase"}, 400),
        ({"keys": "d"}, 400),
        ({"author": "me"}, 400),
        ({"comments": ["x"] * 101}, 422),
        ({"file": "anon-aaaaaaaa"}, 404),
        ({"file": "bob"}, 404),
    ):
        assert status_of(more) == status, more
    of_bob = asked("staff")
    assert sent("assistant", of_bob, "next").status == 404
    # The refusal gave the assistant no claim.
    assert sent("staff", of_bob, "stop").status == 200
    assert busy.ask("GET", "/api/staff/marks/word_count", "staff").status == 404
    assert busy.ask("GET", "/api/staff/marks/nothing", "staff").status == 404
    anonymous = busy.ask("GET", f"{API}?anonymous=1", "staff").json["file"]
    assert (anonymous["student"], anonymous["name"]) == ("", "")


def test_after_a_conflict_the_changed_file_is_shown_again(busy: Served, work: Path) -> None:
    """Meanwhile, the same person marks the file on the page."""
    command, before = signed_in(busy, "staff"), marking.show

    def shown(*arguments: Any) -> None:
        before(*arguments)
        if marks(busy):
            return
        state = busy.ask("GET", API, "staff").json["file"]
        sent = {"file": state["file"], "seen": state["seen"], "do": "next"}
        assert busy.ask("POST", API, "staff", json.dumps(sent).encode()).status == 200

    with patch("grader.cli.mark.show", shown):
        done = command("mark", "greeting", keys="dsnn")
    assert done.output.count("Ada Test") == 2 and "Marked by prof: 0 points." in done.output
    assert done.exit_code == 0 and "Nothing was saved" in done.output, done.output
    assert "2 marked, 0 of 3 left." in done.output
    assert {mark.student: mark.add for mark in marks(busy)}["ada"] == 0


# --- regrade requests and a regrade ---------------------------------------------------------------


def test_grade_requests_lists_and_answers_on_a_running_server(busy: Served, work: Path) -> None:
    for who in ("ada", "bob"):
        assert form(busy, "/requests", who, exercise="greeting", message=f"Why, {who}?")
    command = signed_in(busy, "assistant")
    listed = command("requests").output
    assert "Why, ada?" in listed and "2.5 / 2.5" in listed and "bob" not in listed
    shown = command("requests", "1").output
    assert "Request 1" in shown and "Why, ada?" in shown and "greeting" in shown
    done = command("requests", "1", "--answer", "It is as it should be.")
    assert done.exit_code == 0 and "ada greeting: answered." in done.output
    assert sql(busy, "SELECT author, text FROM answers") == [
        ("assistant", "It is as it should be.")
    ]
    assert "It is as it should be." in busy.ask("GET", "/", "ada").body.decode()
    assert "1 request answered: --all also shows them." in command("requests").output
    for arguments, code, said in (
        (("2",), 2, "no such request"),
        (("2", "--answer", "x"), 2, "no such request"),
        (("1", "--answer", " "), 2, "answer is empty"),
    ):
        refused = command("requests", *arguments)
        assert refused.exit_code == code, (arguments, refused.output)
        assert said in " ".join(refused.output.split()), (arguments, refused.output)
    assert len(sql(busy, "SELECT * FROM answers")) == 1


def test_grade_regrade_asks_a_running_server(busy: Served, work: Path) -> None:
    command = signed_in(busy, "staff")
    assert "Every file that counts has a verdict" in command("regrade").output
    assert command("regrade", "nothing").exit_code == 2
    assert "give only exercises" in command("regrade", "--jobs", "2").output


def test_a_refusal_names_the_roles_with_the_right(busy: Served, work: Path) -> None:
    marker = "owner or instructor or assistant"
    correction = ("adjust", "ada", "greeting", "--add", "-1", "--reason", "x")
    for who, arguments, roles in (
        ("assistant", ("regrade",), "owner or instructor"),
        ("observer", ("mark", "greeting"), marker),
        ("observer", ("requests", "1", "--answer", "x"), marker),
        ("observer", correction, marker),
        ("ada", ("regrade",), ""),
    ):
        done = signed_in(busy, who)(*arguments)
        said = f"This needs the role {roles}, but your token is for an {who}."
        said = said if roles else "your token is for a student"
        assert said in " ".join(done.output.split()), done.output
        assert done.exit_code == 2, arguments


def test_a_folder_in_use_by_a_server_suggests_the_option(served: Served) -> None:
    commands = (
        ["mark", str(served.results), "greeting", "--course", str(PLAIN)],
        ["requests", str(served.results), "1", "--answer", "x"],
        ["regrade", str(served.results), "--course", str(PLAIN)],
    )
    for command in commands:
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 3 and "--server ADDRESS" in done.output, done.output
    with Gradebook.open(served.results) as book:
        assert book.corrections() == ()
