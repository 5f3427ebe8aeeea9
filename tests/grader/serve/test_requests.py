"""Regrade requests: students ask on their page, staff answers on the class page."""

from __future__ import annotations

import urllib.parse

from tests.grader.serve.conftest import SOLUTION, Answer, Served, sql

MESSAGE = "It is right: <b>look</b>\x1b[2J again."


def form(served: Served, path: str, who: str, **fields: str) -> Answer:
    body = urllib.parse.urlencode(fields).encode()
    return served.ask("POST", path, who, body, {"Origin": f"http://127.0.0.1:{served.port}"})


def home(served: Served, who: str) -> str:
    return served.ask("GET", "/", who).body.decode()


def test_a_request_and_its_answer_are_shown(served: Served) -> None:
    handed = served.hand_in("ada", {"greeting.py": SOLUTION})
    served.judged("ada", handed.json["id"])
    assert 'name="exercise" value="greeting"' in home(served, "ada")
    asked = form(served, "/requests", "ada", exercise="greeting", message=MESSAGE)
    assert (asked.status, asked.headers["Location"]) == (303, "/#ex-greeting")
    page = home(served, "ada")
    assert "It is not answered yet." in page and "&lt;b&gt;look" in page and "\x1b" not in page
    assert 'name="exercise" value="greeting"' not in page, "one request at a time"
    again = form(served, "/requests", "ada", exercise="greeting", message="And this?")
    assert again.status == 429
    queue = served.ask("GET", "/class/requests", "staff").body.decode()
    assert "Ada Test" in queue and "&lt;b&gt;look" in queue and "\x1b" not in queue
    answered = form(served, "/class/requests", "staff", number="1", answer="It is <i>not</i>.")
    assert answered.status == 303
    assert "Answer: It is &lt;i&gt;not&lt;/i&gt;." in home(served, "ada")
    assert "&lt;i&gt;" not in home(served, "bob")
    assert sql(served, "SELECT author FROM answers") == [("prof",)]
    standing = served.ask("GET", "/api/submissions/" + handed.json["id"], "ada").json
    assert standing["result"]["exercises"][0]["score"] > 0, "the points are unchanged"


def test_invalid_requests_are_refused(served: Served) -> None:
    for path, who, fields, status in (
        ("/requests", "bob", {"exercise": "none", "message": "x"}, 422),
        ("/requests", "bob", {"exercise": "greeting", "message": " "}, 422),
        ("/requests", "bob", {"exercise": "greeting", "message": "x" * 100_000}, 413),
        ("/requests", "staff", {"exercise": "greeting", "message": "x"}, 403),
        ("/requests", "", {"exercise": "greeting", "message": "x"}, 401),
        ("/class/requests", "bob", {"number": "1", "answer": "x"}, 403),
        ("/class/requests", "staff", {"number": "99", "answer": "x"}, 404),
        ("/class/requests", "staff", {"number": "1e9", "answer": "x"}, 404),
        ("/class/requests", "staff", {"number": "1", "answer": ""}, 422),
    ):
        assert form(served, path, who, **fields).status == status, (path, who, fields)
    assert served.ask("GET", "/class/requests", "bob").status == 403
    strange = served.ask(
        "POST",
        "/requests",
        "",
        b"exercise=greeting&message=x",
        {"Cookie": f"lab_bench_token={served.tokens['bob']}", "Origin": "http://evil.example"},
    )
    assert strange.status == 403, "another site cannot ask in a student's name"
    assert sql(served, "SELECT count(*) FROM requests WHERE student = 'bob'") == [(0,)]
