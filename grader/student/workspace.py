"""The student's own folder of a course: its files, progress, and restored stubs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, SubmissionError
from grader.results import Result
from grader.student.progress import FOLDER, Logbook, Standing, make_folder, stamp, unused
from grader.submissions import ExerciseFile, Submission, file_of, read_submission


class Workspace:
    """The exercise files of a course's own folder, read once, with the logbook.

    Raises SubmissionError if none of the files exists, unless that is allowed.
    """

    def __init__(self, course: Course, *, allow_empty: bool = False) -> None:
        self.course = course
        self.logbook = Logbook(course)
        self.submission = _read(course, allow_empty)

    def handed(self, exercise: Exercise) -> ExerciseFile:
        """Return the file of an exercise, read only once."""
        return self.submission.files[exercise.id]

    def read_again(self) -> None:
        """Read the files again, even if none is there now: an editor or git may be about to write one."""
        self.submission = _read(self.course, allow_empty=True)

    def standings(self) -> dict[str, Standing]:
        """Return the standing of every exercise."""
        return self.logbook.standings(self.submission.files)

    def first_open(self) -> Exercise | None:
        """Return the exercise to continue with; None if all outside of exams are done."""
        return self.logbook.first_open(self.submission.files)

    def record(self, result: Result, suite: str) -> None:
        """Keep the verdicts on the files that were read here, if they are about all tests."""
        # A caller with a result has imported it already; a list of exercises need not.
        from grader.grading import grading_options

        if self.submission.info().digest != result.submission.digest:
            return  # other files were judged
        for judged in result.exercises:
            exercise = self.course.exercise(judged.name)
            if set(self.course.suites(exercise)) <= set(grading_options(suite=suite).suites):
                self.logbook.record(exercise, self.handed(exercise).source, judged)

    def record_served(self, result: Result, digests: Mapping[str, str]) -> None:
        """Keep a server's verdicts, for each exercise on the file with this SHA-256."""
        verdicts = {judged.name: judged for judged in result.exercises}
        for exercise in self.course.exercises:
            if exercise.id in verdicts:
                self.logbook.record_served(exercise, digests[exercise.id], verdicts[exercise.id])


def _read(course: Course, allow_empty: bool = False) -> Submission:
    """Read the files of the course's own folder; SubmissionError if there are none."""
    try:
        return read_submission(course.folder, course, allow_empty=allow_empty)
    except SubmissionError as error:
        # The student works in this folder, so do not speak of submissions.
        raise SubmissionError(
            f"{course.folder} has no file of {course.title}: "
            f"`grade reset {course.exercises[0].id}` restores a stub."
        ) from error


class Reset(msgspec.Struct, frozen=True):
    """A reset: `file` is the stub again (`written` if it changed), `backup` is the earlier file.

    `given` are the files beside a stub that were restored with it.
    """

    file: Path
    backup: Path | None = None
    written: bool = True
    given: tuple[Reset, ...] = ()


def reset_exercise(course: Course, exercise: Exercise) -> Reset:
    """Restore the stub and the files given beside it, and keep earlier files in `.grade/backups`.

    Raises GraderError if there is no stub, or it cannot be written.
    """
    stub = course.stub(exercise)
    file = file_of(course.folder, exercise)
    if os.path.lexists(file) and stub.working is not None:
        raise GraderError(
            f"There is no copy of the stub of {exercise.id} in this course "
            f"(tests/stubs/{exercise.file}); `git restore {file}` restores git's copy."
        )
    done = _put_back(course, file, stub.source)
    given = [
        _put_back(course, course.folder / name, source)
        for name, source in course.given(exercise).items()
    ]
    return msgspec.structs.replace(done, given=tuple(reset for reset in given if reset.written))


def _put_back(course: Course, file: Path, content: bytes) -> Reset:
    """Restore a file of the course, unless it is unchanged."""
    if file.is_file() and not file.is_symlink() and file.read_bytes() == content:
        return Reset(file, written=False)
    backup = None
    try:
        if os.path.lexists(file):
            backup = unused(course.root / FOLDER / "backups" / f"{file.stem}.{stamp()}.py")
            make_folder(course.root / FOLDER)
            backup.parent.mkdir(exist_ok=True)
            # Moved in any case: a link or a folder of this name is kept, too.
            file.rename(backup)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        backed_up = f" Your file is {backup} now." if backup is not None and backup.exists() else ""
        raise GraderError(f"{file} cannot be reset: {error.strerror}.{backed_up}") from error
    return Reset(file, backup)
