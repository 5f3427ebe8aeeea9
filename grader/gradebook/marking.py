"""Points by a person beside the judge's: the rubric of an exercise, and which files were read by it.

A mark is a correction that adds or takes off points, with the sentences of the items that hold. It is about
one file, so that it stands through a regrade and says nothing of a newer file.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import Correction
from grader.results import Entry, ExerciseResult
from grader.text import clean

# Keys of the walk itself.
RESERVED = {"n": "keep and go on", "s": "skip", "c": "comment", "q": "stop"}
_NOTHING = "read by a person, nothing to remark"
_LONGEST = 1000


class RubricItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One item: the key that is pressed, the points that it adds or takes off, and what the student reads."""

    key: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]$")]
    points: Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]
    says: Annotated[str, msgspec.Meta(min_length=1)]


class _Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    item: Annotated[tuple[RubricItem, ...], msgspec.Meta(min_length=1)]


class FileToMark(msgspec.Struct, frozen=True):
    """A file to be read, of one student, or of the members of a team who have the same."""

    students: tuple[str, ...]
    result: ExerciseResult
    source: bytes

    @property
    def digest(self) -> str:
        """The SHA-256 by which a mark names the file."""
        return hashlib.sha256(self.source).hexdigest()


def rubric_of(course: Course, exercise: Exercise) -> Path:
    """Where the rubric of an exercise stands in the course."""
    return course.root / "tests" / "rubrics" / exercise.chapter / f"{exercise.id}.toml"


def read_rubric(path: Path) -> tuple[RubricItem, ...]:
    """The items of a rubric; raises CourseError with what is wrong in it."""
    try:
        items = msgspec.toml.decode(path.read_bytes(), type=_Rubric).item
    except FileNotFoundError as error:
        raise CourseError(
            f'There is no rubric at {path}. Write a table [[item]] for each item there, with key = "d", '
            'points = -1 and says = "...", or name a file with --rubric.'
        ) from error
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is no rubric: {error}.") from error
    keys = [item.key for item in items]
    for key in keys:
        if key in RESERVED:
            raise CourseError(f"{path}: the key {key!r} means {RESERVED[key]}; choose another.")
        if keys.count(key) > 1:
            raise CourseError(f"{path}: two items have the key {key!r}; change one of them.")
    return items


def answers(book: Gradebook, exercise: str) -> Iterator[FileToMark]:
    """The files of an exercise that count, by student id; one that is still the stub has nothing to be read."""
    shared = bool(book.fact("teams"))
    teams: dict[tuple[str, str], FileToMark] = {}
    for entry in book.entries():
        answer = _answer(book, entry, exercise)
        if answer is None:
            continue
        team = entry.student.ids.get("team", "") if shared else ""
        if not team:
            yield answer
        elif (other := teams.get((team, answer.digest))) is not None:
            students = (*other.students, *answer.students)
            teams[team, answer.digest] = msgspec.structs.replace(other, students=students)
        else:
            teams[team, answer.digest] = answer
    yield from teams.values()


def _answer(book: Gradebook, entry: Entry, exercise: str) -> FileToMark | None:
    result = next((each for each in entry.result.exercises if each.name == exercise), None)
    if result is None or result.untouched:
        return None
    source = book.sources(entry).get(exercise)
    return None if source is None else FileToMark((entry.student.id,), result, source)


def marks_of(corrections: Sequence[Correction], answer: FileToMark) -> list[int]:
    """The places of the corrections that are marks of this file, for one of its students."""
    return [
        place
        for place, each in enumerate(corrections)
        if each.marked == answer.digest
        and each.exercise == answer.result.name
        and each.student in answer.students
    ]


def mark(
    answer: FileToMark, items: Sequence[RubricItem], comment: str, author: str
) -> list[Correction]:
    """The corrections that say what holds of a file, one for each of its students."""
    judged = answer.result.mark.judged if answer.result.mark is not None else answer.result.score
    reason = " ".join(item.says for item in items) or _NOTHING
    return [
        Correction(
            student=student,
            exercise=answer.result.name,
            add=round(sum(item.points for item in items), 2),
            reason=clean(reason, _LONGEST),
            comment=clean(" ".join(comment.split()), _LONGEST),
            author=author,
            time=datetime.datetime.now(datetime.UTC).replace(microsecond=0),
            judged=judged,
            marked=answer.digest,
        )
        for student in answer.students
    ]
