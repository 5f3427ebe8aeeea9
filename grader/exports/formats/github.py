"""GitHub: annotations in the log of a step, and a summary of its job."""

from __future__ import annotations

import html
import itertools
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import (
    command_data,
    command_property,
    fitted,
    in_html,
    one_line,
    shortened,
)
from grader.exports.verdicts import explanation, is_judged, not_judged, public_only, unjudged
from grader.findings import first_line
from grader.judge.scoring import total_words
from grader.results import (
    Entry,
    ExerciseResult,
    Outcome,
    Place,
    Result,
    Status,
)
from grader.student.blocks import (
    OUTCOME,
    STATUS,
    Note,
    Section,
    Where,
    blocks_of,
    plain,
    problems,
    remarks,
    summarized,
)
from grader.text import number

# --- workflow commands that show problems beside the student's lines --------------------------------

# GitHub shows this many of each kind for a step, and ignores the rest.
_MAX_ANNOTATIONS = 10
_LONGEST_ANNOTATION = 1000


class _Note(msgspec.Struct, frozen=True):
    title: str
    message: str
    place: Place | None


def log_commands(entry: Entry, options: Options) -> bytes:
    """Return lines for the log of a step: an error for each problem, at most ten.

    Files are named by their path in the repository: below `options.submission`, if they exist there.
    """
    exercises = entry.result.exercises
    if entry.absent:
        nothing = _Note(entry.result.course.name, "Nothing was handed in.", None)
        return f"{_command('error', nothing, Path())}\n".encode()
    notes = [_annotated(exercise) for exercise in exercises if is_judged(exercise)]
    # The first of each exercise, then the second of each, so that ten are not all about one exercise.
    errors = [note for turn in itertools.zip_longest(*notes) for note in turn if note]
    lines = [_command("error", note, options.submission) for note in errors]
    unjudged = [_Note(e.title, not_judged(e), None) for e in exercises if not is_judged(e)]
    lines = lines[:_MAX_ANNOTATIONS] + [
        _command("warning", note, Path()) for note in unjudged[:_MAX_ANNOTATIONS]
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _annotated(exercise: ExerciseResult) -> list[_Note]:
    """Return the causes of problems, each once."""
    if exercise.status is Status.NOT_ATTEMPTED:
        return []
    if exercise.message and exercise.tests:
        return [_Note(exercise.title, exercise.message, exercise.tests[0].place)]
    notes: dict[tuple[str, Place | None], _Note] = {}
    for problem in problems(exercise):
        test = problem.first
        if test.outcome is not Outcome.NOT_IMPLEMENTED:
            cause = (first_line(test.finding) or test.name, test.place)
            # Leave out the place, which is a property of the command.
            said = plain(block for block in blocks_of(test) if not isinstance(block, Where))
            title = f"{exercise.title}: {test.title}"
            notes.setdefault(cause, _Note(title, said or explanation(test), test.place))
    return list(notes.values())


def _command(kind: str, note: _Note, submission: Path) -> str:
    properties = [f"title={command_property(one_line(note.title))}"]
    if note.place is not None:
        path = command_property(one_line(_in_repository(note.place, submission)))
        properties = [f"file={path}", f"line={note.place.line}", *properties]
    message = command_data(shortened(note.message, _LONGEST_ANNOTATION))
    return f"::{kind} {','.join(properties)}::{message}"


def _in_repository(place: Place, submission: Path) -> str:
    """Return the path of the file in the repository, found below the submission as the grader finds it."""
    name = PurePosixPath(place.file)
    for candidate in (name, "exercises" / name, PurePosixPath(name.name)):
        path = submission / candidate
        if path.is_file():
            return Path(os.path.relpath(path)).as_posix()
    return name.as_posix()


# --- a job summary ---------------------------------------------------------------------------------

# Everything that a student could have written is in entities or inside `<pre>`, where neither Markdown nor HTML
# means anything.

# GitHub shows no summary for a step that wrote more than 1 MiB, and other programs may write to it, too.
_MAX_SUMMARY_BYTES = 900_000
_MARKS = {"good": "✅", "part": "🟡", "bad": "❌", "quiet": "⬜", "look": "⚠️"}


def job_summary(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """Return the summary of one result."""
    return fitted(
        lambda limit: "\n".join([*_summary(entry, limit), ""]).encode(), _MAX_SUMMARY_BYTES
    )


def _summary(entry: Entry, limit: int) -> Iterator[str]:
    """Yield the lines of the page: the points, a table of the exercises, and the findings of each."""
    result = entry.result
    yield f"## {_heading(result)}"
    yield ""
    if is_public := public_only(result):
        yield from ("These are the points of the public tests; other tests may count, too.", "")
    if entry.absent:
        yield from ("Nothing was handed in.", "")
    yield f"| exercise | points{' of the public tests' * is_public} | |"
    yield "| --- | ---: | --- |"
    for exercise in result.exercises:
        earned = number(exercise.score) if is_judged(exercise) else "–"  # noqa: RUF001  # a dash
        kind, word = STATUS[exercise.status]
        if is_public and kind not in ("quiet", "look"):
            word = f"public tests: {word}"
        points = f"{earned} / {number(exercise.max_score)}"
        points = f"{points} {exercise.aside}".rstrip()
        yield f"| {_text(exercise.title)} | {points} | {_MARKS[kind]} {word} |"
    for exercise in result.exercises:
        yield from _details(exercise, limit)


def _heading(result: Result) -> str:
    name = _text(result.submission.name)
    if unjudged(result):
        return f"{name}: not judged as a whole"
    return f"{name}: {total_words(result)}{' by the public tests alone' * public_only(result)}"


def _details(exercise: ExerciseResult, limit: int) -> Iterator[str]:
    """Yield the findings of an exercise; if it is passed or not begun, only reasons for changed points."""
    ended = exercise.status in (Status.PASSED, Status.NOT_ATTEMPTED)
    if ended and not remarks(exercise):
        return
    yield ""
    yield "<details>"
    yield f"<summary>{_text(exercise.title)}</summary>"
    yield ""
    if not is_judged(exercise):
        yield not_judged(exercise)
    else:
        summary = summarized(exercise)
        for section in summary.sections:
            yield from _section(section, limit)
        if summary.waiting:
            yield summary.waiting
    yield ""
    yield "</details>"


def _section(section: Section, limit: int) -> Iterator[str]:
    """Yield one finding: its title with a mark, its text unchanged, and its notes."""
    if section.test is not None:
        kind, _ = OUTCOME[section.test.outcome]
        yield f"{_MARKS[kind]} {_text(section.title)}"
        yield ""
    notes = [block.text for block in section.blocks if isinstance(block, Note)]
    about = [block for block in section.blocks if not isinstance(block, Note)]
    if text := plain(about):
        # In Markdown, a block that begins like this ends only at its end tag: no blank line or fence ends it
        # earlier.
        yield f"<pre>{html.escape(shortened(text, limit), quote=False)}</pre>"
        yield ""
    for note in notes:
        yield from (_text(note), "")


def _text(text: str) -> str:
    return in_html(one_line(text))


FORMATS = {
    "annotations": StudentFormat(
        "GitHub annotations at the student's lines",
        Audience.STUDENTS,
        ("submission",),
        ".txt",
        log_commands,
    ),
    "markdown": StudentFormat("a GitHub job summary", Audience.STUDENTS, (), ".md", job_summary),
}
