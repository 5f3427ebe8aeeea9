"""From the body of a request to exercise files, by the reader and the bounds that `grade batch` has."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.gradebook.review import held, ordinary_in
from grader.gradebook.verdict_key import VerdictKey, verdict_key
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.results import ExerciseResult, StudentInfo
from grader.serve.http import Refusal, decoded
from grader.submissions import ClassAttempt, ExerciseFile, read_attempt
from grader.submissions.attempt import MAX_NESTED_BYTES, AttemptFile
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import clean as shown

# A student's folder as it is; what is larger is an archive of something else.
_MOST_FILES = 500
_LONGEST_NAME = 255
# Base64 is a third longer than what it stands for; and names, and signs between them.
_MOST_BYTES = MAX_NESTED_BYTES * 4 // 3 + (64 << 10)


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is handed in: files by name, in base64."""

    files: dict[str, bytes]


class Prepared(NamedTuple):
    """A file that was handed in, with all that is known of it without a judge and without the gradebook."""

    exercise: Exercise
    file: ExerciseFile
    key: VerdictKey
    settled: ExerciseResult | None
    held: tuple[str, ...]


class HandIn(NamedTuple):
    """The files of a request that can be taken, and a sentence for each exercise whose file cannot."""

    files: tuple[Prepared, ...]
    problems: dict[str, str]


class HandInReader:
    """Reads what is handed in to a course; any thread may call it."""

    def __init__(self, course: Course, options: GradingOptions) -> None:
        self._course, self._options = course, options
        self._digests = {
            exercise.id: exercise_digest(course, exercise) for exercise in course.exercises
        }
        self._ordinary = {
            exercise.id: ordinary_in(exercise, course.stub(exercise).source)
            for exercise in course.exercises
        }

    @property
    def most_bytes(self) -> int:
        """The longest body that can hold one file for each exercise, or an archive."""
        of_files = len(self._course.exercises) * MAX_FILE_BYTES * 4 // 3 + (64 << 10)
        return min(max(of_files, MAX_FILE_BYTES * 2), _MOST_BYTES)

    def read(self, student: StudentInfo, body: bytes) -> HandIn:
        """The exercise files in a body; raises Refusal where it holds none that can be judged."""
        advice = ' Send {"files": {"glu.py": "<base64>"}} as JSON.'
        handed = self._exercise_files(student, decoded(body, Body, advice).files)
        prepared = tuple(
            self.prepared(self._course.exercise(name), file)
            for name, file in handed.items()
            if file.source is not None
        )
        problems = {
            name: file.problem
            for name, file in handed.items()
            if file.source is None and (file.path is not None or file.seems_misnamed)
        }
        if not prepared:
            sentences = [*problems.values(), *(file.problem for file in handed.values())]
            raise Refusal(422, f"Nothing was taken. {sentences[0]}")
        return HandIn(prepared, problems)

    def prepared(self, exercise: Exercise, file: ExerciseFile) -> Prepared:
        """What is known of a file before a judge sees it."""
        key = verdict_key(exercise, file, self._digests[exercise.id], self._options)
        settled = settle(self._course, exercise, file, self._options)
        suspicious: tuple[str, ...] = ()
        if file.source is not None and not (settled is not None and settled.untouched):
            suspicious = held(file.source, self._ordinary[exercise.id])
        return Prepared(exercise, file, key, settled, suspicious)

    def _exercise_files(
        self, student: StudentInfo, files: Mapping[str, bytes]
    ) -> dict[str, ExerciseFile]:
        if not files:
            raise Refusal(400, "There is no file in it: hand in at least one.")
        if len(files) > _MOST_FILES:
            raise Refusal(
                413, f"There are {len(files)} files in it: hand in those of the exercises."
            )
        for name in files:
            _refuse_strange(name)
        # The reader takes places on the disk; no name of a client's is one.
        with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
            pieces = []
            for number, (name, source) in enumerate(files.items()):
                place = Path(folder, str(number))
                place.write_bytes(source)
                pieces.append(AttemptFile(name, place))
            attempt = ClassAttempt(student=student, path=Path(folder), members=tuple(pieces))
            return read_attempt(attempt, self._course).files


def _refuse_strange(name: str) -> None:
    parts = name.split("/")
    if (
        not name.isprintable()
        or len(name) > _LONGEST_NAME
        or "\\" in name
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise Refusal(
            400, f"{shown(name, 60)!r} is no name for a file here: send glu.py or modules/glu.py."
        )
