"""Attacks on the walls fail, and the same attacks succeed without walls.

All aim at canaries made by the test: a file beside the scratch, a sleeping process, and sockets.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .arena import AS_NOBODY, NOBODY, SITUATIONS, Arena, open_arena, situations

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the walls need Linux"),
]

SECRET = "canary-7f3a"
ESCAPED = "escaped"

# Runs before every attack: `libc`, and system calls by number (x86-64, skipped elsewhere).
PREAMBLE = """
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def escaped(condition=True):
    global value
    value = "escaped" if condition else value
value = None
"""

FILES = {
    "read": "escaped(SECRET in open(CANARY).read())",
    "read_bytes_by_descriptor": "escaped(SECRET.encode() in os.read(os.open(CANARY, 0), 99))",
    "map": "escaped(SECRET.encode() in mmap.mmap(os.open(CANARY, 0), 0, prot=1)[:])",
    "list": "escaped('canary' in os.listdir(OUTSIDE))",
    "walk_up": "escaped(SECRET in open('../' * 20 + CANARY.lstrip('/')).read())",
    "symbolic_link": "os.symlink(CANARY, 'link'); escaped(SECRET in open('link').read())",
    "symbolic_link_of_folder": "os.symlink('/', 'root'); escaped(SECRET in open('root' + CANARY).read())",
    "hard_link": "os.link(CANARY, 'link'); escaped(SECRET in open('link').read())",
    "rename_in": "os.rename(CANARY, SCRATCH + '/got'); escaped(SECRET in open('got').read())",
    "sendfile": "escaped(os.sendfile(os.open('o', 66, 0o600), os.open(CANARY, 0), 0, 9) > 0)",
    "by_own_root": "escaped(SECRET in open('/proc/self/root' + CANARY).read())",
    "by_root_of_parent": "escaped(SECRET in open(f'/proc/{PARENT}/root' + CANARY).read())",
    "by_first_process": "escaped(SECRET in open('/proc/1/root' + CANARY).read())",
    "write_beside": "open(OUTSIDE + '/new', 'w').write('x'); escaped()",
    "append": "open(CANARY, 'a').write('x'); escaped()",
    "overwrite": "open(CANARY, 'r+').write('x'); escaped()",
    "truncate": "os.truncate(CANARY, 1); escaped()",
    "remove": "os.remove(CANARY); escaped()",
    "rename_over": "open('x', 'w').close(); os.rename('x', CANARY); escaped()",
    "make_folder": "os.mkdir(OUTSIDE + '/new'); escaped()",
    "make_pipe": "os.mkfifo(OUTSIDE + '/new'); escaped()",
    "change_mode": "os.chmod(CANARY, 0o777); escaped()",
    "change_times": "os.utime(CANARY, (1, 1)); escaped()",
    "change_owner": "os.chown(CANARY, os.getuid(), os.getgid()); escaped()",
    "change_attributes": "os.setxattr(CANARY, 'user.x', b'x'); escaped()",
    "watch": "escaped(libc.inotify_add_watch(libc.inotify_init(), CANARY.encode(), 0xfff) > 0)",
    "lock": "fcntl.lockf(open(CANARY, 'r+'), fcntl.LOCK_EX); escaped()",
    "lease": "fcntl.fcntl(os.open(CANARY, 0), fcntl.F_SETLEASE, fcntl.F_WRLCK); escaped()",
    "by_handle": """
handle = (ctypes.c_uint32 * 34)(128)
mount = ctypes.c_int()
if libc.name_to_handle_at(-100, CANARY.encode(), handle, ctypes.byref(mount), 0) == 0: escaped()
""",
    "shared_memory_folder": "open('/dev/shm/canary-7f3a', 'w'); os.remove('/dev/shm/canary-7f3a'); escaped()",
    "temporary_folder": "open('/tmp/canary-7f3a', 'w'); os.remove('/tmp/canary-7f3a'); escaped()",
    "python_environment": """
path = os.path.dirname(os.__file__) + '/canary_7f3a.py'
open(path, 'w').close(); os.remove(path); escaped()
""",
    "own_code": "import grader.errors as own; open(own.__file__, 'a').close(); escaped()",
    "passwords": "escaped('root' in open('/etc/passwd').read())",
    "network_settings": "open('/etc/resolv.conf').read(); escaped()",
}

PROCESSES = {
    "fork": """
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0); escaped()
""",
    "raw_fork": """
pid = call(57)
if pid == 0: os._exit(0)
os.waitpid(pid, 0); escaped()
""",
    "raw_clone": """
pid = call(56, signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0: os._exit(0)
os.waitpid(pid, 0); escaped()
""",
    "raw_clone3": """
arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD)
pid = call(435, ctypes.cast(arguments, ctypes.c_void_p), 88)
if pid == 0: os._exit(0)
os.waitpid(pid, 0); escaped()
""",
    "run": "import subprocess; escaped(subprocess.run(['/bin/true']).returncode == 0)",
    "spawn": "escaped(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1] == 0)",
    "shell": "escaped(os.system('exit 7') == 7 << 8)",
    "memory_program": """
memory = os.memfd_create('x'); os.write(memory, open('/bin/true', 'rb').read())
escaped(os.access(f'/proc/self/fd/{memory}', os.R_OK))
""",
    "loaded_library": """
import _ctypes
shutil = __import__('shutil'); shutil.copyfile(_ctypes.__file__, 'copy.so')
ctypes.CDLL('./copy.so'); escaped()
""",
    "kill": "os.kill(NEIGHBOUR, signal.SIGURG); escaped()",
    "kill_probe": "os.kill(NEIGHBOUR, 0); escaped()",
    "kill_parent": "os.kill(PARENT, signal.SIGURG); escaped(PARENT != os.getpid())",
    "kill_thread": "escaped(call(234, NEIGHBOUR, NEIGHBOUR, signal.SIGURG) == 0)",
    "kill_by_thread_number": "escaped(call(200, NEIGHBOUR, signal.SIGURG) == 0)",
    "kill_queued": """
information = (ctypes.c_int * 32)(signal.SIGURG, 0, -1)
escaped(call(129, NEIGHBOUR, signal.SIGURG, ctypes.cast(information, ctypes.c_void_p)) == 0)
""",
    "kill_by_descriptor": "signal.pidfd_send_signal(os.pidfd_open(NEIGHBOUR), signal.SIGURG); escaped()",
    "kill_by_input": """
reader, writer = os.pipe(); fcntl.fcntl(reader, fcntl.F_SETOWN, NEIGHBOUR)
escaped(fcntl.fcntl(reader, fcntl.F_GETOWN) == NEIGHBOUR)
""",
    "trace": """
escaped(libc.ptrace(0x4206, NEIGHBOUR, None, None) == 0)
libc.ptrace(17, NEIGHBOUR, None, None)
""",
    "read_memory": """
buffer = ctypes.create_string_buffer(8)
here = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
there = (ctypes.c_void_p * 2)(1, 8)
here, there = (ctypes.cast(each, ctypes.c_void_p) for each in (here, there))
try: call(310, NEIGHBOUR, here, 1, there, 1, 0)
except OSError as error:
    # Allowed, but there is nothing at this address.
    if error.errno != errno.EFAULT: raise
    escaped()
""",
    "open_memory": "open(f'/proc/{NEIGHBOUR}/mem', 'rb'); escaped()",
    "open_memory_of_parent": "open(f'/proc/{PARENT}/mem', 'rb'); escaped(PARENT != os.getpid())",
    "environment_of_parent": "open(f'/proc/{PARENT}/environ').read(); escaped(PARENT != os.getpid())",
    "arguments_of_parent": "open(f'/proc/{PARENT}/cmdline').read(); escaped(PARENT != os.getpid())",
    "descriptors_of_parent": "os.listdir(f'/proc/{PARENT}/fd'); escaped(PARENT != os.getpid())",
    "processes": "escaped(sum(each.isdigit() for each in os.listdir('/proc')) > 1)",
    "priority": "os.setpriority(os.PRIO_PROCESS, NEIGHBOUR, 19); escaped()",
    "affinity": "os.sched_setaffinity(NEIGHBOUR, os.sched_getaffinity(0)); escaped()",
    "limits_of_another": "resource.prlimit(NEIGHBOUR, resource.RLIMIT_CORE, (0, 0)); escaped()",
    "leave_the_group": """
pid = os.fork()
if pid == 0:
    try: os.setsid()
    except OSError: os._exit(1)
    os._exit(0)
escaped(os.waitpid(pid, 0)[1] == 0)
""",
    "outlive_the_parent": "escaped(libc.prctl(1, 0, 0, 0, 0) == 0)",
    "become_traceable": "escaped(libc.prctl(4, 1, 0, 0, 0) == 0)",
}

NETWORK = {
    "tcp": "socket.create_connection(('127.0.0.1', PORT), 2); escaped()",
    "listen": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); escaped()",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT)); escaped()",
    "unix": "s = socket.socket(socket.AF_UNIX); s.connect(SOCKET); escaped()",
    "abstract": "s = socket.socket(socket.AF_UNIX); s.connect(ABSTRACT); escaped()",
    "datagram": """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', DATAGRAMS); escaped()
""",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15); escaped()",
    "other_families": """
for family in (17, 29, 31, 38, 40, 44):
    try: socket.socket(family, socket.SOCK_STREAM if family != 38 else socket.SOCK_SEQPACKET)
    except OSError as error:
        if error.errno not in (errno.EPERM,): escaped()
    else: escaped()
""",
}

PRIVILEGES = {
    "user_namespace": "escaped(libc.unshare(0x10000000) == 0)",
    "clone_user_namespace": """
pid = call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0: os._exit(0)
os.waitpid(pid, 0); escaped()
""",
    "enter_namespace": "escaped(libc.setns(os.open('/proc/self/ns/net', 0), 0) == 0)",
    # System calls of 32-bit programs have other numbers: 20 is getpid.
    "old_calls": """
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
escaped(ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0)
""",
    # The same calls exist again for programs with 32-bit pointers. This one is fork.
    "calls_of_x32": """
pid = call(0x40000000 | 57)
if pid == 0: os._exit(0)
os.waitpid(pid, 0); escaped()
""",
    "keys": "escaped(call(248, b'user', b'canary', b'x', 1, -1) > 0)",
    "machine_parameters": """
old = open('/proc/sys/kernel/printk_ratelimit').read()
open('/proc/sys/kernel/printk_ratelimit', 'w').write(old); escaped()
""",
    "system_v_memory": "i = call(29, 0, 4096, 0o1600); escaped(); call(31, i, 0, 0)",
    "system_v_messages": "i = call(68, 0, 0o1600); escaped(); call(71, i, 0, 0)",
    "system_v_semaphores": "i = call(64, 0, 1, 0o1600); escaped(); call(66, i, 0, 0, 0)",
    "io_uring": "escaped(call(425, 4, ctypes.create_string_buffer(120)) > 0)",
    "personality": "escaped(call(135, 0x0040000) >= 0)",
    "raise_limit": """
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
escaped(resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY)
""",
}

ATTACKS = {
    name: code
    for name, code in (FILES | PROCESSES | NETWORK | PRIVILEGES).items()
    # Calls by number and in machine code are for one architecture only.
    if platform.machine() == "x86_64" or not re.search(r"\bcall\(|_calls", name + code)
}
# These do no harm even without walls, so they cannot be shown to work.
HARMLESS_ANYWAY = {
    "old_calls",  # if the kernel has them at all
    "calls_of_x32",
    "by_first_process",
    "shared_memory_folder",
}
# An exercise may ask for processes and loopback, which makes these legitimate.
GRANTED = {"fork", "raw_fork", "raw_clone", "outlive_the_parent", "shared_memory_folder", "listen"}
# Attacks known to succeed if a wall is missing, as docs/security.md says.
GETS_THROUGH = {
    "without_namespaces": {"loaded_library"},
    "nobody_without_namespaces": {"loaded_library"},
    # The sandbox has its own /tmp, which ends with it.
    "without_landlock": {"temporary_folder"},
    # All of these stay inside the sandbox's own namespaces and end with them.
    "without_seccomp": {
        "fork",
        "leave_the_group",
        "old_calls",
        "raw_fork",
        "raw_clone",
        "raw_clone3",
        "memory_program",
        "outlive_the_parent",
        "become_traceable",
        "udp",
        "netlink",
        "other_families",
        "user_namespace",
        "clone_user_namespace",
        "keys",
        "system_v_memory",
        "system_v_messages",
        "system_v_semaphores",
        "personality",
    },
}
GETS_THROUGH_GRANTED = {
    "without_namespaces": {"tcp", "unix"},
    "nobody_without_namespaces": {"tcp", "unix"},
}


@dataclass(frozen=True)
class Target:
    """The canaries, and the names by which attacks find them."""

    folder: Path
    names: dict[str, Any]

    def is_untouched(self) -> bool:
        """Whether all canaries are as they were made."""
        canary = self.folder / "canary"
        status = canary.stat()
        return (
            sorted(each.name for each in self.folder.iterdir()) == ["canary", "datagrams", "socket"]
            and canary.read_text() == SECRET
            and status.st_mode & 0o777 == 0o644
            and status.st_mtime > 1000
        )

    def restore(self) -> None:
        """Restore the canaries after an attack that succeeded."""
        for each in self.folder.iterdir():
            if each.name not in ("canary", "datagrams", "socket"):
                each.rmdir() if each.is_dir() else each.unlink()
        owner = self.folder.stat().st_uid
        (self.folder / "canary").unlink(missing_ok=True)
        (self.folder / "canary").write_text(SECRET)
        (self.folder / "canary").chmod(0o644)
        os.chown(self.folder / "canary", owner, owner)


@contextlib.contextmanager
def target(*, unprivileged: bool) -> Iterator[Target]:
    """Make canaries that belong to the user who runs the sandboxes."""
    owner = NOBODY if unprivileged else os.getuid()
    group = NOBODY if unprivileged else os.getgid()
    # Not below pytest's folder, which only its owner may enter: attacks must be able to reach them.
    folder = Path(tempfile.mkdtemp(prefix="canary-"))
    (folder / "canary").write_text(SECRET)
    sleeper = subprocess.Popen([*(AS_NOBODY if unprivileged else ()), "sleep", "300"])
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        stack.callback(sleeper.wait)
        stack.callback(sleeper.kill)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        unix.listen()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{folder.name}")
        abstract.listen()
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(str(folder / "datagrams"))
        for each in (folder, *folder.iterdir()):
            os.chown(each, owner, group)
        names = {
            "SECRET": SECRET,
            "CANARY": str(folder / "canary"),
            "OUTSIDE": str(folder),
            "NEIGHBOUR": sleeper.pid,
            "PORT": tcp.getsockname()[1],
            "SOCKET": str(folder / "socket"),
            "DATAGRAMS": str(folder / "datagrams"),
            "ABSTRACT": f"\0{folder.name}",
        }
        yield Target(folder, names)


@dataclass(frozen=True)
class Situation:
    """A place to attack from, and the targets."""

    name: str
    arena: Arena
    target: Target


@pytest.fixture(scope="module", params=situations(), ids=str)
def situation(request: pytest.FixtureRequest) -> Iterator[Situation]:
    """Yield an arena of each kind, with its canaries."""
    settings = SITUATIONS[request.param]
    unprivileged = settings.get("unprivileged", False)
    with target(unprivileged=unprivileged) as canaries, open_arena(settings) as arena:
        yield Situation(request.param, arena, canaries)


@pytest.fixture(scope="module")
def open_field() -> Iterator[Situation]:
    """Yield an arena without walls, in which the attacks must succeed."""
    with target(unprivileged=False) as canaries, open_arena({"without": ("namespaces",)}) as arena:
        yield Situation("open_field", arena, canaries)


@pytest.mark.parametrize("name", sorted(set(ATTACKS) - HARMLESS_ANYWAY))
def test_an_attack_succeeds_without_walls(name: str, open_field: Situation) -> None:
    canaries = open_field.target
    outcome = open_field.arena.run(PREAMBLE + ATTACKS[name], walls=False, names=canaries.names)
    canaries.restore()
    assert outcome.value == ESCAPED, outcome


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_fails(name: str, situation: Situation) -> None:
    outcome = situation.arena.run(PREAMBLE + ATTACKS[name], names=situation.target.names)
    assert outcome.walls
    if name in GETS_THROUGH.get(situation.name, ()):
        situation.target.restore()
        pytest.xfail("known to get through here")
    assert outcome.value is None, outcome
    assert situation.target.is_untouched()


@pytest.mark.parametrize("name", sorted(set(ATTACKS) - GRANTED))
def test_an_attack_fails_with_processes_and_loopback(name: str, situation: Situation) -> None:
    outcome = situation.arena.run(
        PREAMBLE + ATTACKS[name], names=situation.target.names, processes=True, loopback=True
    )
    known = GETS_THROUGH.get(situation.name, set()) | GETS_THROUGH_GRANTED.get(
        situation.name, set()
    )
    if name in known:
        situation.target.restore()
        pytest.xfail("known to get through here")
    assert outcome.value is None, outcome
    assert situation.target.is_untouched()
