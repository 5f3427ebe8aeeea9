"""GitHub workflow commands that show what is wrong beside the student's own lines."""

from __future__ import annotations

import itertools
import os
from pathlib import Path, PurePosixPath

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import command_data, command_property, one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, explanation, is_judged
from grader.results import Entry, ExerciseResult, Outcome, Place, Status
from grader.student.blocks import Where, explained, findings

# GitHub shows this many of a kind and step, and is silent about the rest.
_MOST = 10
_LONGEST_MESSAGE = 1000


class _Note(msgspec.Struct, frozen=True):
    title: str
    message: str
    place: Place | None


def render(entry: Entry, options: Options) -> bytes:
    """Lines for the log of a step: an error for each thing that does not hold, the first ten.

    A file is named as it lies in the repository: below `options.submission`, where it is there.
    """
    exercises = entry.result.exercises
    if entry.absent:
        nothing = _Note(entry.result.course.name, "Nothing was handed in.", None)
        return f"{_command('error', nothing, Path())}\n".encode()
    notes = [_notes(exercise) for exercise in exercises if is_judged(exercise)]
    # The first of each exercise, then the second of each: ten must not all be about the first one.
    errors = [note for turn in itertools.zip_longest(*notes) for note in turn if note]
    lines = [_command("error", note, options.submission) for note in errors]
    unjudged = [_Note(e.title, NOT_JUDGED, None) for e in exercises if not is_judged(e)]
    lines = lines[:_MOST] + [_command("warning", note, Path()) for note in unjudged[:_MOST]]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _notes(exercise: ExerciseResult) -> list[_Note]:
    """The causes of what does not hold, each once."""
    if exercise.status is Status.NOT_ATTEMPTED:
        return []
    if exercise.message and exercise.tests:
        return [_Note(exercise.title, exercise.message, exercise.tests[0].place)]
    notes: dict[tuple[str, Place | None], _Note] = {}
    for finding in findings(exercise):
        test = finding.first
        if test.outcome is not Outcome.NOT_IMPLEMENTED:
            cause = (test.message.partition("\n")[0] or test.name, test.place)
            # The place is a property of the command.
            texts = [block.text for block in explained(test) if not isinstance(block, Where)]
            title = f"{exercise.title}: {test.title}"
            text = "\n".join(texts) or explanation(test)
            notes.setdefault(cause, _Note(title, text, test.place))
    return list(notes.values())


def _command(kind: str, note: _Note, submission: Path) -> str:
    properties = [f"title={command_property(one_line(note.title))}"]
    if note.place is not None:
        path = command_property(one_line(_in_repository(note.place, submission)))
        properties = [f"file={path}", f"line={note.place.line}", *properties]
    message = command_data(shortened(note.message, _LONGEST_MESSAGE))
    return f"::{kind} {','.join(properties)}::{message}"


def _in_repository(place: Place, submission: Path) -> str:
    """The path of the file, which is looked for below the submission as the grader does."""
    name = PurePosixPath(place.file)
    for candidate in (name, "exercises" / name, PurePosixPath(name.name)):
        path = submission / candidate
        if path.is_file():
            return Path(os.path.relpath(path)).as_posix()
    return name.as_posix()


FORMAT = StudentFormat(
    "GitHub annotations at the student's lines", Audience.STUDENTS, ("submission",), ".txt", render
)
