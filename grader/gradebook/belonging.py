"""Whether a gradebook belongs to the course and the class that are about to be graded into it."""

from __future__ import annotations

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.results import Student
from grader.submissions import ClassFound

__all__ = ["check_course", "check_students"]


def check_course(book: Gradebook, course: Course) -> None:
    """Refuse the gradebook of another course: the points of both would be added up, for good.

    Raises SubmissionError.
    """
    if book.fact("course") and book.course.name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {book.course.name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def check_students(book: Gradebook, found: ClassFound) -> None:
    """Refuse a class that is there under other ids, as with a roster that was left out this time.

    Everybody would be in the gradebook twice. A few who seem to be may be others, with a like number.

    Raises SubmissionError.
    """
    known = book.attempt_counts()
    students = {each.student.id: each.student for each in found.attempts}
    new = {name: student for name, student in students.items() if name not in known}
    if not known or 2 * len(new) <= len(students):
        return
    called = {name: s.id for s in book.students() if s.id in known for name in _names_of(s)}
    there = {name: called[name] for name in new if name in called}
    for name, student in new.items():
        for other in _names_of(student) & set(known):
            there[name] = other
    if 2 * len(there) > len(students):
        name, other = next(iter(there.items()))
        raise SubmissionError(
            f"{len(there)} of these {len(students)} students are in {book.folder} under another id, such "
            f"as {name} under {other}, and would be there twice: grade with the same --roster as before, "
            "or into a new folder."
        )


def _names_of(student: Student) -> set[str]:
    """What a student may be called by somebody who knows another id."""
    ids = {value for kind, value in student.ids.items() if kind != "section"}
    return {name for name in (*ids, student.email, student.name) if name}
