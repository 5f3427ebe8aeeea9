"""The policy of a class: which attempt counts, and what of its points; no judge is asked again.

First the rules, as `policy.toml` has them, with an example of each key; then `Policy`, which decides by them.
How the file is read, and what is wrong in one, is in `policy_file.py`.

A file that was handed in again unchanged is no further attempt, and counts as handed in when it first was; a
stub before the first work is none at all. All lengths of time elapse: a day late is 24 hours after the due
time, also where the clocks change between.
"""

from __future__ import annotations

import datetime
import enum
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec

from grader.gradebook.times import (
    Span,
    extended,
    instant,
    local,
    read_zone,
    span_words,
    submitted,
)
from grader.judge.scoring import average_of, lessened, rounded
from grader.results import StudentInfo
from grader.text import counted, number
from grader.toml import Text

_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_NONE = datetime.timedelta()
_DAY = datetime.timedelta(days=1)


# --- the rules --------------------------------------------------------------------------------------


class CountedAttempt(enum.Enum):
    """Which attempt counts, of those in time and within the number that is allowed."""

    NEWEST = "newest"
    BEST = "best"
    AVERAGE = "average"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is lost from so much lateness on, until the next step."""

    after: Span
    lose: _Percent


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What lateness costs, in per cent of the points earned; nothing, without a rule."""

    grace: Span = Span()
    per_day: _Percent | None = None
    at_most: _Percent = 100.0
    steps: tuple[Step, ...] = ()
    closes: Span | None = None

    def lost(self, late: datetime.timedelta) -> float:
        """The per cent that are lost: for each day begun, or by the last step that was passed."""
        if late <= self.grace or late <= _NONE:
            return 0.0
        if self.per_day is not None:
            return min(self.per_day * -(-late // _DAY), self.at_most)
        passed = [step.lose for step in self.steps if late > step.after]
        return passed[-1] if passed else 0.0

    def is_closed(self, late: datetime.timedelta) -> bool:
        """Whether a file that late counts for nothing."""
        return self.closes is not None and late > max(self.closes, self.grace)


class Due(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A due time of some exercises, of whole chapters, or of all; rules of its own replace `[late]`."""

    at: datetime.datetime
    exercises: tuple[Text, ...] = ()
    chapters: tuple[Text, ...] = ()
    late: Late | None = None


class Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """More time, for a student, some, a section or a team; for all exercises where none is named."""

    student: str = ""
    students: tuple[Text, ...] = ()
    section: str = ""
    team: str = ""
    exercises: tuple[Text, ...] = ()
    chapters: tuple[Text, ...] = ()
    until: datetime.datetime | None = None
    by: Span | None = None
    reason: str = ""

    def is_for(self, student: StudentInfo) -> bool:
        """Whether the student has it."""
        named = student.id in (self.student, *self.students)
        groups = (("section", self.section), ("team", self.team))
        return named or any(name and student.ids.get(kind) == name for kind, name in groups)


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy as its TOML has it."""

    timezone: str = ""
    attempts: CountedAttempt = CountedAttempt.NEWEST
    max_attempts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    # What `grade serve` takes in of an exercise and a student, within 24 hours and between two submissions.
    most_submissions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cool_down: Span = Span()
    late: Late = Late()
    due: tuple[Due, ...] = ()
    extension: tuple[Extension, ...] = ()


def is_about(table: Due | Extension, exercise: str, chapter: str) -> bool:
    """Whether a table names an exercise or its chapter, or neither any exercise nor any chapter."""
    is_all = not table.exercises and not table.chapters
    return is_all or exercise in table.exercises or chapter in table.chapters


# What to write, by key; of the keys of `steps` as a whole.
EXAMPLES = {
    "timezone": 'timezone = "Europe/Warsaw"',
    "attempts": 'attempts = "newest", "best" or "average"',
    "max_attempts": "max_attempts = 5",
    "most_submissions": "most_submissions = 20",
    "cool_down": 'cool_down = "2 minutes"',
    "late": "[late] with per_day = 10 below it",
    "grace": 'grace = "15 minutes"',
    "per_day": "per_day = 10, in per cent",
    "at_most": "at_most = 50, in per cent",
    "steps": 'steps = [{after = "0 hours", lose = 10}, {after = "3 days", lose = 50}]',
    "after": 'after = "3 days"',
    "lose": "lose = 50, in per cent",
    "closes": 'closes = "7 days"',
    "due": "[[due]] with at = 2026-10-12T23:59:00 below it",
    "at": "at = 2026-10-12T23:59:00",
    "exercises": 'exercises = ["strides", "relu"]',
    "chapters": 'chapters = ["tensors"]',
    "extension": '[[extension]] with student = "zoe" and by = "2 days" below it',
    "student": 'student = "zoe"',
    "students": 'students = ["zoe", "kim"]',
    "section": 'section = "B"',
    "team": 'team = "red"',
    "until": "until = 2026-10-15T23:59:00",
    "by": 'by = "2 days"',
    "reason": 'reason = "ill"',
}


# --- what counts by them ------------------------------------------------------------------------------


class HandedIn(msgspec.Struct, frozen=True):
    """The file for one exercise in one attempt: since when it is there, and what the judge gave for it.

    `submitted_at` is ISO 8601 in UTC, empty where it is not known; `late` is what the platform said;
    `judged` is None where there is no verdict. Files of one `source` are the same one. One that is
    `untouched` is still the stub.
    """

    attempt: int
    submitted_at: str
    late: bool
    judged: float | None
    source: str = ""
    untouched: bool = False


class Counted(msgspec.Struct, frozen=True):
    """What counts for an exercise: the attempt to show, its points, and a sentence for each reason.

    `late` says whether the attempt came after its due time, its extension and the grace; None where one of
    the times is not known. So many points are `lost` by that.
    """

    attempt: int
    points: float
    reasons: tuple[str, ...] = ()
    late: bool | None = None
    lost: float = 0.0


class Deadline(NamedTuple):
    """When an exercise is due for a student, in UTC; `until` is later than `due` by an extension."""

    due: datetime.datetime
    until: datetime.datetime
    extension: Extension | None
    rules: Late


class Weighed(NamedTuple):
    """One file by the rules: how late, the per cent that it loses, why it cannot count, and its points.

    `late` is None where the time or the due time is not known. Without a verdict there are no points.
    """

    file: HandedIn
    late: datetime.timedelta | None
    lost: float
    is_closed: bool
    is_beyond: bool
    points: float | None

    @property
    def may_count(self) -> bool:
        """Whether it is within the attempts and the time that are allowed."""
        return not self.is_closed and not self.is_beyond


class Policy(msgspec.Struct, frozen=True):
    """The rules of a class; without any, the newest attempt counts for what the judge gave.

    `chapters` has the chapter of each exercise.
    """

    rules: Rules = Rules()
    chapters: Mapping[str, str] = {}

    def counted(
        self, student: StudentInfo, exercise: str, worth: float, files: Sequence[HandedIn]
    ) -> Counted:
        """What counts of these files, at least one, in the order in which they were handed in.

        `worth` are the points that there are for the exercise. Where that hangs on a file without a
        verdict, it is the attempt of that file.
        """
        weighed = self.weighed(student, exercise, files)
        deadline = self.deadline(student, exercise)
        open_ones = [attempt for attempt in weighed if attempt.may_count]
        if not open_ones:
            newest = weighed[-1]
            why = (self._why_none(newest, deadline),)
            lost = newest.file.judged or 0.0
            return Counted(newest.file.attempt, 0.0, why, _is_late(newest, deadline), lost)
        missing = self._missing(open_ones, worth)
        chosen = missing or self._chosen(open_ones)
        points = chosen.points or 0.0
        reasons = self._passed_over(weighed, chosen)
        if self.rules.attempts is CountedAttempt.AVERAGE and len(open_ones) > 1:
            points = average_of([attempt.points or 0.0 for attempt in open_ones])
            reasons.append(_average_words(open_ones))
        else:
            reasons += _lateness_words(chosen, deadline, self.zone)
        if self.rules.attempts is CountedAttempt.BEST and len(open_ones) > 1:
            reasons.insert(0, f"The best of {len(open_ones)} attempts counts.")
        words = tuple(reasons) if missing is None else ()
        is_average = self.rules.attempts is CountedAttempt.AVERAGE
        lost = 0.0 if is_average else (chosen.file.judged or 0.0) - (chosen.points or 0.0)
        return Counted(
            chosen.file.attempt, points, words, _is_late(chosen, deadline), rounded(lost)
        )

    def needed(
        self, student: StudentInfo, exercise: str, worth: float, files: Sequence[HandedIn]
    ) -> set[int]:
        """The attempts of these that have to be judged for `counted` to tell."""
        if self.rules.attempts is CountedAttempt.NEWEST:
            return {self.counted(student, exercise, worth, files).attempt}
        weighed = self.weighed(student, exercise, files)
        open_ones = [attempt for attempt in weighed if attempt.may_count] or weighed[-1:]
        return {attempt.file.attempt for attempt in open_ones}

    def weighed(
        self, student: StudentInfo, exercise: str, files: Sequence[HandedIn]
    ) -> list[Weighed]:
        """Each different file by the rules, in the order in which they were last handed in."""
        turns: dict[str, int] = {}
        last: dict[str, HandedIn] = {}
        # Who handed in a whole course week by week began with the first change.
        begun = list(itertools.dropwhile(lambda file: file.untouched, files)) or files[-1:]
        for file in begun:
            source = file.source or str(file.attempt)
            turns.setdefault(source, len(turns) + 1)
            last.pop(source, None)
            last[source] = file
        deadline = self.deadline(student, exercise)
        most = self.rules.max_attempts
        return [
            _weighed(file, deadline, is_beyond=most is not None and turns[source] > most)
            for source, file in last.items()
        ]

    def deadline(self, student: StudentInfo, exercise: str) -> Deadline | None:
        """When an exercise is due for a student; None if it never is. The latest extension holds."""
        if (set_ := self.due(exercise)) is None:
            return None
        due = instant(set_.at, self.zone)
        until, extension = due, None
        for more in self.rules.extension:
            if more.is_for(student) and is_about(more, exercise, self.chapters.get(exercise, "")):
                end = self._end(more, due)
                if end > until:
                    until, extension = end, more
        return Deadline(due, until, extension, self.rules.late if set_.late is None else set_.late)

    def due(self, exercise: str) -> Due | None:
        """The set that an exercise is due with: by its name, else its chapter's, else that of all."""
        chapter = self.chapters.get(exercise, "")
        sets = [due for due in self.rules.due if is_about(due, exercise, chapter)]
        by_name = [due for due in sets if exercise in due.exercises]
        by_chapter = [due for due in sets if chapter in due.chapters]
        return next(iter(by_name or by_chapter or sets), None)

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The time zone of the class; None where no time needs one."""
        return _zone(self.rules.timezone) if self.rules.timezone else None

    def _end(self, extension: Extension, due: datetime.datetime) -> datetime.datetime:
        if extension.until is not None:
            return instant(extension.until, self.zone)
        return extended(due, extension.by or _NONE, self.zone)

    def _chosen(self, open_ones: Sequence[Weighed]) -> Weighed:
        """The newest, or of the best the newest."""
        if self.rules.attempts is not CountedAttempt.BEST:
            return open_ones[-1]
        return max(reversed(open_ones), key=lambda attempt: attempt.points or 0.0)

    def _missing(self, open_ones: Sequence[Weighed], worth: float) -> Weighed | None:
        """A file without a verdict on which the points hang."""
        unjudged = [attempt for attempt in open_ones if attempt.points is None]
        if self.rules.attempts is CountedAttempt.NEWEST:
            unjudged = [attempt for attempt in unjudged if attempt is open_ones[-1]]
        elif self.rules.attempts is CountedAttempt.BEST:
            best = max((a.points for a in open_ones if a.points is not None), default=-1.0)
            unjudged = [attempt for attempt in unjudged if lessened(worth, attempt.lost) > best]
        return unjudged[-1] if unjudged else None

    def _passed_over(self, weighed: Sequence[Weighed], chosen: Weighed) -> list[str]:
        """Sentences about later files that cannot count."""
        later = weighed[weighed.index(chosen) + 1 :]
        reasons = []
        if beyond := sum(attempt.is_beyond for attempt in later):
            most = counted(self.rules.max_attempts or 0, "attempt")
            reasons.append(f"Only the first {most} may count: {beyond} later not.")
        if closed := [attempt for attempt in later if attempt.is_closed and not attempt.is_beyond]:
            late = span_words(closed[-1].late or _NONE)
            reasons.append(f"A newer file was handed in {late} late, too late to count.")
        return reasons

    def _why_none(self, newest: Weighed, deadline: Deadline | None) -> str:
        """A sentence on why none of a student's files counts."""
        if deadline is None or not newest.is_closed:
            # The first attempts are never beyond their number: they came too late.
            return "Nothing was handed in on time."
        closes = span_words(max(deadline.rules.closes or _NONE, deadline.rules.grace))
        return (
            f"Handed in {span_words(newest.late or _NONE)} late ({due_words(deadline, self.zone)}): "
            f"what is more than {closes} late counts for nothing."
        )


@functools.cache
def _zone(name: str) -> datetime.tzinfo:
    return read_zone(name)


def _weighed(file: HandedIn, deadline: Deadline | None, *, is_beyond: bool) -> Weighed:
    """A file by its deadline: how late it is, what that costs, and whether it is closed."""
    time = submitted(file.submitted_at)
    if deadline is None or time is None:
        return Weighed(file, None, 0.0, False, is_beyond, file.judged)
    late = max(time - deadline.until, _NONE)
    lost = deadline.rules.lost(late)
    points = None if file.judged is None else lessened(file.judged, lost)
    return Weighed(file, late, lost, deadline.rules.is_closed(late), is_beyond, points)


def _is_late(weighed: Weighed, deadline: Deadline | None) -> bool | None:
    if deadline is None or weighed.late is None:
        return None
    return weighed.late > deadline.rules.grace


def due_words(deadline: Deadline, zone: datetime.tzinfo | None) -> str:
    """When it is due, and until when by an extension."""
    words = f"due {local(deadline.due, zone)}"
    if deadline.extension is None:
        return words
    reason = f": {deadline.extension.reason}" if deadline.extension.reason else ""
    return f"{words}; extension until {local(deadline.until, zone)}{reason}"


def _lateness_words(
    chosen: Weighed, deadline: Deadline | None, zone: datetime.tzinfo | None
) -> list[str]:
    """A sentence on the lateness of what counts; none where it was handed in before the due time."""
    time = submitted(chosen.file.submitted_at)
    # Of no points nothing is lost.
    if deadline is None or time is None or time <= deadline.due or not chosen.file.judged:
        return []
    due = due_words(deadline, zone)
    if not chosen.late:
        return [f"Handed in on time ({due})."]
    late = f"Handed in {span_words(chosen.late)} late ({due})"
    if chosen.late <= deadline.rules.grace:
        return [f"{late}, within {span_words(deadline.rules.grace)} of grace."]
    cost = f"{number(chosen.lost)} % of the points are lost" if chosen.lost else "nothing is lost"
    return [f"{late}: {cost}."]


def _average_words(open_ones: Sequence[Weighed]) -> str:
    parts = []
    for attempt in open_ones:
        loss = f" after {number(attempt.lost)} % for {span_words(attempt.late or _NONE)} late"
        parts.append(number(attempt.points or 0.0) + (loss if attempt.lost else ""))
    *first, last = parts
    return f"The average of {len(parts)} attempts counts: {', '.join(first)} and {last} points."
