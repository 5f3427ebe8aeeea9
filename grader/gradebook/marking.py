"""Marks: a person reads a file with the rubric of its exercise, and adds points to the judge's or deducts some.

A mark is a correction with the sentences of the rubric items that apply. It belongs to one file, so it survives
a regrade and does not apply to a newer file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import UsageError
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import Correction, now, one_line
from grader.gradebook.facts import MarkDraft, Remarks
from grader.gradebook.standing import choices, entry_of
from grader.judge.scoring import judged_points
from grader.results import ExerciseResult, StudentInfo
from grader.submissions.source import code_digest
from grader.text import number
from grader.toml import TomlMistake, explain_mistake, line_of, read_toml

# Keys of `grade mark` itself, which no item may have.
RESERVED = {"n": "keep and go on", "s": "skip", "c": "comment", "q": "stop"}
_NOTHING = "nothing to remark"


class RubricItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One item: its key on the keyboard, the points that it adds or deducts, and its text for the student."""

    key: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]$")]
    points: Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]
    says: Annotated[str, msgspec.Meta(min_length=1)]


class Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The items of a rubric; with `beyond`, marks may raise a score above the exercise's worth."""

    item: Annotated[tuple[RubricItem, ...], msgspec.Meta(min_length=1)]
    beyond: bool = False


class FileToMark(msgspec.Struct, frozen=True):
    """A file to mark: one student's, or the same file of several members of a team."""

    students: tuple[str, ...]
    result: ExerciseResult
    source: bytes

    @property
    def digest(self) -> str:
        """The digest of the file, which its mark records."""
        return code_digest(self.source)


def rubric_of(course: Course, exercise: Exercise) -> Path:
    """Return the path of the rubric of an exercise in the course."""
    return course.root / "tests" / "rubrics" / exercise.chapter / f"{exercise.id}.toml"


def read_rubric(path: Path, worth: float) -> Rubric:
    """Read the rubric of an exercise worth `worth` points; raises UsageError with the line."""
    try:
        text = path.read_text(encoding="utf-8")
        rubric = read_toml(text, Rubric)
    except FileNotFoundError as error:
        raise UsageError(
            f'There is no rubric at {path}. Write a table [[item]] for each item there, with key = "d", '
            'points = -1 and says = "...". (`grade mark` also takes a file with --rubric.)'
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    except TomlMistake as error:
        words = explain_mistake(error, text, Rubric)
        raise UsageError(f"{path}{error.place}: {words}") from error
    for place, complaint in _complaints(rubric, worth):
        raise UsageError(f"{path}, line {line_of(text, f'item[{place}].points')}: {complaint}")
    return rubric


def _complaints(rubric: Rubric, worth: float) -> Iterator[tuple[int, str]]:
    """Yield the mistakes that decoding does not find, each with the number of its item, from 0."""
    keys = [item.key for item in rubric.item]
    brings = 0.0
    for place, item in enumerate(rubric.item):
        if item.key in RESERVED:
            yield place, f"the key {item.key!r} means {RESERVED[item.key]}; choose another."
        if item.key in keys[:place]:
            yield place, f"two items have the key {item.key!r}; change one of them."
        brings += max(item.points, 0.0)
        if brings > worth and not rubric.beyond:
            sums = f"the items bring up to {number(brings)} points, and the exercise is worth {number(worth)}"
            advice = "Give fewer, or write beyond = true at the top if a mark may go beyond them."
            yield place, f"{sums}. {advice}"
            return


def files(book: Gradebook, exercise: str) -> Iterator[FileToMark]:
    """Yield the files that count for an exercise, sorted by student id, without untouched stubs."""
    shared = exercise in book.of_teams
    teams: dict[tuple[str, str], FileToMark] = {}
    for student in book.students():
        if (file := file_of(book, student, exercise)) is None:
            continue
        team = student.team if shared else ""
        if not team:
            yield file
            continue
        # Members of a team share one entry for the same file.
        first = teams.setdefault((team, file.digest), file)
        if first is not file:
            students = (*first.students, *file.students)
            teams[team, file.digest] = msgspec.structs.replace(first, students=students)
    yield from teams.values()


def shared_file_of(book: Gradebook, student: StudentInfo, exercise: str) -> FileToMark | None:
    """Return this student's file among `files`, which may be the file that the student's team shares."""
    own = file_of(book, student, exercise)
    team = student.team if exercise in book.of_teams else ""
    if own is None or not team:
        return own
    members = [each for each in book.students() if each.team == team]
    found = [file_of(book, member, exercise) for member in members]
    same = [file for file in found if file is not None and file.digest == own.digest]
    students = tuple(file.students[0] for file in same)
    return msgspec.structs.replace(same[0], students=students)


def file_of(book: Gradebook, student: StudentInfo, exercise: str) -> FileToMark | None:
    """Return the student's file that counts for an exercise; None without one, or for an untouched stub."""
    work = book.work(student)
    # Do not unpack the results of other exercises, which would take most of the time.
    rules = msgspec.structs.replace(book.rules(), exercises=(exercise,))
    entry, choice = entry_of(work, rules), choices(work, rules).get(exercise)
    if entry is None or choice is None or not choice.source:
        return None
    (result,) = entry.result.exercises
    source = book.files_of(choice.attempt.id)[exercise].source
    return None if result.untouched or source is None else FileToMark((student.id,), result, source)


def remarks_of(book: Gradebook, file: FileToMark) -> Remarks:
    """Return the remarks so far on a file that has no mark yet."""
    drafts = [draft for draft in book.facts.mark_drafts if _is_of(draft, file)]
    return drafts[-1].remarks if drafts else Remarks()


def is_begun(book: Gradebook, file: FileToMark) -> bool:
    """Whether a file has a draft that is not yet a mark."""
    return any(_is_of(draft, file) for draft in book.facts.mark_drafts)


def is_waiting(book: Gradebook, corrections: Sequence[Correction], file: FileToMark) -> bool:
    """Whether a file is still to be marked: it has a draft, or some student of it has no mark."""
    return is_begun(book, file) or not is_marked(corrections, file)


def marks_of(book: Gradebook, file: FileToMark) -> list[Correction]:
    """Return the marks of a file, for any of its students."""
    corrections = book.corrections()
    return [corrections[place] for place in _places(corrections, file)]


def state_of(book: Gradebook, file: FileToMark) -> str:
    """Return a digest of everything that the marker sees: the file, its marks, and its draft."""
    state = file.digest, file.students, marks_of(book, file), remarks_of(book, file)
    return hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:32]


def _is_of(draft: MarkDraft, file: FileToMark) -> bool:
    """Whether a draft belongs to a file.

    Equal files of other students have their own, so that no assistant reads remarks of another section.
    """
    return (draft.exercise, draft.digest) == (file.result.name, file.digest) and (
        not draft.students or not {*draft.students}.isdisjoint(file.students)
    )


def keep_draft(book: Gradebook, file: FileToMark, remarks: Remarks) -> None:
    """Keep the remarks so far on a file, synced to the disk when this returns; empty ones remove the draft."""
    drafts = [draft for draft in book.facts.mark_drafts if not _is_of(draft, file)]
    if remarks != Remarks():
        drafts.append(MarkDraft(file.result.name, file.students, file.digest, remarks))
    book.change(mark_drafts=tuple(drafts))


def keep_mark(
    book: Gradebook,
    file: FileToMark,
    items: Sequence[RubricItem],
    comments: Sequence[str],
    author: str,
    *,
    beyond: bool = False,
) -> None:
    """Replace the marks of a file by one for each of its students, in one write; then remove its draft.

    Each of the `comments` becomes a line of the mark's comment.
    """
    reason = " ".join(item.says for item in items) or _NOTHING
    made = [
        Correction(
            student=student,
            exercise=file.result.name,
            # Rounded, so that 0.1 + 0.2 is 0.3.
            add=round(math.fsum(item.points for item in items), 6),
            reason=one_line(reason),
            comment="\n".join(comments),
            author=author,
            time=now(),
            judged=judged_points(file.result),
            marked=file.digest,
            beyond=beyond,
        )
        for student in file.students
    ]
    book.correct(*made, replacing=_places(book.corrections(), file))
    keep_draft(book, file, Remarks())


def is_marked(corrections: Sequence[Correction], file: FileToMark) -> bool:
    """Whether every student of a file has a mark for it."""
    places = _places(corrections, file)
    return {corrections[place].student for place in places} == set(file.students)


def _places(corrections: Sequence[Correction], file: FileToMark) -> list[int]:
    """Return the places, from 0, of the corrections that are marks of this file."""
    return [
        place
        for place, correction in enumerate(corrections)
        if correction.marked == file.digest
        and correction.exercise == file.result.name
        and correction.student in file.students
    ]
