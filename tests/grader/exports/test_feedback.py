"""Feedback for students: readable pages, zips that platforms accept, mails."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from grader.exports import FORMATS
from grader.exports.files import ClassFormat, ExportError, Options
from grader.results import Entry, Outcome

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged, written
from .test_moodle import ENGLISH, HALF, sheet

ADA = entry(HALF, name="Ada Lovelace", email="ada@uni.example", submitted_at="2026-09-01T10:00:00Z")


def page(of: Entry, **options: str) -> str:
    return rendered(FORMATS["feedback"], of, **options).decode()


def test_a_page() -> None:
    assert (
        page(ADA, column="Lab 1")
        == """\
# Lab 1: 7.5 of 15 points

For Ada Lovelace. Handed in 2026-09-01 10:00 UTC.

## The title of glu: 7.5 of 15 points (partly passed)

**The title of b**

```text
It does not hold.
modules/glu.py:7
Hint: Look again.
```
"""
    )


def test_an_unjudged_exercise_is_not_a_zero() -> None:
    text = page(entry(HALF, unjudged()))
    assert "not judged as a whole (gelu)" in text
    assert "## The title of gelu: not judged" in text
    assert "0 of 15" not in text


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_starts_no_markup(text: str) -> None:
    """Outside of fences, no character of a student's starts a tag, a link, a code span or a heading."""
    shown = page(hostile_entry(text))
    outside = re.sub(r"(?ms)^```text\n.*?^```$", "", shown)
    assert shown.count("\n```text\n") == shown.count("\n```\n")
    assert re.search(r"(?<!\\)[`<|~$]", outside) is None
    assert re.search(r"(?<!\\)\]\(", outside) is None
    assert all(
        line.startswith(("# ", "## ", "**")) or not re.match(r"[#>+=-]", line)
        for line in outside.splitlines()
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown


# --- zips -----------------------------------------------------------------------------------------


def zipped(entries: Iterable[Entry], **options: Any) -> tuple[dict[str, str], list[str]]:
    chosen = FORMATS["feedback_zip"]
    assert isinstance(chosen, ClassFormat)
    out = io.BytesIO()
    notes = chosen.write(entries, out, Options(**options))
    with zipfile.ZipFile(out) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}, notes


def moodle_reads(path: str) -> tuple[str, str]:
    """Return participant and file name as `is_valid_filename_for_import` in Moodle's importziplib.php does."""
    parts = path.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) < 4 or not info[1].isdigit() or info[2:4] != ["assignsubmission", "file"]:
            continue
        rest = info[4] if len(info) > 4 else ""
        return info[1], "/".join([rest, *parts])
    raise AssertionError(path)


def test_a_zip_for_moodle() -> None:
    who = entry(HALF, name="Ada_King/Lovelace", ids={"moodle_identifier": "Participant 501"})
    files, notes = zipped([who, entry(HALF, student="bob")], layout="moodle")
    ((name, text),) = files.items()
    assert moodle_reads(name) == ("501", "/feedback.md")
    assert text == page(who)
    assert notes == ["bob: the number of a participant in Moodle is unknown, so there is no page."]


def canvas_reads(name: str) -> list[str]:
    """Return the ids of user and file as Canvas's `infer_comment_context_from_filename` does."""
    assert "/" not in name
    return [part for part in name.split("_") if part.isdigit()][:2]


@pytest.mark.parametrize(
    "origin",
    [
        "doejane_123_456_glu.py",
        "doejane_LATE_123_456_lab_7_8.zip",
        "doejane_123_456_glu.py, x and 2 more",
    ],
)
def test_a_zip_for_canvas(origin: str) -> None:
    files, notes = zipped([entry(HALF, origin=origin), entry(HALF, student="bob")], layout="canvas")
    (name,) = files
    assert canvas_reads(name) == ["123", "456"]
    assert name.endswith("_feedback.md")
    assert notes == [
        "bob: the name of a file in Canvas's download is unknown, so there is no page."
    ]


@pytest.mark.parametrize("layout", ["plain", "moodle", "canvas"])
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_name_leaves_the_folder(layout: str, text: str) -> None:
    who = entry(
        HALF,
        student=f"../{text}",
        name=f"../../{text}",
        ids={"moodle_identifier": "5"},
        origin=f"../{text}_1_2_x.py",
    )
    for name in zipped([who], layout=layout)[0]:
        assert ".." not in name.split("/")
        assert name.count("/") == (1 if layout == "moodle" else 0)
        assert not name.startswith("/")


# --- mails and comments ---------------------------------------------------------------------------


def test_a_mail_merge() -> None:
    text, notes = written(FORMATS["mailmerge"], [ADA, entry(HALF, student="bob")], column="Lab 1")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["address"] for row in rows] == ["ada@uni.example", ""]
    assert rows[0]["name"] == "Ada Lovelace"
    assert rows[0]["subject"] == "Lab 1: your result"
    assert rows[0]["text"].splitlines()[0] == "Lab 1: 7.5 of 15 points."
    assert "      Hint: Look again." in rows[0]["text"].splitlines()
    assert notes == ["1 student has no address: give `grade batch` a class list with --roster."]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_cell_of_a_mail_merge_is_a_formula(text: str) -> None:
    out, _ = written(FORMATS["mailmerge"], [hostile_entry(text)])
    for row in csv.reader(io.StringIO(out, newline="")):
        assert not any(re.match(r"[=+\-@\t\r]", cell) for cell in row)


def test_comments_fill_a_column_of_the_moodle_worksheet(tmp_path: Path) -> None:
    worksheet = sheet(tmp_path, ENGLISH)
    entries = [
        entry(HALF, student="x", ids={"moodle_identifier": "501"}),
        entry(HALF, student="y", ids={"moodle_identifier": "502"}),
    ]
    out, notes = written(
        FORMATS["moodle"], entries, template=worksheet, feedback="Feedback comments"
    )
    ada, alan = csv.DictReader(io.StringIO(out, newline=""))
    assert ada["Feedback comments"].startswith("plain: 7.5 of 15 points.<br>For x.<br>")
    assert "<br>      Hint: Look again." in ada["Feedback comments"]
    # A person's text stays. Ours is replaced.
    assert alan["Feedback comments"] == "<p>Good,\nbut late</p>"
    comments = [note for note in notes if "comment" in note]
    assert comments == ["Participant 502 (Alan Turing): has another person's comment, which stays."]
    full = [entry(exercise(checked()), student="x", ids={"moodle_identifier": "501"})]
    again, _ = written(
        FORMATS["moodle"], full, template=sheet(tmp_path, out), feedback="Feedback comments"
    )
    ada, _ = csv.DictReader(io.StringIO(again, newline=""))
    assert ada["Feedback comments"].startswith("plain: 15 of 15 points.")


def test_comments_are_escaped_for_html(tmp_path: Path) -> None:
    bad = checked("b", Outcome.FAILED, message="<script>alert(1)</script> & more")
    who = entry(exercise(bad), student="x", ids={"moodle_identifier": "501"})
    worksheet = sheet(tmp_path, ENGLISH)
    out, _ = written(FORMATS["moodle"], [who], template=worksheet, feedback="Feedback comments")
    assert "<script" not in out
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in out


def test_a_missing_feedback_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"There are: Maximum Grade; .* Feedback comments"):
        written(FORMATS["moodle"], [ADA], template=sheet(tmp_path, ENGLISH), feedback="Comments")
    with pytest.raises(ExportError, match="after the grade"):
        written(FORMATS["moodle"], [ADA], template=sheet(tmp_path, ENGLISH), feedback="Status")


def test_the_plain_import_has_a_column_of_comments() -> None:
    out, _ = written(FORMATS["moodle"], [ADA], feedback="comment")
    (row,) = csv.DictReader(io.StringIO(out, newline=""))
    assert row["comment"].startswith("plain: 7.5 of 15 points.<br>")
