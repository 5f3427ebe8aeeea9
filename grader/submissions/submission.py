"""A submission for the judge: the bytes of each exercise's file, or the reason why there are none."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.course.stub import Stub
from grader.results import SubmissionInfo
from grader.submissions.not_python import explain_syntax_error, kind_of
from grader.submissions.source import code_digest, has_same_code, is_empty, misplaced, parse

# More than two thousand lines, which no exercise needs.
MAX_FILE_BYTES = 200_000


class State(enum.Enum):
    """The state of an exercise's file, found without running it."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    UNTOUCHED = "untouched"
    INVALID = "not valid Python"
    EDITED = "edited"

    @property
    def is_work(self) -> bool:
        """Whether somebody wrote in the file."""
        return self in (State.EDITED, State.INVALID)


class Look(NamedTuple):
    """The state of a file, found without running it; for invalid Python, the line and the reason.

    `is_foreign` is true if the file is not Python at all, or is for another version of Python.
    """

    state: State
    line: int = 1
    error: str = ""
    is_foreign: bool = False


class ExerciseFile(msgspec.Struct, frozen=True, dict=True):
    """One exercise of a submission: its source, or the `problem` that prevents one.

    `path` is the file, or the archive with the file, None if there is none. With both a source and a problem,
    the file is judged, and the problem names other files that are not judged, or another name of this file. If
    it `seems_misnamed`, a person has to look.
    """

    source: bytes | None
    problem: str = ""
    path: Path | None = None
    seems_misnamed: bool = False

    def with_note(self, *sentences: str) -> ExerciseFile:
        """Return the file with sentences for its student and for a person."""
        if not sentences:
            return self
        problem = " ".join(filter(None, (self.problem, *sentences)))
        noted = msgspec.structs.replace(self, problem=problem, seems_misnamed=True)
        noted.__dict__.update(self.__dict__)
        return noted

    def state(self, stub: Stub) -> State:
        """Return the state of the file; see `look`."""
        return self.look(stub).state

    def look(self, stub: Stub) -> Look:
        """Return the state of the file, by comparing its syntax tree with the stub's; it is parsed once.

        If the stub is the same file as the submission, changes cannot be determined.
        """
        looks: dict[Stub, Look] = self.__dict__.setdefault("looks", {})
        if stub not in looks:
            looks[stub] = self._look(stub)
        return looks[stub]

    @property
    def is_foreign(self) -> bool:
        """Whether the file is not Python of the judging version, so that a person has to see it."""
        if self.source is None:
            return False
        # This does not depend on the stub, and parsing what is not Python takes long.
        looks: dict[Stub, Look] = self.__dict__.get("looks", {})
        return (next(iter(looks.values()), None) or self.look(Stub(b""))).is_foreign

    def _look(self, stub: Stub) -> Look:
        """Return the state of the file; see `look`."""
        if self.source is None:
            return Look(State.MISSING if self.path is None else State.UNREADABLE)
        if is_empty(self.source):
            return Look(State.EMPTY)
        stub_source = None if self._is(stub.working) else stub.source
        if self.source == stub_source:  # most of a long course
            return Look(State.UNTOUCHED)
        if kind := kind_of(self.source):
            return Look(State.INVALID, 1, kind, is_foreign=True)
        try:
            tree = parse(self.source)
        except SyntaxError as error:
            return Look(State.INVALID, *explain_syntax_error(self.source, error))
        if (refused := misplaced(tree)) is not None:
            return Look(State.INVALID, *refused)
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
        """Return its name, and a digest of the judged files that does not depend on line ends."""
        digests = {name: code_digest(file.source or b"") for name, file in self.files.items()}
        return SubmissionInfo(self.name, digest_of_files(digests))


def digest_of_files(digests: Mapping[str, str]) -> str:
    """Return the digest of a submission from its files' digests by exercise, which are empty without a file."""
    digest, nothing = hashlib.sha256(), hashlib.sha256().digest()
    for exercise, source in sorted(digests.items()):
        digest.update(exercise.encode() + b"\0" + (bytes.fromhex(source) if source else nothing))
    return digest.hexdigest()
