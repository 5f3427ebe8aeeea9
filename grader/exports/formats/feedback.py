"""A page of Markdown a student: the points, the reasons, and what does not hold."""

from __future__ import annotations

from grader.exports.disclosure import Audience
from grader.exports.feedback import markdown_feedback
from grader.exports.files import Options, StudentFormat
from grader.results import Entry


def render(entry: Entry, options: Options) -> bytes:
    """The page of one student."""
    return markdown_feedback(entry, options.column).encode("utf-8", "replace")


FORMAT = StudentFormat(
    "a page of Markdown to give back", Audience.STUDENTS, ("column",), ".md", render
)
