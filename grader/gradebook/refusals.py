"""Refusals before anything is written: a gradebook is for one course, and has every student once.

Most of a class under other ids is refused. If only a few students may be in it twice, notes name them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.results import StudentInfo
from grader.submissions import ClassDownload
from grader.submissions.people import Finder
from grader.submissions.platforms import Platform
from grader.submissions.roster import Roster
from grader.text import listed_names, names_differ


def refuse_other_course(book: Gradebook, course: Course) -> None:
    """Raise SubmissionError if the gradebook belongs to another course: points of both would add up."""
    name = book.facts.course.name
    if name and name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def refuse_other_ids(book: Gradebook, download: ClassDownload) -> None:
    """Raise SubmissionError if most of a class are in the gradebook under other ids or names.

    This happens if the earlier roster is omitted, or with Moodle's numbers, which are new in each assignment,
    and would put students into the gradebook twice. A few matches are allowed: they may be other people with
    equal numbers. `notes_on_known` names them.
    """
    advice = (
        "grade with the same --roster as before, or, if there was none, with one into a new folder."
    )
    _refuse_known(_handed_in(book), _students(download), str(book.folder), advice)


def refuse_two_ids(downloads: Sequence[ClassDownload]) -> None:
    """Raise SubmissionError if most students of a download are in an earlier one under other ids."""
    earlier: dict[str, StudentInfo] = {}
    for download in downloads:
        students = _students(download)
        advice = "grade with a --roster that has both ids."
        _refuse_known(earlier, students, "another of these downloads", advice)
        earlier |= students


def refuse_other_roster(
    registered: Iterable[StudentInfo], roster: Iterable[StudentInfo], where: str
) -> None:
    """Raise SubmissionError if a roster has most of the `registered` students under other ids."""
    before = {student.id: student for student in registered}
    students = {student.id: student for student in roster}
    advice = "use the same --roster as before, or a new folder."
    _refuse_known(before, students, where, advice)


def _refuse_known(
    registered: Mapping[str, StudentInfo],
    students: Mapping[str, StudentInfo],
    where: str,
    advice: str,
) -> None:
    """Raise SubmissionError if most students are `registered` under other ids, or their ids are others'."""
    if 2 * len(others := _other_ids(registered, students)) > len(students):
        id_, other = next(iter(others.items()))
        raise SubmissionError(
            f"{len(others)} of these {len(students)} students are in {where} under another id, such "
            f"as {id_} under {other}, and would be there twice: {advice}"
        )
    names = _other_names(registered, students)
    # One student may have a new name.
    if len(names) > 1 and 2 * len(names) > len(students):
        raise SubmissionError(
            f"{len(names)} of these {len(students)} students have the id of somebody else in {where}, such as "
            f"{names[0]}. Another site or course may use the same numbers: {advice}"
        )


def notes_on_ids(
    registered: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo], where: str
) -> Iterator[str]:
    """Yield notes on students who may be `registered` under another id, or whose id is somebody else's."""
    if others := _other_ids(registered, students):
        pairs = listed_names([f"{id_} may be {other}" for id_, other in others.items()])
        yield (
            f"Some students may be in {where} under another id, each time with a part of the points: {pairs}. "
            "If they are the same people, grade with a --roster into a new folder."
        )
    if names := _other_names(registered, students):
        yield (
            f"Some ids are in {where} under another name, so please check: {listed_names(names)}. If they are "
            "different people, grade with a --roster into a new folder."
        )


def notes_on_known(book: Gradebook, download: ClassDownload) -> list[str]:
    """Return notes on students who may be in the gradebook under another id, or whose id is somebody else's."""
    return [*notes_on_ids(_handed_in(book), _students(download), str(book.folder))]


def notes_on_two_ids(downloads: Sequence[ClassDownload]) -> Iterator[str]:
    """Yield notes on students who may be in several downloads under different ids or names."""
    earlier: dict[str, StudentInfo] = {}
    for download in downloads:
        yield from notes_on_ids(earlier, _students(download), "another of these downloads")
        earlier |= _students(download)


def _other_ids(
    registered: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo]
) -> dict[str, str]:
    """Map the new ids of students to the ids under which they are registered; each is taken once."""
    finder = Finder(Roster(registered.values()), Platform(), students.values())
    others: dict[str, str] = {}
    for id_, student in students.items():
        if id_ in registered:
            continue
        if names := _names_of(student) & registered.keys():
            others[id_] = min(names)
        elif (found := finder.find(student)) is not None:
            others[id_] = found.student.id
    uses = Counter(others.values())
    return {
        id_: other
        for id_, other in others.items()
        if uses[other] == 1 and not names_differ(students[id_].name, registered[other].name)
    }


def _other_names(
    registered: Mapping[str, StudentInfo], students: Mapping[str, StudentInfo]
) -> list[str]:
    """Return students with the id of somebody who is registered under a name without a common word."""
    return [
        f"{id_} ({student.name}, there {registered[id_].name})"
        for id_, student in students.items()
        if id_ in registered and names_differ(student.name, registered[id_].name)
    ]


def _handed_in(book: Gradebook) -> dict[str, StudentInfo]:
    counts = book.attempt_counts()
    return {student.id: student for student in book.students() if student.id in counts}


def _students(download: ClassDownload) -> dict[str, StudentInfo]:
    return {attempt.student.id: attempt.student for attempt in download.attempts}


def _names_of(student: StudentInfo) -> set[str]:
    """Return the names that another list may have for a student."""
    return {*student.other_ids.values(), student.email, student.name} - {""}
