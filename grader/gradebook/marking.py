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
from grader.gradebook.facts import Draft
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


def answers(book: Gradebook, exercise: str) -> Iterator[FileToMark]:
    """Yield the files that count for an exercise, sorted by student id, without untouched stubs."""
    shared = exercise in book.of_teams
    teams: dict[tuple[str, str], FileToMark] = {}
    for student in book.students():
        if (answer := answer_of(book, student, exercise)) is None:
            continue
        team = student.ids.get("team", "") if shared else ""
        if not team:
            yield answer
            continue
        # Members of a team share one entry for the same file.
        first = teams.setdefault((team, answer.digest), answer)
        if first is not answer:
            students = (*first.students, *answer.students)
            teams[team, answer.digest] = msgspec.structs.replace(first, students=students)
    yield from teams.values()


def shared_answer_of(book: Gradebook, student: StudentInfo, exercise: str) -> FileToMark | None:
    """Return this student's file among `answers`, which may be the file that the student's team shares."""
    own = answer_of(book, student, exercise)
    team = student.ids.get("team", "") if exercise in book.of_teams else ""
    if own is None or not team:
        return own
    members = [each for each in book.students() if each.ids.get("team", "") == team]
    found = [answer_of(book, member, exercise) for member in members]
    same = [answer for answer in found if answer is not None and answer.digest == own.digest]
    students = tuple(answer.students[0] for answer in same)
    return msgspec.structs.replace(same[0], students=students)


def answer_of(book: Gradebook, student: StudentInfo, exercise: str) -> FileToMark | None:
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


def draft_of(book: Gradebook, answer: FileToMark) -> Draft:
    """Return the draft mark of a file."""
    drafts = book.facts.drafts
    return drafts.get(draft_name(answer)) or drafts.get(_shared_name(answer)) or Draft()


def is_begun(book: Gradebook, answer: FileToMark) -> bool:
    """Whether a file has a draft that is not yet a mark."""
    return not book.facts.drafts.keys().isdisjoint((draft_name(answer), _shared_name(answer)))


def marks_of(book: Gradebook, answer: FileToMark) -> list[Correction]:
    """Return the marks of a file, for any of its students."""
    corrections = book.corrections()
    return [corrections[place] for place in _places(corrections, answer)]


def state_of(book: Gradebook, answer: FileToMark) -> str:
    """Return a digest of everything that the marker sees: the file, its marks, and its draft."""
    state = answer.digest, answer.students, marks_of(book, answer), draft_of(book, answer)
    return hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:32]


def draft_name(answer: FileToMark) -> str:
    """Return the name of a file's draft: exercise, first student and digest of the file.

    The student is included so that assistants cannot read comments on an equal file of another section.
    """
    return f"{answer.result.name} {answer.students[0]} {answer.digest}"


def _shared_name(answer: FileToMark) -> str:
    """Return the name that earlier graders used for all equal files."""
    return f"{answer.result.name} {answer.digest}"


def keep_draft(book: Gradebook, answer: FileToMark, draft: Draft | None) -> None:
    """Keep the draft of a file, synced to the disk when this returns; None removes it."""
    names = draft_name(answer), _shared_name(answer)
    by_name = {name: kept for name, kept in book.facts.drafts.items() if name not in names}
    if draft is not None:
        by_name[draft_name(answer)] = draft
    book.change(drafts=by_name)


def keep_mark(
    book: Gradebook,
    answer: FileToMark,
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
            exercise=answer.result.name,
            # Rounded, so that 0.1 + 0.2 is 0.3.
            add=round(math.fsum(item.points for item in items), 6),
            reason=one_line(reason),
            comment="\n".join(comments),
            author=author,
            time=now(),
            judged=judged_points(answer.result),
            marked=answer.digest,
            beyond=beyond,
        )
        for student in answer.students
    ]
    book.correct(*made, replacing=_places(book.corrections(), answer))
    keep_draft(book, answer, None)


def is_marked(corrections: Sequence[Correction], answer: FileToMark) -> bool:
    """Whether every student of a file has a mark for it."""
    places = _places(corrections, answer)
    return {corrections[place].student for place in places} == set(answer.students)


def _places(corrections: Sequence[Correction], answer: FileToMark) -> list[int]:
    """Return the places, from 0, of the corrections that are marks of this file."""
    return [
        place
        for place, correction in enumerate(corrections)
        if correction.marked == answer.digest
        and correction.exercise == answer.result.name
        and correction.student in answer.students
    ]
