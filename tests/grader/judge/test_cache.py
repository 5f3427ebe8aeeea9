"""Files that judges keep between runs: named by everything they depend on, and safe to lose."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from grader.judge import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_depends_on_each_text_and_on_the_kind(folder: Path) -> None:
    names = [
        cache.file_of("imports", "course", "suite"),
        cache.file_of("imports", "course", "suite2"),
        cache.file_of("imports", "coursesuite"),
        cache.file_of("code", "course", "suite"),
    ]
    assert len({*names}) == len(names)
    assert names[0] == cache.file_of("imports", "course", "suite")
    assert all(folder in name.parents for name in names)


def test_another_python_has_files_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here = cache.file_of("imports", "course")
    monkeypatch.setattr("sys.prefix", "/another/environment")
    assert cache.file_of("imports", "course") != here


def test_the_default_cache_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert cache.file_of("imports").is_relative_to(tmp_path / ".cache" / "lab-bench" / "imports")


def test_kept_files_are_private_and_replaced() -> None:
    file = cache.file_of("imports", "course")
    cache.keep(file, b"first")
    cache.keep(file, b"second")
    assert file.read_bytes() == b"second"
    assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_cache_that_cannot_be_written_keeps_nothing(folder: Path) -> None:
    folder.write_text("a file instead of a folder")
    file = cache.file_of("imports", "course")
    cache.keep(file, b"lost")
    assert not file.exists()
