"""Show that each attack is real: in a single process of plain pytest, it must succeed.

Run `python -m tests.grader.audit.demonstration [NAME]...` to print one JSON line for each attack. Many
graders work like this: the hidden suite imports the submission into its own process, and that process
reports the verdict. Everything here ends by itself. Callers run it in a process namespace that ends
with it, if the machine has namespaces.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import io
import json
import os
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from grader.audit import resident
from grader.audit.auditor import hidden_canaries
from grader.audit.canaries import Canaries
from grader.audit.catalogue import CATALOGUE, Attack, Proof, arm, read_catalogue
from grader.audit.evidence import Evidence, Leavings, Trial, adopt_orphans, descendants, evidence_in
from grader.course.manifest import Course, Exercise, load_course
from grader.results import Visibility
from grader.sandbox.inside.worker import serve
from grader.sandbox.surroundings import remove_tree
from grader.sandbox.wire.channel import Channel, ChannelClosed
from grader.sandbox.wire.messages import Call, Load, Request
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import ProtocolError

BUDGET_SECONDS = 0.5
# The limit for a reply over the wire, which does not count as time of the attack.
REPLY_SECONDS = 1.0
# An attack that takes longer has exceeded its time.
_CRASHED = 99
_VARIABLE = "GRADE_AUDIT_CANARY"
PATIENCE_SECONDS = BUDGET_SECONDS + 2.2
# An attack that was late on a busy machine is repeated alone. Its effects show when it ends.
LONG_PATIENCE_SECONDS = 60.0


class Demonstration:
    """Runs attacks without walls, each in a grandchild of this process."""

    def __init__(self, course: Course, scratch: Path, patience: float) -> None:
        self._course, self._scratch, self._patience = course, scratch, patience
        self._hidden = hidden_canaries(course)
        self._at_start = {"environ at the start": os.environ.get(_VARIABLE, "canary:none")}
        self._warm_up()
        honest = course.solution(course.exercise("scale")).read_bytes()
        self._usual = self._run(course.exercise("scale"), honest, patience)[0]

    def show(self, attack: Attack, canaries: Canaries) -> list[Evidence]:
        """Run the attack and return evidence of its effects."""
        self._canaries = canaries
        targets = self._canaries.targets()
        key = int(str(targets["key"]))
        exercise = self._course.exercise(attack.exercise)
        more = {
            "memory_mb": exercise.memory_mb,
            "neighbor": targets["pid"],
            "neighbor_address": str(targets["mark"]).replace("attack", "neighbor"),
        }
        address = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address.bind("\0" + str(more["neighbor_address"]))
        address.listen()
        threading.Thread(target=_answer, args=(address, canaries.secrets["neighbor"])).start()
        neighbor = self._scratch / "neighbor"
        neighbor.mkdir(exist_ok=True)
        shared = Path("/dev/shm", str(more["neighbor_address"]))
        for path in (neighbor / "kept.txt", shared):
            path.write_text(canaries.secrets["neighbor"])
        leavings = Leavings(canaries.mark, key, descendants(), self._scratch)
        begin = time.monotonic()
        try:
            found = list(self._evidence(attack, exercise, arm(attack, targets | more), begin))
            found += [Evidence(Proof.REMAINS, seen) for seen in leavings.found()]
        finally:
            leavings.remove()
            shared.unlink(missing_ok=True)
            address.shutdown(socket.SHUT_RDWR)
            address.close()
        return found

    def _evidence(
        self, attack: Attack, exercise: Exercise, source: bytes, begin: float
    ) -> Iterator[Evidence]:
        if attack.proof is Proof.BYTES:
            yield from self._frames(source)
            return
        patience = PATIENCE_SECONDS if attack.proof is Proof.TIME else self._patience
        report, output, score = self._run(exercise, source, patience)
        trial = Trial(score, output, time.monotonic() - begin, BUDGET_SECONDS)
        known = self._hidden | self._canaries.secrets | self._at_start
        yield from evidence_in(trial, known, self._canaries.trophy)
        for seen in self._canaries.files_changed():
            yield Evidence(Proof.FILE, seen)
        for seen in self._canaries.process_harmed():
            yield Evidence(Proof.NEIGHBOR, seen)
        if report.get("parent") == "harmed":
            yield Evidence(Proof.NEIGHBOR, "the parent ended")
        if "left" in report:
            yield Evidence(Proof.REMAINS, report["left"])
        if report.get("parent") == "lost its child":
            yield Evidence(Proof.FAULT, "pytest crashed")
        now, usual = report.get("state", {}), self._usual.get("state", {})
        for name in now:
            if now[name] != usual.get(name) and name not in {"random numbers", "own folder"}:
                yield Evidence(Proof.NEXT, f"{name}: {now[name][:80]}")

    def _warm_up(self) -> None:
        """Run pytest once, since its imports take seconds."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        exercise = self._course.exercise("scale")
        (folder / "scale.py").write_bytes(self._course.solution(exercise).read_bytes())
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for each in self._course.exercises:
                _plain_pytest(self._course, each, folder)
        remove_tree(folder)

    # --- plain pytest -------------------------------------------------------------------------------

    def _run(
        self, exercise: Exercise, source: bytes, patience: float
    ) -> tuple[dict[str, Any], str, float]:
        """Run the suite, and return the report of the process, its output, and the points it would get."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        (folder / "scale.py").write_bytes(source)
        parent = os.fork()
        if parent == 0:
            _be_parent(lambda: _grade_here(self._course, exercise, folder))
        code = _wait(parent, patience)
        output = _ends_of(folder / "output")
        report: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            report = json.loads((folder / "report").read_text())
        if code == -signal.SIGKILL:
            report["parent"] = "harmed"
        if code == _CRASHED:
            report["parent"] = "lost its child"
        # Graders look at the exit code, the report or the summary.
        passed = int(report.get("passed", 0)) or bool(re.search(r"^[1-9]\d* passed", output, re.M))
        score = 10.0 if code == 0 else float(passed)
        # Other graders clean up in this way.
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except RecursionError:
            report["left"] = "a folder that nobody can remove"
        remove_tree(folder)
        return report, output, score

    # --- frames -------------------------------------------------------------------------------------

    def _frames(self, source: bytes) -> Iterator[Evidence]:
        """Send two requests to a real worker, and check that each gets one honest reply."""
        ours, theirs = socket.socketpair()
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        worker = os.fork()
        if worker == 0:
            _serve_here(theirs, folder)
        theirs.close()
        try:
            yield from _odd_replies(Channel(ours), ours, source, self._canaries.trophy)
        finally:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            ours.close()
            remove_tree(folder)


def _odd_replies(
    channel: Channel, connection: socket.socket, source: bytes, trophy: str
) -> Iterator[Evidence]:
    packing = Packing()
    arguments = packing.pack([torch.ones(5), 3.0])
    requests: list[tuple[Request, Packing]] = [
        (Load("scale", "tiny/scale.py", source, ()), Packing()),
        (Call("scale", arguments, packing.pack({})), packing),
    ]
    for request, each in requests:
        try:
            channel.send(request, each, REPLY_SECONDS)
            deadline = time.monotonic() + REPLY_SECONDS
            reply, _ = channel.receive_reply(
                deadline, lambda seconds: select.select([connection], [], [], seconds) and None
            )
        except (ProtocolError, TimeoutError, ChannelClosed) as error:
            yield Evidence(Proof.BYTES, f"{type(error).__name__}: {error}")
            return
        if trophy in str(reply):
            yield Evidence(Proof.BYTES, f"forged: {str(reply)[:80]}")
    # Any bytes that come now were not requested.
    if select.select([connection], [], [], 2.0)[0] and (rest := connection.recv(1 << 16)):
        yield Evidence(Proof.BYTES, f"{len(rest)} bytes that nobody asked for")


def _serve_here(connection: socket.socket, folder: Path) -> NoReturn:
    with contextlib.suppress(BaseException):
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.dup2(connection.fileno(), 3)
        os.chdir(folder)
        # Its output is not read, since only the bytes matter here.
        reports, _ = socket.socketpair()
        serve(Channel(socket.socket(fileno=3)), reports, folder)
    os._exit(1)


def _be_parent(grade: Any) -> NoReturn:
    """Start pytest in a child and wait for it."""
    os.setsid()
    child = os.fork()
    if child == 0:
        # Exit handlers of the parent must not run in the child, as they remove our scratch folder.
        atexit._clear()
        code = 70
        try:
            code = grade()
        except BaseException:  # noqa: BLE001 (whatever it raises, its parent waits for an exit code)
            traceback.print_exc()
        finally:
            # When an interpreter ends, its exit handlers still run.
            with contextlib.suppress(BaseException):
                atexit._run_exitfuncs()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else _CRASHED)


def _answer(server: socket.socket, secret: str) -> None:
    """Send the secret to every connection, until the address is closed."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(secret.encode())


def _ends_of(path: Path) -> str:
    """Read a file as text, without the middle part if it is too long to search."""
    with path.open("rb") as file:
        data = file.read(100_000)
        if path.stat().st_size > 200_000:
            file.seek(-100_000, os.SEEK_END)
        return (data + file.read(100_000)).decode(errors="replace")


def _wait(parent: int, patience: float) -> int | str:
    """Return the exit code of `parent`. If it takes too long, kill it with its children and return `late`."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        pid, status = os.waitpid(parent, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    return "late"


def _grade_here(course: Course, exercise: Exercise, folder: Path) -> int:
    """Import the submission, run the hidden suite on it, and write a report."""
    suite = course.suite(exercise, Visibility.HIDDEN)
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    tempfile.tempdir = str(folder)
    # A grader that has just read its suite may have left it open.
    os.open(suite, os.O_RDONLY)
    torch.manual_seed(0)
    code, passed = _plain_pytest(course, exercise, folder)
    report = {"passed": passed, "state": resident.state()}
    (folder / "report").write_text(json.dumps(report))
    return code


def _plain_pytest(course: Course, exercise: Exercise, folder: Path) -> tuple[int, int]:
    """Run the suite, and return the exit code and the number of passed tests."""
    suite = course.suite(exercise, Visibility.HIDDEN)
    plugin = _Plain(course, exercise, folder)
    options = ["-c", os.devnull, "--noconftest", "-pno:cacheprovider", "--import-mode=importlib"]
    # Other graders run no solution beside the submission.
    options += ["-k", "not compared", "-q", "--tb=no", "--capture=no"]
    # This plugin ends with five garbage collections, which take longer than all the rest with torch imported.
    options += ["-pno:unraisableexception"]
    code = pytest.main([str(suite), *options], plugins=[plugin])
    return int(code), plugin.passed


class _Plain:
    """A plugin whose `student` fixture simply imports the submission."""

    def __init__(self, course: Course, exercise: Exercise, folder: Path) -> None:
        self._probe = course.suite(exercise, Visibility.HIDDEN).with_name(f"probe_{exercise.id}.py")
        self._folder = folder
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.outcome == "passed"

    @pytest.fixture(scope="session")
    def student(self) -> Any:
        module = _load("scale", self._folder / "scale.py")
        probe = _load(self._probe.stem, self._probe)

        class Student:
            def function(self, name: str) -> Any:
                return getattr(module, name)

            def module(self, name: str, *arguments: Any) -> Any:
                return getattr(module, name)(*arguments)

            def run(self, name: str, *arguments: Any) -> Any:
                return getattr(probe, name)(module, *arguments)

        return Student()


def _load(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _chosen(names: list[str]) -> list[Attack]:
    if names and re.fullmatch(r"\d/\d", names[0]):
        part, parts = map(int, names[0].split("/"))
        return read_catalogue(CATALOGUE)[part - 1 :: parts]
    return read_catalogue(CATALOGUE, names)


def main(names: list[str]) -> None:
    """Demonstrate the named attacks, or all of them. `2/3` means the second third of all."""
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    adopt_orphans()
    # The first call imports for seconds, which must not count as time of an attack.
    torch.testing.assert_close(torch.ones(1), torch.ones(1))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        attacks = _chosen(names)
        patience = PATIENCE_SECONDS if len(attacks) > 1 else LONG_PATIENCE_SECONDS
        demonstration = Demonstration(load_course(CATALOGUE / "course"), Path(scratch), patience)
        for attack in attacks:
            with Canaries() as canaries:
                found = demonstration.show(attack, canaries)
            proofs = sorted({each.proof.value for each in found})
            seen = [each.detail[:200] for each in found]
            print(json.dumps({"name": attack.name, "proofs": proofs, "seen": seen}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
