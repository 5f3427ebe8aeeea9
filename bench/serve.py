"""`python -m bench.serve`: a server at a deadline, when it is idle, and with a large gradebook.

Each figure is compared with a peer measured in the same run: `grade batch` of the same files, or a save under
`grade watch`. Clients are threads of this process; on a machine with two processors they take time from the
judges, as a proxy would. Processor seconds are counted, too: they show the cost of a submission on a machine
that has other work.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import psutil

from bench.__main__ import Rows
from bench.term import write_course, write_results
from bench.watch import save_to_verdict
from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers
from grader.gradebook import Gradebook, queue, tokens
from grader.gradebook.backup import backups_in
from grader.gradebook.database import FILE
from grader.gradebook.queue import JobState
from grader.gradebook.tokens import Role
from grader.gradebook.verdict_key import VerdictKey
from grader.grading import environment_of, nothing_handed_in
from grader.judge.assignment import GradingOptions
from grader.results import StudentInfo
from grader.submissions import Attempt, ExerciseFile, Submission

_MIB = 2**20
# As often as the page saves while somebody writes without a pause.
_SAVE_SECONDS = 10.0


class BenchServer:
    """`grade serve` in its own process, with a token for each student of a made-up class."""

    def __init__(self, folder: Path, course: Course, students: int, jobs: int) -> None:
        self.names = [f"student{number:05}" for number in range(students)]
        self.results, roster = folder / "results", folder / "class.csv"
        roster.write_text("id\n" + "\n".join(self.names) + "\n", encoding="utf-8")
        with tokens.changing_tokens(self.results) as store:
            self.tokens = {n: tokens.make_token(store, Role.STUDENT, n, 0.0) for n in self.names}
            self.staff = tokens.make_token(store, Role.INSTRUCTOR, "staff", 0.0)
        self._command = [
            *(sys.executable, "-m", "grader.cli", "serve", str(course.root)),
            *("-o", str(self.results), "--roster", str(roster), "--port", "0"),
            *("--jobs", str(jobs)),
        ]
        self.port, self.pid, self.jobs = 0, 0, jobs

    @contextlib.contextmanager
    def running(self, *options: str) -> Iterator[None]:
        """Run the server within the block, which begins when the server listens."""
        with subprocess.Popen(
            [*self._command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            found = re.search(rb":(\d+)/", process.stdout.readline())
            if found is None:
                raise SystemExit("grade serve did not start.")
            self.port, self.pid = int(found[1]), process.pid
            try:
                yield
            finally:
                process.terminate()

    def ask(self, method: str, path: str, token: str, body: bytes | None = None) -> tuple[int, Any]:
        """Return the status and the body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def hand_in(self, student: str, name: str, source: bytes) -> tuple[int, Any]:
        """Hand in one file."""
        body = json.dumps({"files": {name: base64.b64encode(source).decode()}}).encode()
        return self.ask("POST", "/api/submissions", self.tokens[student], body)

    def verdict(self, student: str, source: bytes) -> None:
        """Hand in glu, and wait for its verdict."""
        _, answer = self.hand_in(student, "glu.py", source)
        # The stream ends with the verdict.
        path = f"/api/submissions/{json.loads(answer)['id']}/events"
        self.ask("GET", path, self.tokens[student])

    def practice(self, student: str, source: bytes) -> tuple[int, Any]:
        """Run one file by the public tests, and wait for the end of its events."""
        body = json.dumps({"source": source.decode()}).encode()
        return self.ask("POST", "/api/exercises/glu/practice", self.tokens[student], body)

    def waiting(self) -> int:
        """Return the number of files without a verdict."""
        queued = json.loads(self.ask("GET", "/api/staff/queue", self.staff)[1])
        return int(queued["waiting"]) + len(queued["running"])


def sources(course: Course, count: int) -> list[bytes]:
    """Return `count` answers to glu, right and wrong ones in turn; no two files are equal."""
    glu = course.exercise("glu")
    kinds = [path.read_bytes() for path in course.rights(glu)]
    kinds += [answer.source for answer in wrong_answers(course, glu).answers]
    return [kinds[n % len(kinds)] + b"\n# %d\n" % n for n in range(count)]


def deadline(rows: Rows, course: Course, students: int, seconds: float, jobs: int) -> None:
    """Measure a class that hands in glu within a minute, and `grade batch` with the same files."""
    files = sources(course, students)
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as name:
        folder = Path(name)
        server = BenchServer(folder, course, students, jobs)
        taken, statuses = [0.0] * students, [0] * students
        with server.running():
            _warm(server, course)

            def client(number: int) -> None:
                time.sleep(seconds * number / students)
                begin = time.perf_counter()
                student = server.names[number]
                statuses[number], _ = server.hand_in(student, "glu.py", files[number])
                taken[number] = time.perf_counter() - begin

            threads = [threading.Thread(target=client, args=(n,)) for n in range(students)]
            alone, work = _processor_seconds(server.pid, alone=True), _processor_seconds(server.pid)
            begin = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            while server.waiting():
                time.sleep(0.5)
            served = time.perf_counter() - begin
            alone = _processor_seconds(server.pid, alone=True) - alone
            work = _processor_seconds(server.pid) - work
        refused = sum(status != 202 for status in statuses)
        taken.sort()
        print(f"{students} students within {seconds:g} s, {jobs} judges: {refused} refused")
        print(
            f"202: median {statistics.median(taken):.3f} s, p99 {_p99(taken):.3f} s (bound 0.250)"
        )
        size = (server.results / "gradebook.sqlite").stat().st_size
        print(f"{size / students / 1024:.1f} KiB of the gradebook per submission")
        for student, source in zip(server.names, files, strict=True):
            place = folder / "class" / student / "glu.py"
            place.parent.mkdir(parents=True)
            place.write_bytes(source)
        command = [
            *(sys.executable, "-m", "grader.cli", "batch", str(folder / "class")),
            *("-o", str(folder / "batch"), "--course", str(course.root)),
            *("--exercise", "glu", "--jobs", str(jobs)),
        ]
        begin, of_batch = time.perf_counter(), 0.0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            while run.poll() is None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    of_batch = max(of_batch, _processor_seconds(run.pid))
                time.sleep(0.2)
        batch = time.perf_counter() - begin
        assert run.returncode == 0
    # If judging is faster than handing in, the last verdict has to wait for the last file.
    peer, least = max(("grade batch", batch), ("handing in", seconds), key=lambda row: row[1])
    rows.add("deadline: all verdicts", served, peer, least, "≤ 1.15")
    rows.add(
        "processor seconds per submission",
        work / students,
        "grade batch",
        of_batch / students,
        "≤ 1.15",
    )
    print(f"{1000 * alone / students:.0f} ms of processor time per submission are the server's own")


def _processor_seconds(pid: int, *, alone: bool = False) -> float:
    """Return the processor seconds of a process and, unless `alone`, of everything that it started."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    own = float(times.user + times.system)
    if alone:
        return own
    ended = float(times.children_user + times.children_system)
    return own + ended + sum(_processor_seconds(child.pid) for child in process.children())


def _p99(times: Sequence[float]) -> float:
    return times[min(len(times) * 99 // 100, len(times) - 1)]


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[min(len(times) * 95 // 100, len(times) - 1)]


def _warm(server: BenchServer, course: Course) -> None:
    """Print the server's memory without judges, then warm every judge with a verdict."""
    rss = psutil.Process(server.pid).memory_info().rss / _MIB
    print(f"idle: {rss:.0f} MiB without judges (bound 120)")
    source = course.solution(course.exercise("glu")).read_bytes()
    # Hand in for several students at once, so that each judge gets a file: a student has one at a time.
    for number, student in enumerate(server.names[: server.jobs]):
        server.hand_in(student, "glu.py", source + b"# warm %d\n" % number)
    while server.waiting():
        time.sleep(0.1)


def idle(rows: Rows, course: Course, runs: int) -> None:
    """Measure from a hand-in of glu to its verdict, and from a save to its verdict."""
    files = sources(course, runs)
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as name:
        server = BenchServer(Path(name), course, 1, 1)
        taken = []
        with server.running():
            _warm(server, course)
            for source in files:
                time.sleep(0.5)
                begin = time.perf_counter()
                server.verdict(server.names[0], source)
                taken.append(time.perf_counter() - begin)
    median, _ = save_to_verdict(course, "glu", runs)
    rows.add("idle: glu to its verdict", statistics.median(taken), "grade watch", median, "≤ 1.5")


def writing(course: Course, students: int, seconds: float, jobs: int) -> None:
    """Measure a class that runs glu in the page and hands it in within a minute, and then only writes."""
    files = sources(course, 2 * students)
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as name:
        server = BenchServer(Path(name), course, students, jobs)
        with server.running():
            _warm(server, course)
            runs = []
            for source in files[:20]:
                time.sleep(0.5)
                begin = time.perf_counter()
                server.practice(server.names[0], source)
                runs.append(time.perf_counter() - begin)
            print(f"idle: a run of glu, {statistics.median(runs):.3f} s (bound 0.5)")
            taken, handed, judged = [0.0] * students, [0.0] * students, [False] * students

            def run(number: int) -> None:
                time.sleep(seconds * number / students)
                begin = time.perf_counter()
                _, answer = server.practice(server.names[number], files[number])
                taken[number] = time.perf_counter() - begin
                judged[number] = b"event: judged" in answer

            def hand_in(number: int) -> None:
                time.sleep(seconds * number / students)
                begin, student = time.perf_counter(), server.names[number]
                server.verdict(student, files[students + number])
                handed[number] = time.perf_counter() - begin

            _side_by_side(
                [*((run, n) for n in range(students)), *((hand_in, n) for n in range(students))]
            )
            while server.waiting():
                time.sleep(0.5)
            print(
                f"{students} runs and as many hand-ins within {seconds:g} s: {judged.count(False)} not "
                f"judged, median {statistics.median(taken):.3f} s, p95 {_p95(taken):.3f} s (bound 5); "
                f"hand-ins: median {statistics.median(handed):.3f} s, p95 {_p95(handed):.3f} s"
            )

            def write(number: int) -> None:
                time.sleep(_SAVE_SECONDS * number / students)
                path, token = "/api/exercises/glu/draft", server.tokens[server.names[number]]
                for revision in range(int(seconds / _SAVE_SECONDS)):
                    source = files[number].decode() + f"# {revision}\n"
                    body = json.dumps({"source": source, "revision": revision}).encode()
                    status, _ = server.ask("PUT", path, token, body)
                    assert status == 200
                    time.sleep(_SAVE_SECONDS)

            work, begin = _processor_seconds(server.pid, alone=True), time.perf_counter()
            _side_by_side([(write, number) for number in range(students)])
            share = (_processor_seconds(server.pid, alone=True) - work) / (
                time.perf_counter() - begin
            )
            print(
                f"drafts of {students} students every {_SAVE_SECONDS:g} s: {share:.3f} processors (bound 0.1)"
            )


def _side_by_side(calls: Sequence[tuple[Callable[[int], None], int]]) -> None:
    threads = [threading.Thread(target=call, args=(number,)) for call, number in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def large(course: Course, attempts: int) -> None:
    """Measure the pages with this many attempts in the gradebook, a hundred for each student."""
    students = max(attempts // 100, 1)
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as name:
        server = BenchServer(Path(name), course, students, 1)
        _fill(server, course)
        _pages(server, f"{attempts:,} attempts", "/class")


def a_term(students: int, assignments: int = 10) -> None:
    """Measure the pages of a whole term in one gradebook."""
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as name:
        course = write_course(Path(name) / "course", assignments)
        server = BenchServer(Path(name), course, students, 1)
        given = course.only(each for each in course.exercises if each.id in course.assignment_of)
        write_results(server.results, given, students, 1, digits=5)
        what = f"{assignments} assignments, {students} students"
        _pages(server, what, "/class", "/class?assignment=a0")


def _pages(server: BenchServer, what: str, *of_class: str) -> None:
    """Print the times of a student's page and of pages of the class: the first one, then the median."""
    own = server.tokens[server.names[0]]
    with server.running():
        for path, token in (("/", own), *((path, server.staff) for path in of_class)):
            taken = []
            for _ in range(6):
                begin = time.perf_counter()
                status, _ = server.ask("GET", path, token)
                taken.append(time.perf_counter() - begin)
                assert status == 200
            rest = statistics.median(taken[1:])
            print(f"{what}, {path}: first {taken[0]:.3f} s, then {rest:.3f} s (0.300)")


def backing_up(course: Course, megabytes: int) -> None:
    """Print the times of hand-ins while the gradebook is backed up, and without a backup."""
    with tempfile.TemporaryDirectory(prefix="bench-serve-") as name:
        server, backups = BenchServer(Path(name), course, 200, 1), Path(name) / "backups"
        _fill(server, course, comment_bytes=megabytes * 50)
        size = (server.results / FILE).stat().st_size / _MIB
        for made in (False, True):
            taken: list[float] = []
            options = ("--backups", str(backups)) if made else ()
            with server.running(*options):
                begin = time.perf_counter()
                server.ask("POST", "/api/staff/pause", server.staff)
                while time.perf_counter() - begin < 5 or (made and not backups_in(backups)):
                    student = server.names[len(taken) % len(server.names)]
                    sent = time.perf_counter()
                    source = b"# %d %d\n" % (made, len(taken))
                    status, _ = server.hand_in(student, "glu.py", source)
                    taken.append(time.perf_counter() - sent)
                    assert status == 202, status
                    if made and backups_in(backups):
                        break
            seconds = time.perf_counter() - begin
            what = f"while {size:.0f} MiB are backed up, {seconds:.1f} s" if made else "without"
            print(
                f"{len(taken)} hand-ins {what}: median {statistics.median(taken):.3f} s, "
                f"p99 {_p99(sorted(taken)):.3f} s, longest {max(taken):.3f} s"
            )


def _fill(server: BenchServer, course: Course, comment_bytes: int = 0) -> None:
    glu = course.exercise("glu")
    blank = nothing_handed_in(course, [glu], GradingOptions()).exercises[0]
    here = environment_of("", ())
    with Gradebook.open_to_write(server.results) as book:
        queue.prepare(book, ["glu"])
        for place, student in enumerate(server.names):
            with book.transaction():
                for number in range(100):
                    comment = base64.b64encode(os.urandom(comment_bytes * 3 // 4))
                    file = ExerciseFile(b"# %d %d %s\n" % (place, number, comment))
                    found = Attempt(
                        student=StudentInfo(id=student),
                        submitted_at=f"2026-10-01T{number // 60:02}:{number % 60:02}:00Z",
                        path=Path(student),
                    )
                    attempt = book.register(found, Submission(student, {"glu": file}))
                    key = VerdictKey(f"{place} {number}", "", "", f"{place} {number}")
                    book.keep(attempt, key, 0, blank, here)
                    queue.add_submission(book, student, attempt.id, f"key {number}", 1.0)
                    queue.queue_job(book, attempt.id, "glu", JobState.DONE, 1.0)


@click.command()
@click.option(
    "--students", type=click.IntRange(2), default=300, help="Students who hand in at the deadline."
)
@click.option("--seconds", type=float, default=60.0, help="Seconds in which they hand in.")
@click.option("--jobs", type=click.IntRange(1), default=psutil.cpu_count() or 1, help="Judges.")
@click.option("--runs", type=click.IntRange(1), default=20, help="Hand-ins to an idle server.")
@click.option("--attempts", type=click.IntRange(100), default=100_000, help="Attempts to store.")
def main(students: int, seconds: float, jobs: int, runs: int, attempts: int) -> None:
    """Measure and print."""
    from rich.console import Console

    rows, course = Rows(), load_course(".")
    idle(rows, course, runs)
    deadline(rows, course, students, seconds, jobs)
    writing(course, students, seconds, jobs)
    large(course, attempts)
    a_term(students)
    backing_up(course, 300)
    Console().print(rows.table)


if __name__ == "__main__":
    main()
