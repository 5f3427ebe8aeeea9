"""Markdown for a GitHub job summary: the points, and what does not hold, for one student.

Whatever a student could have written is written as entities or inside `<pre>`, where neither Markdown nor HTML
means anything.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from grader.exports.files import Options, StudentFormat
from grader.exports.texts import fitted, in_html, one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, decimal, explanation, is_judged, unjudged
from grader.results import Entry, ExerciseResult, Outcome, Result, Status, TestResult

# GitHub shows no summary at all of a step that wrote more than 1 MiB; others may write into it, too.
_MOST_BYTES = 900_000
_STATUS = {
    Status.PASSED: "✅ passed",
    Status.PARTIAL: "🟡 partly passed",
    Status.FAILED: "❌ failed",
    Status.NOT_ATTEMPTED: "⬜ to do",
    Status.ERROR: "❌ error",
    Status.TIMEOUT: "❌ timeout",
    Status.UNJUDGED: "⚠️ not judged",
}
_MARK = {Outcome.NOT_IMPLEMENTED: "⬜"}


def render(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """The summary of one result."""

    def written(limit: int) -> bytes:
        return "".join(f"{line}\n" for line in _lines(entry.result, limit)).encode()

    return fitted(written, _MOST_BYTES)


def _lines(result: Result, limit: int) -> Iterator[str]:
    yield f"## {_heading(result)}"
    yield ""
    yield "| exercise | points | |"
    yield "| --- | ---: | --- |"
    for exercise in result.exercises:
        earned = decimal(exercise.score) if is_judged(exercise) else "–"  # noqa: RUF001  # a dash
        yield (
            f"| {_text(exercise.title)} | {earned} / {decimal(exercise.max_score)} "
            f"| {_STATUS[exercise.status]} |"
        )
    for exercise in result.exercises:
        yield from _details(exercise, limit)


def _heading(result: Result) -> str:
    name = _text(result.submission.name)
    if unjudged(result):
        return f"{name}: not judged as a whole"
    return f"{name}: {decimal(result.score)} of {decimal(result.max_score)} points"


def _details(exercise: ExerciseResult, limit: int) -> Iterator[str]:
    """What does not hold; nothing for what is passed or not begun."""
    if exercise.status in (Status.PASSED, Status.NOT_ATTEMPTED):
        return
    yield ""
    yield "<details>"
    yield f"<summary>{_text(exercise.title)}</summary>"
    yield ""
    if not is_judged(exercise):
        yield NOT_JUDGED
    elif exercise.message:
        # The file itself is at fault, and every test says so.
        yield from _literal(exercise.message, limit)
    else:
        for test in exercise.tests:
            if test.outcome not in (Outcome.PASSED, Outcome.SKIPPED):
                yield from _failed(test, limit)
        if waiting := sum(test.outcome is Outcome.SKIPPED for test in exercise.tests):
            yield f"{waiting} more {'test waits' if waiting == 1 else 'tests wait'} for these."
    yield ""
    yield "</details>"


def _failed(test: TestResult, limit: int) -> Iterator[str]:
    yield f"{_MARK.get(test.outcome, '❌')} {_text(test.title)}"
    yield ""
    yield from _literal(explanation(test), limit)
    yield ""


def _literal(text: str, limit: int) -> Iterator[str]:
    # As a line that begins so, it ends at its end tag alone: no blank line and no fence opens it.
    yield f"<pre>{html.escape(shortened(text, limit), quote=False)}</pre>"


def _text(text: str) -> str:
    return in_html(one_line(text))


FORMAT = StudentFormat("a GitHub job summary", ".md", render)
