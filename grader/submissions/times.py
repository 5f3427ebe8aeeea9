"""When something was handed in, where the download does not say: a time for all of it, or a list of times.

Nothing that a student can set is taken for it: no date of a file, an archive or a commit.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.submissions.attempt import ClassAttempt
from grader.submissions.class_list import ClassList, MoodleWorksheet, read_list, students_of
from grader.submissions.folder import listed_names
from grader.submissions.platforms import Platform
from grader.submissions.roster import Roster, in_roster
from grader.text import clean

# As Moodle writes times in English, with both of its clocks, and Gradescope.
_WRITTEN = (
    "%A, %d %B %Y, %I:%M %p",
    "%A, %d %B %Y, %H:%M",
    "%A, %B %d, %Y, %I:%M %p",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%d %H:%M:%S %z",
)
# As Moodle writes them in languages without names of months: 2026年 10月 12日(月) 13:00.
_IN_NUMBERS = re.compile(r"(\d{4})\D{1,4}(\d\d?)\D{1,4}(\d\d?)\D{1,9}(\d\d?):(\d\d)")
_DATES = re.compile(r"\d{4}[-/.]\d\d?[-/.]\d\d?")
_NONE = ("", "-")


class Times(msgspec.Struct, frozen=True):
    """When students handed in: ISO 8601 in UTC by the list's id, and `otherwise` for all other students."""

    listed: Roster
    by_id: dict[str, str]
    otherwise: str = ""

    def given(self, attempts: Iterable[ClassAttempt], platform: Platform) -> list[ClassAttempt]:
        """The attempts with their times: a list says more than the platform does, `otherwise` less."""
        return [
            msgspec.structs.replace(
                attempt,
                submitted_at=self._listed(attempt.student, platform)
                or attempt.submitted_at
                or self.otherwise,
            )
            for attempt in attempts
        ]

    def notes(self, attempts: Iterable[ClassAttempt]) -> Iterator[str]:
        """A note on those whose time is unknown."""
        if unknown := list(dict.fromkeys(a.student.id for a in attempts if not a.submitted_at)):
            yield f"It is not known when these were handed in: {listed_names(unknown)}."

    def _listed(self, student: StudentInfo, platform: Platform) -> str:
        row = in_roster(student, self.listed, platform)
        return self.by_id.get(row.id, "") if row is not None else ""


def read_times(given: str, zone: datetime.tzinfo | None = None) -> Times:
    """Read what `grade batch --times` was given: a time for all students, or the name of a CSV.

    The list has a header with a column that names the student, as a roster, and one of the time
    (`submitted_at`; Moodle's worksheet as it is); of several rows of a student the last time counts.
    A time without an offset is in `zone`.

    Raises SubmissionError for a list without times, and for a time that cannot be read.
    """
    path = Path(given)
    if not path.is_file():
        with _explained(f"--times {clean(given)!r} is no file, and"):
            return Times(Roster(()), {}, in_utc(given, zone))
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
            with _explained(f"{what}, {where}:"):
                time = in_utc(cell, zone)
        except SubmissionError as error:
            if not isinstance(given_list, MoodleWorksheet) or _DATES.search(cell):
                raise
            title = clean(given_list.sheet.header[column])
            raise SubmissionError(
                f"{error} Moodle wrote the column {title!r} in the language of your account: switch it to "
                "English and download the worksheet again, or add a column `submitted_at`."
            ) from error
        by_id[student.id] = max(by_id.get(student.id, ""), time)
    if not by_id:
        raise SubmissionError(f"{what} has no time of anybody.")
    return Times(Roster(students.values()), by_id)


def _advice(given: ClassList) -> str:
    """What to do about a worksheet of Moodle's whose dates are not found by their places."""
    if not isinstance(given, MoodleWorksheet):
        return ""
    return (
        ' Of a worksheet of Moodle\'s it is "Last modified (submission)", which is found in English, and in '
        "other languages as the first of two columns with dates."
    )


def in_utc(text: str, zone: datetime.tzinfo | None) -> str:
    """A time as it was written, as ISO 8601 in UTC; raises ValueError with the reason."""
    time = read_time(text)
    if time.tzinfo is None:
        if zone is None:
            raise ValueError(
                f"{clean(text)!r} does not say in which time zone: write it with its offset, as "
                f"{time.isoformat()}+02:00, or name a `timezone` in policy.toml."
            )
        # Of the two times that an hour has when clocks go back it is the first, in the student's favour.
        time = time.replace(tzinfo=zone)
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> datetime.datetime:
    """A time as a person or a platform writes it; raises ValueError with what to write instead.

    A date alone is refused: it may mean the first or the last moment of that day.
    """
    text = text.strip()
    day = None
    with contextlib.suppress(ValueError):
        day = datetime.date.fromisoformat(text)
    if day is not None:
        raise ValueError(
            f"{clean(text)!r} is a date without a time: write which time of that day is meant, as "
            f"{day.isoformat()}T23:59:00."
        )
    if len(_DATES.findall(text)) > 1:
        raise ValueError(
            f"{clean(text)!r} is more than one time: keep one (in a list, several rows of a student may "
            "have one each, and the last time counts)."
        )
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(text)
    for form in _WRITTEN:
        with contextlib.suppress(ValueError):
            return datetime.datetime.strptime(text, form)
    if (found := _IN_NUMBERS.fullmatch(text)) is not None:
        with contextlib.suppress(ValueError):
            return datetime.datetime(*map(int, found.groups()))  # type: ignore[arg-type]
    raise ValueError(
        f"{clean(text)!r} is not read as a time: write it as 2026-10-12T23:59:00+02:00."
    )


@contextlib.contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise SubmissionError(f"{where} {error}") from error
