"""A submission as the judge takes it: the bytes of each exercise's file, or why there are none."""

from __future__ import annotations

import enum
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.course.manifest import Course
from grader.course.stub import Stub
from grader.results import SubmissionInfo
from grader.submissions.source import has_same_code, is_empty, parse
from grader.text import clean

# Two thousand lines and more; no exercise needs as much.
MAX_FILE_BYTES = 200_000


class State(enum.Enum):
    """The state of an exercise's file, found without running it."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    UNTOUCHED = "untouched"
    INVALID = "not valid Python"
    EDITED = "edited"


class Look(NamedTuple):
    """The state of a file, found without running it; for invalid Python the line and the reason."""

    state: State
    line: int = 1
    error: str = ""


class ExerciseFile(msgspec.Struct, frozen=True, dict=True):
    """One exercise as it was handed in: its source, or the `problem` that prevents one.

    `path` is the file, or the archive that holds it; there is none where nothing was found. Where the
    file `seems_misnamed`, one of nearly its name was handed in instead, or beside the untouched stub; then
    there are a source and a problem.
    """

    source: bytes | None
    problem: str = ""
    path: Path | None = None
    seems_misnamed: bool = False

    def state(self, stub: Stub) -> State:
        """Where the student stands; see `look`."""
        return self.look(stub).state

    def look(self, stub: Stub) -> Look:
        """Where the student stands, from the syntax tree beside that of the stub; parsed once.

        Where the stub is the very file that was handed in, it cannot tell what was written there.
        """
        looks: dict[Stub, Look] = self.__dict__.setdefault("looks", {})
        if stub not in looks:
            looks[stub] = self._look(stub)
        return looks[stub]

    def _look(self, stub: Stub) -> Look:
        """The state of the file; see `look`."""
        if self.source is None:
            return Look(State.MISSING if self.path is None else State.UNREADABLE)
        if is_empty(self.source):
            return Look(State.EMPTY)
        stub_source = None if self._is(stub.working) else stub.source
        if self.source == stub_source:  # most of a long course
            return Look(State.UNTOUCHED)
        if _is_notebook(self.source):
            return Look(State.INVALID, 1, _NOTEBOOK)
        try:
            tree = parse(self.source)
        except SyntaxError as error:
            return Look(
                State.INVALID, *_explained(self.source.decode("utf-8-sig", "replace"), error)
            )
        if stub_source is not None and has_same_code(tree, parse(stub_source)):
            return Look(State.UNTOUCHED)
        return Look(State.EDITED)

    def _is(self, working: Path | None) -> bool:
        if self.path is None or working is None:
            return False
        try:
            return self.path.samefile(working)
        except OSError:  # the file is gone, or was read on another machine: it is not the stub
            return False


class Submission(msgspec.Struct, frozen=True):
    """The files of one student, by exercise id, and requests to look at an exercise again."""

    name: str
    files: dict[str, ExerciseFile]
    requests: dict[str, str] = {}

    def info(self) -> SubmissionInfo:
        """Its name, and a digest of the files that are judged."""
        digest = hashlib.sha256()
        for exercise_id, handed in sorted(self.files.items()):
            digest.update(exercise_id.encode() + b"\0")
            digest.update(hashlib.sha256(handed.source or b"").digest())
        return SubmissionInfo(self.name, digest.hexdigest())


# --- what a file is that is not valid Python, in words that say what to do -------------------------

# A line by which a text from elsewhere is known, and what it means.
_FOREIGN_LINES = (
    (
        re.compile(r"(<{7}|>{7}|\|{7})( |$)"),
        "a merge left its marks (<<<<<<<, =======, >>>>>>>); keep one of the versions and delete the marks",
    ),
    (re.compile(r"(>>>|In \[\d+\]:|Out\[\d+\]:)( |$)"), "a prompt was copied; delete it"),
    (re.compile(r"(```|~~~)"), "such a line marks code in a text, and is no code; delete it"),
    (re.compile(r"[%!]"), "lines with % or ! are for notebooks; delete this line"),
)
_QUOTES = frozenset("“”„‘’‚«»´")  # noqa: RUF001  # as editors of prose write them
_LONGEST_EXPLAINED = 200_000


def _is_notebook(source: bytes) -> bool:
    """Whether it is the file of a notebook under the name of a Python file."""
    begin = source.lstrip()[:1] == b"{"
    return begin and b'"cells"' in source and b'"nbformat"' in source


_NOTEBOOK = "it is a notebook, not a Python file; copy the code out of its cells"


def _explained(text: str, error: SyntaxError) -> tuple[int, str]:
    """The line to look at and what is wrong there, in Python's words if nothing better is known."""
    lines = re.split(r"\r\n|\r|\n", text[:_LONGEST_EXPLAINED])
    number = error.lineno or 1
    # Python may find the fault below the first mark of a merge, and above its other ones.
    pattern, meaning = _FOREIGN_LINES[0]
    if marks := [row for row, line in enumerate(lines, 1) if pattern.match(line)]:
        return marks[0], meaning
    line = lines[number - 1].lstrip() if number <= len(lines) else ""
    for pattern, meaning in _FOREIGN_LINES[1:]:
        if pattern.match(line):
            return number, meaning
    return number, error.msg + _remedy(error.msg)


def _remedy(message: str) -> str:
    """What to do about a character that only looks like one of Python's."""
    if message.startswith("invalid non-printable character"):
        return "; it looks like a space or like nothing: delete it, and type a space if one belongs there"
    if message.startswith("invalid character") and _QUOTES & set(message):
        return "; type a plain quotation mark instead"
    return ""


# --- requests to look at an exercise again, as a text file beside the work: `glu.request.txt` -------

# A stranger's text, of which so much is kept.
MOST_CHARACTERS = 2000
# The copies are those of Canvas and of browsers, as for exercises.
_NAME = re.compile(
    r"(?P<exercise>[a-z0-9_]+)\.request(?:-\d{1,3}| ?\(\d{1,3}\))?\.(?:txt|md)", re.IGNORECASE
)


def requested(course: Course, name: str) -> str | None:
    """The exercise that a file of this name asks about; None where it is no request."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    asked = match["exercise"].lower()
    return asked if any(exercise.id == asked for exercise in course.exercises) else None


def message_of(text: str) -> str:
    """A message as it is kept: one line, bounded, with invisible characters escaped; empty for a blank one."""
    return clean(" ".join(text[: 8 * MOST_CHARACTERS].split()), MOST_CHARACTERS)
