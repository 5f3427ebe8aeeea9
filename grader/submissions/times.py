"""Times of submission that a download lacks: one time for all, or a list of times.

Dates that a student can set, of a file, an archive or a commit, are not used.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions.attempt import Attempt
from grader.submissions.class_list import ClassList, MoodleWorksheet, read_list, students_of
from grader.submissions.people import Finder
from grader.submissions.platforms import Platform
from grader.submissions.roster import Roster
from grader.text import clean, listed_names, utc

# Formats of Moodle in English, with both of its clocks, and of Gradescope.
_WRITTEN = (
    "%A, %d %B %Y, %I:%M %p",
    "%A, %d %B %Y, %H:%M",
    "%A, %B %d, %Y, %I:%M %p",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%d %H:%M:%S %z",
)
# The format of Moodle in languages without names of months: 2026年 10月 12日(月) 13:00.
_IN_NUMBERS = re.compile(r"(\d{4})\D{1,4}(\d\d?)\D{1,4}(\d\d?)\D{1,9}(\d\d?):(\d\d)")
_DATES = re.compile(r"\d{4}[-/.]\d\d?[-/.]\d\d?")
_NONE = ("", "-")


def time_not_known(students: Sequence[str]) -> str:
    """Return a note on students whose time of submission is not known."""
    return f"The time of submission is not known for: {listed_names(students)}."


class Times(msgspec.Struct, frozen=True):
    """Times of submission in ISO 8601 and UTC, by the list's ids, and `otherwise` for all other students.

    `what` names the list in messages.
    """

    listed: Roster
    by_id: dict[str, str]
    otherwise: str = ""
    what: str = ""

    def given(
        self, attempts: Iterable[Attempt], platform: Platform, roster: Roster | None = None
    ) -> tuple[list[Attempt], frozenset[str]]:
        """Return the attempts with their times, and the list's ids of students here or in the roster.

        The list takes precedence over the platform's time, and that over `otherwise`. The roster matches rows
        with students by any id.
        """
        rows: dict[str, list[str]] = {}
        if roster is not None:
            of_roster = Finder(roster, Platform(), self.listed.students)
            for listed in self.listed.students:
                if (found := of_roster.find(listed)) is not None:
                    rows.setdefault(found.student.id, []).append(listed.id)
        attempts = list(attempts)
        finder = Finder(self.listed, platform, [attempt.student for attempt in attempts])
        if roster is None:
            # The list may have the download's ids; but a few equal ids may be a coincidence.
            ids_here = {attempt.student.id for attempt in attempts} & self.by_id.keys()
            if 2 * len(ids_here) > len(self.by_id):
                rows = {id_: [id_] for id_ in ids_here}
        timed, matched = [], {id_ for ids in rows.values() for id_ in ids}
        for attempt in attempts:
            ids = rows.get(attempt.student.id, [])
            if not ids and (found := finder.find(attempt.student)) is not None:
                # If the roster assigns a row to another student, an equal number does not count.
                id_ = found.student.id
                ids = [id_] if id_ not in matched or roster is None else []
                matched.update(ids)
            time = max((self.by_id.get(id_, "") for id_ in ids), default="")
            time = time or attempt.submitted_at or self.otherwise
            timed.append(msgspec.structs.replace(attempt, submitted_at=time))
        return timed, frozenset(matched)

    def notes(self, attempts: Iterable[Attempt]) -> Iterator[str]:
        """Yield a note on attempts without a time."""
        if unknown := list(dict.fromkeys(a.student.id for a in attempts if not a.submitted_at)):
            yield time_not_known(unknown)

    def unmatched(self, timed: Collection[str], students: Iterable[StudentInfo]) -> Iterator[str]:
        """Yield a note on ids in the list that belong to nobody; `timed` are the other ids.

        Raises SubmissionError, with ids of both kinds, if none of them belongs to anybody.
        """
        names = [id_ for id_ in self.by_id if id_ not in timed]
        if names and len(names) == len(self.by_id):
            here = [student.id for student in students]
            raise SubmissionError(
                f"{self.what} names nobody in this class, so nobody would be late. It has the ids "
                f"{listed_names(names)}, and this class has {listed_names(here)}: give a --roster with both "
                "kinds of ids, or use this class's ids in the list."
            )
        if names:
            yield f"{self.what} names students who are not here: {listed_names(names)}."


def read_times(text: str, zone: datetime.tzinfo | None = None) -> Times:
    """Read the value of `grade batch --times`: a time for all students, or the name of a CSV.

    The list has a header, with a column that names the student, as in a roster, and a column `submitted_at`
    with the time. Moodle's worksheet can be used as it is. If a student has several rows, the last time counts.
    A time without an offset is in `zone`.

    Raises SubmissionError for a list without times, and for a time that cannot be read.
    """
    path = Path(text)
    if not path.is_file():
        with _explaining_errors(f"--times {clean(text)!r} is not a file, and"):
            return Times(Roster(()), {}, in_utc(text, zone))
    what = f"The list of times {path}"
    given_list = read_list(path, what)
    column = given_list.time_column()
    if column is None:
        raise SubmissionError(
            f"{what} has no column with times: name it `submitted_at`.{_advice(given_list)}"
        )
    students: dict[str, StudentInfo] = {}
    by_id: dict[str, str] = {}
    for at, where, student in students_of(given_list):
        students[student.id] = student
        cell = given_list.sheet.rows[at][column].strip()
        if cell in _NONE:
            continue
        try:
            with _explaining_errors(f"{what}, {where}:"):
                time = in_utc(cell, zone)
        except SubmissionError as error:
            is_worksheet = isinstance(given_list, MoodleWorksheet)
            if not is_worksheet or _DATES.search(cell) or _is_time(cell):
                raise
            title = clean(given_list.sheet.header[column])
            raise SubmissionError(
                f"{error} Moodle wrote the column {title!r} in the language of your account: switch it to "
                "English and download the worksheet again, or add a column `submitted_at`."
            ) from error
        by_id[student.id] = max(by_id.get(student.id, ""), time)
    if not by_id:
        raise SubmissionError(f"{what} has no times.")
    return Times(Roster(students.values()), by_id, what=what)


def _advice(class_list: ClassList) -> str:
    """Return advice on a worksheet of Moodle in which the column of dates was not found."""
    if not isinstance(class_list, MoodleWorksheet):
        return ""
    return (
        ' In a worksheet of Moodle, it is "Last modified (submission)", which is recognized in English, and in '
        "other languages as the first of two columns with dates."
    )


def in_utc(text: str, zone: datetime.tzinfo | None) -> str:
    """Return a written time as ISO 8601 in UTC; raises ValueError with the reason."""
    time = read_time(text)
    if time.tzinfo is None:
        if zone is None:
            raise ValueError(
                f"{clean(text)!r} has no time zone: write it with an offset, such as "
                f"{time.isoformat()}+02:00, or set `timezone` in policy.toml."
            )
        # If the hour exists twice because clocks go back, the first one counts, in the student's favor.
        time = time.replace(tzinfo=zone)
    return utc(time)


def read_time(text: str) -> datetime.datetime:
    """Read a time in a person's or a platform's notation; raises ValueError with a remedy.

    A date without a time is refused: it may mean the first or the last moment of that day.
    """
    text = text.strip()
    day = None
    with contextlib.suppress(ValueError):
        day = datetime.date.fromisoformat(text)
    if day is not None:
        raise ValueError(
            f"{clean(text)!r} is a date without a time: add the time of day, such as "
            f"{day.isoformat()}T23:59:00."
        )
    if len(_DATES.findall(text)) > 1:
        raise ValueError(
            f"{clean(text)!r} is more than one time: keep one. (A student may have several rows in a list, "
            "and the last time counts.)"
        )
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(text)
    for form in _WRITTEN:
        with contextlib.suppress(ValueError):
            return datetime.datetime.strptime(text, form)
    if (numbers := _IN_NUMBERS.fullmatch(text)) is not None:
        with contextlib.suppress(ValueError):
            return datetime.datetime(*map(int, numbers.groups()))  # type: ignore[arg-type]
    raise ValueError(
        f"{clean(text)!r} cannot be read as a time: write it as 2026-10-12T23:59:00+02:00."
    )


def _is_time(text: str) -> bool:
    """Whether a text can be read as a time, perhaps without a time zone."""
    with contextlib.suppress(ValueError, OverflowError):
        read_time(text)
        return True
    return False


@contextlib.contextmanager
def _explaining_errors(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise SubmissionError(f"{where} {error}") from error
