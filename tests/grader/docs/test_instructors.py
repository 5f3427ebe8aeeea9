"""The page for instructors works as written, with the sample class."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .walkthrough import ROOT, matches, run, steps

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
NEEDED = (
    "examples",
    "exercises",
    "solutions",
    "tests/public",
    "tests/hidden",
    "tests/right",
    "tests/wrong",
)


@pytest.mark.skipif(os.name != "posix", reason="the page is written for a shell")
def test_the_page_works_as_written(tmp_path: Path) -> None:
    for name in NEEDED:
        shutil.copytree(ROOT / name, tmp_path / name)
    for command, shown in steps(PAGE):
        if not command.startswith("$ "):
            (tmp_path / command).write_text(shown, encoding="utf-8")
            continue
        done = run(command.removeprefix("$ "), tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert matches(shown, done.stdout), f"{command}\nprinted:\n{done.stdout}{done.stderr}"
    assert (tmp_path / "report" / "staff" / "index.html").is_file()
    assert len((tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()) == 9
