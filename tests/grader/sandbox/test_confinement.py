"""The walls permit ordinary code, enforce limits, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.sandbox.walls import confinement
from grader.sandbox.walls.bubblewrap import bubblewrapped, python_environment
from grader.sandbox.walls.wall import Limits

from .arena import SITUATIONS, Arena, Outcome, open_arena, situations

linux = pytest.mark.skipif(sys.platform != "linux", reason="the walls need Linux")
MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module", params=situations(), ids=str)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with open_arena(SITUATIONS[request.param]) as arena:
        yield arena


def succeeded(outcome: Outcome) -> Any:
    assert outcome.error is None and outcome.status == 0, outcome
    return outcome.value


# --- the walls --------------------------------------------------------------------------------


@linux
def test_all_expected_walls_hold(arena: Arena) -> None:
    walls = arena.run("").walls
    assert walls == [wall for wall in confinement.WALLS if wall in walls]
    missing = set(confinement.WALLS) - set(walls)
    if "namespaces" in arena.without:
        assert missing == {
            "private_root", "pid_namespace", "user_namespace", "mount_namespace", "ipc_namespace",
            "network_namespace", "private_scratch", "process_limit",
        }  # fmt: skip
    else:
        assert missing == set(arena.without)


@linux
def test_the_kernel_confirms_the_walls(arena: Arena) -> None:
    if arena.without:
        pytest.skip("needs all walls")
    # Read by system calls, since /proc is closed to the sandbox.
    code = """
import ctypes, os, resource
libc = ctypes.CDLL(None)
value = {
    "no_new_privs": libc.prctl(39, 0, 0, 0, 0),
    "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "seccomp": libc.prctl(21, 0, 0, 0, 0),
    "pid": os.getpid(),
    "leads": os.getsid(0) == os.getpid() == os.getpgrp(),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
}
"""
    assert succeeded(arena.run(code)) == {
        "no_new_privs": 1, "dumpable": 0, "seccomp": 2, "pid": 1, "leads": True, "core": [0, 0],
    }  # fmt: skip


def test_limits_have_defaults_and_can_be_sent() -> None:
    limits = Limits(processes=True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(limits), type=Limits) == limits
    assert not Limits().processes
    assert not Limits().loopback


def test_importing_the_walls_imports_no_large_package() -> None:
    code = "import sys, grader.sandbox.walls.confinement; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(confinement.__file__).parents[3])},
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert not loaded & {"torch", "numpy", "click", "rich", "pyseccomp", "subprocess"} - {
        "subprocess"
    }


@linux
def test_a_sandbox_with_threads_is_refused(tmp_path: Path) -> None:
    code = f"""
import pathlib, sys, threading
from grader.errors import SandboxError
from grader.sandbox.walls import confinement, namespaces
from grader.sandbox.walls.wall import Limits
namespaces.enter = lambda readable: []
plan = confinement.prepare([])
threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    confinement.confine(plan, Limits(), pathlib.Path({str(tmp_path)!r}))
except SandboxError as error:
    print("refused", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(confinement.__file__).parents[3])},
    )  # fmt: skip
    assert done.stdout.startswith("refused a sandbox with 2 threads")


ELSEWHERE = """
import pathlib, sys
sys.platform = PLATFORM
if PLATFORM == "win32":
    import os
    for name in ("fork", "getuid", "killpg", "setsid", "uname"):
        delattr(os, name)
    sys.modules.update(dict.fromkeys(("fcntl", "resource", "pyseccomp")))
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.confinement import SYSTEM, confine, fork, prepare
from grader.sandbox.walls.survey import survey
from grader.sandbox.walls.wall import Limits
plan = prepare(python_environment())
print(type(SYSTEM).__name__)
print(SYSTEM.bubblewrapped(["true"], readable=[], environment={}))
with SYSTEM.control_group(2**30, 100) as group:
    print(group)
child = fork(plan, Limits()) if PLATFORM == "win32" else 0
print(child, confine(plan, Limits(), pathlib.Path(".")))
walls = survey()
print({wall.remedy for wall in walls if not wall.stands})
SYSTEM.end_group(2**30)
"""


@pytest.mark.parametrize(
    ("platform", "system", "walls"),
    [("darwin", "System", ["process_group", "rlimits"]), ("win32", "Windows", [])],
)
def test_other_systems_set_up_the_walls_they_have(
    platform: str, system: str, walls: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE.replace("PLATFORM", repr(platform))],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(confinement.__file__).parents[3])},
    )  # fmt: skip
    assert done.stdout.split("\n")[:4] == [system, "None", "None", f"0 {walls}"]
    assert "or in a Linux virtual machine" in done.stdout


# --- needs of ordinary code ---------------------------------------------------------------------

ORDINARY = {
    "files": """
import os, shutil, pathlib
pathlib.Path('a').write_text('x'); shutil.copyfile('a', 'b'); os.replace('b', 'c'); os.remove('c')
os.makedirs('d/e'); pathlib.Path('d/e/f').write_text('y'); shutil.rmtree('d')
value = [os.getcwd() == SCRATCH, os.listdir()]
""",
    "temporary_files": """
import tempfile
with tempfile.NamedTemporaryFile() as file: file.write(b'x')
with tempfile.TemporaryDirectory() as folder: open(folder + '/x', 'w').close()
with tempfile.TemporaryFile() as file: file.write(b'x')
""",
    "late_imports": """
import sqlite3, decimal, _ssl, ctypes.util, uuid, zoneinfo, bz2, lzma, mmap, queue
value = sqlite3.connect('base').execute('select 7').fetchone()[0]
assert decimal.Decimal(1) + 1 == 2 and uuid.uuid4()
""",
    "threads": """
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(8) as pool: value = sum(pool.map(abs, range(-50, 0)))
""",
    "asyncio": "import asyncio; value = asyncio.run(asyncio.sleep(0.001, 7))",
    "subinterpreter_free_things": """
import warnings, random, time, signal, logging, gc
warnings.simplefilter('ignore'); warnings.warn('x'); time.sleep(0.001); gc.collect()
signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 0.001)
time.sleep(0.01)
""",
    "devices": """
open('/dev/null', 'w').write('x')
value = len(open('/dev/urandom', 'rb').read(4))
""",
    "output": "import sys; print('out'); print('err', file=sys.stderr)",
    "socket_pair": """
import socket, selectors
a, b = socket.socketpair(); a.send(b'x'); value = b.recv(1).decode()
""",
    "own_signal": """
import os, signal
seen = []
signal.signal(signal.SIGUSR1, lambda *a: seen.append(1))
os.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)
value = len(seen)
""",
}


@linux
@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_code_runs(name: str, arena: Arena) -> None:
    outcome = arena.run(ORDINARY[name])
    succeeded(outcome)


@linux
def test_a_pool_of_processes_needs_an_exercise_with_processes(arena: Arena) -> None:
    code = """
import multiprocessing
with multiprocessing.get_context('fork').Pool(2) as pool: value = pool.map(abs, [-1, -2])
"""
    assert succeeded(arena.run(code, processes=True)) == [1, 2]
    assert arena.run(code).error in ("PermissionError", "OSError")


@linux
def test_loopback_needs_an_exercise_with_loopback(arena: Arena) -> None:
    code = """
import socket, threading
server = socket.create_server(('localhost', 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b'hello')).start()
value = socket.create_connection(server.getsockname(), 5).recv(9).decode()
"""
    assert succeeded(arena.run(code, loopback=True)) == "hello"
    assert arena.run(code).error in ("PermissionError", "OSError")


# --- limits -------------------------------------------------------------------------------------


@linux
def test_memory_is_limited(arena: Arena) -> None:
    limit = 200 * MEBIBYTE
    assert arena.run("bytearray(300 * 2**20)", memory_bytes=limit).error == "MemoryError"
    assert (
        arena.run("import mmap; mmap.mmap(-1, 300 * 2**20)", memory_bytes=limit).error == "OSError"
    )
    succeeded(arena.run("bytearray(100 * 2**20)", memory_bytes=limit))


@linux
def test_the_size_of_a_file_is_limited(arena: Arena) -> None:
    outcome = arena.run("open('x', 'wb').write(bytes(2 * 2**20))", file_bytes=MEBIBYTE)
    assert (outcome.error, outcome.status) == ("OSError", 0)


@linux
def test_the_size_of_the_scratch_is_limited(arena: Arena) -> None:
    code = """
for number in range(16): open(f'x{number}', 'wb').write(bytes(2**20))
"""
    outcome = arena.run(code, scratch_bytes=4 * MEBIBYTE)
    assert outcome.error == (None if "namespaces" in arena.without else "OSError")
    if "namespaces" not in arena.without:
        assert outcome.left == []


@linux
def test_the_number_of_files_in_the_scratch_is_limited(arena: Arena) -> None:
    if "namespaces" in arena.without:
        pytest.skip("the scratch is an ordinary folder")
    outcome = arena.run("for number in range(20000): open(f'x{number}', 'w').close()")
    assert outcome.error == "OSError"


@linux
def test_open_descriptors_are_limited(arena: Arena) -> None:
    outcome = arena.run("files = [open('/dev/null') for _ in range(100)]", open_files=50)
    assert outcome.error == "OSError"


@pytest.mark.thorough
@linux
def test_processor_time_is_limited(arena: Arena) -> None:
    if arena.inside != arena.unprivileged or set(arena.without) - {"namespaces"}:
        pytest.skip("takes two seconds and is checked in other situations")
    code = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    outcome = arena.run(code, cpu_seconds=1)
    assert outcome.status == -9
    assert outcome.cpu_seconds < 2.5


THREAD_BOMB = """
import threading, time
threading.stack_size(32768)
value = 0
try:
    for value in range(2000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError:
    pass
"""
FORK_BOMB = """
import os, time
value = 0
try:
    for value in range(1000):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
except OSError:
    pass
"""


@linux
def test_threads_and_processes_are_counted(arena: Arena) -> None:
    if "process_limit" not in arena.run("").walls:
        pytest.skip("processes are not counted here")
    assert 100 < succeeded(arena.run(THREAD_BOMB)) < 310
    assert 100 < succeeded(arena.run(FORK_BOMB, processes=True)) < 310


# --- nothing is left ----------------------------------------------------------------------------

DAEMON = """
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        for number in range(1, 64):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.close(3)
            time.sleep(300)
        os._exit(0)
time.sleep(HOW_LONG)
"""


def _sleepers(mark: str) -> list[int]:
    """Return the processes on this machine whose arguments contain the mark."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit() and mark.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


@linux
@pytest.mark.parametrize("how_long", [0, 60])
def test_no_process_outlives_its_sandbox(how_long: int, arena: Arena) -> None:
    before = set(_sleepers(arena.mark))
    outcome = arena.run(DAEMON, processes=True, seconds=0.5, names={"HOW_LONG": how_long})
    assert outcome.error in (None, "Died")
    # They are killed with the sandbox, long before they would end by themselves.
    for pid in set(_sleepers(arena.mark)) - before:
        with contextlib.suppress(ProcessLookupError):
            ended = os.pidfd_open(pid)
            assert select.select([ended], [], [], 60)[0], f"process {pid} is left"
            os.close(ended)
    assert not set(_sleepers(arena.mark)) - before


@linux
def test_shared_memory_does_not_outlive_its_sandbox(arena: Arena) -> None:
    if "namespaces" in arena.without:
        pytest.skip("the sandbox has the machine's own /dev/shm")
    code = "open('/dev/shm/canary', 'w').write('x')"
    succeeded(arena.run(code, processes=True))
    assert arena.run("open('/dev/shm/canary')", processes=True).error == "FileNotFoundError"
    assert not Path("/dev/shm/canary").exists()


NEIGHBOUR = """
import os, socket, time, ctypes, signal
open(SCRATCH + '/secret', 'w').write('canary')
os.close(3)
time.sleep(60)
"""


@linux
def test_neighbours_cannot_reach_each_other(arena: Arena) -> None:
    with arena.neighbour(NEIGHBOUR) as neighbour:
        names = {"OTHER": neighbour["sandbox"], "THERE": neighbour["scratch"]}
        code = """
import os, signal
value = []
for attempt in (
    lambda: os.kill(OTHER, signal.SIGKILL),
    lambda: os.kill(-1, signal.SIGKILL) if os.getpid() == 1 else os.kill(OTHER, 0),
    # An empty mount point may be seen, where /tmp holds the Python environment and is sealed.
    lambda: os.listdir(THERE) or os.stat(THERE + '/secret'),
    lambda: open(THERE + '/secret').read(),
    lambda: open(THERE + '/new', 'w'),
    lambda: open(f'/proc/{OTHER}/mem'),
):
    try:
        value.append(repr(attempt()))
    except OSError as error:
        value.append(None)
"""
        assert succeeded(arena.run(code, names=names)) == [None] * 6
        assert succeeded(arena.run("import os; value = os.getpid()")) > 0


# --- cost ---------------------------------------------------------------------------------------


@linux
def test_bubblewrap_shows_only_the_environment() -> None:
    folder = Path(confinement.__file__).parents[2]
    readable = python_environment()
    command = bubblewrapped(
        ["/bin/sh", "-c", f"ls {folder} {folder.parent}; ls /home /root; env"],
        readable=readable, environment={"ONLY": "this"},
    )  # fmt: skip
    if command is None:
        pytest.skip("bubblewrap does not work here")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "sandbox" in done.stdout
    for hidden in ("solutions", "tests", "judge", "cli", "HOME", "course"):
        assert hidden not in done.stdout.split()
    assert "ONLY=this" in done.stdout
