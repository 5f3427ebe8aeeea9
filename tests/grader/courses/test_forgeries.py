"""Submissions that a person wrote to earn points without doing the work; docs/security.md says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.authoring.forgeries import ForgedAnswer, judge_forged
from grader.course.manifest import load_course

pytestmark = pytest.mark.thorough

COURSE = load_course(Path(__file__).parents[3])
FORGED = {
    f"{exercise.id}/{path.stem}"
    for exercise in COURSE.exercises
    for path in COURSE.variants(exercise, "forged")
}
# Those whose points a person sees first.
HELD = {f"{exercise}/worker" for exercise in ("bug_hunt", "checkpoint", "dispatch", "profiler")}
HELD |= {"adamw/computed", "bug_hunt/modules", "checkpoint/quiet", "clipping/alias"}
HELD |= {"data_parallel/reports", "inference/liar", "mixed_precision/sometimes", "profiler/labels"}


@pytest.fixture(scope="module")
def answers() -> dict[str, ForgedAnswer]:
    judged = judge_forged(COURSE, COURSE.exercises)
    return {f"{answer.exercise}/{answer.name}": answer for answer in judged}


def test_each_is_judged(answers: dict[str, ForgedAnswer]) -> None:
    assert answers.keys() == FORGED


def test_what_is_held(answers: dict[str, ForgedAnswer]) -> None:
    assert {name for name, answer in answers.items() if answer.reasons} == HELD


@pytest.mark.parametrize("name", sorted(FORGED))
def test_none_gains_a_tenth_unheld(answers: dict[str, ForgedAnswer], name: str) -> None:
    assert answers[name].holds, answers[name]


@pytest.mark.parametrize(
    "name", ["clipping/alias", "mixed_precision/sometimes", "bug_hunt/modules"]
)
def test_what_is_absent_earns_nothing_held_or_not(
    answers: dict[str, ForgedAnswer], name: str
) -> None:
    assert answers[name].share == 0
