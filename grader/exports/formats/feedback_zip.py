"""The pages of `feedback` in one zip, with names by which Moodle or Canvas knows whose each is.

Moodle (mod/assign/feedback/file/importziplib.php) reads a folder's name as it wrote it into its download: the
full name, the number of the participant, and the plugin, with underscores between them. Canvas
(`infer_comment_context_from_filename` of an assignment) reads a file's: after the name the ids of the user and
of a file that was handed in. That one is known where the class was graded from Canvas's own download.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from typing import IO

from grader.exports.disclosure import Audience
from grader.exports.feedback import markdown_feedback
from grader.exports.files import ClassFormat, Options
from grader.exports.texts import one_line
from grader.results import Entry
from grader.submissions import safe_name
from grader.submissions.platforms import Canvas

_PAGE = "feedback.md"
_NUMBER = re.compile(r".*?(\d+)\s*", re.DOTALL)
# The earliest that a zip can tell: the same class gives the same file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write a page a student; whom the platform would not know is left out, and told."""
    named = {"moodle": _moodle, "canvas": _canvas}.get(options.layout, _plain)
    notes = []
    # A zip that was written to a pipe has its sizes behind each file, where not every program looks.
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry in entries:
                if (name := named(entry)) is None:
                    why = _WHY_NOT[options.layout]
                    notes.append(f"{entry.student.id}: {why}, so no page is in it.")
                    continue
                page = markdown_feedback(entry, options.column).encode("utf-8", "replace")
                archive.writestr(zipfile.ZipInfo(name, _MOMENT), page, zipfile.ZIP_DEFLATED)
        file.seek(0)
        shutil.copyfileobj(file, out)
    return notes


def _plain(entry: Entry) -> str:
    return f"{safe_name(entry.student.id)}.md"


def _moodle(entry: Entry) -> str | None:
    student = entry.student
    number = _NUMBER.fullmatch(student.ids.get("moodle_identifier", ""))
    # An underscore would end the name, and a slash the folder's.
    name = re.sub(r"[_/\\:]", " ", one_line(student.name or student.id))
    return f"{name}_{number[1]}_assignsubmission_file_/{_PAGE}" if number else None


def _canvas(entry: Entry) -> str | None:
    """The name of the first file that was handed in, without the student's part of it."""
    handed_in = entry.origin.partition(", ")[0]
    match = Canvas.pattern.fullmatch(handed_in)
    if match is None or match["file"] is None:
        return None
    prefix = handed_in[: match.start("rest")]
    return None if re.search(r"[/\\]", prefix) else f"{prefix}{_PAGE}"


_WHY_NOT = {
    "moodle": "no number of a participant of Moodle's is known",
    "canvas": "no name of a file of Canvas's download is known",
}

FORMAT = ClassFormat(
    "the pages of feedback in a zip; --layout for an upload",
    Audience.STUDENTS,
    ("column", "layout"),
    write,
)
