"""The file of corrections, `corrections.toml` beside a gradebook, which people may edit.

`grade adjust` appends a table or removes one, and leaves the rest of the text, including comments, as it is.
The file is written whole and synced, or not at all.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.errors import GraderError
from grader.files import write_whole
from grader.gradebook.corrections import Correction, Kind
from grader.text import clean
from grader.toml import TomlMistake, explained, line_of, read_toml, written_value

CORRECTIONS_FILE = "corrections.toml"
_HEADER = """\
# Points that a person changed. Every command reads this file, and you may edit it: docs/reference.md has the
# keys. To take a correction back, remove its table, or call `grade adjust RESULTS --undo`.
"""
_TABLE = re.compile(r"\s*\[\[\s*correction\s*\]\]")
_LONGEST = 1000
_EXAMPLES = {
    "correction": '[[correction]] with exercise = "relu" below it',
    "student": 'student = "zoe"',
    "exercise": 'exercise = "relu"',
    "points": "points = 8",
    "add": "add = -1",
    "drop": 'drop = "test_zero"',
    "give": 'give = "test_zero"',
    "reason": 'reason = "shown in the lab"',
    "comment": 'comment = "Well explained."',
    "author": 'author = "ben"',
    "time": "time = 2026-10-12T10:00:00Z",
}


class CorrectionsError(GraderError):
    """The file of corrections has a mistake that a person must correct."""

    exit_code = 2


class _Corrections(msgspec.Struct, forbid_unknown_fields=True):
    correction: tuple[Correction, ...] = ()


def corrections_text(folder: Path) -> str:
    """Return the text of a folder's file of corrections, empty without one; raises CorrectionsError."""
    path = folder / CORRECTIONS_FILE
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
        raise CorrectionsError(f"{path} cannot be read: {reason}.") from error


def read_corrections(text: str, file: Path) -> tuple[Correction, ...]:
    """Return the corrections in a text; raises CorrectionsError with the line and a remedy."""
    try:
        made = read_toml(text, _Corrections).correction
    except TomlMistake as error:
        words = explained(error, text, _Corrections, _EXAMPLES)
        raise CorrectionsError(f"{file}{error.place}: {words}") from error
    for place, correction in enumerate(made):
        for complaint in _complaints(correction):
            line = line_of(text, f"correction[{place}]")
            raise CorrectionsError(f"{file}, line {line}: [[correction]] {place + 1} {complaint}")
    return tuple(_on_one_line(correction) for correction in made)


def _complaints(correction: Correction) -> Iterator[str]:
    """Yield complaints about mistakes that decoding does not find."""
    kinds = correction.kinds
    if not kinds:
        keys = ", ".join(f"`{kind.value}`" for kind in Kind)
        yield f"has no effect. Write one of {keys}; {_EXAMPLES['points']} sets the points."
        return
    if len(kinds) > 1:
        yield f"has {' and '.join(f'`{kind.value}`' for kind in kinds)}: keep one of them."
    if correction.student == "" and kinds[0] in (Kind.POINTS, Kind.RELEASE):
        yield f"needs `student`, since `{kinds[0].value}` is for one student. Write {_EXAMPLES['student']}."
    if correction.student and correction.test:
        yield "drops or gives a test, which is for the whole class: omit `student`."
    if kinds[0] is not Kind.COMMENT and not correction.reason.strip():
        yield f"needs `reason`, which is shown beside the points. Write {_EXAMPLES['reason']}."


def _on_one_line(correction: Correction) -> Correction:
    """Return the correction with harmless texts, each on one line; a comment keeps its lines."""

    def line(text: str) -> str:
        return clean(" ".join(text.split()), _LONGEST)

    return msgspec.structs.replace(
        correction,
        reason=line(correction.reason),
        comment="\n".join(filter(None, map(line, correction.comment.splitlines()))),
        author=line(correction.author),
    )


def put_corrections(folder: Path, made: Sequence[Correction]) -> None:
    """Write the file in a folder with these corrections, unless it already has exactly these.

    Raises CorrectionsError if it has others.
    """
    path, expected = folder / CORRECTIONS_FILE, tuple(map(_on_one_line, made))
    there = read_corrections(corrections_text(folder), path)
    if there == expected:
        return
    if there:
        raise CorrectionsError(
            f"{path} already exists, and has other corrections than the gradebook beside it, which is from an "
            "earlier grader. Move the file away and run this again; then append its tables to the new file."
        )
    change_corrections(folder, made)


def change_corrections(
    folder: Path, added: Sequence[Correction], removed: Collection[int] = ()
) -> None:
    """Append corrections to the file in a folder, and remove others by place (from 0), in one write.

    Comments above the table after a removed one stay.

    Raises CorrectionsError or GraderError.
    """
    path, text = folder / CORRECTIONS_FILE, corrections_text(folder)
    before = read_corrections(text, path)
    left = [correction for place, correction in enumerate(before) if place not in removed]
    for place in sorted(removed, reverse=True):
        text = _without(text, place)
    for correction in added:
        text = f"{text.rstrip()}\n" if text.strip() else _HEADER
        text = f"{text}\n{_table(correction)}"
    _write(path, text, (*left, *map(_on_one_line, added)))


def _without(text: str, place: int) -> str:
    """Return the text without the table at this place; comments above the next one stay."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _TABLE.match(line)]
    start, end = [*starts, len(lines), len(lines)][place : place + 2]
    while end > start + 1 and re.match(r"\s*(#|$)", lines[end - 1]) and end < len(lines):
        end -= 1
    while start and not lines[start - 1].strip():
        start -= 1
    return "".join(lines[:start] + lines[end:])


def _table(correction: Correction) -> str:
    """Return a correction as a table of TOML, without empty keys."""
    lines = ["[[correction]]"]
    for key, value in msgspec.structs.asdict(correction).items():
        match value:
            case None | "" | False:
                continue
            case datetime.datetime():
                written = value.isoformat().replace("+00:00", "Z")
            case float():
                written = repr(value).removesuffix(".0")
            case _:
                written = written_value(value)
        lines.append(f"{key} = {written}")
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str, expected: tuple[Correction, ...]) -> None:
    """Write a text with these corrections, whole and synced."""
    try:
        written = read_corrections(text, path)
    except CorrectionsError:
        written = ()
    if written != expected:
        raise CorrectionsError(
            f"{path} cannot be changed automatically: write each correction as a separate table "
            "[[correction]], or change the file by hand."
        )
    with writing(path):
        write_whole(path, text.encode())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Within the block, turn an OSError of writing a file into a GraderError with a remedy."""
    try:
        yield
    except OSError as error:
        raise GraderError(
            f"{path} cannot be written: {error.strerror}. Verdicts so far are kept. Check the free space and "
            "your permissions, then run this again."
        ) from error
