"""Starts `grade serve` on the plain course as a process of its own and talks to it over HTTP."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from grader.gradebook import Gradebook, tokens
from grader.gradebook.tokens import Role
from tests.grader.exports.report.conftest import axe, browser
from tests.grader.forked import Forked

__all__ = ["axe", "browser"]

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
SOLUTION = (PLAIN / "solutions" / "text" / "greeting.py").read_bytes()
STUDENTS = ("ada", "bob", "eve")
SECTIONS = {"ada": "A", "bob": "B", "eve": "B"}
ROSTER = "id,name,email,repository,section\n" + "".join(
    f"{name},{name.title()} Test,{name}@example.org,org/lab-{name},{SECTIONS[name]}\n"
    for name in STUDENTS
)
# The roles besides student and `staff`, which is an instructor. The assistant has section A.
ROLES = {"owner": Role.OWNER, "assistant": Role.ASSISTANT, "observer": Role.OBSERVER}
# Most waits take a second. A busy machine may need minutes.
PATIENCE_SECONDS = 240
# How many lines of the log the report of a failure shows.
_LINES_SHOWN = 30


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A server to start and stop, and the tokens of its class."""

    def __init__(self, folder: Path, course: Path = PLAIN, policy: str = "") -> None:
        self.folder, self.course, self.results = folder, course, folder / "results"
        self.log = folder / "log"
        (folder / "class.csv").write_text(ROSTER, encoding="utf-8")
        with tokens.changing_tokens(self.results) as book:
            self.tokens = {n: tokens.make_token(book, Role.STUDENT, n, 0.0) for n in STUDENTS}
            self.staff = tokens.make_token(book, Role.INSTRUCTOR, "prof", 0.0)
            for name, role in ROLES.items():
                sections = ["A"] if role is Role.ASSISTANT else []
                self.tokens[name] = tokens.make_token(book, role, name, 0.0, sections)
        if policy:
            self.course = folder / "course"
            _copy(course, self.course)
            (self.course / "exercises" / "policy.toml").write_text(policy, encoding="utf-8")
            # A restarted server begins cold: a right answer must not time out on a busy machine.
            manifest = self.course / "exercises" / "course.toml"
            text = manifest.read_text(encoding="utf-8").replace("seconds = 8", "seconds = 60")
            manifest.write_text(text, encoding="utf-8")
        self.port = 0
        self._process: subprocess.Popen[bytes] | Forked | None = None

    @property
    def log_tail(self) -> str:
        """The last lines of the log, without those of requests that succeeded."""
        lines = self.log.read_text().splitlines()
        told = [line for line in lines if '"level": "info"' not in line or '"status": 5' in line]
        return "\n".join(told[-_LINES_SHOWN:]).replace("\\n", "\n")

    def start(
        self,
        *options: str,
        program: Sequence[str] = (),
        limits: Mapping[int, int] = {},
        roster: bool = True,
    ) -> Served:
        """Start the server and wait until it listens.

        With `program`, a new Python runs with these arguments; otherwise this process forks.
        """
        words = [
            *("serve", str(self.course), "-o", str(self.results)),
            *(("--roster", str(self.folder / "class.csv")) if roster else ()),
            *("--port", str(self.port), "--jobs", "1", *options),
        ]
        out = self.folder / "out"
        with self.log.open("ab") as log, out.open("wb") as printed:
            if program:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", *program, *words],
                    stdout=printed,
                    stderr=log,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            else:
                self._process = Forked(words, out, self.log, limits)
        _started.add(self)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            # Poll first: the server may print its address and end right after.
            has_ended = self._process.poll() is not None
            if match := re.search(rb"http://127\.0\.0\.1:(\d+)/", out.read_bytes()):
                break
            assert not has_ended, self.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.port = int(match[1])
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill the server, as a power cut would."""
        assert self._process is not None
        _started.discard(self)
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Stop the server as systemd does and return its exit status."""
        assert self._process is not None
        _started.discard(self)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until the server has ended and return its exit status."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)

    # --- clients' requests ----------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        who: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """Send a request with the token of `who`: a student, `staff`, another role, or a token itself."""
        token = self.staff if who == "staff" else self.tokens.get(who, who)
        told = {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, {**told, **headers})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def hand_in(self, who: str, files: Mapping[str, bytes], key: str = "") -> Answer:
        """Submit files through the API, with `key` as idempotency key."""
        headers = {"Idempotency-Key": key} if key else {}
        return self.ask("POST", "/api/submissions", who, in_json(files), headers)

    def judged(self, who: str, id_: str) -> Any:
        """Wait until a submission is judged and return it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.ask("GET", f"/api/submissions/{id_}", who)
            assert answer.status == 200, answer.body
            if answer.json["state"] not in ("waiting", "running"):
                return answer.json
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def pause(self) -> None:
        self._press("pause")

    def resume(self) -> None:
        self._press("resume")

    def _press(self, button: str) -> None:
        """Pause or resume judging as staff. A busy server answers 503, so try again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (answer := self.ask("POST", f"/api/staff/{button}", "staff")).status == 503:
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
        assert answer.status == 200, (answer, self.log_tail)


# Servers that are still running.
_started: set[Served] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the servers' logs to the report of a failed test."""
    report = yield
    if report.failed:
        for served in _started:
            report.sections.append((f"log of the server at port {served.port}", served.log_tail))
    return report


def in_json(files: Mapping[str, bytes]) -> bytes:
    """The body of a request that submits these files."""
    return json.dumps(
        {"files": {name: base64.b64encode(data).decode() for name, data in files.items()}}
    ).encode()


def marked(number: int) -> bytes:
    """A right answer, different for each number."""
    return SOLUTION + f"\n# {number}\n".encode()


def sql(served: Served, query: str) -> Sequence[tuple[Any, ...]]:
    """Query the gradebook of a running server."""
    with Gradebook.open_beside_writer(served.results) as book:
        rows: list[tuple[Any, ...]] = book.tables.connection.execute(query).fetchall()
        return rows


def _copy(source: Path, target: Path) -> None:
    import shutil

    shutil.copytree(source, target)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for all tests of a module. Each test leaves it running, with an empty queue."""
    server = Served(tmp_path_factory.mktemp("served")).start()
    yield server
    server.stop()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Make servers for one test, which starts them. They are stopped after it."""
    made: list[Served] = []

    def make(**options: Any) -> Served:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Served(folder, **options))
        return made[-1]

    yield make
    for server in made:
        if server._process is not None:
            server.stop()
