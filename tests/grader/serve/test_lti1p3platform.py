"""Pass-back and `grade push --lti` to a platform whose protocol is not our code: `lti1p3platform`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grader.gradebook import platforms
from grader.gradebook.platforms import changing_platforms
from grader.gradebook.tool_key import FILE, made_key
from grader.serve.passback import id_of
from grader.submissions import read_roster
from tests.grader.command import invoke
from tests.grader.exports.lti1p3 import Store
from tests.grader.exports.lti1p3 import serving as serving_platform
from tests.grader.serve.conftest import STUDENTS, Served
from tests.grader.serve.test_passback import hand_in, page, until
from tests.grader.serve.test_requests import form

LEARNER = "http://purl.imsglobal.org/vocab/lis/v2/membership#Learner"
TEACHER = "http://purl.imsglobal.org/vocab/lis/v2/membership#Instructor"


def course(*, linked: bool = True, worth: float = 20.0) -> Store:
    """A course none of whose members has launched yet."""
    users: dict[str, dict[str, Any]] = {
        f"id-{name}": {"email": f"{name.title()}@example.org", "roles": [LEARNER]}
        for name in STUDENTS
    }
    users["id-prof"] = {"email": "prof@example.org", "roles": [TEACHER], "status": "Active"}
    return Store(users, worth, linked=linked)


def launched(served: Served, store: Store) -> None:
    with changing_platforms(served.results) as book:
        platforms.add_platform(book, store.platform)
        platforms.keep_launch(book, store.link)


def push(served: Served, *words: str) -> Any:
    return invoke("push", str(served.results), "--lti", *words, cwd=served.folder)


def total_of(served: Served, who: str) -> float:
    return float(served.ask("GET", "/api/standing", who).json["score"])


@pytest.mark.parametrize("linked", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_points_are_pushed_once(serving: Callable[..., Served], linked: bool) -> None:
    served = serving().start()
    made_key(served.results)
    for who in STUDENTS[:2]:
        hand_in(served, who)
    store = course(linked=linked)
    with serving_platform(store, f"http://127.0.0.1:{served.port}/lti/keys"):
        launched(served, store)
        scale = ("--out-of", "20") if linked else ()
        assert "3 students to send, 1 of them" in push(served, "--dry-run", *scale).stdout
        assert store.scores == []
        done = push(served, "--yes", *scale)
        assert done.exit_code == 0, done.stderr
        assert "3 students sent." in done.stdout
        users = [score["userId"] for _, score in store.scores]
        assert sorted(users) == [f"id-{name}" for name in STUDENTS]
        for column, score in store.scores:
            points = total_of(served, score["userId"].removeprefix("id-"))
            share = score["scoreGiven"] / score["scoreMaximum"]
            whole = served.ask("GET", "/api/standing", "ada").json["max_score"]
            assert share == pytest.approx(points / whole, abs=0.001)
            assert column == f"{store.address}/items/1"
        assert "Nothing to send." in push(served, "--yes", *scale).stdout
        assert len(store.scores) == 3
        assert len(store.items) == 1


def test_a_server_with_a_platform_but_no_class_list_admits_only_staff(
    serving: Callable[..., Served],
) -> None:
    served = serving()
    command = ("serve", str(served.course), "-o", str(served.results))
    assert "Name the class list" in invoke(*command, cwd=served.folder).stderr
    store = course()
    store.address = "https://lms.example.edu"
    with changing_platforms(served.results) as book:
        platforms.add_platform(book, store.platform)
    served.start(roster=False)
    assert served.ask("GET", "/class", "staff").status == 200
    assert served.ask("GET", "/api/standing", "ada").status in (401, 403)


def test_the_class_list_can_come_from_the_platform(serving: Callable[..., Served]) -> None:
    served = serving().start()
    made_key(served.results)
    store = course()
    store.users["id-ada"]["name"] = "=Ada"
    store.users["id-none"] = {"name": "No Address", "roles": [LEARNER]}
    command = ("platform", "roster", str(served.results), "-o", "from-platform.csv")
    with serving_platform(store, f"http://127.0.0.1:{served.port}/lti/keys"):
        assert (
            "no launch gave access to its names and roles"
            in invoke(*command, cwd=served.folder).stderr
        )
        launched(served, store)
        done = invoke(*command, cwd=served.folder)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == "Left out, without an email of their own: No Address.\n"
    listed = read_roster(served.folder / "from-platform.csv").students
    assert [student.id for student in listed] == [
        "Ada@example.org",
        "Bob@example.org",
        "Eve@example.org",
    ]
    assert (
        (served.folder / "from-platform.csv")
        .read_text("utf-8")
        .splitlines()[1]
        .startswith("Ada@example.org,'=Ada")
    )
    assert "already exists" in invoke(*command, cwd=served.folder).stderr


@pytest.mark.thorough
def test_a_server_passes_changes_back(serving: Callable[..., Served]) -> None:
    served = serving().start()
    made_key(served.results)
    hand_in(served, "ada")
    store = course()
    with serving_platform(store, f"http://127.0.0.1:{served.port}/lti/keys"):
        launched(served, store)
        link = id_of(store.link)
        assert form(served, "/class/platforms", "staff", link=link, do="plan").status == 303
        plan = page(served).partition('name="plan" value="')[2].partition('"')[0]
        form(served, "/class/platforms", "staff", link=link, do="on", plan=plan)
        until(lambda: len(store.scores) == 1, lambda: page(served))
        hand_in(served, "bob")
        until(lambda: len(store.scores) == 2, lambda: page(served))
        assert [score["userId"] for _, score in store.scores] == ["id-ada", "id-bob"]
        assert served.stop() == 0


@pytest.mark.thorough
def test_a_key_that_the_platform_does_not_know_is_refused(serving: Callable[..., Served]) -> None:
    served = serving().start()
    made_key(served.results)
    hand_in(served, "ada")
    store = course()
    with serving_platform(store, f"http://127.0.0.1:{served.port}/lti/keys"):
        launched(served, store)
        assert push(served, "--dry-run", "--out-of", "20").exit_code == 0
        (served.results / FILE).unlink()
        done = push(served, "--yes", "--out-of", "20")
        assert done.exit_code == 3
        assert "Unable to find public key" in done.stderr
        assert store.scores == []
