"""What judges keep between runs is named by all that it depends on, and is not needed."""

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


def test_without_a_folder_of_caches_it_is_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert cache.file_of("imports").is_relative_to(tmp_path / ".cache" / "lab-bench" / "imports")


def test_what_is_kept_is_this_user_s_only_and_is_replaced() -> None:
    file = cache.file_of("imports", "course")
    cache.keep(file, b"first")
    cache.keep(file, b"second")
    assert file.read_bytes() == b"second"
    assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_where_nothing_can_be_written_nothing_is_kept(folder: Path) -> None:
    folder.write_text("a file, and no folder")
    file = cache.file_of("imports", "course")
    cache.keep(file, b"lost")
    assert not file.exists()
