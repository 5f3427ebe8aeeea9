"""The rights that a sandbox asks Landlock for, by the kernel's version and the needs of the exercise."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.sandbox.walls import landlock, syscalls
from grader.sandbox.walls.wall import Limits, Plan, Site

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock needs Linux")

CREATE, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1, 2, 4, 8, 1 << 14
MAKE_DEVICES, MAKE_LINK = 1 << 6 | 1 << 11, 1 << 12


class Kernel:
    """A kernel that grants everything, and records the handled and the granted rights."""

    def __init__(self) -> None:
        self.handled = self.net = self.scoped = 0
        self.granted: list[int] = []
        self.flags: list[int] = []

    def call(self, number: int, *given: Any) -> int:
        if number == CREATE:
            asked = ctypes.cast(given[0], ctypes.POINTER(landlock._Ruleset)).contents
            self.handled, self.net = asked.handled_access_fs, asked.handled_access_net
            self.scoped = asked.scoped
            return os.open(os.devnull, os.O_RDONLY)
        if number == ADD_RULE:
            rule = ctypes.cast(given[2], ctypes.POINTER(landlock._PathBeneath)).contents
            self.granted.append(rule.allowed_access)
            return 0
        assert number == RESTRICT_SELF
        self.flags.append(given[1])
        return 0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(syscalls, "call", kernel.call)
    return kernel


@pytest.mark.parametrize(
    ("version", "rights"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (6, 16), (9, 16)]
)
def test_only_rights_known_to_the_kernel_are_named(
    version: int, rights: int, kernel: Kernel
) -> None:
    landlock.restrict(version, [(Path("/"), landlock.SCRATCH)], tcp=False)
    assert kernel.handled == 2**rights - 1
    assert kernel.granted == [landlock.SCRATCH & kernel.handled]
    assert bool(kernel.net) == (version >= 4)
    assert bool(kernel.scoped) == (version >= 6)
    assert kernel.flags == [1 if version >= 7 else 0]


def test_tcp_is_allowed_for_an_exercise_that_needs_it(kernel: Kernel) -> None:
    landlock.restrict(6, [], tcp=True)
    assert (kernel.net, bool(kernel.scoped)) == (0, True)


def test_a_file_gets_only_rights_of_files_and_a_missing_path_none(
    kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    grants = [(tmp_path / name, landlock.SCRATCH) for name in ("file", "none", "file/below")]
    landlock.restrict(7, [*grants, (tmp_path, landlock.READ)], tcp=False)
    assert kernel.granted == [READ_FILE | WRITE_FILE | TRUNCATE, READ_FILE | READ_DIR]


def test_nothing_may_be_executed_and_no_link_or_device_made() -> None:
    for rights in (landlock.READ, landlock.SCRATCH, landlock.SHARED_MEMORY):
        assert not rights & (EXECUTE | MAKE_LINK | MAKE_DEVICES)
    assert not landlock.READ & (WRITE_FILE | TRUNCATE)


# --- the needs of a sandbox -------------------------------------------------------------------------

PLAN = Plan((Path("/usr/lib"),), landlock_abi=6)


def granted(monkeypatch: pytest.MonkeyPatch, **limits: bool) -> tuple[dict[str, int], bool]:
    """Return the grants of a sandbox by path, and whether it has TCP."""
    seen: list[Any] = []
    monkeypatch.setattr(
        landlock, "restrict", lambda abi, grants, *, tcp: seen.extend((abi, dict(grants), tcp))
    )
    assert landlock.restrict_files(Site(PLAN, Limits(**limits), Path("/scratch")))
    abi, grants, tcp = seen
    assert abi == 6
    return {str(path): rights for path, rights in grants.items()}, tcp


def test_a_sandbox_reads_the_environment_and_writes_to_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grants, tcp = granted(monkeypatch)
    assert not tcp
    writable = {path for path, rights in grants.items() if rights & WRITE_FILE}
    assert writable == {"/scratch", "/dev/null"}
    assert grants["/usr/lib"] == grants["/dev/urandom"] == landlock.READ
    assert not {"/dev/shm", "/etc/hosts"} & grants.keys()


def test_processes_get_shared_memory_and_loopback_gets_etc_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grants, tcp = granted(monkeypatch, processes=True)
    assert grants["/dev/shm"] == grants["/scratch"] == landlock.SHARED_MEMORY
    assert not tcp and "/etc/hosts" not in grants
    grants, tcp = granted(monkeypatch, loopback=True)
    assert tcp and grants["/etc/hosts"] == landlock.READ and "/dev/shm" not in grants


def test_landlock_is_left_out_with_a_reason_on_an_older_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(syscalls, "call", refused)
    assert landlock.abi() == 0
    assert not landlock.restrict_files(
        Site(msgspec.structs.replace(PLAN, landlock_abi=landlock.abi()), Limits(), Path("/scratch"))
    )
    assert "older than Linux 5.13" in landlock.why_not()[0]
    monkeypatch.setattr(syscalls, "call", lambda *_: 4)
    assert landlock.abi() == 4 and landlock.why_not()[0] == "the system refused it"
