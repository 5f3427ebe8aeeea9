"""Feedback for a student as text: the points, their reasons, and the problems.

There is one text for all formats: as plain lines for mails and comments, and as Markdown that is also readable
as plain text. Texts of a student or an author are never markup: in Markdown they are fenced or escaped.
"""

from __future__ import annotations

import html
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, Options, StudentFormat
from grader.exports.table import Table
from grader.exports.texts import one_line, shortened
from grader.exports.verdicts import is_judged, not_judged, unjudged
from grader.gradebook.times import moment
from grader.judge.scoring import total_words
from grader.results import Entry, ExerciseResult
from grader.student import blocks
from grader.submissions import safe_name
from grader.submissions.platforms import Canvas
from grader.text import counted, number

# --- the text --------------------------------------------------------------------------------------

_LONGEST_MESSAGE = 1500
# Signs that begin markup in Markdown; within a word or a list of numbers, most do not.
_MARKUP = re.compile(
    r"[\\`*<|~$]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|&(?=#?\w+;)|^[#>+=-]|(?<=^\d)[.)]|(?<=^\d\d)[.)]"
)
_FENCE = re.compile(r"`{3,}")


def plain_feedback(entry: Entry, assignment: str = "") -> str:
    """Return the feedback as plain lines; without a name, the assignment is called by the course's name."""
    lines = [f"{_heading(entry, assignment)}.", *_facts(entry)]
    for exercise in entry.result.exercises:
        lines += ["", *exercise_lines(exercise)]
    return "\n".join(lines) + "\n"


def exercise_lines(exercise: ExerciseResult) -> list[str]:
    """Return the feedback on one exercise as plain lines."""
    lines = [f"{one_line(exercise.title)}: {_points(exercise)}"]
    lines += [f"  {note}" for note in _notes(exercise)]
    for section in _sections(exercise):
        lines += [f"  * {one_line(section.title)}"] if section.title else []
        lines += [f"      {line}" for line in _said(section).splitlines()]
    return lines


def html_feedback(entry: Entry, assignment: str = "") -> str:
    """Return the feedback in one line of HTML, for a platform's field of comments."""
    return in_comment(plain_feedback(entry, assignment).rstrip("\n"))


def in_comment(text: str) -> str:
    """Return lines of text as HTML in one line."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def beginnings(entry: Entry, assignment: str) -> tuple[str, ...]:
    """Return the possible beginnings of this grader's feedback, with and without a title of the work."""
    return tuple(f"{name}: " for name in (one_line(assignment), entry.result.course.name) if name)


def markdown_feedback(entry: Entry, assignment: str = "") -> str:
    """Return the feedback as a page of Markdown."""
    lines = [f"# {_literal(_heading(entry, assignment))}", ""]
    lines.append(_literal(" ".join(_facts(entry))))
    for exercise in entry.result.exercises:
        lines += ["", f"## {_literal(one_line(exercise.title))}: {_points(exercise)}", ""]
        lines += [line for note in _notes(exercise) for line in (_literal(note), "")]
        for section in _sections(exercise):
            if section.title:
                lines += [f"**{_literal(one_line(section.title))}**", ""]
            if text := _said(section):
                lines += ["```text", *_FENCE.sub("'''", text).splitlines(), "```", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _heading(entry: Entry, assignment: str) -> str:
    result = entry.result
    name = one_line(assignment) or result.course.name
    if missing := unjudged(result):
        return f"{name}: not judged as a whole ({', '.join(missing)})"
    return f"{name}: {total_words(result)}"


def _facts(entry: Entry) -> Iterator[str]:
    """Yield the student's name, and when the work was handed in."""
    student = entry.student
    yield f"For {one_line(student.name or student.id)}."
    if entry.attempt == 0:
        yield "Nothing was handed in."
    elif entry.submitted_at:
        time = one_line(moment(entry.submitted_at, entry.timezone))
        yield f"Handed in {time}{', late' if entry.late else ''}."


def _points(exercise: ExerciseResult) -> str:
    if not is_judged(exercise):
        return "not judged yet" if exercise.waiting else "not judged"
    points = f"{number(exercise.score)} of {number(exercise.max_score)} points"
    if exercise.aside:
        points = f"{points}, {exercise.aside}"
    return f"{points} ({blocks.status_text(exercise.status)})"


def _notes(exercise: ExerciseResult) -> list[str]:
    if not is_judged(exercise):
        return [not_judged(exercise), *map(one_line, blocks.on_requests(exercise))]
    return [one_line(line) for line in blocks.remarks(exercise).splitlines()]


def _sections(exercise: ExerciseResult) -> list[blocks.Section]:
    """Return the problems, each cause once, after the reasons for changed points."""
    if not is_judged(exercise):
        return []
    summary = blocks.summarized(exercise)
    sections = [
        section
        for section in summary.sections
        if section.test is not None or not all(isinstance(b, blocks.Note) for b in section.blocks)
    ]
    waiting = [blocks.Section((blocks.Note(summary.waiting),))] if summary.waiting else []
    return [*sections, *waiting]


def _said(section: blocks.Section) -> str:
    return shortened(blocks.plain(section.blocks), _LONGEST_MESSAGE)


def _literal(text: str) -> str:
    """Escape text for Markdown so that it still reads well as plain text."""
    return _MARKUP.sub(r"\\\g<0>", text)


# --- a page of Markdown for each student ----------------------------------------------------------


def page(entry: Entry, options: Options) -> bytes:
    """Return the page of one student."""
    return markdown_feedback(entry, options.named(entry)).encode("utf-8", "replace")


# --- these pages in one zip, named so that Moodle or Canvas finds the student -----------------------

# Moodle (mod/assign/feedback/file/importziplib.php) reads a folder's name as in its download: the full name,
# the number of the participant, and the plugin, with underscores between them. Canvas
# (`infer_comment_context_from_filename` of an assignment) reads a file's name: after the student's name, the
# ids of the user and of a submitted file. These are known if the class was graded from Canvas's own download.

_PAGE = "feedback.md"
_NUMBER = re.compile(r".*?(\d+)\s*", re.DOTALL)
# The earliest time that a zip can hold, so that the same class gives the same file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def write_zip(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write a page for each student; students whom the platform would not find are left out, with a note."""
    named = {"moodle": _moodle_name, "canvas": _canvas_name}.get(options.layout, _plain_name)
    notes = []
    # A zip written to a pipe has its sizes behind each file, where some programs do not look.
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry in entries:
                if (name := named(entry)) is None:
                    why = _WHY_NOT[options.layout]
                    notes.append(f"{entry.student.id}: {why}, so there is no page.")
                    continue
                page = markdown_feedback(entry, options.named(entry)).encode("utf-8", "replace")
                archive.writestr(zipfile.ZipInfo(name, _MOMENT), page, zipfile.ZIP_DEFLATED)
        file.seek(0)
        shutil.copyfileobj(file, out)
    return notes


def _plain_name(entry: Entry) -> str:
    return f"{safe_name(entry.student.id)}.md"


def _moodle_name(entry: Entry) -> str | None:
    """Return the folder of a student and the page in it; None without the number of a participant."""
    student = entry.student
    participant = _NUMBER.fullmatch(student.ids.get("moodle_identifier", ""))
    # An underscore would end the name, and a slash the folder's.
    name = re.sub(r"[_/\\:]", " ", one_line(student.name or student.id))
    return f"{name}_{participant[1]}_assignsubmission_file_/{_PAGE}" if participant else None


def _canvas_name(entry: Entry) -> str | None:
    """Return the name of the first submitted file, without the student's part; None if it is not Canvas's."""
    handed_in = entry.origin.partition(", ")[0]
    match = Canvas.pattern.fullmatch(handed_in)
    if match is None or match["file"] is None:
        return None
    prefix = handed_in[: match.start("rest")]
    return None if re.search(r"[/\\]", prefix) else f"{prefix}{_PAGE}"


_WHY_NOT = {
    "moodle": "the number of a participant in Moodle is unknown",
    "canvas": "the name of a file in Canvas's download is unknown",
}


# --- a table for a mail merge ----------------------------------------------------------------------

_MAIL_HEADER = ("address", "name", "subject", "text")


def write_mails(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
    """Write a row for each student; a missing address leaves its cell empty and makes a note."""
    table = Table(out)
    table.row(_MAIL_HEADER)
    without = 0
    for entry in entries:
        student = entry.student
        without += not student.email
        subject = f"{options.named(entry)}: your result"
        cells = [student.email, student.name or student.id, subject]
        # The text has several lines, which a quoted cell may have.
        table.kept([*map(one_line, cells), plain_feedback(entry, options.named(entry))])
    if not without:
        return []
    who = counted(without, "student has", "students have")
    return [f"{who} no address: give `grade batch` a class list with --roster."]


FORMATS: dict[str, ClassFormat | StudentFormat] = {
    "feedback": StudentFormat(
        "a page of Markdown with feedback", Audience.STUDENTS, ("column",), ".md", page
    ),
    "feedback_zip": ClassFormat(
        "pages of feedback in a zip; --layout names them for an upload",
        Audience.STUDENTS,
        ("column", "layout"),
        write_zip,
    ),
    "mailmerge": ClassFormat(
        "a row for each student: address, name, subject, text",
        Audience.STUDENTS,
        ("column",),
        write_mails,
    ),
}
