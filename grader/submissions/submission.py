"""A submission as the judge takes it: the bytes of each exercise's file, or why there are none."""

from __future__ import annotations

import enum
import hashlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.results import SubmissionInfo
from grader.submissions.not_python import NOTEBOOK, explained, notebook_in
from grader.submissions.source import has_same_code, is_empty, parse

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
    """A file as read without being run; where it is no Python, the line and the reason."""

    state: State
    line: int = 1
    error: str = ""


class ExerciseFile(msgspec.Struct, frozen=True, dict=True):
    """One exercise as it was handed in: its source, or the `problem` why there is none.

    `path` is the file, or the archive that holds it; there is none where nothing was found. Where the
    file `seems_misnamed`, one of nearly its name was handed in instead, or beside the untouched stub; then
    there are a source and a problem.
    """

    source: bytes | None
    problem: str = ""
    path: Path | None = None
    seems_misnamed: bool = False

    def state(self, stub: Path) -> State:
        """Where the student stands; see `look`."""
        return self.look(stub).state

    def look(self, stub: Path) -> Look:
        """Where the student stands, from the syntax tree beside that of the stub; parsed once.

        Where the stub is the very file that was handed in, it cannot tell what was written there.
        """
        looks: dict[Path, Look] = self.__dict__.setdefault("looks", {})
        if stub not in looks:
            looks[stub] = self._look(stub)
        return looks[stub]

    def _look(self, stub: Path) -> Look:
        if self.source is None:
            return Look(State.MISSING if self.path is None else State.UNREADABLE)
        if is_empty(self.source):
            return Look(State.EMPTY)
        stub_source = None if self._is(stub) else stub.read_bytes()
        if self.source == stub_source:  # most of a long course
            return Look(State.UNTOUCHED)
        if notebook_in(self.source):
            return Look(State.INVALID, 1, NOTEBOOK)
        try:
            tree = parse(self.source)
        except SyntaxError as error:
            return Look(
                State.INVALID, *explained(self.source.decode("utf-8-sig", "replace"), error)
            )
        if stub_source is not None and has_same_code(tree, parse(stub_source)):
            return Look(State.UNTOUCHED)
        return Look(State.EDITED)

    def _is(self, stub: Path) -> bool:
        try:
            return self.path is not None and self.path.samefile(stub)
        except OSError:  # the file is gone, or was read on another machine: it is not the stub
            return False


class Submission(msgspec.Struct, frozen=True):
    """The files of one student, by exercise id."""

    name: str
    files: dict[str, ExerciseFile]

    def info(self) -> SubmissionInfo:
        """Its name, and a digest of the files that are judged."""
        digest = hashlib.sha256()
        for exercise_id, handed in sorted(self.files.items()):
            digest.update(exercise_id.encode() + b"\0")
            digest.update(hashlib.sha256(handed.source or b"").digest())
        return SubmissionInfo(self.name, digest.hexdigest())
