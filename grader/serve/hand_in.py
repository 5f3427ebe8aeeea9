"""Read exercise files from the body of a request, with the reader and the limits of `grade batch`."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from grader.course.manifest import Course
from grader.gradebook.verdicts import Question, Questions
from grader.gradebook.work import SERVER
from grader.results import StudentInfo
from grader.serve.gate import Gate
from grader.serve.http import Refusal, decoded
from grader.submissions import Attempt, ExerciseFile, read_attempt
from grader.submissions.archive import looks_packed
from grader.submissions.attempt import MAX_NESTED_BYTES, on_notebooks
from grader.submissions.folder import EntryKind
from grader.submissions.member import AttemptFile, Member
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import clean as shown
from grader.text import listed

# Larger than any student's folder.
_MAX_FILES = 500
_LONGEST_NAME = 255  # bytes
# How many names of files a message shows.
_NAMES_SHOWN = 5
# Base64 is a third longer than the bytes; names and punctuation take the rest.
_MAX_BYTES = MAX_NESTED_BYTES * 4 // 3 + (64 << 10)


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a hand-in: files by name, in base64."""

    files: dict[str, bytes]


class NotNow(NamedTuple):
    """Why a file is not accepted now, as a sentence; `wait` is in seconds, 0 if waiting does not help."""

    why: str
    wait: int = 0


class Submission(NamedTuple):
    """The files of a request: questions about those that can be judged, and `odd` ones, which need a comment.

    A file may be in both, for example if another file was handed in beside it. Files for exercises in `refused`
    are not accepted now.
    """

    questions: tuple[Question, ...]
    odd: dict[str, ExerciseFile]
    refused: Mapping[str, NotNow] = MappingProxyType({})

    @property
    def problems(self) -> dict[str, str]:
        """The comments on odd files and on files that are not accepted, by exercise."""
        return {name: file.problem for name, file in self.odd.items()} | not_accepted(self.refused)

    def without(self, refused: Mapping[str, NotNow]) -> Submission:
        """Return the rest, without files that are also refused; raises Refusal if no file is left to judge."""
        questions = tuple(q for q in self.questions if q.exercise.id not in refused)
        odd = {name: file for name, file in self.odd.items() if name not in refused}
        refused = {**self.refused, **refused}
        if not questions:
            raise _refusal([*refused.values()])
        return Submission(questions, odd, refused)


def _refusal(reasons: Sequence[NotNow]) -> Refusal:
    """Return the answer to a request without a file that is accepted now."""
    sentence = " ".join(dict.fromkeys(reason.why for reason in reasons))
    waits = [reason.wait for reason in reasons if reason.wait]
    # Some of the files may be accepted after the shortest wait.
    wait = min(waits, default=0)
    return Refusal(429 if waits else 403, f"Nothing was accepted. {sentence}", retry_after=wait)


def not_accepted(refused: Mapping[str, NotNow]) -> dict[str, str]:
    """Return a sentence for each exercise whose file is not accepted, from the reasons."""
    return {name: f"{name} was not accepted: {reason.why}" for name, reason in refused.items()}


class HandInReader:
    """Reads hand-ins for a course, in any thread."""

    def __init__(self, course: Course, questions: Questions) -> None:
        self._course, self._questions = course, questions
        self._gate = Gate(course)

    @property
    def most_bytes(self) -> int:
        """The size limit of a body: enough for a file for each exercise, or for an archive."""
        of_files = len(self._course.exercises) * MAX_FILE_BYTES * 4 // 3 + (64 << 10)
        return min(max(of_files, MAX_FILE_BYTES * 2), _MAX_BYTES)

    def read(self, student: StudentInfo, body: bytes) -> Submission:
        """Return the exercise files in a body; raises Refusal if none of them can be judged."""
        advice = ' Send {"files": {"glu.py": "<base64>"}} as JSON.'
        files = decoded(body, Body, advice).files
        handed = self._exercise_files(student, files)
        # Look among all exercises, to distinguish a file that comes too early from a misnamed one. Skip
        # exercises without a file of their own: an archive that cannot be read is a problem of each of them.
        refused = {
            name: NotNow(why)
            for name, file in handed.items()
            if (why := self._gate.why_closed(name)) and file.source is not None
        }
        handed = {name: file for name, file in handed.items() if self._gate.exists(name)}
        questions = tuple(
            self._questions.about(self._course.exercise(name), file)
            for name, file in handed.items()
            if file.source is not None
        )
        odd = {
            name: file
            for name, file in handed.items()
            if file.seems_misnamed or (file.source is None and file.path is not None)
        }
        if not questions and not refused:
            raise Refusal(
                422, f"Nothing was accepted. {self._why_nothing(list(files), handed, odd)}"
            )
        for question in questions:
            question.prepare()
        return Submission(questions, odd, refused)

    def _why_nothing(
        self,
        sent: Sequence[str],
        handed: Mapping[str, ExerciseFile],
        odd: Mapping[str, ExerciseFile],
    ) -> str:
        """Explain why no file can be judged: what was sent, and some of the names that files may have."""
        if odd:
            return " ".join(dict.fromkeys(file.problem for file in odd.values()))
        if not handed:
            return "No exercise is open now."
        names = [f"{self._course.exercise(name).id}.py" for name in handed]
        problem = next(iter(handed.values())).problem
        if len(names) == 1:
            return problem
        if any(looks_packed(name) for name in sent):
            # The problem is in the archive, or names its contents.
            return f"{problem} The names are {listed(names, _NAMES_SHOWN)}."
        instead = listed([shown(name, 60) for name in sent], _NAMES_SHOWN)
        return (
            f"No file has the name of an exercise. Handed in instead: {instead}."
            f"{on_notebooks(sent, 'the file of the exercise')} The names are {listed(names, _NAMES_SHOWN)}."
        )

    def _exercise_files(
        self, student: StudentInfo, files: Mapping[str, bytes]
    ) -> dict[str, ExerciseFile]:
        """Return the exercise files among the files sent, with the reader of `grade batch`."""
        if not files:
            raise Refusal(400, "No files were sent. Send at least one.")
        if len(files) > _MAX_FILES:
            raise Refusal(
                413, f"{len(files)} files were sent. Send only the files of the exercises."
            )
        for name in files:
            _refuse_strange(name)
        members = (
            Member(name, EntryKind.FILE, len(source), functools.partial(io.BytesIO, source))
            for name, source in files.items()
        )
        pieces = tuple(AttemptFile(member.path, member) for member in members)
        attempt = Attempt(student=student, path=Path(SERVER), members=pieces)
        return read_attempt(attempt, self._course).files


def _refuse_strange(name: str) -> None:
    """Raise Refusal for a name that leads out of the folder, or has odd characters."""
    parts = name.split("/")
    if (
        not name.isprintable()
        or len(name.encode()) > _LONGEST_NAME
        or "\\" in name
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise Refusal(
            400, f"{shown(name, 60)!r} is not a file name here: send glu.py or modules/glu.py."
        )
