"""Submissions that a person wrote to earn points without doing the work; docs/security.md says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.authoring.forgeries import judge_forged
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


def test_what_forged_answers_earn() -> None:
    # One test: judging them all takes a while, and another process would do it again.
    judged = judge_forged(COURSE, COURSE.exercises)
    answers = {f"{answer.exercise}/{answer.name}": answer for answer in judged}
    assert answers.keys() == FORGED
    assert {name for name, answer in answers.items() if answer.reasons} == HELD
    # None gains a tenth that nobody sees first.
    assert [answer for answer in answers.values() if not answer.holds] == []
    # What is absent earns nothing, held or not.
    absent = ("clipping/alias", "mixed_precision/sometimes", "bug_hunt/modules")
    assert {name: answers[name].share for name in absent} == dict.fromkeys(absent, 0)
