"""What was handed in, as the judge takes it: the bytes of each exercise's file, or why there are none."""

from __future__ import annotations

import enum
import hashlib
from pathlib import Path

import msgspec

from grader.results import SubmissionInfo
from grader.submissions.source import is_untouched, parse

# Parsed in our own processes, in time and memory that nobody limits: about a second for this much.
MAX_FILE_BYTES = 200_000


class State(enum.Enum):
    """What can be said of an exercise's file without running it."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNTOUCHED = "untouched"
    INVALID = "not valid Python"
    EDITED = "edited"


class ExerciseFile(msgspec.Struct, frozen=True):
    """One exercise as it was handed in: its source, or why there is none.

    `path` is the file, or the archive that holds it; there is none where nothing was found. Where the
    file `seems_misnamed`, one of nearly its name was handed in instead.
    """

    source: bytes | None
    problem: str = ""
    path: Path | None = None
    seems_misnamed: bool = False

    def state(self, stub: Path) -> State:
        """Where the student stands, from the syntax tree beside that of the stub.

        Where the stub is the very file that was handed in, it cannot tell what was written there.
        """
        if self.source is None:
            return State.MISSING if self.path is None else State.UNREADABLE
        if not self._is(stub) and is_untouched(self.source, stub.read_bytes()):
            return State.UNTOUCHED
        try:
            parse(self.source)
        except SyntaxError:
            return State.INVALID
        return State.EDITED

    def _is(self, stub: Path) -> bool:
        try:
            return self.path is not None and self.path.samefile(stub)
        except OSError:  # the file is gone, or was read on another machine: it is not the stub
            return False


class Submission(msgspec.Struct, frozen=True):
    """What one student handed in, by exercise id."""

    name: str
    files: dict[str, ExerciseFile]

    def info(self) -> SubmissionInfo:
        """Its name, and a digest of the files that are judged."""
        digest = hashlib.sha256()
        for exercise_id, handed in sorted(self.files.items()):
            digest.update(exercise_id.encode() + b"\0")
            digest.update(hashlib.sha256(handed.source or b"").digest())
        return SubmissionInfo(self.name, digest.hexdigest())
