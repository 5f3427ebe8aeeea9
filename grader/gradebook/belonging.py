"""Refusals before anything is written: a gradebook is that of one course, and everybody is in it once."""

from __future__ import annotations

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.results import StudentInfo
from grader.submissions import ClassDownload


def refuse_other_course(book: Gradebook, course: Course) -> None:
    """Raise SubmissionError for the gradebook of another course: the points of both would be added up."""
    if book.fact("course") and book.course.name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {book.course.name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def refuse_other_ids(book: Gradebook, download: ClassDownload) -> None:
    """Raise SubmissionError where most of a class are there under other ids, as without the roster of before.

    They would be in the gradebook twice. A few who seem to be may be others, with a like number.
    """
    counts = book.attempt_counts()
    students = {found.student.id: found.student for found in download.attempts}
    new = {name: student for name, student in students.items() if name not in counts}
    if not counts or 2 * len(new) <= len(students):
        return
    ids = {name: s.id for s in book.students() if s.id in counts for name in _names_of(s)}
    other_ids = {name: ids[name] for name in new if name in ids}
    for name, student in new.items():
        for other in _names_of(student) & set(counts):
            other_ids[name] = other
    if 2 * len(other_ids) > len(students):
        name, other = next(iter(other_ids.items()))
        raise SubmissionError(
            f"{len(other_ids)} of these {len(students)} students are in {book.folder} under another id, such "
            f"as {name} under {other}, and would be there twice: grade with the same --roster as before, "
            "or into a new folder."
        )


def _names_of(student: StudentInfo) -> set[str]:
    """Names under which another list may have a student."""
    ids = {value for kind, value in student.ids.items() if kind not in ("section", "team")}
    return {name for name in (*ids, student.email, student.name) if name}
