"""One submission, for `grade run` and `grading.grade`: a folder, the file of one exercise, or an archive.

Nothing in a submission is imported or linked to: only the bytes of regular files are used. A file that cannot
be read becomes a sentence for the student, not an exception.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError, SubmissionError
from grader.submissions.archive import looks_packed
from grader.submissions.attempt import beside, gather, nearest_below
from grader.submissions.folder import (
    EntryKind,
    Unreadable,
    entries,
    entry_kind,
    is_ignored,
    normalized,
    open_regular,
)
from grader.submissions.member import AttemptFile
from grader.submissions.names import places
from grader.submissions.submission import MAX_FILE_BYTES, ExerciseFile, Submission

# Only this many names beside a single file are searched for misnamed work.
_MAX_NAMES = 200


def read_submission(
    path: Path, course: Course, *, only: Exercise | None = None, allow_empty: bool = False
) -> Submission:
    """Read a folder, the file of one exercise, or a zip or tar of a folder.

    Folders and archives are read like an attempt of a class (`attempt.py`). A file that is not named after an
    exercise belongs to the `only` one.

    Raises SubmissionError if the archive cannot be read, or if nothing of the course is found, unless you
    `allow_empty`.
    """
    if path.is_file():
        if looks_packed(path.name):
            return _read_archive(path, course, allow_empty)
        return _read_one(path, course, only)
    if not path.is_dir():
        raise SubmissionError(
            f"There is no submission at {path}: name a folder, a file or an archive."
        )
    submission = gather(_name(path), [AttemptFile("", path)], path, course)
    files = submission.files
    for exercise in course.exercises:
        # A file in its usual place is read even if there are too many files, or a link is in the way.
        if files[exercise.id].source is None and (usual := _find(path, exercise)).path is not None:
            files[exercise.id] = usual
    _refuse_empty(path, course, files, allow_empty)
    return submission


def _beside(course: Course, exercise: Exercise, handed: ExerciseFile) -> ExerciseFile:
    """Return the file; if it has no work, add a note on work under another name in its folder."""
    if handed.source is None or handed.path is None:
        return handed
    with contextlib.suppress(Unreadable):
        listed = itertools.islice(entries(handed.path.parent), _MAX_NAMES)
        pieces = [
            AttemptFile(entry.name, Path(entry.path))
            for entry in listed
            if entry.name != handed.path.name
            and not is_ignored(entry.name)
            and entry_kind(entry) is EntryKind.FILE
        ]
        return beside(pieces, course, exercise, handed)
    return handed


def _name(path: Path) -> str:
    """Return the name of a file as valid text, since bytes that are not UTF-8 would break the JSON."""
    return normalized(os.fsencode(path.resolve().name).decode("utf-8", "replace"))


def _read_one(path: Path, course: Course, only: Exercise | None) -> Submission:
    handed = _read(path)
    try:
        exercise = course.exercise(path.stem)
    except CourseError as error:
        if only is None and handed.source is None:
            raise SubmissionError(handed.problem) from error
        if only is None:
            raise SubmissionError(f"{path} is not named after an exercise: {error}") from error
        exercise = only
    return Submission(exercise.id, {exercise.id: _beside(course, exercise, handed)})


def _refuse_empty(
    path: Path, course: Course, files: Mapping[str, ExerciseFile], allow_empty: bool
) -> None:
    if allow_empty or any(handed.path is not None for handed in files.values()):
        return
    raise SubmissionError(
        f"{path} has no file of {course.title}: expected {course.exercises[0].file} or the like in it. "
        "For the submissions of a class, use grade batch."
    )


def _read_archive(path: Path, course: Course, allow_empty: bool) -> Submission:
    # A caller may name the file through a link; in a class, links are not followed.
    real = path.resolve()
    submission = gather(_name(path), [AttemptFile(path.name, real)], real, course)
    _refuse_empty(path, course, submission.files, allow_empty)
    files = submission.files.values()
    problems = {file.problem if file.source is None else "" for file in files}
    if len(problems) == 1 and (problem := problems.pop()):
        raise SubmissionError(f"{path}: {problem}")
    return submission


def file_of(submission: Path, exercise: Exercise) -> Path:
    """Return the path of an exercise's file in a submission, or its expected path if it is missing.

    If the submission is a file, return that file.
    """
    if submission.is_file():
        return submission
    for place in places(exercise):
        if os.path.lexists(submission / place):
            return submission / place
    return nearest_below(submission, exercise) or submission / exercise.file


def _find(folder: Path, exercise: Exercise) -> ExerciseFile:
    for place in places(exercise):
        if os.path.lexists(folder / place):
            if (link := _link_above(folder, place)) is not None:
                problem = f"{link.name} is a link; hand in the folder itself."
                return ExerciseFile(None, problem, folder / place)
            return _read(folder / place)
    return ExerciseFile(None)


def _link_above(folder: Path, place: str) -> Path | None:
    """Return the first folder above a file that is a link; it might lead to the solutions."""
    above = [folder / parent for parent in Path(place).parents if parent != Path()]
    return next((folder for folder in above if folder.is_symlink()), None)


def _read(path: Path) -> ExerciseFile:
    """Read one file, or return the reason why it cannot be read."""
    name = normalized(os.fsencode(f"{path.parent.name}/{path.name}").decode("utf-8", "replace"))
    try:
        with open_regular(path, name) as file:
            source = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return ExerciseFile(None, f"{name} cannot be read ({error.strerror}).", path)
    except Unreadable as problem:
        return ExerciseFile(None, str(problem), path)
    if len(source) > MAX_FILE_BYTES:
        return ExerciseFile(None, f"{name} is larger than {MAX_FILE_BYTES:,} bytes.", path)
    return ExerciseFile(source, "", path)
