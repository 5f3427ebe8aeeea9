"""Plots on the exercise page: drawn in a process of their own, one by one, when no submission waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
from selenium.webdriver.common.by import By

from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions
from grader.serve.drawing import MAX_PLOTS, MAX_WAITING, Drawing
from grader.serve.http import Refusal
from tests.grader.exports.report.test_browser import light, resize
from tests.grader.serve.conftest import PATIENCE_SECONDS, PLAIN, Answer, Served
from tests.grader.serve.test_browser import sign_in, sign_out, until
from tests.grader.serve.test_exercise import open_editor, wait_for_text
from tests.grader.serve.test_openapi import check
from tests.grader.serve.test_pages import SIZES, console

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.thorough

EXPERIMENT = """
import msgspec

SIZE = (4, 3)


class Data(msgspec.Struct):
    length: int


def experiment(student):
    return {"length": len(student.greeting("Ada"))}


def draw(figure, data):
    figure.subplots().bar([0], [data.length])
"""
RIGHT = (PLAIN / "solutions" / "text" / "greeting.py").read_text(encoding="utf-8")
WRONG = "def greeting(name):\n    return 7\n"


@pytest.fixture(scope="module")
def plotting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose exercise greeting has a plot."""
    folder = tmp_path_factory.mktemp("plotting")
    shutil.copytree(PLAIN, folder / "plain", ignore=shutil.ignore_patterns("__pycache__"))
    plot = folder / "plain" / "tests" / "plots" / "text" / "plot_greeting.py"
    plot.parent.mkdir(parents=True)
    plot.write_text(EXPERIMENT, encoding="utf-8")
    server = Served(folder, course=folder / "plain").start()
    yield server
    server.stop()


def plot(served: Served, who: str, source: str, exercise: str = "greeting") -> Answer:
    path = f"/api/exercises/{exercise}/plot"
    answer = served.ask("POST", path, who, json.dumps({"source": source}).encode())
    check("/api/exercises/{exercise}/plot", "post", answer)
    return answer


def test_a_plot_is_drawn_outside_of_the_server(plotting: Served) -> None:
    for who in ("ada", "staff"):
        answer = plot(plotting, who, RIGHT)
        assert answer.status == 200 and answer.headers["Content-Type"] == "image/png"
        assert struct.unpack(">II", answer.body[16:24]) > (100, 100)
    process = psutil.Process(plotting.pid)
    loaded = {Path(each.path).name for each in process.memory_maps()}
    assert not any("matplotlib" in name or "_path" in name for name in loaded)
    # The process that drew it has ended.
    programs = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            programs.append(" ".join(child.cmdline()))
    assert any("judge.process" in program for program in programs)
    assert not any("student.plots" in program for program in programs)


def test_a_plot_that_fails_says_why(plotting: Served) -> None:
    for source, why in (
        (WRONG, "TypeError"),
        ("def greeting(name:\n", "line 1"),
        ("def greeting(name):\n    raise ValueError(name)\n", "ValueError"),
        ("import os\nos._exit(0)\n", "No picture yet."),
    ):
        answer = plot(plotting, "bob", source)
        assert answer.status == 422 and why in answer.json["error"], answer
    assert plot(plotting, "bob", RIGHT, "word_count").status == 404


def test_a_student_can_send_only_two_texts_at_once(plotting: Served) -> None:
    """Each slow body takes memory for up to a minute."""
    path, token = "/api/exercises/greeting/plot", plotting.tokens["eve"]
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            slow = socket.create_connection(("127.0.0.1", plotting.port))
            stack.enter_context(slow)
            slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        # An unreadable body does not count as a plot.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (answer := plotting.ask("POST", path, "eve", b"no JSON")).status != 429:
            assert time.monotonic() < deadline
        assert "is being received" in answer.json["error"]
        assert plotting.ask("POST", path, "bob", b"no JSON").status == 400


def test_plots_and_the_queue_for_them_are_limited() -> None:
    course = load_course(PLAIN)

    async def asked() -> list[int]:
        drawing = Drawing(course, GradingOptions(), is_here=True)
        greeting = course.exercise("greeting")
        drawing.has_plot = lambda exercise: True  # type: ignore[method-assign]

        async def status(who: str, urgent: int = 0) -> int:
            try:
                # A syntax error needs no sandbox, so its answer comes at once.
                await drawing.draw(who, greeting, b"x = (\n", urgent)
            except Refusal as refusal:
                return refusal.status_code
            raise AssertionError

        found = [await status("ada") for _ in range(MAX_PLOTS + 1)]
        found.append(await status("bob", urgent=1))
        found.append(await status("bob"))
        cast(Any, drawing)._waiting = MAX_WAITING
        found.append(await status("bob"))
        drawing.close()
        return found

    assert asyncio.run(asked()) == [422] * MAX_PLOTS + [429, 503, 422, 503]


def test_a_server_with_a_cluster_draws_no_plots(plotting: Served) -> None:
    course = load_course(plotting.course)
    greeting = course.exercise("greeting")
    here, away = (Drawing(course, GradingOptions(), is_here=where) for where in (True, False))
    assert (here.has_plot(greeting), away.has_plot(greeting)) == (True, False)
    for drawing in (here, away):
        drawing.close()


@pytest.mark.parametrize("size", SIZES, ids=["phone", "desk"])
def test_the_plot_is_shown_beside_the_findings(
    browser: Chrome, plotting: Served, axe: str, size: tuple[int, int]
) -> None:
    who = ("bob", "eve")[SIZES.index(size)]
    light(browser)
    resize(browser, size)
    sign_out(browser, plotting)
    console(browser)
    sign_in(browser, plotting, who)
    open_editor(browser, plotting)
    browser.find_element(By.ID, "plot").click()
    # A stub has no plot. The browser logs the status 422 as an error.
    wait_for_text(browser, "No picture yet.")
    assert all("422" in each["message"] for each in console(browser))
    saved = json.dumps({"source": RIGHT, "revision": 0}).encode()
    assert plotting.ask("PUT", "/api/exercises/greeting/draft", who, saved).status == 200
    open_editor(browser, plotting)
    browser.find_element(By.ID, "plot").click()
    wait_for_text(browser, "The plot is below.")
    canvas = browser.find_element(By.CSS_SELECTOR, "#picture canvas")
    assert canvas.is_displayed()
    drawn = (
        "const c = arguments[0]; const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return new Set(d).size"
    )
    assert browser.execute_script(drawn, canvas) > 10
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    browser.execute_script(axe)
    found = browser.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
        ".then(r => done([r.passes.length, r.violations.map(v => v.id + ': ' + v.nodes[0].html)]))"
    )
    assert found[0] > 10 and found[1] == [], found
    assert console(browser, plotting) == []
    until(browser, lambda v: v.find_element(By.ID, "plot").is_enabled())
    browser.get("about:blank")
