"""The gate to exercises, without a server. `test_exam` and `test_term` test the routes behind it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.requests import Request

from grader.course.manifest import load_course
from grader.serve.gate import Gate
from grader.serve.http import Refusal
from tests.grader.conftest import WriteCourse
from tests.grader.serve.test_term import WEEKS, term_course

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
NETWORKS = 'networks = ["10.1.0.0/16", "2001:db8::/32"]'

GateOf = Callable[..., Gate]


@pytest.fixture
def gate_of(write_course: WriteCourse, tmp_path: Path) -> GateOf:
    """Make the gate of a server with only one assignment, which has these keys."""

    def make(keys: str, opens: datetime.datetime = NOW - DAY) -> Gate:
        course = write_course(tmp_path, "def test_a(student):\n    '''A'''\n")
        (course.folder / "assignments.toml").write_text(
            '[[assignment]]\nid = "midterm"\ntitle = "Midterm"\nexercises = ["task"]\n'
            f"opens = {opens.isoformat()}\ndue = {(NOW + 2 * DAY).isoformat()}\n{keys}\n",
            encoding="utf-8",
        )
        return Gate(load_course(tmp_path).assigned("midterm"))

    return make


def request(address: str = "10.1.2.3", *, token: bool = False) -> Request:
    """A request through a proxy that forwards the client's address."""
    headers = [(b"x-forwarded-for", address.encode())] if address else []
    headers += [(b"authorization", b"Bearer x")] if token else []
    return Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 5000)})


def refused(ask: Callable[[], None]) -> str:
    with pytest.raises(Refusal) as refusal:
        ask()
    assert refusal.value.status_code == 403
    return refusal.value.detail


def test_an_assignment_without_exam_allows_everything(gate_of: GateOf) -> None:
    """Even before its opening time, since the server was started for it."""
    gate = gate_of("", NOW + DAY)
    gate.enter(request(), "task")
    gate.hand_in(request(token=True), "task")
    gate.release(request(), ["task"])
    assert gate.exists("task") and not gate.is_term
    assert (gate.is_exam("task"), gate.has_hints("task")) == (False, True)


def test_an_exam_opens_at_its_time(gate_of: GateOf) -> None:
    early = gate_of("exam = {}", NOW + DAY)
    assert "Midterm opens at" in refused(lambda: early.enter(request(), "task"))
    gate_of("exam = {}").enter(request(), "task")


def test_an_exam_accepts_files_only_from_the_page(gate_of: GateOf) -> None:
    exam = gate_of("exam = {}")
    exam.hand_in(request(), "task")
    assert "on the page" in refused(lambda: exam.hand_in(request(token=True), "task"))


@pytest.mark.parametrize("address", ["", "10.2.0.1", "10.1.2.3, 192.0.2.1", "10.1.2.3.4", "::1"])
def test_other_networks_are_refused(gate_of: GateOf, address: str) -> None:
    exam = gate_of(f"exam = {{{NETWORKS}}}")
    for ask in (exam.enter, exam.hand_in):
        assert "own network" in refused(lambda ask=ask: ask(request(address), "task"))  # type: ignore[misc]


@pytest.mark.parametrize("address", ["10.1.2.3", "192.0.2.1, 10.1.2.3", "2001:db8::7"])
def test_the_networks_of_an_exam_are_allowed(gate_of: GateOf, address: str) -> None:
    gate_of(f"exam = {{{NETWORKS}}}").enter(request(address), "task")


@pytest.mark.parametrize(
    ("rules", "downloads", "release"),
    [("", True, True), ("hints = false", True, False), ("downloads = false", False, False)],
)
def test_a_release_needs_hints_and_downloads(
    gate_of: GateOf, rules: str, downloads: bool, release: bool
) -> None:
    exam = gate_of(f"exam = {{{rules}}}")
    assert (exam.has_downloads("task"), exam.has_release(["task"])) == (downloads, release)
    if not downloads:
        assert "cannot be downloaded" in refused(lambda: exam.download("task"))
    if not release:
        assert "downloaded" in refused(lambda: exam.release(request(), ["task"]))


def test_an_assignment_of_a_term_opens_at_the_given_second(tmp_path: Path) -> None:
    course = load_course(term_course(tmp_path / "course", *WEEKS))
    now = course.assignments[1].opens_at
    early, late = (
        Gate(course, lambda: now - datetime.timedelta(seconds=1)),
        Gate(course, lambda: now),
    )
    assert not early.exists("running_mean") and late.exists("running_mean")
    assert [e.id for e in early.exercises()] == ["word_count", "greeting"]
    request = Request({"type": "http", "headers": [], "client": ("192.0.2.1", 1)})
    with pytest.raises(Refusal, match="Week2 opens at"):
        early.enter(request, "running_mean")
    late.enter(request, "running_mean")
    assert early.why_closed("running_mean") and not late.why_closed("running_mean")
    assert not early.has_release(["greeting", "running_mean"])
    assert early.has_release(["greeting"]) and late.has_release(["greeting", "running_mean"])
