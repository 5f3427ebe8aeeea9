"""How arguments reach the C library and how its errors come back. No call here changes this process."""

from __future__ import annotations

import ctypes
import errno
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox.walls import syscalls
from grader.sandbox.walls.wall import Limits, Plan, Site

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the calls need Linux")

SITE = Site(Plan(()), Limits(), Path("/scratch"))


class Library:
    """A C library that records its calls with plain values. Functions in `failing` return -1."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failing: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        def function(*given: Any) -> int:
            plain = [
                each.value if isinstance(each, ctypes._SimpleCData) else each for each in given
            ]
            self.calls.append((name, *plain))
            return -1 if name in self.failing else 0

        return function


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(syscalls, "_libc", lambda: library)
    return library


def test_an_error_of_the_kernel_is_raised() -> None:
    with pytest.raises(OSError, match="system call 100000") as refused:
        syscalls.call(100_000)
    assert refused.value.errno == errno.ENOSYS


def test_numbers_of_64_bits_are_not_cut(library: Library) -> None:
    syscalls.call(445, 2**40 + 1, None, ctypes.c_char_p(b"text"))
    assert library.calls == [("syscall", 445, 2**40 + 1, None, b"text")]


def test_prctl_has_all_its_arguments(library: Library) -> None:
    syscalls.prctl(1, 9)
    assert library.calls == [("prctl", 1, 9, 0, 0, 0)]


def test_strings_are_encoded_and_none_stays_none(library: Library) -> None:
    syscalls.mount("none", "/grün", None, syscalls.MS_REC | syscalls.MS_PRIVATE, None)
    syscalls.pivot_root(".", "/old")
    syscalls.umount("/old", 2)
    syscalls.set_host_name("here")
    assert library.calls == [
        ("mount", b"none", "/grün".encode(), None, 0x4_4000, None),
        ("pivot_root", b".", b"/old"),
        ("umount2", b"/old", 2),
        ("sethostname", b"here", 4),
    ]


def test_all_rights_are_given_up_and_none_can_be_gained(library: Library) -> None:
    assert syscalls.drop_capabilities(SITE)
    (_, option, what, *_), (name, _, rights) = library.calls
    # Ambient capabilities are cleared, and each other set is empty.
    assert (option, what, name, list(rights)) == (47, 4, "capset", [0] * 6)
    library.calls.clear()
    assert syscalls.gain_no_privileges(SITE)
    dumpable, no_new_privs = (4, 0), (38, 1)
    assert [call[1:3] for call in library.calls] == [dumpable, no_new_privs]


@pytest.mark.parametrize(
    ("name", "wall"), [("capset", "drop_capabilities"), ("prctl", "gain_no_privileges")]
)
def test_a_wall_that_every_kernel_has_must_not_fail_silently(
    name: str, wall: str, library: Library
) -> None:
    library.failing = {name}
    with pytest.raises(OSError, match=name):
        getattr(syscalls, wall)(SITE)
