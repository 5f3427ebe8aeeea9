"""Rights: a matrix of routes and roles, which students an assistant reaches, and tokens with roles."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from types import MappingProxyType
from typing import NamedTuple

import pytest
from starlette.routing import Route

from grader.course.manifest import load_course
from grader.gradebook import Gradebook, queue, tokens
from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.serve.api import Api
from grader.serve.app import routes
from grader.serve.pages import Pages
from grader.serve.roles import Asker
from grader.serve.sign_in.door import Door
from grader.serve.staff_api import StaffApi
from grader.serve.staff_pages import StaffPages
from grader.serve.views import Views
from tests.grader.command import grade
from tests.grader.serve.conftest import PLAIN, SOLUTION, Answer, Served, sql
from tests.grader.serve.test_practice import practiced
from tests.grader.serve.test_requests import form

WRONG = (PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py").read_bytes()
PEOPLE = ("", "ada", "owner", "staff", "assistant", "observer")
EVERYONE = frozenset(PEOPLE)
STUDENTS = frozenset(["ada"])
RUN = frozenset(["owner", "staff"])
MARK = RUN | {"assistant"}
READ = MARK | {"observer"}
# Staff may try exercises.
WRITE = STUDENTS | MARK


class Asked(NamedTuple):
    """A request to a route, and the people who may send it. All others are refused."""

    method: str
    route: str
    may: frozenset[str]
    # The fields of a form.
    fields: Mapping[str, str] = MappingProxyType({})


MATRIX = (
    Asked("POST", "/api/submissions", STUDENTS),
    Asked("GET", "/api/submissions/{id}", STUDENTS),
    Asked("GET", "/api/submissions/{id}/events", STUDENTS),
    Asked("GET", "/api/standing", STUDENTS),
    Asked("GET", "/api/exercises/{exercise}/draft", WRITE),
    Asked("PUT", "/api/exercises/{exercise}/draft", STUDENTS),
    Asked("GET", "/api/exercises/{exercise}/versions/{number}", WRITE),
    Asked("POST", "/api/exercises/{exercise}/practice", WRITE),
    Asked("POST", "/api/exercises/{exercise}/plot", WRITE),
    Asked("GET", "/api/staff/queue", READ),
    Asked("GET", "/api/staff/submissions", READ),
    Asked("GET", "/api/staff/students", READ),
    Asked("GET", "/api/staff/events", READ),
    Asked("POST", "/api/staff/pause", RUN),
    Asked("POST", "/api/staff/resume", RUN),
    Asked("POST", "/api/staff/regrade", RUN),
    Asked("GET", "/api/staff/me", READ),
    Asked("GET", "/api/staff/corrections", READ),
    Asked("POST", "/api/staff/corrections", MARK),
    Asked("GET", "/api/staff/corrections/class", RUN),
    Asked("POST", "/api/staff/corrections/class", RUN),
    Asked("GET", "/api/staff/extensions", READ),
    Asked("POST", "/api/staff/extensions", MARK),
    Asked("GET", "/api/staff/requests", READ),
    Asked("POST", "/api/staff/requests", MARK),
    Asked("GET", "/api/staff/marks/{exercise}", MARK),
    Asked("POST", "/api/staff/marks/{exercise}", MARK),
    Asked("GET", "/healthz", EVERYONE),
    Asked("GET", "/metrics", READ),
    Asked("GET", "/", EVERYONE),
    Asked("GET", "/exercise/{exercise}", WRITE),
    Asked("GET", "/exercise/{exercise}/file", WRITE),
    Asked("GET", "/assignment/{assignment}", EVERYONE),
    Asked("GET", "/release", WRITE),
    Asked("GET", "/class", READ),
    Asked("POST", "/class", RUN, {"do": "resume"}),
    Asked("GET", "/class/requests", READ),
    Asked("POST", "/class/requests", MARK, {"number": "1", "answer": "So."}),
    Asked("GET", "/class/students/{student:path}", READ),
    Asked("POST", "/class/students/{student:path}", MARK, {"do": "undo", "number": "99"}),
    Asked("GET", "/class/mark/{exercise}", MARK),
    Asked("POST", "/class/mark/{exercise}", MARK, {"do": "skip"}),
    Asked("GET", "/class/regrade", RUN),
    Asked("POST", "/class/regrade", RUN, {"exercise": "nothing"}),
    Asked("GET", "/class/export", MARK),
    Asked("POST", "/class/export", MARK, {"format": "nothing"}),
    Asked("GET", "/class/export/{id}", MARK),
    Asked("GET", "/class/platforms", RUN),
    Asked("POST", "/class/platforms", RUN, {"do": "off"}),
    Asked("GET", "/lti/keys", EVERYONE),
    Asked("GET", "/lti/login", EVERYONE),
    Asked("POST", "/lti/login", EVERYONE),
    Asked("GET", "/lti/launch", EVERYONE),
    Asked("POST", "/lti/launch", EVERYONE),
    Asked("GET", "/lti/register/{secret}", EVERYONE),
    Asked("POST", "/requests", STUDENTS, {"exercise": "greeting", "message": "Why?"}),
    Asked("POST", "/sign-in", frozenset()),
    Asked("GET", "/sign-in/university", EVERYONE),
    Asked("GET", "/sign-in/university/callback", EVERYONE),
    Asked("POST", "/sign-out", EVERYONE),
    Asked("GET", "/static/{name}", EVERYONE),
)
REFUSED = (401, 403)


@pytest.fixture(scope="module")
def classroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a student in section A and two in B, who each have a request and a file to look at."""
    server = Served(tmp_path_factory.mktemp("classroom")).start()
    for who in ("ada", "bob", "eve"):
        files = {"greeting.py": SOLUTION, "word_count.py": WRONG, "hw 3.py": b"x = 1"}
        server.judged(who, server.hand_in(who, files).json["id"])
        form(server, "/requests", who, exercise="word_count", message=f"Why, asks {who}?")
    yield server
    server.stop()


def request_of(served: Served, asked: Asked, who: str) -> Answer:
    """Send a request of the matrix as this person."""
    id_ = sent_by(served, "ada")
    path = asked.route.replace("{id}", id_).replace("{exercise}", "greeting")
    path = path.replace("{assignment}", "week1")
    path = path.replace("{number}", "0").replace("{name}", "serve.js")
    path = path.replace("{student:path}", "ada").replace("{secret}", "x")
    headers, body = {"Origin": f"http://127.0.0.1:{served.port}"}, None
    if asked.method != "GET":
        is_form = asked.fields or not asked.route.startswith("/api/")
        body = urllib.parse.urlencode(asked.fields).encode() if is_form else b"{}"
    if asked.route.endswith("/events"):
        return start_of_stream(served, path, who)
    return served.ask(asked.method, path, who, body, headers)


def sent_by(served: Served, who: str) -> str:
    standing = served.ask("GET", "/api/standing", who).json
    return str(standing["submissions"][0]["id"])


def start_of_stream(served: Served, path: str, who: str) -> Answer:
    """The answer of a stream without its events, which may not end."""
    token = served.staff if who == "staff" else served.tokens.get(who, "")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=240)
    with contextlib.closing(connection):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, b"")


def test_the_matrix_has_every_route() -> None:
    kinds = (Api, Pages, StaffPages, Door, StaffApi)
    there = {
        (method, route.path)
        for route in routes(*(kind.__new__(kind) for kind in kinds))  # type: ignore[arg-type]
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert there == {(asked.method, asked.route) for asked in MATRIX}


@pytest.mark.parametrize("asked", MATRIX, ids=lambda asked: f"{asked.method} {asked.route}")
def test_each_route_serves_only_its_roles(classroom: Served, asked: Asked) -> None:
    for who in PEOPLE:
        answer = request_of(classroom, asked, who)
        if who in asked.may:
            assert answer.status not in REFUSED, (who, answer)
        else:
            assert answer.status in REFUSED, (who, answer)
    classroom.resume()


# --- an assistant's reach -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/staff/queue",
        "/api/staff/submissions",
        "/api/staff/students",
        "/api/staff/requests",
        "/class",
        "/class/requests",
    ],
)
def test_lists_show_an_assistant_only_their_section(classroom: Served, path: str) -> None:
    own, whole = (classroom.ask("GET", path, who).body.decode() for who in ("assistant", "staff"))
    if path != "/api/staff/queue":
        assert "ada" in own
        assert "bob" in whole and "eve" in whole
    assert not re.findall(r"\b(?:bob|eve)\b", own, re.IGNORECASE), path


def test_running_jobs_show_an_assistant_only_their_section(
    serving: Callable[..., Served],
) -> None:
    """The queue names students being judged. In this gradebook, a file of each is with a judge."""
    served = serving().start()
    served.pause()
    for who in ("ada", "bob"):
        served.hand_in(who, {"greeting.py": SOLUTION})
    served.stop()
    with Gradebook.open_to_write(served.results) as book, book.transaction():
        while queue.take_job(book, 1.0) is not None:
            pass
        views = Views(book, load_course(PLAIN))
        of_a = Asker(Role.ASSISTANT, sections=("A",))
        for asker, students in ((of_a, {"ada"}), (Asker(Role.OBSERVER), {"ada", "bob"})):
            assert {job.student for job in views.queue(asker, 1, "").running} == students


def test_counts_of_stuck_students_cover_only_their_section(classroom: Served) -> None:
    practiced(classroom, "bob", "word_count", WRONG)
    whole = classroom.ask("GET", "/class", "staff").body.decode()
    assert "<strong>1 of 1</strong> who practiced it" in whole
    own = classroom.ask("GET", "/class", "assistant").body.decode()
    assert "who practiced it" not in own


def test_a_request_of_another_section_is_not_found(classroom: Served) -> None:
    assert sql(classroom, "SELECT student FROM requests WHERE number = 2") == [("bob",)]
    bob, nothing = (
        form(classroom, "/class/requests", "assistant", number=number, answer="No.")
        for number in ("2", "77")
    )
    assert bob.status == nothing.status == 404
    assert bob.body == nothing.body
    assert form(classroom, "/class/requests", "assistant", number="1", answer="Yes.").status == 303
    assert "Answer: Yes." in classroom.ask("GET", "/", "ada").body.decode()
    assert "Answer: No." not in classroom.ask("GET", "/", "bob").body.decode()


def test_an_assistant_without_a_section_reaches_nobody(classroom: Served) -> None:
    """A list of staff may lack sections. It is safer to show nobody than everybody."""
    with tokens.changing_tokens(classroom.results) as book:
        token = tokens.make_token(book, Role.ASSISTANT, "nobody", 0.0)
    assert classroom.ask("GET", "/api/staff/students", token).json == []
    assert classroom.ask("GET", "/api/staff/submissions", token).json == []


def test_an_observer_sees_only_the_button_to_sign_out(classroom: Served) -> None:
    for path in ("/class", "/class/requests"):
        page = classroom.ask("GET", path, "observer").body.decode()
        assert page.count("<button") == page.count(">Sign out<") == 1, path
    assert "Pause judging" not in classroom.ask("GET", "/class", "assistant").body.decode()


# --- tokens ---------------------------------------------------------------------------------------


def test_a_new_token_with_another_role_replaces_the_old_one(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()

    def tokens(*options: str) -> CompletedProcess[str]:
        return grade("tokens", served.results, *options, cwd=served.folder)

    kim = tokens("--staff", "kim", "--role", "assistant", "--section", "B")
    assert kim.returncode == 0
    token = kim.stdout.strip()
    students = served.ask("GET", "/api/staff/students", token).json
    assert [each["id"] for each in students] == ["bob", "eve"]
    other = tokens("--staff", "kim", "--role", "observer").stdout.strip()
    assert served.ask("GET", "/api/staff/students", token).status == 401
    assert len(served.ask("GET", "/api/staff/students", other).json) == 3
    assert served.ask("POST", "/api/staff/pause", other).status == 403
    # A token made without a role is an instructor's.
    plain = tokens("--staff", "prof").stdout.strip()
    assert json.loads(served.ask("POST", "/api/staff/resume", plain).body) == {"paused": False}
    assert tokens("--revoke-staff", "kim").returncode == 0
    assert served.ask("GET", "/api/staff/students", other).status == 401


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--staff", "kim", "--role", "assistant"], "--section A"),
        (["--staff", "kim", "--role", "observer", "--section", "A"], "--role assistant"),
        (["--staff", "kim", "--section", "A"], "--role assistant"),
        (["--staff", "kim", "--role", "assistant", "--section", " "], "class list"),
        (["--staff", " "], "needs a name"),
        (["--revoke-staff", "kim", "--role", "owner"], "--staff NAME"),
        (["--staff", "kim", "--role", "boss"], "boss"),
    ],
    ids=range(7),
)
def test_invalid_options_for_roles_are_refused(
    serving: Callable[..., Served], options: list[str], said: str
) -> None:
    served = serving()
    done = grade("tokens", served.results, *options, cwd=served.folder)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    with tokens.changing_tokens(served.results) as book:
        holders = {name for role in Role for name in tokens.holders(book, role)}
    assert "kim" not in holders


def test_a_section_without_students_gets_a_warning(serving: Callable[..., Served]) -> None:
    served = serving().start()
    done = grade(
        *("tokens", served.results, "--staff", "kim"),
        *("--role", "assistant", "--section", "C"),
        cwd=served.folder,
    )
    assert done.returncode == 0
    assert "No student is in section C so far; the class has: A and B." in done.stderr


def test_a_class_without_sections_is_told_where_they_come_from(tmp_path: Path) -> None:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        book.keep_student(StudentInfo(id="ada"))
    options = ("--staff", "kim", "--role", "assistant", "--section", "A")
    done = grade("tokens", tmp_path / "results", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    note = " ".join(done.stderr.split())
    assert "No student is in section A so far; nobody in the class has a section." in note
    assert "--roster" in note
