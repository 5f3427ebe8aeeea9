"""docs/intake.md agrees with the code about columns, downloads, limits and messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.submissions import archive, class_list
from grader.submissions import attempt as found
from grader.submissions import folder as disk
from grader.submissions import submission as handed
from grader.submissions import tar as tars
from grader.submissions.platforms import PLATFORMS, Clones, Platform

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "intake.md").read_text(encoding="utf-8")
SOURCE = "".join(
    path.read_text(encoding="utf-8") for path in (ROOT / "grader/submissions").glob("*.py")
)


@pytest.mark.parametrize("column", sorted(set(class_list.COLUMNS.values()) - {"first", "last"}))
def test_every_column_of_a_roster_is_explained(column: str) -> None:
    assert f"`{column}`" in DOCUMENT


@pytest.mark.parametrize("platform", [kind for kind in PLATFORMS if kind is not Clones])
def test_every_download_has_a_row(platform: type[Platform]) -> None:
    assert f"\n| {platform.label}, " in DOCUMENT


def test_the_order_of_ids_matches_the_code() -> None:
    sentence = DOCUMENT.partition("The student's id in the gradebook is the first of")[2].partition(
        "that is"
    )[0]
    assert tuple(re.findall(r"`(\w+)`", sentence)) == class_list.ID_ORDER


def test_every_message_shown_is_in_the_code() -> None:
    lines = re.findall(r"^\| [^|]+ \| `(.+)`(?:, and the like)? \|$", DOCUMENT, re.MULTILINE)
    assert len(lines) > 10
    code = re.sub(r'"\s+f?"', "", SOURCE)
    for line in lines:
        # The longest run of words without names or numbers.
        words = max(re.split(r"\S*[/.(,)\d]\S*|^modules ", line), key=len).strip()
        assert words in code, line


def test_numbers_match_the_code() -> None:
    for number in (
        f"{disk.MAX_ENTRIES:,} entries",
        f"{handed.MAX_FILE_BYTES:,} bytes",
        f"{found.MAX_NESTED_BYTES >> 20} MiB within",
        *(f"{limit >> 20}" for limit in tars._LIMITS.values()),
    ):
        assert number in DOCUMENT
    for suffix in (".zip", ".tar", ".tar.gz", ".tar.bz2", ".tar.xz"):
        assert archive.looks_packed(f"alice{suffix}")
        assert f"`{suffix}`" in DOCUMENT or f"alice{suffix}" in DOCUMENT
