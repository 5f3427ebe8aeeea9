"""The rules of a policy, as its TOML has them; `policy.py` decides by them, `policy_file.py` reads them."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated

import msgspec

from grader.gradebook.times import Span
from grader.results import StudentInfo

_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_NONE = datetime.timedelta()
_DAY = datetime.timedelta(days=1)


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
    exercises: tuple[_Text, ...] = ()
    chapters: tuple[_Text, ...] = ()
    late: Late | None = None

    def names(self, exercise: str, chapter: str) -> bool:
        """Whether it is about an exercise."""
        is_all = not self.exercises and not self.chapters
        return is_all or exercise in self.exercises or chapter in self.chapters


class Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """More time, for a student, some, a section or a team; for all exercises where none is named."""

    student: str = ""
    students: tuple[_Text, ...] = ()
    section: str = ""
    team: str = ""
    exercises: tuple[_Text, ...] = ()
    chapters: tuple[_Text, ...] = ()
    until: datetime.datetime | None = None
    by: Span | None = None
    reason: str = ""

    def is_for(self, student: StudentInfo) -> bool:
        """Whether the student has it."""
        named = student.id in (self.student, *self.students)
        groups = (("section", self.section), ("team", self.team))
        return named or any(name and student.ids.get(kind) == name for kind, name in groups)

    def names(self, exercise: str, chapter: str) -> bool:
        """Whether it is about an exercise."""
        is_all = not self.exercises and not self.chapters
        return is_all or exercise in self.exercises or chapter in self.chapters


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
