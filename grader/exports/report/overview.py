"""The class at a glance, from the tally: key figures, exercises, tests."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from grader.exports.report.tally import ExerciseTally, Tally, TestTally
from grader.results import Status

_MAX_MISTAKES = 25
# Below it a correlation is mostly chance: its standard error, 1 / sqrt(n - 3), is above 0.24.
FEWEST_STUDENTS = 20
BINS = 10
WIDTH, HEIGHT = 640, 200
_LEFT, _TOP, _BOTTOM, _GAP = 8, 30, 32, 6


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and shares over students who handed something in; shares are only over final scores.

    `absent` counts the other students. `untouched` students wrote nothing into their files, and `unusable` ones
    have no file that could be judged.
    """

    students: int
    absent: int
    final: int
    untouched: int
    unusable: int
    full: int
    mean: float | None
    median: float | None
    distribution: Histogram


class TestView:
    """One test: the number of students who attempted it, and the share who passed."""

    __test__ = False  # pytest collects classes by this prefix

    def __init__(self, tally: Tally, test: TestTally) -> None:
        self.name, self.title, self.visibility = test.name, test.title, test.visibility
        self.passed, self.attempted = sum(test.passed), len(test.passed)
        self.share = self.passed / self.attempted
        self.discrimination = discrimination(list(tally.paired(test)))


class ExerciseView:
    """One exercise, over students who attempted it and were judged; `difficulty` is 1 - mean share.

    `missing` counts students without a file, or with an empty or unreadable one.
    """

    def __init__(self, tally: Tally, exercise: ExerciseTally) -> None:
        self.name, self.title, self.chapter = exercise.name, exercise.title, exercise.chapter
        self.max_score, self.missing = exercise.max_score, exercise.missing
        self.practice = exercise.practice
        self.statuses = {status: count for status, count in exercise.statuses.items() if count}
        self.attempted = len(exercise.scores)
        passed = exercise.statuses[Status.PASSED]
        self.passed = passed / self.attempted if self.attempted else None
        self.mean = mean(exercise.scores)
        lacks_share = self.mean is None or not exercise.max_score
        self.difficulty = None if lacks_share else 1 - (self.mean or 0.0) / exercise.max_score
        self.discrimination = discrimination(list(tally.paired_exercise(exercise)))
        self.median_seconds = median(exercise.seconds)
        self.slow_seconds = quantile(exercise.seconds, 0.9)
        self.longest_seconds = max(exercise.seconds, default=None)
        self.tests = tuple(TestView(tally, test) for test in exercise.tests.values())
        self.mistakes = tuple(exercise.mistakes.common(_MAX_MISTAKES))


class ChapterView:
    """The exercises of a chapter; `mean` is the mean share of its points, over all final scores."""

    def __init__(self, tally: Tally, name: str, exercises: Sequence[ExerciseView]) -> None:
        self.name, self.exercises = name, exercises
        cells = [row.chapters[name] for row in tally.final if name in row.chapters]
        self.max_score = max((cell.max_score for cell in cells), default=0.0)
        self.mean = mean([cell.score / cell.max_score for cell in cells if cell.max_score])


def chapters(tally: Tally, exercises: Iterable[ExerciseView]) -> list[ChapterView]:
    """Return the chapters in the order of their first exercises."""
    parts: dict[str, list[ExerciseView]] = {}
    for exercise in exercises:
        parts.setdefault(exercise.chapter, []).append(exercise)
    return [ChapterView(tally, name, views) for name, views in parts.items()]


def figures(tally: Tally) -> Figures:
    """Return the key figures of the class."""
    shares = [row.share for row in tally.final]
    return Figures(
        students=sum(not row.absent for row in tally.rows),
        absent=sum(row.absent for row in tally.rows),
        final=len(shares),
        untouched=sum(row.untouched for row in tally.rows),
        unusable=sum(row.unusable for row in tally.rows),
        full=sum(share >= 1 for share in shares),
        mean=mean(shares),
        median=median(shares),
        distribution=histogram(shares),
    )


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None for no values."""
    return math.fsum(values) / len(values) if values else None


def median(values: Sequence[float]) -> float | None:
    """Return the median; None for no values."""
    return statistics.median(values) if values else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values do not exceed; None for no values."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def discrimination(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the corrected item-total correlation: an item's points against all other points.

    Each student is a pair: the points of the item, and the total without it. For an item that is either passed
    or not, this is the point-biserial correlation. None if there are too few students, or if all are alike in
    one of the two.
    """
    items, rests = [item for item, _ in pairs], [rest for _, rest in pairs]
    if len(items) < FEWEST_STUDENTS or len(set(items)) < 2 or len(set(rests)) < 2:
        return None
    return statistics.correlation(items, rests)


class Bar(msgspec.Struct, frozen=True):
    """One bar, in the units of the drawing, with its count."""

    x: float
    y: float
    width: float
    height: float
    count: int
    label: str


class Histogram(msgspec.Struct, frozen=True):
    """Bars side by side on one baseline."""

    width: int
    height: int
    baseline: float
    bars: tuple[Bar, ...]


def histogram(shares: Iterable[float]) -> Histogram:
    """Return the distribution of shares: ten bars of ten percent, the last including full marks."""
    counts = [0] * BINS
    for share in shares:
        # 0.7 of ten bins is 7.000000000000001 in one computation and less in another.
        counts[min(max(int(round(share * BINS, 6)), 0), BINS - 1)] += 1
    ends = [*(place * 10 + 9 for place in range(BINS - 1)), 100]
    return bars(counts, [f"{place * 10}\N{EN DASH}{end} %" for place, end in enumerate(ends)])


def bars(counts: Sequence[int], labels: Sequence[str]) -> Histogram:
    """Return a bar for each count, with its label."""
    pitch = (WIDTH - 2 * _LEFT) / len(counts)
    room, baseline = HEIGHT - _TOP - _BOTTOM, HEIGHT - _BOTTOM
    drawn = []
    for place, (count, label) in enumerate(zip(counts, labels, strict=True)):
        height = room * count / (max(counts) or 1)
        drawn.append(
            Bar(
                x=round(_LEFT + place * pitch + _GAP / 2, 2),
                y=round(baseline - height, 2),
                width=round(pitch - _GAP, 2),
                height=round(height, 2),
                count=count,
                label=label,
            )
        )
    return Histogram(WIDTH, HEIGHT, baseline, tuple(drawn))
