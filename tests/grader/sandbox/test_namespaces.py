"""The namespaces of a sandbox, and the effects if the system refuses one. No namespace is made here."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox.walls import namespaces, syscalls
from grader.sandbox.walls.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_RDONLY,
    MS_REMOUNT,
)
from grader.sandbox.walls.wall import Limits, Plan, Site

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces need Linux")


class Kernel:
    """Records calls in order. Those in `refused` fail."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.refused: set[Any] = set()
        self.child = 0

    def does(self, name: str) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            call = (name, given[0]) if name == "unshare" else name
            if call in self.refused or name in self.refused:
                raise OSError(errno.EPERM, "not permitted")
            self.calls.append(call)
            return self.child if name == "fork" else None

        return function


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    for name in ("unshare", "setns", "mount", "prctl", "set_host_name"):
        monkeypatch.setattr(syscalls, name, kernel.does(name))
    for name in ("_map", "_pass_on", "_raise_loopback", "_back_to_own_pids"):
        monkeypatch.setattr(namespaces, name, kernel.does(name))
    monkeypatch.setattr(os, "fork", kernel.does("fork"))
    return kernel


def site(*held: str, outer: tuple[str, ...] = ("pid_namespace",), **limits: Any) -> Site:
    plan = limits.pop("plan", Plan((), outer_walls=outer))
    return Site(plan, Limits(**limits), Path("/scratch"), list(held))


# --- the fork server --------------------------------------------------------------------------------

ALL = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS


@pytest.mark.parametrize("root", [True, False])
def test_the_fork_server_continues_in_its_own_namespaces(
    root: bool, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []

    def entered(readable: list[Path]) -> bool:
        shown.extend(readable)
        return root

    monkeypatch.setattr(namespaces, "enter_private_root", entered)
    walls = namespaces.enter([Path("/usr")])
    assert walls == ["pid_namespace", "private_root"][: 1 + root]
    assert shown == [Path("/usr")]
    # The map comes in between: it gives the rights to create the other namespaces and to fork.
    assert kernel.calls[:4] == [("unshare", CLONE_NEWUSER), "_map", ("unshare", ALL), "fork"]
    assert "prctl" in kernel.calls, "it ends with its parent"


@pytest.mark.parametrize("refused", [("unshare", CLONE_NEWUSER), "_map", ("unshare", ALL)])
def test_a_refused_namespace_is_skipped_without_a_fork(refused: object, kernel: Kernel) -> None:
    kernel.refused = {refused}
    assert namespaces.enter([]) == []
    assert "fork" not in kernel.calls


def test_only_the_sandbox_is_forked_into_new_pids(
    kernel: Kernel,
) -> None:
    kernel.child = 77
    assert namespaces.fork(own_pids=True) == 77
    assert kernel.calls == [("unshare", CLONE_NEWPID), "fork", "_back_to_own_pids"]
    kernel.calls, kernel.child = [], 0
    assert namespaces.fork(own_pids=True) == 0
    assert kernel.calls == [("unshare", CLONE_NEWPID), "fork"], "the child stays the first process"
    kernel.calls = []
    namespaces.fork(own_pids=False)
    assert kernel.calls == ["fork"]


def test_another_fork_is_possible_after_a_failed_one(kernel: Kernel) -> None:
    kernel.refused = {"fork"}
    with pytest.raises(OSError, match="not permitted"):
        namespaces.fork(own_pids=True)
    assert kernel.calls[-1] == "_back_to_own_pids"


# --- a sandbox --------------------------------------------------------------------------------------

LEFT: dict[Callable[[Site], bool], int] = {
    namespaces.own_mounts: CLONE_NEWNS,
    namespaces.own_memory: CLONE_NEWIPC,
    namespaces.own_network: CLONE_NEWNET,
    namespaces.own_user: CLONE_NEWUSER | CLONE_NEWNS,
}


@pytest.mark.parametrize("wall", LEFT, ids=lambda wall: wall.__name__)
def test_a_namespace_is_entered_or_reported_missing(
    wall: Callable[[Site], bool], kernel: Kernel
) -> None:
    assert wall(site())
    assert kernel.calls[0] == ("unshare", LEFT[wall])
    kernel.calls, kernel.refused = [], {"unshare"}
    assert not wall(site())
    assert kernel.calls == [], "the shared namespace is not changed"
    kernel.refused = set()
    assert not wall(site(outer=())) and kernel.calls == []


@pytest.mark.parametrize("refused", ["_map", "mount"])
def test_a_user_namespace_needs_a_map_and_a_read_only_proc(refused: str, kernel: Kernel) -> None:
    kernel.refused = {refused}
    assert not namespaces.own_user(site())


def test_a_wall_holds_if_an_optional_step_is_refused(kernel: Kernel) -> None:
    kernel.refused = {"_raise_loopback"}
    assert namespaces.own_network(site())


def test_the_first_process_is_recognized_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not namespaces.is_first_process(site())
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert namespaces.is_first_process(site())
    # The first process of a container is not in a namespace made by the fork.
    assert not namespaces.is_first_process(site(outer=()))


# --- folders ----------------------------------------------------------------------------------------


class Folders:
    """Records file systems that would be mounted, with their sizes, and those that would be sealed."""

    def __init__(self, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.private, self.sealed = dict[Path, int](), list[Path]()
        monkeypatch.setattr(namespaces, "_TEMPORARY", temporary)
        monkeypatch.setattr(namespaces, "private_folder", self._mount)
        monkeypatch.setattr(namespaces, "seal", self.sealed.append)
        monkeypatch.setattr(os, "chdir", lambda folder: None)

    def _mount(self, path: Path, size: int) -> bool:
        self.private[path] = size
        return True


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    return Folders(tmp_path, monkeypatch)


def of(scratch: Path, *held: str, readable: tuple[Path, ...] = (), processes: bool = False) -> Site:
    plan = Plan(readable, outer_walls=("pid_namespace",))
    limits = Limits(processes=processes, scratch_bytes=5, memory_bytes=7)
    return Site(plan, limits, scratch, ["mount_namespace", *held])


def test_the_scratch_is_private_or_all_of_tmp_behind_a_private_root(
    folders: Folders, tmp_path: Path
) -> None:
    scratch = tmp_path / "grade" / "own"
    assert namespaces.own_folders(of(scratch))
    assert folders.private == {scratch: 5} and scratch.is_dir()
    folders.private.clear()
    assert namespaces.own_folders(of(scratch, "private_root"))
    assert folders.private == {tmp_path: 5} and not folders.sealed


def test_an_environment_in_tmp_stays_visible_and_read_only(
    folders: Folders, tmp_path: Path
) -> None:
    scratch = tmp_path / "own"
    assert namespaces.own_folders(of(scratch, "private_root", readable=(tmp_path / "venv",)))
    assert (folders.private, folders.sealed) == ({scratch: 5}, [tmp_path])


def test_only_processes_get_shared_memory_of_their_memory_limit(
    folders: Folders, tmp_path: Path
) -> None:
    assert namespaces.own_folders(of(tmp_path / "own", processes=True))
    assert folders.private == {Path("/dev/shm"): 7, tmp_path / "own": 5}


def test_without_a_mount_namespace_nothing_is_mounted(folders: Folders, tmp_path: Path) -> None:
    assert not namespaces.own_folders(Site(Plan(()), Limits(), tmp_path, ["process_group"]))
    assert folders.private == {}


def test_a_seal_is_a_read_only_mount_and_a_refused_mount_is_reported(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(syscalls, "mount", lambda *given: made.append(given[3]))
    namespaces.seal(Path("/tmp"))
    assert made[0] & (MS_REMOUNT | MS_RDONLY) == MS_REMOUNT | MS_RDONLY
    assert namespaces.private_folder(Path("/x"), 5)
    monkeypatch.setattr(syscalls, "mount", kernel.does("mount"))
    kernel.refused = {"mount"}
    assert not namespaces.private_folder(Path("/x"), 5)
    namespaces.seal(Path("/tmp"))


# --- processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pid", "kernel_version", "bounded"),
    [(1, (6, 14), True), (1, (7, 0), True), (1, (6, 13), False), (2, (6, 14), False)],
)
def test_the_number_of_processes_is_set_only_in_own_pid_namespaces(
    pid: int, kernel_version: tuple[int, int], bounded: bool, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    file = tmp_path / "pid_max"
    monkeypatch.setattr(namespaces, "Path", lambda path: tmp_path / Path(path).name)
    monkeypatch.setattr(namespaces, "_KERNEL", kernel_version)
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert namespaces.limit_processes() == bounded
    assert file.exists() == bounded
    if bounded:
        assert file.read_text() == "301"
        assert namespaces.count_processes(site()) and not namespaces.count_processes(site(outer=()))


def test_processes_may_be_counted_by_the_limit_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namespaces, "limit_processes", lambda: False)
    counting = Plan((), outer_walls=("pid_namespace",), counts_processes=True)
    assert namespaces.count_processes(site(plan=counting))
    assert not namespaces.count_processes(site())


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "clone=1"),
        ("user/max_user_namespaces", "0", "namespaces=15000"),
        ("user/max_user_namespaces", "15000", ""),
    ],
)
def test_the_setting_that_forbids_namespaces_is_named(
    name: str, value: str, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{value}\n")
    monkeypatch.setattr(namespaces, "Path", lambda root, name: tmp_path / name)
    reason, advice = namespaces.why_not()
    if remedy:
        dotted = name.replace("/", ".")
        assert reason == f"{dotted} is {value}"
        assert advice.startswith(f"sysctl -w {dotted}=") and advice.endswith(remedy)
    else:
        assert "inside many containers" in reason
