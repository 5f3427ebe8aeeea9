"""What was handed in: a folder or a file becomes a Submission, the bytes of each exercise's file.

Nothing of a submission is imported, linked to or left in place: only the bytes of regular files
travel further. What cannot be read is a sentence for the student, not an exception.
"""

from __future__ import annotations

import enum
import hashlib
import os
import stat
from pathlib import Path

import msgspec

from grader.course import Course, Exercise
from grader.errors import CourseError, SubmissionError
from grader.results import SubmissionInfo
from grader.source import is_untouched, parse

__all__ = ["Handed", "State", "Submission", "file_of", "read_submission"]

# Parsed in our own processes, in time and memory that nobody limits: about a second for this much.
MAX_FILE_BYTES = 200_000


class State(enum.Enum):
    """What can be said of an exercise's file without running it."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNTOUCHED = "untouched"
    INVALID = "not valid Python"
    EDITED = "edited"


class Handed(msgspec.Struct, frozen=True):
    """One exercise as it was handed in: its source, or why there is none."""

    source: bytes | None
    problem: str = ""
    path: Path | None = None

    def state(self, stub: Path) -> State:
        """Where the student stands, from the syntax tree beside that of the stub.

        Where the stub is the very file that was handed in, it cannot tell what was written there.
        """
        if self.source is None:
            return State.MISSING if self.path is None else State.UNREADABLE
        itself = self.path is not None and self.path.samefile(stub)
        if not itself and is_untouched(self.source, stub.read_bytes()):
            return State.UNTOUCHED
        try:
            parse(self.source)
        except SyntaxError:
            return State.INVALID
        return State.EDITED


class Submission(msgspec.Struct, frozen=True):
    """What one student handed in, by exercise id."""

    name: str
    files: dict[str, Handed]

    def info(self) -> SubmissionInfo:
        """Its name, and a digest of the files that are judged."""
        digest = hashlib.sha256()
        for exercise_id, handed in sorted(self.files.items()):
            digest.update(exercise_id.encode() + b"\0")
            digest.update(hashlib.sha256(handed.source or b"").digest())
        return SubmissionInfo(self.name, digest.hexdigest())


def read_submission(path: Path, course: Course) -> Submission:
    """Read a folder, or the one file of an exercise; raises SubmissionError if there is neither.

    In a folder a file may stand at `<chapter>/<exercise>.py`, at
    `exercises/<chapter>/<exercise>.py` or at `<exercise>.py`; the first one found counts.
    """
    if path.is_file():
        return _read_one(path, course)
    if not path.is_dir():
        raise SubmissionError(f"There is no submission at {path}: name a folder or a file.")
    files = {exercise.id: _find(path, exercise) for exercise in course.exercises}
    if all(handed.path is None for handed in files.values()):
        expected = course.exercises[0].file
        raise SubmissionError(
            f"{path} holds no file of {course.title}: expected {expected} or the like in it."
        )
    return Submission(_encodable(path.resolve().name), files)


def _read_one(path: Path, course: Course) -> Submission:
    try:
        exercise = course.exercise(path.stem)
    except CourseError as error:
        raise SubmissionError(f"{path} is named after no exercise: {error}") from error
    return Submission(exercise.id, {exercise.id: _read(path)})


def _encodable(name: str) -> str:
    """A file name in which every byte can be written: one that is not UTF-8 breaks the JSON."""
    return os.fsencode(name).decode("utf-8", "replace")


def file_of(submission: Path, exercise: Exercise) -> Path:
    """Where an exercise's file lies in a submission, or belongs if it is not there."""
    if submission.is_file():
        return submission
    for place in (exercise.file, f"exercises/{exercise.file}", f"{exercise.id}.py"):
        if os.path.lexists(submission / place):
            return submission / place
    return submission / exercise.file


def _find(folder: Path, exercise: Exercise) -> Handed:
    path = file_of(folder, exercise)
    if os.path.lexists(path):
        return _read(path)
    return Handed(None, f"{exercise.file} is missing: hand it in under this name.")


def _read(path: Path) -> Handed:
    name = _encodable(f"{path.parent.name}/{path.name}")
    try:
        # One descriptor for the check and the reading: what is read is what was looked at.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Handed(None, f"{name} is no regular file; hand in the file itself.", path)
            source = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return Handed(None, f"{name} cannot be read ({error.strerror}).", path)
    if len(source) > MAX_FILE_BYTES:
        return Handed(None, f"{name} is larger than {MAX_FILE_BYTES:,} bytes.", path)
    return Handed(source, "", path)
