"""What a person changed of the points of a class, and what becomes of them by it.

Dropped and given tests change what the judge gave; then comes the policy; then what is added, and last the
points that are final.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from grader.judge.scoring import rounded
from grader.results import ExerciseResult


class Kind(enum.Enum):
    """What a correction does."""

    POINTS = "points"
    ADD = "add"
    DROP = "drop"
    GIVE = "give"


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """One correction: of one student or, without, of all; of a `test` where it is dropped or given.

    `judged` is what the judge gave when it was made, for one student. It holds until it is `undone_at` some
    time; times are ISO 8601 in UTC.
    """

    id: int = 0
    student: str = ""
    exercise: str
    test: str = ""
    kind: Kind
    points: float = 0.0
    reason: str = ""
    comment: str = ""
    author: str = ""
    made_at: str = ""
    judged: float | None = None
    undone_at: str = ""
    undone_by: str = ""


class Corrected(msgspec.Struct, frozen=True):
    """Points after corrections, with a sentence for each reason; `final` where a person set them."""

    points: float
    reasons: tuple[str, ...] = ()
    comment: str = ""
    final: bool = False


def rejudged(result: ExerciseResult, corrections: Sequence[Correction]) -> ExerciseResult:
    """What the judge would have given without the dropped tests, and with the given ones passed."""
    del corrections
    return result


def corrected(points: float, worth: float, corrections: Sequence[Correction]) -> Corrected:
    """The points of an exercise that is `worth` so many, after what was added and what is final."""
    reasons, final = [], False
    for correction in sorted(corrections, key=lambda each: each.kind is Kind.POINTS):
        if correction.kind is Kind.ADD:
            points += correction.points
        elif correction.kind is Kind.POINTS:
            points, final = correction.points, True
        reasons.append(correction.reason)
    comment = " ".join(each.comment for each in corrections if each.comment)
    return Corrected(rounded(min(max(points, 0.0), worth)), tuple(reasons), comment, final)
