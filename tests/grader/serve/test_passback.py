"""Pass-back of a running server: turning it on and off, refusals, kills, and scales."""

from __future__ import annotations

import contextlib
import html
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from grader.exports.push.passback import known, passed_back
from grader.gradebook import Gradebook, platforms
from grader.gradebook.facts import AssignmentPart
from grader.gradebook.platforms import TurnedOn, changing_platforms, turn_off, turn_on
from grader.gradebook.tool_key import jwks, made_key
from grader.results import Status
from grader.serve import passback
from grader.serve.passback import PassBack, id_of
from tests.grader.builders import exercise, result
from tests.grader.exports.classroom_of_push import CLASS, LtiPushing, School, scores
from tests.grader.exports.conftest import school
from tests.grader.exports.platforms import LtiServer, same
from tests.grader.exports.platforms import serving as serving_platform
from tests.grader.serve.conftest import PATIENCE_SECONDS, SOLUTION, STUDENTS, Answer, Served, marked
from tests.grader.serve.test_requests import form

__all__ = ["school"]

ADA, BOB, EVE = 1001, 1002, 1003
WORTH = 10.0
FILES = {"greeting.py": SOLUTION}


@pytest.fixture
def platform() -> Iterator[LtiServer]:
    made = LtiServer(len(STUDENTS))
    with serving_platform(made):
        yield made


def launched(served: Served, platform: LtiServer) -> None:
    """Record a launch of every student from the platform."""
    with changing_platforms(served.results) as book:
        platforms.add_platform(book, platform.registered)
        for user, name in zip(platform.users, STUDENTS, strict=True):
            platforms.keep_launch(book, platform.link, f"u{user}", name)
    made_key(served.results)
    platform.jwks = jwks(served.results)


def press(served: Served, platform: LtiServer, do: str, who: str = "staff", **more: str) -> Answer:
    fields = {"link": id_of(platform.link), "do": do, **more}
    return form(served, "/class/platforms", who, **fields)


def page(served: Served) -> str:
    answer = served.ask("GET", "/class/platforms", "staff")
    assert answer.status == 200, answer
    return html.unescape(answer.body.decode())


def turned_on(served: Served, platform: LtiServer) -> None:
    assert press(served, platform, "plan").status == 303
    found = re.search(r'name="plan" value="([^"]+)"', page(served))
    assert found, page(served)
    assert press(served, platform, "on", plan=found[1]).status == 303


def until(holds: Callable[[], Any], told: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def hand_in(served: Served, who: str, source: bytes = SOLUTION) -> None:
    served.judged(who, served.hand_in(who, {"greeting.py": source}).json["id"])


@pytest.fixture
def linked(serving: Callable[..., Served], platform: LtiServer) -> Served:
    """A server to which every student has launched."""
    served = serving().start()
    launched(served, platform)
    return served


@pytest.fixture
def passing(linked: Served, platform: LtiServer) -> Served:
    """A server with pass-back on, which has sent Ada's points."""
    hand_in(linked, "ada")
    turned_on(linked, platform)
    until(lambda: platform.written == 1)
    return linked


def test_nothing_is_sent_until_a_person_confirms_the_plan(
    serving: Callable[..., Served], platform: LtiServer
) -> None:
    served = serving().start()
    empty = page(served)
    assert "No platform is registered" in empty and "grade platform invite" in empty
    launched(served, platform)
    hand_in(served, "ada")
    assert "Pass-back is off." in page(served)
    assert press(served, platform, "on").status == 409
    assert press(served, platform, "on", plan="2026-01-01T00:00:00Z").status == 409
    assert press(served, platform, "plan").status == 303
    # The time of another plan, as from a page opened earlier.
    assert press(served, platform, "on", plan="2026-01-01T00:00:00Z").status == 409
    shown = page(served)
    assert "What would be sent" in shown
    assert "Ada Test" in shown
    assert "Bob Test" not in shown, "students without a submission get nothing"
    assert platform.written == 0
    turned_on(served, platform)
    until(lambda: platform.written == 1)
    assert "Pass-back is on, since" in re.sub(r"</?strong>", "", page(served))
    until(lambda: "1 sent" in page(served))
    # A later change is sent once. Unchanged points are not sent again.
    hand_in(served, "bob")
    until(lambda: platform.written == 2)
    assert platform.writes == {ADA: 1, BOB: 1}
    assert EVE not in platform.grades
    # Once it is off, nothing more is sent, even after a restart.
    assert press(served, platform, "off").status == 303
    hand_in(served, "eve")
    assert served.stop() == 0
    served.start()
    assert "Pass-back is off." in page(served)
    assert platform.written == 2


@pytest.mark.thorough
def test_a_killed_server_continues_and_sends_nothing_twice(
    linked: Served, platform: LtiServer
) -> None:
    platform.shows_comments = False
    for who in STUDENTS:
        hand_in(linked, who)
    killed = threading.Event()

    def kill(written: int) -> None:
        if written == 2:
            linked.kill()
            killed.set()

    platform.at_write = kill
    turned_on(linked, platform)
    assert killed.wait(PATIENCE_SECONDS)
    platform.at_write = lambda _: None
    linked.start()
    until(lambda: platform.written >= len(STUDENTS))
    until(lambda: "1 sent" in page(linked))
    assert platform.writes == dict.fromkeys(platform.users, 1)
    assert [len(platform.comments[user]) for user in platform.users] == [1] * len(STUDENTS)


@pytest.mark.thorough
def test_a_refusal_by_the_platform_is_shown_and_delays_nobody_else(
    linked: Served, platform: LtiServer
) -> None:
    platform.refused[ADA] = "The grade is <b>locked</b>\x1b[2J"
    for who in STUDENTS[:2]:
        hand_in(linked, who)
    turned_on(linked, platform)
    until(lambda: "Refused: 1" in page(linked))
    raw = linked.ask("GET", "/class/platforms", "staff").body.decode()
    assert "ada: " in raw and "&lt;b&gt;locked" in raw and "\x1b" not in raw
    assert platform.grades.keys() == {BOB}
    hand_in(linked, "eve")
    until(lambda: EVE in platform.grades)
    platform.refused.clear()
    press(linked, platform, "again")
    until(lambda: ADA in platform.grades)
    assert platform.writes == dict.fromkeys(platform.users, 1)
    log = linked.log.read_text()
    assert "ada" not in log and "locked" not in log


def test_points_that_a_person_entered_are_kept(linked: Served, platform: LtiServer) -> None:
    platform.grades[ADA] = 2.5
    for who in STUDENTS[:2]:
        hand_in(linked, who)
    turned_on(linked, platform)
    until(lambda: BOB in platform.grades)
    until(lambda: "has 2.5 points in Our LMS, which no push sent" in page(linked))
    assert platform.grades[ADA] == 2.5


def asked_for_a_plan(served: Served, platform: LtiServer) -> None:
    """Press the button and wait for the answer or the end of the server."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        press(served, platform, "plan")


@pytest.mark.thorough
def test_a_hanging_platform_delays_neither_submissions_nor_the_stop(
    passing: Served, platform: LtiServer
) -> None:
    goes_on, is_met = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        is_met.set()
        goes_on.wait(PATIENCE_SECONDS)

    platform.override = hang
    try:
        hand_in(passing, "bob")
        assert is_met.wait(PATIENCE_SECONDS)
        # A plan that waits for the platform delays nothing, either.
        planning = threading.Thread(target=asked_for_a_plan, args=(passing, platform), daemon=True)
        planning.start()
        for number in range(3):
            hand_in(passing, "eve", marked(number))
        assert "Pass-back is on" in page(passing)
        assert passing.stop() == 0
    finally:
        platform.override = lambda _: None
        goes_on.set()
    passing.start()
    until(lambda: platform.grades.keys() == {ADA, BOB, EVE})
    assert platform.writes == dict.fromkeys(platform.users, 1)


@pytest.mark.thorough
def test_a_failing_platform_is_reported_and_retried(passing: Served, platform: LtiServer) -> None:
    platform.override = lambda _: (403, {}, {"error": "This tool is switched off."})
    hand_in(passing, "bob")
    until(lambda: "switched off" in page(passing))
    assert "It stopped early" in page(passing)
    platform.override = lambda _: None
    until(lambda: platform.written == 2)


def test_page_and_buttons_are_only_for_staff_and_our_origin(
    linked: Served, platform: LtiServer
) -> None:
    for who, status in (("ada", 403), ("", 401)):
        assert linked.ask("GET", "/class/platforms", who).status == status
        for do in ("plan", "on", "off", "again"):
            assert press(linked, platform, do, who).status == status
    assert press(linked, platform, "jump").status == 400
    assert form(linked, "/class/platforms", "staff", link="l0", do="plan").status == 422
    headers = {"Cookie": f"lab_bench_token={linked.staff}", "Origin": "http://evil.example"}
    body = f"link={id_of(platform.link)}&do=plan".encode()
    assert linked.ask("POST", "/class/platforms", "", body, headers).status == 403
    assert platform.requests == []


def test_a_removed_platform_gets_nothing_more(passing: Served, platform: LtiServer) -> None:
    known = platform.registered
    with changing_platforms(passing.results) as book:
        platforms.remove_platform(book, known.issuer, known.client_id)
    hand_in(passing, "bob")
    assert "No link yet" in page(passing)
    assert press(passing, platform, "again").status == 422
    launched(passing, platform)
    assert "Pass-back is off." in page(passing)
    assert platform.written == 1


@pytest.mark.parametrize("count", [20, pytest.param(CLASS, marks=pytest.mark.thorough)])
def test_a_class_arrives_once_despite_failing_requests(school: School, count: int) -> None:
    """Every fifth request is refused, throttled, cut off, or carried out without an answer."""
    school.grade(scores(count))
    platform = LtiServer(count)
    platform.shows_comments = False
    with serving_platform(platform):
        LtiPushing(school, platform)
        with changing_platforms(school.results) as book:
            turn_on(book, platform.link.key, TurnedOn("prof", "2026-11-30T00:00:00Z"))
        platform.refuse_every, platform.ways = 5, ("busy", "lost", "throttled", "cut")
        thread = PassBack(school.results)
        thread.start()
        try:
            until(lambda: platform.written >= count and platform.link.key in thread.rounds)
        finally:
            thread.close()
    assert all(same(platform.grades[user], points) for user, points in scores(count).items())
    assert platform.writes == dict.fromkeys(platform.users, 1)
    assert [len(platform.comments[user]) for user in platform.users] == [1] * count
    assert thread.rounds[platform.link.key].arrived == count


def test_points_are_scaled_to_the_column(school: School) -> None:
    school.grade(scores(3))
    platform = LtiServer(3)
    platform.worth = 100.0
    with serving_platform(platform):
        LtiPushing(school, platform)
        thread = PassBack(school.results)
        plan = thread.plan(platform.registered, platform.link).result()
        assert [line.here for line in plan.lines] == [
            f"{10 * points:g}" for points in scores(3).values()
        ]
        assert (
            "The column is worth 100 points and the course 10: points are scaled to 100."
            in plan.notes
        )
        assert platform.written == 0
        thread.close()
        # The points sent are those shown in the plan.
        done = passed_back(school.results, platform.registered, platform.link)
        assert done.lines == plan.lines and done.arrived == len(plan.lines)
        assert [f"{platform.grades[user]:g}" for user in scores(3)] == [
            line.here for line in plan.lines
        ]


def test_a_link_that_is_off_gets_nothing_even_if_due(school: School) -> None:
    """This happens if its platform is removed and registered again between two rounds."""
    school.grade(scores(1))
    platform = LtiServer(1)
    with serving_platform(platform):
        LtiPushing(school, platform)
        thread = PassBack(school.results)
        thread.wake(platform.link.key)
        thread.start()
        try:
            until(lambda: not thread._due_at or thread.rounds)
        finally:
            thread.close()
        assert thread.rounds == {} and platform.requests == []


@pytest.mark.parametrize("is_turned_off", [True, False])
def test_turning_off_or_closing_ends_a_round_after_the_current_student(
    is_turned_off: bool, school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The platform ends the round inside a request, so closing must not wait for the round.
    monkeypatch.setattr(passback, "_JOIN_SECONDS", 0.0)
    school.grade(scores(3))
    platform = LtiServer(3)
    key, thread = platform.link.key, PassBack(school.results)

    def end(_: object) -> None:
        if not is_turned_off:
            thread.close()
            return
        # As the server does it: first in the gradebook, so that a further round reads it.
        with changing_platforms(school.results) as book:
            turn_off(book, key)
        thread.turned_off(key)

    platform.at_write = end
    with serving_platform(platform):
        LtiPushing(school, platform)
        with changing_platforms(school.results) as book:
            turn_on(book, key, TurnedOn("prof", "2026-11-30T00:00:00Z"))
        thread.start()
        try:
            until(lambda: key in thread.rounds)
        finally:
            thread.close()
    assert (platform.written, thread.rounds[key].arrived, thread.rounds[key].error) == (1, 1, "")


def test_points_entered_between_comparing_and_sending_are_kept(school: School) -> None:
    school.grade(scores(2))
    platform = LtiServer(2)

    def enter() -> bool:
        platform.grades.setdefault(ADA, 1.0)
        return True

    with serving_platform(platform):
        LtiPushing(school, platform)
        done = passed_back(school.results, platform.registered, platform.link, enter)
    assert [line.student for line in done.lines] == [f"s{ADA}", f"s{BOB}"]
    (failure,) = done.failures
    assert failure.startswith(f"s{ADA}: ") and "have just changed" in failure
    assert (platform.grades[ADA], platform.writes, done.arrived) == (1.0, {BOB: 1}, 1)


def test_a_comment_leaves_out_unopened_assignments(school: School) -> None:
    school.grade(scores(1))
    blank = result(
        *(exercise(name=n, worth=10.0, status=Status.NOT_ATTEMPTED) for n in ("task", "secret"))
    )
    for opens, is_told in (("2999-01-01T00:00:00Z", False), ("2001-01-01T00:00:00Z", True)):
        parts = {
            "week0": AssignmentPart("Week 0", ("task",)),
            "week1": AssignmentPart("Week 1", ("secret",), opens),
        }
        with Gradebook.open_to_write(school.results) as book:
            book.change(exercises=("task", "secret"), blank=blank, assignments=parts)
        platform = LtiServer(1)
        with serving_platform(platform):
            LtiPushing(school, platform)
            assert passed_back(school.results, platform.registered, platform.link).arrived == 1
        (comment,) = platform.comments[ADA]
        assert "of 20 points" in comment and ("(to do)" in comment) is is_told, comment


def test_a_link_to_an_assignment_gets_only_its_points(school: School) -> None:
    school.grade(scores(2))
    empty = Status.NOT_ATTEMPTED
    blank = result(
        exercise(name="task", worth=10.0, status=empty, score=0.0),
        exercise(name="other", worth=5.0, status=empty, score=0.0),
    )
    parts = {
        name: AssignmentPart(name.title(), (task,))
        for name, task in (("week1", "task"), ("week2", "other"))
    }
    with Gradebook.open_to_write(school.results) as book:
        book.change(exercises=("task", "other"), blank=blank, assignments=parts)
    platform = LtiServer(2)
    with serving_platform(platform):
        LtiPushing(school, platform)
        link = msgspec.structs.replace(platform.link, assignment="week1")
        assert passed_back(school.results, platform.registered, link).arrived == 2
        # A column is made for this assignment only.
        alone = msgspec.structs.replace(link, lineitem="")
        assert passed_back(school.results, platform.registered, alone).arrived == 2
        with Gradebook.open(school.results) as book:
            other = msgspec.structs.replace(alone, assignment="week2")
            assert [len(known(book, each)) for each in (alone, other)] == [2, 0]
    platform = LtiServer(2)
    with serving_platform(platform):
        LtiPushing(school, platform)
        link = msgspec.structs.replace(platform.link, assignment="week2")
        # Nobody has submitted anything for week 2.
        assert passed_back(school.results, platform.registered, link).arrived == 0
        school.correct(ADA, exercise="other", points=4.0)
        done = passed_back(school.results, platform.registered, link)
        assert [(line.student, line.here) for line in done.lines] == [(f"s{ADA}", "8")]
        # Points once sent are kept up to date.
        with Gradebook.open_to_write(school.results) as book:
            book.correct(replacing=(0,))
        done = passed_back(school.results, platform.registered, link)
        assert [(line.student, line.here) for line in done.lines] == [(f"s{ADA}", "0")]
