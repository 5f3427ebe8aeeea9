"""Markdown for a GitHub job summary: the points, and what does not hold, for one student.

All that a student could have written stands as entities or inside `<pre>`, where neither Markdown nor
HTML means anything.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import fitted, in_html, one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, is_judged, unjudged
from grader.results import Entry, ExerciseResult, Result, Status, Visibility
from grader.student.blocks import OUTCOME, STATUS, Note, Section, plain, remarks, summarized
from grader.text import number

# GitHub shows no summary at all of a step that wrote more than 1 MiB; others may write into it, too.
_MOST_BYTES = 900_000
_MARKS = {"good": "✅", "part": "🟡", "bad": "❌", "quiet": "⬜", "look": "⚠️"}


def render(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """The summary of one result."""
    return fitted(lambda limit: "\n".join([*_lines(entry, limit), ""]).encode(), _MOST_BYTES)


def _lines(entry: Entry, limit: int) -> Iterator[str]:
    result = entry.result
    yield f"## {_heading(result)}"
    yield ""
    tests = [test for exercise in result.exercises for test in exercise.tests]
    if all(test.visibility is Visibility.PUBLIC for test in tests):
        yield from ("These are the points of the public tests; others may count, too.", "")
    if entry.absent:
        yield from ("Nothing was handed in.", "")
    yield "| exercise | points | |"
    yield "| --- | ---: | --- |"
    for exercise in result.exercises:
        earned = number(exercise.score) if is_judged(exercise) else "–"  # noqa: RUF001  # a dash
        kind, word = STATUS[exercise.status]
        points = f"{earned} / {number(exercise.max_score)}"
        yield f"| {_text(exercise.title)} | {points} | {_MARKS[kind]} {word} |"
    for exercise in result.exercises:
        yield from _details(exercise, limit)


def _heading(result: Result) -> str:
    name = _text(result.submission.name)
    if unjudged(result):
        return f"{name}: not judged as a whole"
    return f"{name}: {number(result.score)} of {number(result.max_score)} points"


def _details(exercise: ExerciseResult, limit: int) -> Iterator[str]:
    """The findings of an exercise; nothing for one that is passed or not begun, but what changed its points."""
    ended = exercise.status in (Status.PASSED, Status.NOT_ATTEMPTED)
    if ended and not remarks(exercise):
        return
    yield ""
    yield "<details>"
    yield f"<summary>{_text(exercise.title)}</summary>"
    yield ""
    if not is_judged(exercise):
        yield NOT_JUDGED
    else:
        summary = summarized(exercise)
        for section in summary.sections:
            yield from _section(section, limit)
        if summary.waiting:
            yield summary.waiting
    yield ""
    yield "</details>"


def _section(section: Section, limit: int) -> Iterator[str]:
    if section.test is not None:
        kind, _ = OUTCOME[section.test.outcome]
        yield f"{_MARKS[kind]} {_text(section.title)}"
        yield ""
    notes = [block.text for block in section.blocks if isinstance(block, Note)]
    about = [block for block in section.blocks if not isinstance(block, Note)]
    if text := plain(about):
        # As a line that begins so, it ends at its end tag alone: no blank line and no fence opens it.
        yield f"<pre>{html.escape(shortened(text, limit), quote=False)}</pre>"
        yield ""
    for note in notes:
        yield from (_text(note), "")


def _text(text: str) -> str:
    return in_html(one_line(text))


FORMAT = StudentFormat("a GitHub job summary", Audience.STUDENTS, (), ".md", render)
