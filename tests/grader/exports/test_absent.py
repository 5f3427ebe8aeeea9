"""Students who handed in nothing have a row or a file in every format, with 0 points and the reason."""

from __future__ import annotations

import base64
import io
import zipfile

import pytest

from grader.exports import FORMATS
from grader.exports.files import ClassFormat, Options
from grader.results import Entry, Outcome, Status

from ..builders import checked, entry, exercise

NOTHING = "Nothing was handed in."
# These have a column for points but none for text.
_POINTS_ALONE = ("canvas", "moodle", "nbgrader")
# These have a page for each student, not a row.
_PAGES = ("feedback_zip", "mailmerge")
_CLASSROOM50 = ("CLASSROOM", "ASSIGNMENT", "COMMIT_URL", "RELEASE_URL")
OPTIONS = Options(
    environment={**dict.fromkeys(_CLASSROOM50, "https://x.org/y"), "SUBMISSION_TAG": "submit/1"}
)


@pytest.fixture
def zed() -> Entry:
    tests = [checked(f"t{n}", Outcome.NOT_IMPLEMENTED, message=NOTHING) for n in range(2)]
    nothing = exercise(
        *tests, status=Status.NOT_ATTEMPTED, score=0.0, message=NOTHING, settled=True
    )
    return entry(nothing, student="zed", attempt=0)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_includes_absent_students(name: str, zed: Entry) -> None:
    chosen = FORMATS[name]
    if isinstance(chosen, ClassFormat):
        out = io.BytesIO()
        chosen.write((zed,), out, OPTIONS)
        written = _text_of(out)
        if name not in _PAGES:
            # A cell of CSV, or a field of JSON.
            (row,) = (line for line in written.splitlines() if "zed" in line)
            assert ",0" in row or '"score":0.0' in row
    else:
        written = chosen.render(zed, OPTIONS).decode()
        if name == "classroom":
            lines = dict(line.split("=", 1) for line in written.splitlines())
            del lines["GRADE_RUNNERS"]
            written = "".join(base64.b64decode(line).decode() for line in lines.values())
    assert (NOTHING in written) == (name not in _POINTS_ALONE), (
        f"{name} says {NOTHING!r}, or is one of _POINTS_ALONE"
    )


def _text_of(out: io.BytesIO) -> str:
    if not zipfile.is_zipfile(out):
        return out.getvalue().decode()
    with zipfile.ZipFile(out) as archive:
        (name,) = archive.namelist()
        return archive.read(name).decode()
