"""Practice runs: results as from `grade run`, nothing kept, rate limits, and submissions first."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from starlette.requests import ClientDisconnect, Request

from grader import grade
from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions
from grader.results import ExerciseResult, Visibility
from grader.serve.api import Api
from grader.serve.http import Refusal
from grader.serve.practice import MAX_RUNS, Practice, Run
from grader.serve.threads import Event, Hub
from grader.submissions import ExerciseFile, Submission
from tests.grader.serve.conftest import PATIENCE_SECONDS, PLAIN, SOLUTION, Served, marked, sql
from tests.grader.serve.test_api import events

Serving = Callable[..., Served]
COUNTING = (PLAIN / "solutions" / "text" / "word_count.py").read_bytes()
WRONG = (PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py").read_bytes()
STUB = (PLAIN / "exercises" / "text" / "word_count.py").read_bytes()
# Takes longer than the first turn of a run, but less than the last.
SLOW = b"import time\n\n\ndef greeting(name):\n    time.sleep(1.5)\n    return f'Hello, {name}!'\n"
# Ends only if it is called off or times out. It loops, since a busy loop gets more time than a sleeping call.
ENDLESS = b"def greeting(name):\n    while True:\n        pass\n"


class Practicing:
    """A run whose events are read one by one until the student leaves."""

    def __init__(self, served: Served, who: str, exercise: str, source: bytes) -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", served.port, timeout=PATIENCE_SECONDS
        )
        self._connection.request(
            "POST",
            f"/api/exercises/{exercise}/practice",
            json.dumps({"source": source.decode()}).encode(),
            {"Authorization": f"Bearer {served.staff if who == 'staff' else served.tokens[who]}"},
        )
        self.answer = self._connection.getresponse()
        self.events = events(self.answer)

    def leave(self) -> None:
        self._connection.close()
        self.answer.close()


@contextlib.contextmanager
def practicing(
    served: Served, who: str, exercise: str, source: bytes
) -> Iterator[Iterator[tuple[str, Any]]]:
    run = Practicing(served, who, exercise, source)
    try:
        assert run.answer.status == 200, run.answer.read()
        yield run.events
    finally:
        run.leave()


def practiced(served: Served, who: str, exercise: str, source: bytes) -> tuple[str, Any]:
    """Do a practice run and return its last event."""
    with practicing(served, who, exercise, source) as told:
        *_, last = told
    return last


def row_counts(served: Served) -> list[object]:
    tables = ("attempts", "submissions", "jobs", "files", "grades", "sources")
    return [sql(served, f"SELECT count(*) FROM {table}") for table in tables]


def timeless(result: ExerciseResult) -> ExerciseResult:
    """The result without the parts that differ between runs."""
    tests = tuple(msgspec.structs.replace(test, duration_seconds=0.0) for test in result.tests)
    return msgspec.structs.replace(result, tests=tests, duration_seconds=0.0)


@pytest.mark.parametrize("source", [COUNTING, b"print('here')\n" + WRONG, STUB, b"x = (\n"])
def test_a_run_gives_the_result_of_grade_run_on_public_tests(served: Served, source: bytes) -> None:
    before = row_counts(served)
    name, told = practiced(served, "ada", "word_count", source)
    assert name == "judged"
    result = msgspec.convert(told["exercise"], ExerciseResult)
    here = Submission("ada", {"word_count": ExerciseFile(source)})
    (own,) = grade(here, course=PLAIN, exercises=["word_count"], suite="public").exercises
    assert timeless(result) == timeless(own)
    assert {test.visibility for test in result.tests} == {Visibility.PUBLIC}
    assert row_counts(served) == before, "a run is not an attempt"


def test_hidden_tests_do_not_reach_the_page(served: Served) -> None:
    suite = PLAIN / "tests" / "hidden" / "text" / "test_word_count.py"
    _, told = practiced(served, "ada", "word_count", WRONG)
    page = served.ask("GET", "/exercise/word_count", "ada").body.decode()
    titles = re.findall(r'^    """(.+?)\.?"""', suite.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles
    for text in (json.dumps(told), page):
        assert all(title not in text for title in titles)


def test_the_class_page_counts_stuck_students_without_names(served: Served) -> None:
    def stuck() -> str:
        page = served.ask("GET", "/class", "staff").body.decode()
        return page.partition('id="stuck"')[2].partition("</section>")[0]

    lost = b"def word_count(text):\n    return {} if not text else None\n"
    # Runs of staff do not count.
    for who in ("staff", "ada", "bob", "eve"):
        practiced(served, who, "word_count", WRONG)
    practiced(served, "eve", "greeting", lost)
    assert "<strong>3 of 3</strong>" in stuck() and "3 students <bdi>" in stuck()
    assert "1 students" not in stuck(), "a finding of only one student is not shown"
    assert all(name not in stuck() for name in ("ada", "Ada", "bob", "Eve", "prof"))
    # A student's newest run counts, but a run of the stub does not.
    practiced(served, "ada", "word_count", COUNTING)
    practiced(served, "bob", "word_count", STUB)
    assert "<strong>2 of 3</strong>" in stuck()


def test_output_of_a_passed_test_is_shown(served: Served) -> None:
    source = SOLUTION.replace(b"    return", b"    print('seen', name)\n    return")
    _, told = practiced(served, "ada", "greeting", source)
    assert told["exercise"]["status"] == "passed"
    assert "<summary>Printed in the tests</summary>" in told["page"]
    assert "seen " in told["page"]


def test_output_is_escaped(served: Served) -> None:
    source = b"print('<script>alert(1)</script>\\x1b[2J')\n" + SOLUTION.replace(b"Hello", b"<i>")
    _, told = practiced(served, "ada", "greeting", source)
    assert "&lt;script&gt;alert(1)" in told["page"]
    assert "<script" not in told["page"] and "<i>" not in told["page"]
    assert "\x1b" not in told["page"]


@pytest.fixture
def patient(serving: Serving, tmp_path: Path) -> Served:
    """A server with one judge and a time limit of an hour for each test."""
    course = tmp_path / "course"
    shutil.copytree(PLAIN, course, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = course / "exercises" / "course.toml"
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace("seconds = 8", "seconds = 3600")
    )
    return serving(course=course, policy='attempts = "best"\n').start()


def test_a_submission_interrupts_a_run_which_then_waits_again(patient: Served) -> None:
    served = patient
    with practicing(served, "ada", "greeting", ENDLESS) as told:
        # An interrupted run may still report the test that was cut short.
        states = (event for event in told if event[0] != "test")
        assert next(states) == ("place", {"place": 1})
        handed = served.hand_in("bob", {"greeting.py": marked(1)}).json["id"]
        assert served.judged("bob", handed)["result"]["score"] == 2.5
        assert next(states) == ("place", {"place": 1}), "the run waits again and is not over"
        again = served.hand_in("eve", {"greeting.py": marked(2)}).json["id"]
        assert served.judged("eve", again)["result"]["score"] == 2.5
        assert next(states) == ("place", {"place": 1})
    # The student has left, so the run is over and the judge is free.
    assert practiced(served, "bob", "greeting", SOLUTION)[0] == "judged"


@pytest.mark.thorough
def test_a_run_ends_despite_a_steady_stream_of_submissions(serving: Serving) -> None:
    served = serving(policy='attempts = "best"\nmost_submissions = 1000\n').start()
    ended: list[tuple[str, Any]] = []
    thread = threading.Thread(
        target=lambda: ended.append(practiced(served, "ada", "greeting", SLOW))
    )
    thread.start()
    for number in range(500):
        id_ = served.hand_in("bob", {"greeting.py": marked(number)}).json["id"]
        assert served.judged("bob", id_)["result"]["score"] == 2.5
        if not thread.is_alive():
            break
    thread.join(PATIENCE_SECONDS)
    ((name, told),) = ended
    assert name == "judged" and told["exercise"]["status"] == "passed"


class Clock:
    """A clock for practice that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("grader.serve.practice.time.monotonic", lambda: self.now)


def begun(practice: Practice, *students: str) -> list[Run]:
    """Add a run for each student and take them all, as judges do."""
    course = load_course(PLAIN)
    for student in students:
        practice.add(practice.run_of(student, course.exercise("greeting"), SOLUTION))
    taken = [practice.take() for _ in students]
    return [run for run in taken if run is not None]


def test_each_interruption_doubles_the_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, practice = Clock(monkeypatch), Practice(load_course(PLAIN), GradingOptions(), Hub())
    (run,) = begun(practice, "ada")
    turns = []
    for _ in range(6):
        left = practice.make_room(1)
        assert left is not None and not run.call_off.is_asked
        turns.append(left)
        clock.now += left
        assert practice.make_room(1) is None and run.call_off.is_asked
        assert practice.make_room(1) is None, "one submission needs only one judge"
        practice.give_back(run)
        assert practice.take() is run
    assert turns == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_only_one_run_at_a_time_gets_a_longer_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, practice = Clock(monkeypatch), Practice(load_course(PLAIN), GradingOptions(), Hub())
    runs = begun(practice, "ada", "bob")
    clock.now += 1.0
    assert practice.make_room(2) is None
    for run in runs:
        assert run.call_off.is_asked
        practice.give_back(run)
    first, second = begun(practice, "eve", "dan")
    # Interrupted runs come before newer ones, and the last one interrupted is first.
    assert [first.student, second.student] == ["bob", "ada"]
    clock.now += 1.0
    assert practice.make_room(2) == 1.0, "the first run has another second"
    assert second.call_off.is_asked and not first.call_off.is_asked
    clock.now += 1.0
    assert practice.make_room(2) is None and first.call_off.is_asked


def test_a_newer_run_replaces_an_older_one(patient: Served) -> None:
    with practicing(patient, "ada", "greeting", ENDLESS) as old:
        next(old)
        name, told = practiced(patient, "ada", "greeting", SOLUTION)
        assert name == "judged" and told["exercise"]["status"] == "passed"
        *_, (name, told) = old
        assert name == "error" and "newer run" in told["error"]


def test_runs_are_limited_per_student(patient: Served) -> None:
    path = "/api/exercises/greeting/practice"
    statuses = [patient.ask("POST", path, "eve", b"no JSON").status for _ in range(MAX_RUNS + 1)]
    assert statuses == [400] * MAX_RUNS + [429], "counted before the body is read"
    assert patient.ask("POST", path, "bob", b"no JSON").status == 400


def test_practice_waits_while_judging_is_paused(served: Served) -> None:
    served.pause()
    try:
        with practicing(served, "ada", "greeting", SOLUTION) as told:
            assert next(told) == ("place", {"place": 1})
            metrics = served.ask("GET", "/metrics", "staff").body.decode()
            assert 'lab_bench_jobs{state="practice"} 1.0' in metrics
            # A stub needs no judge, so its run ends even now.
            assert practiced(served, "bob", "word_count", STUB)[0] == "judged"
            served.resume()
            *_, (name, _) = told
            assert name == "judged"
    finally:
        served.resume()


def test_the_limit_of_runs_says_when_to_retry() -> None:
    course = load_course(PLAIN)
    practice = Practice(course, GradingOptions(), Hub())
    for number in range(MAX_RUNS):
        practice.admit("ada", course.exercises[number % 2])
    with pytest.raises(Refusal, match="60 runs in 10 minutes") as refused:
        practice.admit("ada", course.exercise("greeting"))
    assert refused.value.status_code == 429
    assert refused.value.headers is not None and int(refused.value.headers["Retry-After"]) > 0
    practice.admit("bob", course.exercise("greeting"))


@pytest.mark.thorough
def test_concurrent_runs_and_submissions_are_not_mixed_up(
    serving: Serving,
) -> None:
    served = serving(policy='attempts = "best"\nmost_submissions = 1000\n').start("--jobs", "2")
    ended: list[tuple[str, Any]] = []

    def practice(who: str) -> None:
        for number in range(8):
            right = number % 2 == 0
            source = SOLUTION if right else b"def greeting(name):\n    return name\n"
            name, told = practiced(served, who, "greeting", source + b"# %d\n" % number)
            ended.append((name, (told["exercise"]["status"], right)))

    threads = [threading.Thread(target=practice, args=(who,)) for who in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for number in range(8):
        id_ = served.hand_in("eve", {"greeting.py": marked(number)}).json["id"]
        assert served.judged("eve", id_)["result"]["score"] == 2.5
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    expected = [("judged", ("passed", True)), ("judged", ("failed", False))] * 8
    assert sorted(ended, key=str) == sorted(expected, key=str)
    assert "Traceback" not in served.log.read_text()


def test_a_run_whose_client_hung_up_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    practice = SimpleNamespace(admit=lambda *_: None, run_of=lambda who, *_: read.append(who))
    api = Api(cast(Any, SimpleNamespace(practice=practice)), lambda _: "")
    received: Iterator[dict[str, object]] = iter(
        [{"type": "http.request", "body": b'{"source": "x"}'}, {"type": "http.disconnect"}]
    )

    async def writer_at(_: Request) -> tuple[SimpleNamespace, None]:
        return SimpleNamespace(id="ada"), None

    async def receive() -> dict[str, object]:
        return next(received)

    monkeypatch.setattr(api, "writer_at", writer_at)
    with pytest.raises(ClientDisconnect):
        asyncio.run(api.practice(Request({"type": "http", "headers": []}, receive)))
    assert not read


def test_a_stream_that_overflows_still_ends() -> None:
    async def told() -> list[bytes]:
        course, hub = load_course(PLAIN), Hub()
        hub.open()
        practice = Practice(course, GradingOptions(), hub)
        judging = SimpleNamespace(wake=lambda: None)
        server = SimpleNamespace(practice=practice, hub=hub, judging=judging)
        run = practice.run_of("ada", course.exercise("greeting"), SOLUTION)
        stream = Api(cast(Any, server), lambda _: "")._practice_events(run)
        seen = [await anext(stream)]
        assert practice.take() is run
        for place in range(40):
            hub.tell(run.topic, Event("place", {"place": place}))
        practice.finish(run, None)
        return [*seen, *[each async for each in stream]]

    first, *_, last = asyncio.run(told())
    assert first.startswith(b"event: place") and last.startswith(b"event: error")


def test_only_changed_places_are_announced() -> None:
    told: list[tuple[int, Any]] = []
    course, hub = load_course(PLAIN), Hub()
    hub.tell = lambda topic, event: told.append((topic, event.data.get("place")))  # type: ignore[method-assign]
    practice = Practice(course, GradingOptions(), hub)
    runs = [
        practice.run_of(who, course.exercise("greeting"), SOLUTION) for who in ("ada", "bob", "eve")
    ]
    for run in runs:
        practice.add(run)
    ada, bob, eve = (run.topic for run in runs)
    assert told == [(ada, 1), (bob, 2), (eve, 3)]
    told.clear()
    assert practice.take() is runs[0]
    practice.tell_places()
    assert told == [(bob, 1), (eve, 2)]
    told.clear()
    practice.give_back(runs[0])
    assert told == [(ada, 1), (bob, 2), (eve, 3)]
