"""The paths of a private root and the order in which it is built. Nothing is mounted here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox.walls import private_root, syscalls
from grader.sandbox.walls.private_root import enter_private_root, outermost
from grader.sandbox.walls.syscalls import MS_BIND, MS_RDONLY, MS_REMOUNT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts need Linux")


def test_only_the_outermost_existing_paths_are_shown(tmp_path: Path) -> None:
    lib, library, inside = tmp_path / "lib", tmp_path / "library", tmp_path / "lib" / "python"
    for folder in (inside, library):
        folder.mkdir(parents=True)
    given = [inside, library, tmp_path / "none", lib, lib]
    # `library` begins with the name `lib`, but is not below it.
    assert list(outermost(given)) == [lib, library]
    assert list(outermost([inside])) == [inside]


class Mounts:
    """Records the mounts of a root that is built in a folder here."""

    def __init__(self, base: Path) -> None:
        self.base, self.made, self.others = base, list[tuple[Any, ...]](), list[Any]()
        self.refused = ""

    def mount(self, source: str, target: str, kind: str | None, flags: int, options: Any) -> None:
        if self.refused and self.refused in target:
            raise OSError(1, "not permitted")
        self.made.append((source, target.removeprefix(str(self.base)), kind, flags))

    def call(self, number: int, *given: Any) -> int:
        self.others.append((number, given))
        return 0


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounts:
    base = tmp_path / "root"
    base.mkdir()
    mounts = Mounts(base)
    monkeypatch.setattr(private_root, "_BASE", base)
    monkeypatch.setattr(syscalls, "mount", mounts.mount)
    monkeypatch.setattr(syscalls, "call", mounts.call)
    for name in ("pivot_root", "umount"):
        monkeypatch.setattr(syscalls, name, lambda *_, name=name: mounts.others.append(name))
    monkeypatch.setattr(os, "chdir", lambda folder: mounts.others.append(f"cd {folder}"))
    return mounts


def test_a_root_has_the_paths_and_ends_up_read_only(mounts: Mounts, tmp_path: Path) -> None:
    folder, link = tmp_path / "lib", tmp_path / "link"
    folder.mkdir()
    link.symlink_to("lib")
    assert enter_private_root([folder, link])
    targets = [target for _, target, *_ in mounts.made]
    # An environment may be in /tmp, so the file system of /tmp is mounted first.
    assert targets.index("/tmp") < targets.index(str(folder))
    last, target, _, flags = mounts.made[-1]
    assert (last, target) == ("none", "")
    assert flags & (MS_REMOUNT | MS_BIND | MS_RDONLY) == MS_REMOUNT | MS_BIND | MS_RDONLY
    # A link is copied, which does not show its target.
    assert (mounts.base / link.relative_to("/")).readlink() == Path("lib")
    assert str(link) not in targets
    assert (mounts.base / "etc/hosts").read_text().startswith("127.0.0.1 localhost")
    assert (mounts.base / "dev/stdin").readlink() == Path("fd/0")
    # Mounts below are read-only, too.
    ((number, given),) = [each for each in mounts.others if isinstance(each, tuple)]
    assert (number, given[2]) == (442, 0x8000)
    assert [each for each in mounts.others if isinstance(each, str)] == [
        f"cd {mounts.base}", "pivot_root", "umount", "cd /",
    ]  # fmt: skip


def test_a_root_that_cannot_be_built_is_not_entered(mounts: Mounts) -> None:
    mounts.refused = "tmp"
    assert not enter_private_root([])
    assert mounts.others == []


def test_the_old_proc_is_shown_if_a_new_one_cannot_be_mounted(
    mounts: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mount(source: str, target: str, kind: str | None, flags: int, options: Any) -> None:
        if kind == "proc":
            raise OSError(1, "not permitted")
        mounts.mount(source, target, kind, flags, options)

    monkeypatch.setattr(syscalls, "mount", mount)
    assert enter_private_root([])
    assert ("/proc", "/proc", None, MS_BIND | syscalls.MS_REC) in mounts.made
