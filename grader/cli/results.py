"""What instructors' commands share: to open a gradebook, to find a student, and notes for every command."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from grader.cli.border import tell, tell_unfinished
from grader.cli.terminal.console import some_of
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import AnonymousBook
from grader.gradebook.refusals import refuse_other_course
from grader.gradebook.retention import old_backup_words, passed_words
from grader.gradebook.review import Reason
from grader.results import Entry, StudentInfo
from grader.text import counted, nearest

_SHOWN_STUDENTS = 5


@contextlib.contextmanager
def open_book(
    results: Path,
    assignment: str | None = None,
    *,
    course: Course | None = None,
    anonymous: bool = False,
) -> Iterator[Gradebook]:
    """Open the gradebook in a folder; say on stderr if a grading did not finish, without names if `anonymous`.

    Raises SubmissionError if there is none, or if it belongs to another course than `course`.
    """
    with Gradebook.open(results, assignment) as book:
        if course is not None:
            refuse_other_course(book, course)
        tell_unfinished(AnonymousBook(book) if anonymous else book)
        yield book


class DoubtfulZeros:
    """Count the students with 0 points in an exercise for which something is listed to look at."""

    def __init__(self, book: Gradebook) -> None:
        self._listed = {
            (entry.student, name)
            for entry in book.attention()
            for name in entry.exercises
            if entry.kind.costs_points and entry.kind is not Reason.FAULT
        }
        self._students: set[str] = set()

    def over(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the entries, and count their students."""
        for entry in entries:
            self.see(entry)
            yield entry

    def see(self, entry: Entry) -> None:
        """Count the student of an entry."""
        results = entry.result.exercises
        zeros = ((entry.student.id, each.name) for each in results if not each.score)
        if not self._listed.isdisjoint(zeros):
            self._students.add(entry.student.id)

    def tell(self) -> None:
        """Say on stderr how many students these are."""
        if number := len(self._students):
            tell(
                f"{counted(number, 'student')} with something to look at, such as a misnamed file, "
                f"{'has' if number == 1 else 'have'} 0 points in that exercise: the report lists them all."
            )


def tell_passed(book: Gradebook) -> None:
    """Say on stderr if the class should not be kept any longer, or has a backup that is too old."""
    now = datetime.datetime.now(datetime.UTC)
    for sentence in (passed_words(book, now), old_backup_words(book, now)):
        if sentence:
            tell(sentence)


def refuse_ungraded(names: Iterable[str], book: Gradebook) -> None:
    """Raise SubmissionError for an exercise that was not graded in this gradebook."""
    for name in names:
        if name not in book.exercises:
            raise SubmissionError(f"{name!r} was not graded here. {nearest(name, book.exercises)}")


def find_student(students: Sequence[StudentInfo], wanted: str) -> StudentInfo:
    """Return the student with this id, else the only one whose id, name or email contains `wanted`.

    The ids of other systems count; a section or team is not one person's.

    Raises SubmissionError if there is none, or more than one.
    """
    for student in students:
        if student.id == wanted:
            return student
    matches = [s for s in students if any(wanted.casefold() in t.casefold() for t in _texts(s))]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise SubmissionError(
            f"No student here has {wanted!r} in an id, the name or the email. {_near(students, wanted)}"
        )
    names = some_of([student.id for student in matches], _SHOWN_STUDENTS)
    raise SubmissionError(
        f"{wanted!r} may be {counted(len(matches), 'student')}: {names}. Name the id."
    )


def named_student(students: Sequence[StudentInfo], wanted: str) -> StudentInfo:
    """Return the student with exactly this id, name or email; safer than a part for changing points.

    Raises SubmissionError with similar names.
    """
    matches = [student for student in students if student.id == wanted] or [
        s for s in students if wanted.casefold() in [text.casefold() for text in _texts(s)]
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(student.id for student in matches[:_SHOWN_STUDENTS])
        raise SubmissionError(f"{wanted!r} is the name of more than one: {names}. Name the id.")
    raise SubmissionError(f"There is no student {wanted!r} here. {_near(students, wanted)}")


def _near(students: Sequence[StudentInfo], wanted: str) -> str:
    also = {text: s.id for s in students for text in (s.name, s.email) if text}
    also |= {part: s.id for s in students for part in s.name.split()}
    return nearest(wanted, [student.id for student in students], also)


def _texts(student: StudentInfo) -> tuple[str, ...]:
    return student.id, student.name, student.email, *student.other_ids.values()
