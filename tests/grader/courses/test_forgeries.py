"""Submissions that answer what a hidden suite asks, and implement nothing, gain little, or are held.

Each was written by somebody who has read the suite and its probe; its first line says what it does.
docs/security.md has what they earned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.authoring.forgeries import MOST
from grader.course.manifest import load_course
from grader.gradebook.review import held
from grader.judge.assignment import GradingOptions
from grader.judge.preloading import modules_of
from grader.judge.process import Judge, judge_source, judges
from grader.submissions.odd_code import ordinary_in

pytestmark = pytest.mark.thorough

COURSE = load_course(Path(__file__).parents[3])
FORGERIES = sorted((Path(__file__).parent / "forgeries").glob("*/*.py"))
# What the honest part of one earns, as a share: the plain loop of checkpointed_forward, exponential_lrs (with
# training in lr_range_test), shard with the two overheads that it measures, all but the reads of a history.
HONEST = {
    "memory/hidden": 0.15,
    "lr_finder/watch": 0.1,
    "lr_finder/told": 0.31,
    "data_parallel/reports": 0.2,
    "loss_history/storage": 0.82,
}
# Those whose points a person sees first, for their source; what some of them would earn.
EARNING = {f"{exercise}/worker" for exercise in ("bug_hunt", "checkpoint", "dispatch", "profiler")}
EARNING |= {"adamw/computed", "inference/liar", "profiler/labels"}
HELD = EARNING | {"bug_hunt/modules", "clipping/alias", "mixed_precision/sometimes"}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    exercises = {path.parent.name: COURSE.exercise(path.parent.name) for path in FORGERIES}
    with judges(preload=modules_of(COURSE, tuple(exercises.values()))) as (own,):
        yield own


def reasons(path: Path) -> tuple[str, ...]:
    exercise = COURSE.exercise(path.parent.name)
    return held(path.read_bytes(), ordinary_in(exercise, COURSE.stub(exercise).source))


@pytest.mark.parametrize("path", FORGERIES, ids=name_of)
def test_what_is_held(path: Path) -> None:
    assert bool(reasons(path)) is (name_of(path) in HELD)


@pytest.mark.parametrize(
    "path", [path for path in FORGERIES if name_of(path) not in EARNING], ids=name_of
)
def test_another_forgery_gains_less_than_a_tenth(judge: Judge, path: Path) -> None:
    exercise = COURSE.exercise(path.parent.name)
    result = judge_source(judge, COURSE, exercise, path.read_bytes(), GradingOptions()).result
    gained = result.score / result.max_score - HONEST.get(name_of(path), 0.0)
    passed = [test.name for test in result.tests if test.score]
    assert round(gained, 9) < MOST, passed
