"""The door of an exam, without a server; test_exam has the routes behind it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.requests import Request

from grader.course.manifest import load_course
from grader.serve.exam import ExamDoor
from grader.serve.http import Refusal
from tests.grader.conftest import WriteCourse

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
NETWORKS = 'networks = ["10.1.0.0/16", "2001:db8::/32"]'

Door = Callable[..., ExamDoor]


@pytest.fixture
def door(write_course: WriteCourse, tmp_path: Path) -> Door:
    """Makes the door of an assignment with these keys."""

    def make(keys: str, opens: datetime.datetime = NOW - DAY) -> ExamDoor:
        course = write_course(tmp_path, "def test_a(student):\n    '''A'''\n")
        (course.folder / "assignments.toml").write_text(
            '[[assignment]]\nid = "midterm"\ntitle = "Midterm"\nexercises = ["task"]\n'
            f"opens = {opens.isoformat()}\ndue = {(NOW + 2 * DAY).isoformat()}\n{keys}\n",
            encoding="utf-8",
        )
        return ExamDoor(load_course(tmp_path).assigned("midterm"))

    return make


def request(address: str = "10.1.2.3", *, token: bool = False) -> Request:
    """A request through a proxy that says where it came from."""
    headers = [(b"x-forwarded-for", address.encode())] if address else []
    headers += [(b"authorization", b"Bearer x")] if token else []
    return Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 5000)})


def refused(ask: Callable[[], None]) -> str:
    with pytest.raises(Refusal) as refusal:
        ask()
    assert refusal.value.status_code == 403
    return refusal.value.detail


def test_without_an_exam_everything_is_allowed(door: Door) -> None:
    every_day = door("", NOW + DAY)
    every_day.enter(request())
    every_day.hand_in(request(token=True))
    every_day.release()
    assert (every_day.is_exam, every_day.has_hints) == (False, True)


def test_it_opens_at_its_time(door: Door) -> None:
    assert "The exam opens at" in refused(lambda: door("exam = {}", NOW + DAY).enter(request()))
    door("exam = {}").enter(request())


def test_only_the_page_hands_in(door: Door) -> None:
    exam = door("exam = {}")
    exam.hand_in(request())
    assert "on the page" in refused(lambda: exam.hand_in(request(token=True)))


@pytest.mark.parametrize("address", ["", "10.2.0.1", "10.1.2.3, 192.0.2.1", "10.1.2.3.4", "::1"])
def test_outside_of_its_networks_nobody_enters(door: Door, address: str) -> None:
    exam = door(f"exam = {{{NETWORKS}}}")
    assert "own network" in refused(lambda: exam.enter(request(address)))
    assert "own network" in refused(lambda: exam.hand_in(request(address)))


@pytest.mark.parametrize("address", ["10.1.2.3", "192.0.2.1, 10.1.2.3", "2001:db8::7"])
def test_inside_of_them_everybody_enters(door: Door, address: str) -> None:
    door(f"exam = {{{NETWORKS}}}").enter(request(address))


@pytest.mark.parametrize(
    ("rules", "downloads", "release"),
    [("", True, True), ("hints = false", True, False), ("downloads = false", False, False)],
)
def test_a_release_has_the_hints(door: Door, rules: str, downloads: bool, release: bool) -> None:
    exam = door(f"exam = {{{rules}}}")
    assert (exam.has_downloads, exam.has_release) == (downloads, release)
    if not downloads:
        assert "nothing is downloaded" in refused(exam.download)
    if not release:
        assert "downloaded" in refused(exam.release)
