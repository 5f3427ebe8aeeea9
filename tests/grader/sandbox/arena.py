"""A miniature fork server for the tests of the walls: runs pieces of code, each in its own sandbox.

The source of `_SERVER` runs in a process of its own, inside bubblewrap if requested, and reads one
JSON request from each line. It is minimal, so that attacks are stopped by the walls alone and not by
the real fork server or the protocol.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox.walls.bubblewrap import bubblewrapped

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534

_SERVER = """
import contextlib, importlib, json, os, pathlib, select, signal, sys, tempfile, time, traceback
import msgspec
from grader.sandbox.walls import confinement, landlock, namespaces, seccomp
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.wall import Limits

settings = json.loads(sys.argv[1])
if "namespaces" in settings["without"]:
    namespaces.enter = lambda readable: []
if "seccomp" in settings["without"]:
    seccomp.compile_filter = lambda **keywords: (_ for _ in ()).throw(ImportError())
plan = confinement.prepare(python_environment())
if "landlock" in settings["without"]:
    plan = msgspec.structs.replace(plan, landlock_abi=0)
for module in settings["preload"]:
    importlib.import_module(module)
exec(settings["warm"], {})
home = tempfile.mkdtemp(dir=settings["scratch"])
print(json.dumps({"pid": os.getpid()}), flush=True)


def become_sandbox(request, limits, scratch, out):
    # Like the real fork server, keep only the pipe for the answer.
    os.dup2(os.open(scratch + ".output", os.O_RDWR | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    os.dup2(out, 3)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.closerange(4, 1000)
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    os.chdir(scratch)
    answer = {}
    try:
        if request["walls"]:
            answer["walls"] = confinement.confine(plan, limits, pathlib.Path(scratch))
        else:
            # A group of its own, so that it can be killed.
            os.setsid()
        space = {"__name__": "student", "SCRATCH": scratch, "PARENT": server, **request["names"]}
        exec(compile(request["code"], "<attack>", "exec"), space)
        answer["value"] = space.get("value")
    except BaseException as error:
        answer["error"] = type(error).__name__
        answer["trace"] = traceback.format_exc()[-1500:]
    os.write(3, json.dumps(answer, default=repr).encode())


def answer_of(reader, seconds):
    answer, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        answer += piece
    return answer


def end(pid):
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


server = os.getpid()
for line in sys.stdin:
    request = json.loads(line)
    if "end" in request:
        end(request["end"])
        os.waitpid(request["end"], 0)
        print("{}", flush=True)
        continue
    limits = Limits(**request["limits"])
    scratch = tempfile.mkdtemp(dir=home)
    reader, writer = os.pipe()
    started = time.perf_counter()
    pid = confinement.fork(plan, limits)
    if pid == 0:
        try:
            become_sandbox(request, limits, scratch, writer)
        finally:
            os._exit(0)
    os.close(writer)
    if request["background"]:
        # The sandbox closes its end when it is ready.
        os.close(reader)
        print(json.dumps({"sandbox": pid, "scratch": scratch}), flush=True)
        continue
    answer = answer_of(reader, request["seconds"])
    os.close(reader)
    if not answer or request["kill"]:
        end(pid)
    # Kill remaining processes before reaping it, while the group's number is still in use.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    end(pid)
    _, status, usage = os.wait4(pid, 0)
    reply = json.loads(answer) if answer else {"error": "Died"}
    reply["status"] = os.waitstatus_to_exitcode(status)
    reply["seconds"] = time.perf_counter() - started
    reply["cpu"] = usage.ru_utime + usage.ru_stime
    reply["left"] = sorted(os.listdir(scratch))
    with open(scratch + ".output") as output:
        reply["output"] = output.read(20000)
    print(json.dumps(reply), flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """How one piece of code ended. `value` is its variable of that name."""

    walls: list[str]
    value: Any
    error: str | None
    status: int
    seconds: float
    cpu_seconds: float
    left: list[str]
    text: str


class Arena:
    """A place where code runs behind walls, as one user, inside or outside of bubblewrap."""

    def __init__(
        self,
        scratch: Path,
        *,
        inside: bool = False,
        unprivileged: bool = False,
        without: tuple[str, ...] = (),
        preload: tuple[str, ...] = (),
        warm: str = "",
    ) -> None:
        settings: dict[str, Any] = {
            # Inside bubblewrap and behind a private root, only /tmp can be written to.
            "scratch": "/tmp" if inside or "namespaces" not in without else str(scratch),
            "without": without,
            "preload": preload,
            "warm": warm,
            "mark": secrets.token_hex(8),
        }
        python = python_for_nobody() if unprivileged else sys.executable
        assert python is not None
        environment = environment_for(python)
        command = [python, "-c", _SERVER, json.dumps(settings)]
        if inside:
            command = _wrapped(command, environment)
        if unprivileged:
            command = [*AS_NOBODY, *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
            text=True,
        )
        self.inside, self.unprivileged, self.without = inside, unprivileged, without
        # The arguments of every process of this arena contain it.
        self.mark = settings["mark"]
        self.facts = json.loads(self._line())

    def run(
        self,
        code: str,
        *,
        walls: bool = True,
        seconds: float = 20,
        kill: bool = False,
        names: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> Outcome:
        """Run the code in a new sandbox. `names` are its globals, `limits` the arguments of `Limits`."""
        reply = self._ask(
            code=code, walls=walls, seconds=seconds, kill=kill, background=False,
            names=dict(names or {}), limits=limits,
        )  # fmt: skip
        return Outcome(
            walls=reply.get("walls", []),
            value=reply.get("value"),
            error=reply.get("error"),
            status=reply["status"],
            seconds=reply["seconds"],
            cpu_seconds=reply["cpu"],
            left=reply["left"],
            text=reply.get("trace", "") + reply["output"],
        )

    @contextlib.contextmanager
    def neighbour(self, code: str, **limits: Any) -> Iterator[dict[str, Any]]:
        """Run a second sandbox beside those of `run`, and yield its `sandbox` number and `scratch`."""
        started = self._ask(
            code=code, walls=True, seconds=0, kill=False, background=True, names={}, limits=limits
        )
        try:
            yield started
        finally:
            self._ask(end=started["sandbox"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._line())
        return reply

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the arena ended with {self._process.wait()}"
        return line

    def close(self) -> None:
        """End the arena and everything that it still runs."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# `env` starts the program, since setpriv still has root's rights over folders when it starts one.
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env")


def environment_for(python: str) -> dict[str, str]:
    """Return only the variables that the arena's Python needs to find the grader and its libraries."""
    path = [str(ROOT)]
    if python != sys.executable:
        path += [each for each in sys.path if each.endswith("site-packages")]
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": "/tmp",
        "OMP_NUM_THREADS": "2",
    }


def python_for_nobody() -> str | None:
    """Find a Python that an unprivileged user can start and that finds our libraries, or None."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return None
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}"):
        command = [*AS_NOBODY, python, "-c", "import grader.sandbox.walls.confinement"]
        try:
            done = subprocess.run(
                command, env=environment_for(python), capture_output=True, check=False, cwd="/"
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def _wrapped(command: list[str], environment: Mapping[str, str]) -> list[str]:
    ask = "from grader.sandbox.walls.bubblewrap import python_environment as p; print(*p(), sep='\\0')"
    listed = subprocess.run(
        [command[0], "-c", ask],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
        cwd="/",
    )
    readable = [Path(each) for each in listed.stdout.rstrip("\n").split("\0")]
    found = bubblewrapped(command, readable=readable, environment=environment)
    assert found is not None
    return found


SITUATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bubblewrap": {"inside": True},
    "nobody": {"unprivileged": True},
    "nobody_in_bubblewrap": {"unprivileged": True, "inside": True},
    "without_namespaces": {"without": ("namespaces",)},
    "nobody_without_namespaces": {"unprivileged": True, "without": ("namespaces",)},
    "without_landlock": {"without": ("landlock",)},
    "without_seccomp": {"without": ("seccomp",)},
}
# The situations on most machines.
USUAL = ("plain", "bubblewrap")


def situations() -> list[Any]:
    """Return every situation as a parameter of a fixture. `make test` runs the usual ones."""
    return [
        pytest.param(name, marks=[] if name in USUAL else pytest.mark.thorough)
        for name in SITUATIONS
    ]


@contextlib.contextmanager
def open_arena(settings: dict[str, Any]) -> Iterator[Arena]:
    """Open an arena with these settings, or skip the test if this machine cannot have one."""
    if settings.get("unprivileged") and python_for_nobody() is None:
        pytest.skip("needs root, and a Python that another user can start")
    if settings.get("inside") and bubblewrapped(["true"], readable=[], environment={}) is None:
        pytest.skip("bubblewrap does not work here")
    scratch = Path(tempfile.mkdtemp(prefix="arena-"))
    scratch.chmod(0o777)
    arena = Arena(scratch, **settings)
    try:
        yield arena
    finally:
        arena.close()
        shutil.rmtree(scratch)
