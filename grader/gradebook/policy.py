"""The policy of a class: which attempt counts, and for how many points. Nothing is judged again.

The first part has the rules, as in `policy.toml`, with an example of each key. The second part is `Policy`,
which applies them. `policy_file.py` reads the file and explains mistakes in it.

A file that is handed in again unchanged is not another attempt, and keeps its first time. A stub before the
first work is not an attempt. All durations are elapsed time: a day late is 24 hours after the due time, even if
the clocks change in between.
"""

from __future__ import annotations

import datetime
import enum
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec

from grader.errors import GraderError
from grader.gradebook.times import (
    Span,
    extended,
    instant,
    local,
    read_zone,
    span_words,
    submitted,
)
from grader.judge.scoring import lessened
from grader.results import StudentInfo
from grader.submissions.roster import is_in_group
from grader.text import counted, number, rounded
from grader.toml import Text

_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Days = Annotated[int, msgspec.Meta(ge=0, le=366)]
_NONE = datetime.timedelta()
_DAY = datetime.timedelta(days=1)


# --- the rules --------------------------------------------------------------------------------------

# Each verdict reveals a little of the hidden tests (docs/security.md).
_MAX_SUBMISSIONS = 50


class CountedAttempt(enum.Enum):
    """Which attempt counts among the attempts in time and within the limit."""

    NEWEST = "newest"
    BEST = "best"
    AVERAGE = "average"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A loss from this lateness on, until the next step."""

    after: Span
    lose: _Percent


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cost of lateness, in per cent of the earned points; without a rule, there is none."""

    grace: Span = Span()
    per_day: _Percent | None = None
    at_most: _Percent = 100.0
    steps: tuple[Step, ...] = ()
    closes: Span | None = None

    def lost(self, late: datetime.timedelta) -> float:
        """Return the loss in per cent: for each day begun, or of the last step that was passed."""
        if late <= self.grace or late <= _NONE:
            return 0.0
        if self.per_day is not None:
            return min(self.per_day * -(-late // _DAY), self.at_most)
        passed = [step.lose for step in self.steps if late > step.after]
        return passed[-1] if passed else 0.0

    def is_closed(self, late: datetime.timedelta) -> bool:
        """Whether a file this late counts for nothing."""
        return self.closes is not None and late > max(self.closes, self.grace)


class Due(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A due time of some exercises, of whole chapters, or of all; its own rules replace `[late]`.

    At most `late_days` of the budget may be used for it, by default all of them.
    """

    at: datetime.datetime
    exercises: tuple[Text, ...] = ()
    chapters: tuple[Text, ...] = ()
    late: Late | None = None
    late_days: _Days | None = None


class Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """More time for a student, several, a section or a team; for all exercises if none is named."""

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
        is_in_section = is_in_group(student.section, self.section)
        return named or is_in_section or is_in_group(student.team, self.team)


class Override(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other rules for some exercises or whole chapters; a key that is left out is as for the class."""

    exercises: tuple[Text, ...] = ()
    chapters: tuple[Text, ...] = ()
    attempts: CountedAttempt | None = None
    max_attempts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    most_submissions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cool_down: Span | None = None


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy as written in TOML.

    `late_days` is the number of days late that cost a student nothing, in total over all due times.
    """

    timezone: str = ""
    attempts: CountedAttempt = CountedAttempt.NEWEST
    max_attempts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    # Limits of `grade serve` for a student's exercise: within 24 hours, and the time between two submissions.
    most_submissions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cool_down: Span = Span()
    # How long the class is kept after its last submission, as `read_period` reads it.
    keep: str = ""
    late_days: _Days = 0
    late: Late = Late()
    due: tuple[Due, ...] = ()
    override: tuple[Override, ...] = ()
    extension: tuple[Extension, ...] = ()

    @property
    def most_in_a_day(self) -> int:
        """The limit of `most_submissions`, or its default."""
        return self.most_submissions or _MAX_SUBMISSIONS


class NamedPolicy(msgspec.Struct, frozen=True):
    """A policy that a person named instead of the course's: its file, and its rules when it was read."""

    file: str
    rules: Rules


def is_about(table: Due | Override | Extension, exercise: str, chapter: str) -> bool:
    """Whether a table applies to an exercise: it names the exercise or its chapter, or has no names at all."""
    is_all = not table.exercises and not table.chapters
    return is_all or exercise in table.exercises or chapter in table.chapters


# The keys of an override that replace the keys of the class.
OVERRIDES = tuple(key for key in Override.__struct_fields__ if key not in ("exercises", "chapters"))

# What to write, by key.
EXAMPLES = {
    "timezone": 'timezone = "Europe/Warsaw"',
    "attempts": 'attempts = "newest", "best" or "average"',
    "max_attempts": "max_attempts = 5",
    "most_submissions": "most_submissions = 20",
    "cool_down": 'cool_down = "2 minutes"',
    "keep": 'keep = "2 years"',
    "late_days": "late_days = 5",
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
    "override": '[[override]] with exercises = ["strides"] and attempts = "best" below it',
    "extension": '[[extension]] with student = "zoe" and by = "2 days" below it',
    "student": 'student = "zoe"',
    "students": 'students = ["zoe", "kim"]',
    "section": 'section = "B"',
    "team": 'team = "red"',
    "until": "until = 2026-10-15T23:59:00",
    "by": 'by = "2 days"',
    "reason": 'reason = "ill"',
}


# --- the policy ---------------------------------------------------------------------------------------


class File(msgspec.Struct, frozen=True):
    """The file for one exercise in one attempt: its time of submission, and the judge's points.

    `submitted_at` is ISO 8601 in UTC, empty if it is not known. `late` is the platform's own mark. `judged` is
    None without a verdict. Files with the same `source` are equal. An `untouched` file is still the stub or
    empty, and not an attempt.
    """

    attempt: int
    submitted_at: str
    late: bool
    judged: float | None
    source: str = ""
    untouched: bool = False


class Counted(msgspec.Struct, frozen=True):
    """The points that count for an exercise: the file to show, and a sentence for each reason.

    `late` is true if the file came after its due time, extension and grace, None if a time is not known.
    `lost` are the points that lateness cost.
    """

    file: File
    points: float
    reasons: tuple[str, ...] = ()
    late: bool | None = None
    lost: float = 0.0


class Deadline(NamedTuple):
    """The due time of an exercise for a student, in UTC.

    `until` is later than `due` by an extension, and by the `late_days` that the student used.
    """

    due: datetime.datetime
    until: datetime.datetime
    extension: Extension | None
    rules: Late
    late_days: int = 0


class Weighed(NamedTuple):
    """One file by the rules: its lateness, the loss in per cent, and the remaining points.

    These `points` are exact; `Counted` has them rounded. `late` is None if the time or the due time is not
    known, and `points` is None without a verdict. `is_closed`: handed in too late. `is_beyond`: over the
    attempt limit.
    """

    file: File
    deadline: Deadline | None
    late: datetime.timedelta | None
    lost: float
    points: float | None
    is_closed: bool
    is_beyond: bool

    @property
    def may_count(self) -> bool:
        """Whether it is within the attempts and the time that are allowed."""
        return not self.is_closed and not self.is_beyond

    @property
    def is_late(self) -> bool | None:
        """Whether it came after the due time, the extension and the grace; None if a time is not known."""
        if self.deadline is None or self.late is None:
            return None
        return self.late > self.deadline.rules.grace


class Policy(msgspec.Struct, frozen=True):
    """The rules of a class; without any, the newest attempt counts with the judge's points.

    `chapters` has the chapter of each exercise. `used` has the late days that one student used for each due
    time, by its number from 0; None before `with_late_days` has counted them. The `given` extensions are
    added to the extensions of the rules.
    """

    rules: Rules = Rules()
    chapters: Mapping[str, str] = {}
    used: Mapping[int, int] | None = None
    given: tuple[Extension, ...] = ()

    def counted(
        self, student: StudentInfo, exercise: str, worth: float, files: Sequence[File]
    ) -> Counted:
        """Return the points that count of these files (at least one, in order of submission).

        `worth` is the maximum for the exercise. If the points depend on a file without a verdict, return this
        file, without points.
        """
        weighed = self.weighed(student, exercise, files)
        open_ones = [attempt for attempt in weighed if attempt.may_count]
        if not open_ones:
            newest = weighed[-1]
            why, lost = self._why_none(newest), newest.file.judged or 0.0
            return Counted(newest.file, 0.0, (why,), newest.is_late, lost)
        if (missing := self._missing(exercise, open_ones, worth)) is not None:
            return Counted(missing.file, 0.0, late=missing.is_late)
        rule, chosen = self.rules_of(exercise).attempts, open_ones[-1]
        if rule is CountedAttempt.BEST:
            # Among equally good attempts, the newest counts.
            chosen = max(reversed(open_ones), key=lambda each: rounded(each.points or 0.0))
        points = rounded(chosen.points or 0.0)
        lost = 0.0 if rule is CountedAttempt.AVERAGE else (chosen.file.judged or 0.0) - points
        reasons = self._passed_over(exercise, weighed, chosen)
        if rule is CountedAttempt.AVERAGE and len(open_ones) > 1:
            exact = [attempt.points or 0.0 for attempt in open_ones]
            points = rounded(math.fsum(exact) / len(exact))
            reasons.append(_average_words(open_ones))
        else:
            reasons += _lateness_words(chosen, self.zone)
        if rule is CountedAttempt.BEST and len(open_ones) > 1:
            reasons.insert(0, f"The best of {len(open_ones)} attempts counts.")
        return Counted(chosen.file, points, tuple(reasons), chosen.is_late, rounded(lost))

    def needed(
        self, student: StudentInfo, exercise: str, worth: float, files: Sequence[File]
    ) -> set[int]:
        """Return the attempts that have to be judged before `counted` can tell."""
        if self.rules_of(exercise).attempts is CountedAttempt.NEWEST:
            return {self.counted(student, exercise, worth, files).file.attempt}
        weighed = self.weighed(student, exercise, files)
        open_ones = [attempt for attempt in weighed if attempt.may_count] or weighed[-1:]
        return {attempt.file.attempt for attempt in open_ones}

    def weighed(self, student: StudentInfo, exercise: str, files: Sequence[File]) -> list[Weighed]:
        """Weigh each different file by the rules, in the order in which they were last handed in."""
        turns: dict[str, int] = {}
        last: dict[str, File] = {}
        for file in attempts_at(files) or files[-1:]:
            source = file.source or str(file.attempt)
            turns.setdefault(source, len(turns) + 1)
            last.pop(source, None)
            last[source] = file
        deadline = self.deadline(student, exercise)
        # Without a limit, all of them may count.
        most = self.rules_of(exercise).max_attempts or len(turns)
        return [_weighed(file, deadline, turns[source] > most) for source, file in last.items()]

    def deadline(self, student: StudentInfo, exercise: str) -> Deadline | None:
        """Return when an exercise is due for a student; None if it never is. The latest extension holds."""
        if (table := self.due(exercise)) is None:
            return None
        due = instant(table.at, self.zone)
        until, extension = due, None
        for more in (*self.rules.extension, *self.given):
            if more.is_for(student) and is_about(more, exercise, self.chapters.get(exercise, "")):
                end = (
                    extended(due, more.by or _NONE, self.zone)
                    if more.until is None
                    else instant(more.until, self.zone)
                )
                if end > until:
                    until, extension = end, more
        days = (self.used or {}).get(self._number(table), 0)
        late = self.rules.late if table.late is None else table.late
        return Deadline(due, until + days * _DAY, extension, late, days)

    def until(self, student: StudentInfo, exercises: Iterable[str]) -> datetime.datetime | None:
        """Return when the last of these exercises is due for a student; None if none of them ever is."""
        deadlines = (self.deadline(student, exercise) for exercise in exercises)
        return max((each.until for each in deadlines if each is not None), default=None)

    def cost(self, student: StudentInfo, exercise: str, files: Sequence[File]) -> str:
        """Say how late the newest of these files is and its cost, judged or not; empty if it costs nothing.

        The policy has the late days that the student used: see `with_late_days`.
        """
        newest = self.weighed(student, exercise, files)[-1] if attempts_at(files) else None
        if newest is None or newest.deadline is None or newest.late is None:
            return ""
        deadline, days = newest.deadline, newest.deadline.late_days
        used = f"{counted(days, 'late day')} used, {self.late_days_left} left" if days else ""
        if newest.is_closed:
            return f"{span_words(newest.late)} late: too late to count"
        if newest.lost:
            lost = f"{number(newest.lost)} % of the points are lost"
            return ", ".join(filter(None, (f"{span_words(newest.late)} late: {lost}", used)))
        time = submitted(newest.file.submitted_at)
        assert time is not None, "the lateness is known"
        return f"late: {used}" if used and time > deadline.until - days * _DAY else ""

    def rules_of(self, exercise: str) -> Rules:
        """Return the rules with the overrides for an exercise; for due times see `due`."""
        if not (tables := self.overrides(exercise)):
            return self.rules
        values = msgspec.structs.asdict(tables[0])
        changed = {key: values[key] for key in OVERRIDES if values[key] is not None}
        return msgspec.structs.replace(self.rules, **changed)

    def overrides(self, exercise: str) -> list[Override]:
        """Return the overrides that name an exercise, else the overrides of its chapter."""
        chapter = self.chapters.get(exercise, "")
        by_name = [table for table in self.rules.override if exercise in table.exercises]
        return by_name or [table for table in self.rules.override if chapter in table.chapters]

    def with_late_days(self, student: StudentInfo, files: Mapping[str, Sequence[File]]) -> Policy:
        """Return the policy with the late days that a student used, by the files for each exercise.

        Days are used in the order in which files were handed in. A file uses as many as it is late, after
        extension and grace; all exercises of a due time share them. A later file takes none from an earlier
        one. No day is used if lateness costs nothing, if the file would not count even then, or for stubs of
        an exercise that the student has not begun.
        """
        used: dict[int, int] = {}
        if self.rules.late_days:
            before = msgspec.structs.replace(self, used={})
            late_files = [
                (weighed.file.submitted_at, before._number(due), due, weighed)
                for exercise, handed in files.items()
                if attempts_at(handed) and (due := before.due(exercise)) is not None
                for weighed in before.weighed(student, exercise, handed)
                if weighed.is_late and not weighed.is_beyond
            ]
            for _, number_, due, weighed in sorted(late_files, key=lambda each: each[:2]):
                most = self.rules.late_days if due.late_days is None else due.late_days
                has = used.get(number_, 0)
                left = self.rules.late_days - sum(used.values())
                if (days := _days_for(weighed, min(most, has + left))) > has:
                    used[number_] = days
        return msgspec.structs.replace(self, used=used)

    @property
    def late_days_left(self) -> int:
        """The late days that the student of `with_late_days` has left."""
        return self.rules.late_days - sum((self.used or {}).values())

    def _number(self, due: Due) -> int:
        return next(number_ for number_, each in enumerate(self.rules.due) if each is due)

    def due(self, exercise: str) -> Due | None:
        """Return the table `[[due]]` that applies to an exercise."""
        return next(iter(self.dues(exercise)), None)

    def dues(self, exercise: str) -> list[Due]:
        """Return the tables `[[due]]` that name an exercise, else those of its chapter, else those of all."""
        chapter = self.chapters.get(exercise, "")
        by_name = [due for due in self.rules.due if exercise in due.exercises]
        by_chapter = [due for due in self.rules.due if chapter in due.chapters]
        of_all = [due for due in self.rules.due if not due.exercises and not due.chapters]
        return by_name or by_chapter or of_all

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The time zone of the class, None if no time needs one."""
        return _zone(self.rules.timezone) if self.rules.timezone else None

    def _missing(self, exercise: str, open_ones: Sequence[Weighed], worth: float) -> Weighed | None:
        """Return a file without a verdict on which the points depend."""
        unjudged, rule = (
            [a for a in open_ones if a.points is None],
            self.rules_of(exercise).attempts,
        )
        if rule is CountedAttempt.NEWEST:
            unjudged = [attempt for attempt in unjudged if attempt is open_ones[-1]]
        elif rule is CountedAttempt.BEST:
            best = max(
                (attempt.points for attempt in open_ones if attempt.points is not None),
                default=-1.0,
            )
            unjudged = [
                attempt
                for attempt in unjudged
                if rounded(lessened(worth, attempt.lost)) > rounded(best)
            ]
        return unjudged[-1] if unjudged else None

    def _passed_over(self, exercise: str, weighed: Sequence[Weighed], chosen: Weighed) -> list[str]:
        """Return sentences about later files that cannot count."""
        later = weighed[weighed.index(chosen) + 1 :]
        reasons = []
        if beyond := sum(attempt.is_beyond for attempt in later):
            most = counted(self.rules_of(exercise).max_attempts or 0, "attempt")
            reasons.append(f"Only the first {most} may count, without {beyond} later.")
        if closed := [attempt for attempt in later if attempt.is_closed and not attempt.is_beyond]:
            late = span_words(closed[-1].late or _NONE)
            reasons.append(f"A newer file was handed in {late} late, too late to count.")
        return reasons

    def _why_none(self, newest: Weighed) -> str:
        """Return a sentence with the reason why none of a student's files counts."""
        if newest.deadline is None or newest.late is None or not newest.is_closed:
            # The first attempts are always within the limit: they came too late.
            return "Nothing was handed in on time."
        rules = newest.deadline.rules
        return (
            f"Handed in {span_words(newest.late)} late ({due_words(newest.deadline, self.zone)}): a file that "
            f"is more than {span_words(max(rules.closes or _NONE, rules.grace))} late does not count."
        )


def attempts_at(files: Sequence[File]) -> list[File]:
    """Return the files from the first work on; empty if a student handed in only stubs.

    A student who hands in the whole course each week begins an exercise with the first change.
    """
    return list(itertools.dropwhile(lambda file: file.untouched, files))


@functools.cache
def _zone(name: str) -> datetime.tzinfo:
    """Return a zone that was known when the policy was read; raises GraderError if it is not known here."""
    try:
        return read_zone(name)
    except ValueError as error:
        raise GraderError(f"the policy: `timezone`: {error}") from error


def _weighed(file: File, deadline: Deadline | None, is_beyond: bool) -> Weighed:
    """Return a file by its deadline; without a time or a due time, it is not late."""
    time = submitted(file.submitted_at)
    if deadline is None or time is None:
        return Weighed(file, deadline, None, 0.0, file.judged, False, is_beyond)
    late = max(time - deadline.until, _NONE)
    lost = deadline.rules.lost(late)
    points = None if file.judged is None else lessened(file.judged, lost)
    return Weighed(file, deadline, late, lost, points, deadline.rules.is_closed(late), is_beyond)


def _days_for(weighed: Weighed, most: int) -> int:
    """Return how many of at most `most` late days a late file uses: none if it would not count even then."""
    deadline, late = weighed.deadline, weighed.late
    assert deadline is not None and late is not None, "only a late file uses late days"
    rules = deadline.rules
    if not weighed.lost and not weighed.is_closed:
        return 0
    days = min(most, -(-(late - rules.grace) // _DAY))
    return 0 if rules.is_closed(late - days * _DAY) else days


def due_words(deadline: Deadline, zone: datetime.tzinfo | None) -> str:
    """Say when it is due, and until when with an extension and late days."""
    words = f"due {local(deadline.due, zone)}"
    until = deadline.until - deadline.late_days * _DAY
    if deadline.extension is not None:
        reason = f": {deadline.extension.reason}" if deadline.extension.reason else ""
        words += f"; extension until {local(until, zone)}{reason}"
    if deadline.late_days:
        days = counted(deadline.late_days, "late day")
        words += f"; {days} used, until {local(deadline.until, zone)}"
    return words


def late_words(late: Late) -> str:
    """Describe the cost of lateness: `10 % lost for each day begun; grace of 15 minutes`."""
    words = []
    if late.per_day is not None:
        most = f", at most {number(late.at_most)} %" if late.at_most < 100 else ""
        words.append(f"{number(late.per_day)} % lost for each day begun{most}")
    for step in late.steps:
        after = f"more than {span_words(step.after)} late" if step.after else "late"
        words.append(f"{number(step.lose)} % lost when {after}")
    words = words or ["lateness costs nothing"]
    if late.grace:
        words.append(f"grace of {span_words(late.grace)}")
    if late.closes is not None:
        words.append(f"closed when more than {span_words(max(late.closes, late.grace))} late")
    return "; ".join(words)


def _lateness_words(chosen: Weighed, zone: datetime.tzinfo | None) -> list[str]:
    """Return a sentence on the lateness of the file that counts, none if it came before the due time."""
    time, deadline = submitted(chosen.file.submitted_at), chosen.deadline
    # Without points, nothing can be lost.
    if deadline is None or time is None or time <= deadline.due or not chosen.file.judged:
        return []
    due = due_words(deadline, zone)
    if not chosen.late and time > (before := deadline.until - deadline.late_days * _DAY):
        return [f"Handed in {span_words(time - before)} late ({due}): nothing is lost."]
    if not chosen.late:
        return [f"Handed in on time ({due})."]
    late = f"Handed in {span_words(chosen.late)} late ({due})"
    if not chosen.is_late:
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
