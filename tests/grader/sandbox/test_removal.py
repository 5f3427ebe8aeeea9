"""A folder can be removed whatever a submission left in it, and nothing beside it is removed."""

from __future__ import annotations

import os
from pathlib import Path

from grader.sandbox.surroundings import remove_tree


def test_a_missing_folder_is_not_an_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")


def test_folders_of_any_depth_and_mode_are_removed_without_following_links(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "file").write_text("x")
    for name in ("a", "b"):
        (folder / name / "same" / "same").mkdir(parents=True)
        (folder / name / "same" / "file").write_text("x")
    (folder / "closed" / "in").mkdir(parents=True)
    (folder / "closed").chmod(0)
    here = Path.cwd()
    try:
        os.chdir(folder)
        for _ in range(1500):
            Path("deep").mkdir()
            os.chdir("deep")
    finally:
        os.chdir(here)
    remove_tree(folder)
    assert not folder.exists()
    assert (outside / "kept").read_text() == "kept"
