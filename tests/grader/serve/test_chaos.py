"""Servers killed at every SQL statement, a full disk, a thousand listeners, slow and vanishing clients."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from grader.course.manifest import Course, load_course
from grader.gradebook import Gradebook
from grader.gradebook.verdicts import Questions
from grader.judge.assignment import GradingOptions, Judgment
from grader.results import StudentInfo
from grader.serve.desk import Desk
from grader.serve.hand_in import HandInReader
from grader.student.progress import digest_of
from tests.grader.builders import checked, exercise
from tests.grader.gradebook.test_durability import in_a_child
from tests.grader.serve.conftest import PLAIN, STUDENTS, Served, in_json, marked, sql

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="forks"), pytest.mark.thorough]

COUNTING = (PLAIN / "solutions" / "text" / "word_count.py").read_bytes()
WRITES = ("BEGIN", "COMMIT", "INSERT", "UPDATE", "DELETE", "CREATE")
Serving = Callable[..., Served]


# --- killed at every statement --------------------------------------------------------------------


class Sent(NamedTuple):
    """A submission that a client sends."""

    who: str
    key: str
    files: dict[str, bytes]


# Ada's second file replaces her first, which still waits. Eve's file equals one judged for Bob.
FIRST = (
    Sent("ada", "key-ada-1", {"greeting.py": marked(1)}),
    Sent("bob", "key-bob-1", {"greeting.py": marked(2), "word_count.py": COUNTING}),
    Sent("ada", "key-ada-2", {"greeting.py": marked(3)}),
)
SECOND = (
    Sent("eve", "key-eve-1", {"greeting.py": marked(2)}),
    Sent("ada", "key-ada-3", {"greeting.py": marked(4)}),
)


@contextlib.contextmanager
def a_desk(course: Course, results: Path) -> Iterator[tuple[Desk, Gradebook]]:
    with Gradebook.open_to_write(results) as book:
        students = [StudentInfo(id=name) for name in STUDENTS]
        options = GradingOptions()
        yield Desk(book, course, options, Questions(course, options), students), book


def accept(desk: Desk, course: Course, sent: Sent) -> str:
    student = StudentInfo(id=sent.who)
    reader = HandInReader(course, Questions(course, GradingOptions()))
    return desk.accept(student, reader.read(student, in_json(sent.files)), sent.key).submission.id


def judge_all(desk: Desk, done: Callable[[], object] = lambda: None) -> None:
    """Judge all waiting files. Each verdict names its file. The first job is given back once."""
    for turn in itertools.count():
        if (taken := desk.take()) is None:
            return
        if turn == 0:
            desk.give_back(taken)
            taken = desk.take()
            assert taken is not None
        result = exercise(
            checked(), name=taken.job.exercise, output=digest_of(taken.question.file.source)
        )
        assert desk.finish(taken, Judgment(result, ()))
        done()


def with_a_verdict(desk: Desk, course: Course) -> None:
    """Open the desk and judge a file of Ada's."""
    desk.open()
    accept(desk, course, FIRST[0])
    judge_all(desk)


def lines_before_kills(
    course: Course,
    results: Path,
    act: Callable[[Desk, Gradebook, Callable[[str], object]], None],
    before: Callable[[Desk, Course], object] = lambda *_: None,
) -> Iterator[list[str]]:
    """Run `act` in child processes, each killed at a later writing statement, and yield the lines of each.

    Each child begins with an empty folder and calls `before`, in which it is not killed. `act` gets a function
    that says a line. The last child survives.
    """
    for number in itertools.count(1):
        shutil.rmtree(results, ignore_errors=True)
        reader, writer = os.pipe()

        def child(deadly: int = number, writer: int = writer) -> None:
            left = deadly

            def count(statement: str) -> None:
                nonlocal left
                left -= statement.startswith(WRITES)
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

            with a_desk(course, results) as (desk, book):
                before(desk, course)
                book.tables.connection.set_trace_callback(count)
                act(desk, book, lambda line: os.write(writer, f"{line}\n".encode()))

        status = in_a_child(child)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as lines:
            said = lines.read().splitlines()
        if status == 0:
            return
        assert status == -signal.SIGKILL
        yield said


def test_accepted_files_get_one_verdict_after_a_kill_at_any_statement(
    memory_path: Path,
) -> None:
    """A child is killed at each writing statement. Then its clients try again."""
    course, results = load_course(PLAIN), memory_path / "results"

    def act(desk: Desk, _: Gradebook, say: Callable[[str], object]) -> None:
        desk.open()
        for part in (FIRST, SECOND):
            for sent in part:
                say(json.dumps([sent.key, accept(desk, course, sent)]))
            judge_all(desk)

    accepted_before, deaths = set(), 0
    for said in lines_before_kills(course, results, act):
        answered = dict(map(json.loads, said))
        accepted_before.add(len(answered))
        check_after_a_restart(course, results, answered)
        deaths += 1
    assert accepted_before == set(range(len(FIRST) + len(SECOND) + 1))
    assert deaths >= 60


def check_after_a_restart(course: Course, results: Path, answered: dict[str, str]) -> None:
    """Repeat all requests, answered or not, and check that each file is kept once and judged once."""
    with a_desk(course, results) as (desk, book):
        desk.open()
        ids: dict[str, str] = {}
        for part in (FIRST, SECOND):
            ids |= {sent.key: accept(desk, course, sent) for sent in part}
            judge_all(desk)
        assert {key: ids[key] for key in answered} == answered
        rows = book.tables.connection.execute(
            "SELECT retry_key, submissions.student, jobs.exercise, jobs.state, count(grades.key)"
            " FROM submissions JOIN jobs USING (attempt) LEFT JOIN grades USING (attempt, exercise)"
            " GROUP BY submissions.number, jobs.exercise"
        ).fetchall()
        assert len(rows) == sum(len(sent.files) for sent in (*FIRST, *SECOND))
        for sent in (*FIRST, *SECOND):
            for name, source in sent.files.items():
                (row,) = (r for r in rows if r[0] == sent.key and f"{r[2]}.py" == name)
                assert row[1] == sent.who
                # A newer file replaced those that were waiting, but not those already judged.
                assert row[3:] == ("done", 1) or (sent.key, *row[3:]) == (
                    "key-ada-1",
                    "replaced",
                    0,
                )
                verdicts = book.tables.verdicts_of(sent.who)[row[2]]
                outputs = {verdict.result.output for verdict in verdicts.values()}
                assert row[3] == "replaced" or digest_of(source) in outputs
        for student in STUDENTS:
            files = {
                digest_of(s)
                for sent in (*FIRST, *SECOND)
                for s in sent.files.values()
                if sent.who == student
            }
            for verdicts in book.tables.verdicts_of(student).values():
                assert {verdict.result.output for verdict in verdicts.values()} <= files
            assert (results / "results" / f"{student}.json").is_file()


def test_a_result_file_that_cannot_be_written_is_written_later(
    tmp_path: Path,
) -> None:
    course, results = load_course(PLAIN), tmp_path / "results"
    with a_desk(course, results) as (desk, _):
        desk.open()
        accept(desk, course, FIRST[0])
        # As if the disk were full, nothing can be written in the folder.
        (results / "results").rename(results / "elsewhere")
        (results / "results").write_bytes(b"")
        judge_all(desk)
        (results / "results").unlink()
        (results / "elsewhere").rename(results / "results")
        before = (results / "results" / "ada.json").read_bytes()
        accept(desk, course, FIRST[1])
        judge_all(desk)
        assert (results / "results" / "ada.json").read_bytes() != before


# --- clients --------------------------------------------------------------------------------------


@pytest.fixture
def many_sockets() -> Iterator[None]:
    """Raise the limit of open files as far as the system allows."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4096:
        pytest.skip("this system allows fewer open files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connected(served: Served, request: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", served.port), timeout=240)
    client.sendall(request)
    return client


def head(served: Served, who: str, line: str, *more: str) -> bytes:
    token = f"Authorization: Bearer {served.tokens[who]}"
    return "\r\n".join((f"{line} HTTP/1.1", "Host: x", token, *more, "", "")).encode()


@pytest.mark.usefixtures("many_sockets")
def test_a_thousand_idle_listeners_delay_nobody(serving: Serving) -> None:
    served = serving().start(limits={resource.RLIMIT_NOFILE: 1024})
    served.pause()
    handed = served.hand_in("eve", {"greeting.py": marked(10)}).json
    request = head(served, "eve", f"GET /api/submissions/{handed['id']}/events")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(served, request)) for _ in range(1200)]
        # All of them are connected.
        for client in clients:
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        metrics = served.ask("GET", "/metrics", "staff").body.decode()
        assert "lab_bench_streams 1200.0" in metrics
        served.resume()
        assert served.judged("eve", handed["id"])["result"]["score"] == 2.5
        other = served.hand_in("bob", {"greeting.py": marked(11)})
        assert served.judged("bob", other.json["id"])["result"]["score"] == 2.5
        # The last of them gets the verdict, too.
        text = b""
        while b'"state":"done"' not in text:
            part = clients[-1].recv(65_536)
            assert part, text
            text += part
    # Neither listeners nor incomplete requests keep the server from stopping.
    again = served.hand_in("eve", {"word_count.py": COUNTING}).json["id"]
    with contextlib.ExitStack() as stack:
        for part in (
            head(served, "eve", f"GET /api/submissions/{again}/events"),
            head(served, "bob", "POST /api/submissions", "Content-Length: 5000") + b"{",
            b"GET / HTTP/1.1\r\nHost",
        ):
            stack.enter_context(connected(served, part))
        assert served.stop() == 0


def test_a_client_that_vanishes_and_retries_submits_once(serving: Serving) -> None:
    served = serving().start()
    body = in_json({"greeting.py": marked(12)})
    more = (f"Content-Length: {len(body)}", "Idempotency-Key: key-of-eve")
    for _ in range(5):
        connected(served, head(served, "eve", "POST /api/submissions", *more) + body).close()
    answer = served.hand_in("eve", {"greeting.py": marked(12)}, "key-of-eve")
    assert answer.status == 202
    assert served.judged("eve", answer.json["id"])["result"]["score"] == 2.5
    assert sql(served, "SELECT count(*) FROM submissions") == [(1,)]


# `grade` with an event loop whose clock jumps a minute ahead at each SIGUSR1.
IN_A_MINUTE = """\
import asyncio, signal, time
from grader.cli import main

passed = 0

def pass_a_minute(*_):
    global passed
    passed += 60

signal.signal(signal.SIGUSR1, pass_a_minute)
asyncio.BaseEventLoop.time = lambda loop: time.monotonic() + passed
main()
"""


def test_a_slow_body_is_refused_and_delays_nobody_else(
    serving: Serving,
) -> None:
    served = serving().start(program=("-c", IN_A_MINUTE))
    request = head(served, "ada", "POST /api/submissions", "Content-Length: 500") + b'{"files'
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(served, request)) for _ in range(2)]
        # Two bodies are read at a time for each student. Others are not affected.
        while (third := served.hand_in("ada", {"greeting.py": marked(13)})).status == 202:
            continue  # the two have only just connected
        assert third.status == 429 and third.headers["Retry-After"] == "1"
        os.kill(served.pid, signal.SIGUSR1)
        assert served.hand_in("bob", {"greeting.py": marked(13)}).status == 202
        for client in clients:
            assert client.recv(12) == b"HTTP/1.1 408"
    assert served.hand_in("ada", {"greeting.py": marked(13)}).status == 202
