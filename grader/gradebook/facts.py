"""The facts of a gradebook: its course, its rules, how far a grading is, and notes of commands.

They are one struct, which is kept as JSON in one row. A field that a later grader adds has a default.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grader.gradebook.policy import NamedPolicy, Rules
from grader.gradebook.review import Attention
from grader.gradebook.times import Span, read_span, span_text
from grader.results import CourseInfo, Result


class AssignmentPart(msgspec.Struct, frozen=True):
    """An assignment in the gradebook of a whole course; `opens` is ISO 8601 in UTC, empty if always open."""

    title: str
    exercises: tuple[str, ...]
    opens: str = ""
    teams: bool = False
    exam: bool = False


class Remarks(msgspec.Struct, frozen=True):
    """The remarks on a file that is marked by a rubric: keys of its items, and comments."""

    keys: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()


class MarkDraft(msgspec.Struct, frozen=True):
    """A mark that is begun: the remarks so far on a file, which has this digest.

    `students` handed in the file. Earlier graders kept one draft for all equal files, without students.
    """

    exercise: str
    students: tuple[str, ...]
    digest: str
    remarks: Remarks


class ClockChange(msgspec.Struct, frozen=True):
    """The clock was set `seconds` ahead, or back if negative; `noticed_at` is a time of this clock."""

    noticed_at: str
    seconds: float


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a gradebook knows beside students, attempts and verdicts."""

    # Pseudonyms are drawn from it.
    secret: str = ""

    # The course of the last grading; `exercises` count, and `stubs` are the digests of their stubs.
    course: CourseInfo = CourseInfo("", "", "")
    title: str = ""
    exercises: tuple[str, ...] = ()
    extra_credit: tuple[str, ...] = ()
    without_hints: tuple[str, ...] = ()
    stubs: dict[str, str] = {}
    assignments: dict[str, AssignmentPart] = {}
    # The result of a student who handed in nothing.
    blank: Result | None = None

    # The exercises that `grade batch` was given; none for the whole course.
    assigned: tuple[str, ...] = ()
    assignment: str = ""
    teams: bool = False

    policy: Rules = Rules()
    named_policy: NamedPolicy | None = None

    # The number of the grading that goes on, or of the last one.
    revision: int = 0
    is_unfinished: bool = False
    # The paths of downloads that no batch has read to the end, even if another grading ended since.
    unread: tuple[str, ...] = ()
    # Whether results on the disk may differ from the points that count.
    is_stale: bool = False
    # The digest of the file of corrections from which these results were written.
    corrections: str = ""
    # Points of the students at the end of the last grading and of the one before it, if they are final.
    totals: dict[str, float] = {}
    totals_before: dict[str, float] = {}
    # The practice that these totals leave out; a grader that counted it wrote none.
    totals_without: tuple[str, ...] = ()
    attention: tuple[Attention, ...] = ()

    mark_drafts: tuple[MarkDraft, ...] = ()

    # Facts of `grade serve`.
    is_paused: bool = False
    clock: tuple[ClockChange, ...] = ()
    # The folder of the server's backups.
    backups: str = ""

    @property
    def parts(self) -> dict[str, AssignmentPart]:
        """The assignments in the gradebook of a whole course, by id; empty in an assignment's gradebook."""
        return {} if self.assignment else self.assignments

    @property
    def practice(self) -> frozenset[str]:
        """The exercises without an assignment, which no total of a term counts.

        This is empty, so all exercises count, if `grade batch` was given exercises or an assignment, if the
        course has no assignments, or if no assignment has any of these exercises.
        """
        assigned = {name for part in self.parts.values() for name in part.exercises}
        in_a_term = not self.assigned and bool(assigned & {*self.exercises})
        return frozenset(self.exercises) - assigned if in_a_term else frozenset()


def encoded(facts: Facts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts, enc_hook=_encoded).decode()


def decoded(text: str) -> Facts:
    """Read facts from JSON, even from an earlier grader; raises msgspec.DecodeError."""
    # A draft has an `exercise`, too; then there is nothing to change.
    if '"exercise":' in text or '"drafts":' in text:
        facts = msgspec.json.decode(text, type=dict[str, Any])
        facts["attention"] = split_exercises(facts.get("attention", []))
        if "drafts" in facts:
            facts["mark_drafts"] = mark_drafts(facts["drafts"])
        return msgspec.convert(facts, Facts, dec_hook=_decoded)
    return msgspec.json.decode(text, type=Facts, dec_hook=_decoded)


def split_exercises(attention: Any) -> list[dict[str, Any]]:
    """Return entries to look at with a list of exercises; earlier graders kept the names as one text.

    Raises msgspec.ValidationError.
    """
    entries = msgspec.convert(attention, list[dict[str, Any]])
    for entry in entries:
        if "exercise" in entry:
            entry["exercises"] = str(entry.pop("exercise")).split(", ")
    return entries


def mark_drafts(by_name: Any) -> tuple[MarkDraft, ...]:
    """Return the drafts of an earlier grader, which named them "EXERCISE STUDENT DIGEST" or "EXERCISE DIGEST".

    Raises msgspec.ValidationError.
    """
    drafts = []
    for name, remarks in msgspec.convert(by_name, dict[str, Remarks]).items():
        # The id of a student may have spaces.
        exercise, _, rest = name.partition(" ")
        student, _, digest = rest.rpartition(" ")
        drafts.append(MarkDraft(exercise, (student,) if student else (), digest, remarks))
    return tuple(drafts)


def _encoded(value: Any) -> str:
    if isinstance(value, Span):
        return span_text(value)
    raise NotImplementedError(f"{type(value)} in facts")


def _decoded(kind: type, value: Any) -> Any:
    if kind is Span:
        return read_span(value)
    raise NotImplementedError(f"{kind} in facts")
