"""Refusals before anything is written: a gradebook is that of one course, and everybody is in it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    known = {student.id: student for student in book.students() if student.id in counts}
    advice = "grade with the same --roster as before, or into a new folder."
    _refuse_known(known, _students(download), str(book.folder), advice)


def refuse_two_ids(downloads: Sequence[ClassDownload]) -> None:
    """Raise SubmissionError where most students of a download are in an earlier one under other ids."""
    known: dict[str, StudentInfo] = {}
    for download in downloads:
        students = _students(download)
        advice = "grade with a --roster that has both ids."
        _refuse_known(known, students, "another of these downloads", advice)
        known |= students


def _refuse_known(
    known: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo], where: str, advice: str
) -> None:
    new = {id_: student for id_, student in students.items() if id_ not in known}
    if not known or 2 * len(new) <= len(students):
        return
    ids = {name: student.id for student in known.values() for name in _names_of(student)}
    other_ids = {id_: ids[id_] for id_ in new if id_ in ids}
    for id_, student in new.items():
        for other in _names_of(student) & known.keys():
            other_ids[id_] = other
    if 2 * len(other_ids) > len(students):
        id_, other = next(iter(other_ids.items()))
        raise SubmissionError(
            f"{len(other_ids)} of these {len(students)} students are in {where} under another id, such "
            f"as {id_} under {other}, and would be there twice: {advice}"
        )


def _students(download: ClassDownload) -> dict[str, StudentInfo]:
    return {found.student.id: found.student for found in download.attempts}


def _names_of(student: StudentInfo) -> set[str]:
    """Names under which another list may have a student."""
    ids = {value for kind, value in student.ids.items() if kind not in ("section", "team")}
    return {name for name in (*ids, student.email, student.name) if name}
