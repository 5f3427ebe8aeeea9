"""The file of corrections, `corrections.toml` beside a gradebook, which people may edit.

`grade adjust` appends a table or removes one, and leaves the rest of the text, including comments, as it is.
The file is written whole and synced, or not at all.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from grader.errors import ExitCode, GraderError
from grader.files import write_whole
from grader.gradebook.corrections import Correction, GivenExtension, Kind, one_line
from grader.gradebook.policy import Policy, Rules
from grader.toml import TomlMistake, explain_mistake, line_of, read_toml, written_value

T = TypeVar("T")

CORRECTIONS_FILE = "corrections.toml"
_HEADER = """\
# Points that a person changed, and more time. Every command reads this file, and you may edit it:
# docs/reference.md has the keys. To take one back, remove its table, or call `grade adjust RESULTS --undo`.
"""
_TABLE = re.compile(r"\s*\[\[\s*(correction|extension)\s*\]\]")
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
    "extension": '[[extension]] with student = "zoe" below it',
    "exercises": 'exercises = ["relu"]',
    "until": "until = 2026-10-15T23:59:00+02:00",
}


class CorrectionsError(GraderError):
    """The file of corrections has a mistake that a person must correct."""

    exit_code = ExitCode.USAGE


class CorrectionsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file has: corrections and extensions, each in the order of the file."""

    correction: tuple[Correction, ...] = ()
    extension: tuple[GivenExtension, ...] = ()

    def policy(self, rules: Rules, chapters: Mapping[str, str]) -> Policy:
        """Return a policy with these rules and the extensions, for exercises of these chapters."""
        return Policy(rules, chapters, given=tuple(each.rule for each in self.extension))


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
    return read_file(text, file).correction


def read_file(text: str, file: Path) -> CorrectionsFile:
    """Return the corrections and the extensions in a text; raises CorrectionsError."""
    try:
        read = read_toml(text, CorrectionsFile)
    except TomlMistake as error:
        words = explain_mistake(error, text, CorrectionsFile, _EXAMPLES)
        raise CorrectionsError(f"{file}{error.place}: {words}") from error
    complaints = [
        *(
            (f"correction[{n}]", c)
            for n, made in enumerate(read.correction)
            for c in _complaints(made)
        ),
        *((f"extension[{n}]", c) for n, made in enumerate(read.extension) for c in _flaws(made)),
    ]
    for path, complaint in complaints:
        kind, _, number = path.rstrip("]").partition("[")
        where = f"line {line_of(text, path)}: [[{kind}]] {int(number) + 1}"
        raise CorrectionsError(f"{file}, {where} {complaint}")
    return CorrectionsFile(
        tuple(map(_on_one_line, read.correction)), tuple(map(_lined, read.extension))
    )


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
        yield f"needs `reason`, which is shown with the points. Write {_EXAMPLES['reason']}."


def _flaws(extension: GivenExtension) -> Iterator[str]:
    """Yield complaints about an extension, as `_complaints` does."""
    if not extension.reason.strip():
        yield f"needs `reason`, which the student reads. Write {_EXAMPLES['reason']}."
    try:
        is_last = extension.until.astimezone(datetime.UTC).year == datetime.MAXYEAR
    except OverflowError:
        is_last = True
    if is_last:
        yield f"has the year {extension.until.year} in `until`, which is out of range."


def _on_one_line(correction: Correction) -> Correction:
    """Return the correction with harmless texts, each on one line; a comment keeps its lines."""
    return msgspec.structs.replace(
        correction,
        reason=one_line(correction.reason),
        comment="\n".join(filter(None, map(one_line, correction.comment.splitlines()))),
        author=one_line(correction.author),
    )


def _lined(extension: GivenExtension) -> GivenExtension:
    """Return the extension with harmless texts, each on one line."""
    return msgspec.structs.replace(
        extension, reason=one_line(extension.reason), author=one_line(extension.author)
    )


def put_corrections(folder: Path, corrections: Sequence[Correction]) -> None:
    """Write the file in a folder with these corrections, unless it already has exactly these.

    Raises CorrectionsError if it has others.
    """
    path, expected = folder / CORRECTIONS_FILE, tuple(map(_on_one_line, corrections))
    there = read_corrections(corrections_text(folder), path)
    if there == expected:
        return
    if there:
        raise CorrectionsError(
            f"{path} already exists, and has other corrections than the gradebook beside it, which is from an "
            "earlier grader. Move the file away and run this again; then append its tables to the new file."
        )
    change_corrections(folder, corrections)


def change_corrections(
    folder: Path, added: Sequence[Correction], removed: Collection[int] = ()
) -> None:
    """Append corrections to the file in a folder, and remove others by place (from 0), in one write.

    Comments above the table after a removed one stay.

    Raises CorrectionsError or GraderError.
    """
    path, text = folder / CORRECTIONS_FILE, corrections_text(folder)
    before = read_file(text, path)
    text = _changed(text, "correction", added, removed)
    corrections = (*_left(before.correction, removed), *map(_on_one_line, added))
    _write(path, text, msgspec.structs.replace(before, correction=corrections))


def change_extensions(
    folder: Path, added: Sequence[GivenExtension], removed: Collection[int] = ()
) -> None:
    """Append extensions to the file in a folder, and remove those at these places (from 0), in one write.

    Raises CorrectionsError or GraderError.
    """
    path, text = folder / CORRECTIONS_FILE, corrections_text(folder)
    before = read_file(text, path)
    text = _changed(text, "extension", added, removed)
    extensions = (*_left(before.extension, removed), *map(_lined, added))
    _write(path, text, msgspec.structs.replace(before, extension=extensions))


def _left(rows: Sequence[T], removed: Collection[int]) -> list[T]:
    return [each for place, each in enumerate(rows) if place not in removed]


def _changed(
    text: str, kind: str, added: Sequence[msgspec.Struct], removed: Collection[int]
) -> str:
    """Return the text with tables of a kind added at its end, and those at these places removed."""
    for place in sorted(removed, reverse=True):
        text = _without(text, kind, place)
    for each in added:
        text = f"{text.rstrip()}\n" if text.strip() else _HEADER
        text = f"{text}\n{_table(kind, each)}"
    return text


def _without(text: str, kind: str, place: int) -> str:
    """Return the text without the table of a kind at this place; comments above the next table stay."""
    lines = text.splitlines(keepends=True)
    kinds = {n: table[1] for n, line in enumerate(lines) if (table := _TABLE.match(line))}
    start = [*(n for n, its in kinds.items() if its == kind), *[len(lines)] * (place + 1)][place]
    end = next((number for number in kinds if number > start), len(lines))
    while end > start + 1 and re.match(r"\s*(#|$)", lines[end - 1]) and end < len(lines):
        end -= 1
    while start and not lines[start - 1].strip():
        start -= 1
    return "".join(lines[:start] + lines[end:])


def _table(kind: str, row: msgspec.Struct) -> str:
    """Return a correction or an extension as a table of TOML, without empty keys."""
    lines = [f"[[{kind}]]"]
    for key, value in msgspec.structs.asdict(row).items():
        match value:
            case None | "" | False | ():
                continue
            case tuple():
                written = written_value([*value])
            case datetime.datetime():
                written = value.isoformat().replace("+00:00", "Z")
            case float():
                written = repr(value).removesuffix(".0")
            case _:
                written = written_value(value)
        lines.append(f"{key} = {written}")
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str, expected: CorrectionsFile) -> None:
    """Write a text with these corrections and extensions, whole and synced."""
    try:
        written = read_file(text, path)
    except CorrectionsError:
        written = CorrectionsFile()
    if written != expected:
        raise CorrectionsError(
            f"{path} cannot be changed automatically: write each correction as a separate table "
            "[[correction]], and each extension as [[extension]], or change the file by hand."
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
