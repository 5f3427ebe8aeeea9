"""Results in the formats of others: one module a format, each written from entries alone."""

from __future__ import annotations

from grader.exports.files import ClassFormat, StudentFormat
from grader.exports.formats import (
    annotation,
    canvas,
    classroom,
    classroom50,
    csv,
    exercism,
    gradescope,
    jsonl,
    junit,
    markdown,
    moodle,
    nbgrader,
    prairielearn,
)

__all__ = ["FORMATS"]

FORMATS: dict[str, ClassFormat | StudentFormat] = {
    "csv": csv.FORMAT,
    "canvas": canvas.FORMAT,
    "moodle": moodle.FORMAT,
    "nbgrader": nbgrader.FORMAT,
    "jsonl": jsonl.FORMAT,
    "gradescope": gradescope.FORMAT,
    "prairielearn": prairielearn.FORMAT,
    "exercism": exercism.FORMAT,
    "classroom": classroom.FORMAT,
    "classroom50": classroom50.FORMAT,
    "junit": junit.FORMAT,
    "markdown": markdown.FORMAT,
    "annotations": annotation.FORMAT,
}
