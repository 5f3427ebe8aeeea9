"""What a student gets back, as text: the points, why they are what they are, and what does not hold.

One text for all: as plain lines for mails and comments, and as Markdown, which reads well as it is, too. A text
of a student or of an author stays text in both: in Markdown within fences, or with its signs escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from grader.exports.texts import one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, is_judged, unjudged
from grader.gradebook.times import moment
from grader.results import Entry, ExerciseResult
from grader.student import blocks
from grader.text import number

_LONGEST_MESSAGE = 1500
# What begins something in Markdown; within a word or a list of numbers most signs begin nothing.
_MARKUP = re.compile(
    r"[\\`*<|~$]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|&(?=#?\w+;)|^[#>+=-]|(?<=^\d)[.)]|(?<=^\d\d)[.)]"
)
_FENCE = re.compile(r"`{3,}")


def plain_feedback(entry: Entry, assignment: str = "") -> str:
    """The feedback as plain lines; the assignment is called as the course where it has no name."""
    lines = [f"{_heading(entry, assignment)}.", *_facts(entry)]
    for exercise in entry.result.exercises:
        lines += ["", f"{one_line(exercise.title)}: {_points(exercise)}"]
        lines += [f"  {note}" for note in _notes(exercise)]
        for section in _sections(exercise):
            lines += [f"  * {one_line(section.title)}"] if section.title else []
            lines += [f"      {line}" for line in _said(section).splitlines()]
    return "\n".join(lines) + "\n"


def html_feedback(entry: Entry) -> str:
    """The same in one line of HTML, for a platform's field of comments."""
    return in_comment(plain_feedback(entry).rstrip("\n"))


def in_comment(text: str) -> str:
    """Lines of text as HTML in one line."""
    return html.escape(text, quote=False).replace("\n", "<br>")


def markdown_feedback(entry: Entry, assignment: str = "") -> str:
    """The feedback as a page of Markdown."""
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
    return f"{name}: {number(result.score)} of {number(result.max_score)} points"


def _facts(entry: Entry) -> Iterator[str]:
    student = entry.student
    yield f"For {one_line(student.name or student.id)}."
    if entry.attempt == 0:
        yield "Nothing was handed in."
    elif entry.submitted_at:
        time = one_line(moment(entry.submitted_at, entry.timezone))
        yield f"Handed in {time}{', late' if entry.late else ''}."


def _points(exercise: ExerciseResult) -> str:
    if not is_judged(exercise):
        return "not judged"
    points = f"{number(exercise.score)} of {number(exercise.max_score)} points"
    return f"{points} ({blocks.status_text(exercise.status)})"


def _notes(exercise: ExerciseResult) -> list[str]:
    if not is_judged(exercise):
        return [NOT_JUDGED, *map(one_line, blocks.on_requests(exercise))]
    return [one_line(line) for line in blocks.remarks(exercise).splitlines()]


def _sections(exercise: ExerciseResult) -> list[blocks.Section]:
    """What does not hold, each cause once; what changed the points stands above."""
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
    """Text that is nothing but text in Markdown, and still reads as it is."""
    return _MARKUP.sub(r"\\\g<0>", text)
