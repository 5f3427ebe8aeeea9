"""The filter's program, run by an interpreter here: the calls that it allows, and its errors for others."""

from __future__ import annotations

import errno
import os
import platform
import signal
import socket
import struct
import sys

import pytest

from grader.sandbox.walls import seccomp

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the numbers of system calls are those of Linux on x86-64",
)

ALLOWED, ERRNO = 0x7FFF_0000, 0x0005_0000
X86_64 = 0xC000_003E
# Numbers of system calls, from syscall_64.tbl in the kernel's sources.
READ, OPEN, FCNTL, SOCKET, CLONE, FORK, KILL = 0, 2, 72, 41, 56, 57, 62
PTRACE, MOUNT, PRCTL, OPENAT, CLONE3, PIDFD_OPEN = 101, 165, 157, 257, 435, 434
ITSELF = 4242
THREAD, NEW_USER = 0x0001_0000, 0x1000_0000
STREAM = int(socket.SOCK_STREAM)


def program(*, processes: bool = False, loopback: bool = False) -> bytes:
    """Return the filter as `load` installs it in a process with the id ITSELF."""
    pytest.importorskip("pyseccomp")
    made = seccomp.compile_filter(processes=processes, loopback=loopback)
    return made.replace(struct.pack("=I", seccomp._OWN_PID), struct.pack("=I", ITSELF))


def verdict(code: bytes, call: int, *arguments: int, machine: int = X86_64) -> int:
    """Run the program on a call as the kernel does. Return 0 if the call is allowed, otherwise the error."""
    data = struct.pack("=IIQ6Q", call, machine, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    instructions = list(struct.iter_unpack("=HBBI", code))
    place = accumulator = 0
    while True:
        operation, if_true, if_false, constant = instructions[place]
        place += 1
        if operation == 0x20:  # load a word of the data
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif operation == 0x54:  # and
            accumulator &= constant
        elif operation == 0x05:  # jump
            place += constant
        elif operation in (0x15, 0x25, 0x35, 0x45):
            holds = {
                0x15: accumulator == constant,
                0x25: accumulator > constant,
                0x35: accumulator >= constant,
                0x45: accumulator & constant != 0,
            }
            place += if_true if holds[operation] else if_false
        else:
            assert operation == 0x06, hex(operation)
            assert constant == ALLOWED or constant & 0xFFFF_0000 == ERRNO, hex(constant)
            return constant & 0xFFFF if constant != ALLOWED else 0


@pytest.mark.parametrize("call", [READ, OPEN, OPENAT])
def test_reading_files_is_allowed(call: int) -> None:
    assert verdict(program(), call) == 0


@pytest.mark.parametrize("call", [PTRACE, MOUNT, FORK, 250, 450])
def test_a_call_on_no_list_is_not_permitted(call: int) -> None:
    assert verdict(program(), call) == errno.EPERM


@pytest.mark.parametrize("call", [CLONE3, PIDFD_OPEN, 451, 462, 2**31])
def test_a_call_with_an_older_equivalent_does_not_exist(call: int) -> None:
    assert verdict(program(), call) == errno.ENOSYS


def test_calls_of_another_architecture_do_not_exist() -> None:
    # System calls of 32-bit programs have other numbers.
    assert verdict(program(), READ, machine=0x4000_0003) == errno.ENOSYS


def test_a_process_signals_only_itself() -> None:
    assert verdict(program(), KILL, ITSELF, signal.SIGTERM) == 0
    for other in (1, os.getpid(), 2**32 - 1):
        assert verdict(program(), KILL, other, signal.SIGTERM) == errno.EPERM
    assert verdict(program(processes=True), KILL, 1, signal.SIGTERM) == 0


def test_threads_may_start_but_processes_only_if_the_exercise_needs_them() -> None:
    assert verdict(program(), CLONE, THREAD) == 0
    assert verdict(program(), CLONE, 0) == errno.EPERM
    assert verdict(program(processes=True), CLONE, 0) == 0
    assert verdict(program(processes=True), FORK) == 0
    for several in (False, True):
        assert verdict(program(processes=several), CLONE, THREAD | NEW_USER) == errno.EPERM


@pytest.mark.parametrize(
    ("family", "kind", "needs"),
    [
        (socket.AF_INET, STREAM, "loopback"),
        (socket.AF_INET6, STREAM, "loopback"),
        (socket.AF_UNIX, STREAM, "processes"),
    ],
)
def test_a_socket_needs_an_exercise_with_a_network(family: int, kind: int, needs: str) -> None:
    assert verdict(program(), SOCKET, family, kind) == errno.EPERM
    assert verdict(program(**{needs: True}), SOCKET, family, kind) == 0
    # One datagram could reach any address.
    datagram = int(socket.SOCK_DGRAM)
    assert verdict(program(**{needs: True}), SOCKET, family, datagram) == errno.EPERM


def test_only_harmless_uses_of_a_call_are_allowed() -> None:
    set_owner, get_flags = 8, 3
    assert verdict(program(), FCNTL, 0, get_flags) == 0
    assert verdict(program(), FCNTL, 0, set_owner) == errno.EPERM
    set_name, set_dumpable = 15, 4
    assert verdict(program(), PRCTL, set_name) == 0
    assert verdict(program(), PRCTL, set_dumpable) == errno.EPERM
