"""Files are written as a whole with the right permissions, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.files import remove_drafts, replacing, write_whole


def test_a_file_is_replaced_through_a_link_without_leftovers(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    write_whole(file, b"before")
    link.symlink_to(file)
    write_whole(link, b"after")
    assert link.is_symlink() and file.read_bytes() == b"after"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


def test_a_failed_write_leaves_the_file_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_whole(file, b"before")

    def fail() -> None:
        with replacing(file) as out:
            out.write(b"half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_permissions_are_default_preserved_or_private(tmp_path: Path) -> None:
    usual, script, secret = tmp_path / "usual", tmp_path / "script", tmp_path / "secret"
    (tmp_path / "made").touch()
    script.touch(0o755)
    script.chmod(0o750)
    secret.touch(0o644)
    write_whole(usual, b"1")
    write_whole(script, b"2")
    write_whole(secret, b"3", private=True)
    modes = [path.stat().st_mode & 0o777 for path in (usual, script, secret)]
    assert modes == [(tmp_path / "made").stat().st_mode & 0o777, 0o750, 0o600]


def test_only_drafts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    left, other = tmp_path / ".result.json.0a1b2c3d.part", tmp_path / "movie.part"
    left.touch()
    other.touch()
    remove_drafts(tmp_path)
    assert list(tmp_path.iterdir()) == [other]
