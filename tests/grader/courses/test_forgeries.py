"""Handwritten submissions that try to earn points without doing the work. See docs/security.md."""

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
# Forgeries whose points are held until a person has looked.
HELD = {f"{exercise}/worker" for exercise in ("bug_hunt", "checkpoint", "dispatch", "profiler")}
HELD |= {"adamw/computed", "bug_hunt/modules", "checkpoint/quiet", "clipping/alias"}
HELD |= {"data_parallel/reports", "inference/liar", "mixed_precision/sometimes", "profiler/labels"}


def test_what_forged_answers_earn() -> None:
    # This is one test, since judging them all is slow and would be repeated in another process.
    judged = judge_forged(COURSE, COURSE.exercises)
    answers = {f"{answer.exercise}/{answer.name}": answer for answer in judged}
    assert answers.keys() == FORGED
    assert {name for name, answer in answers.items() if answer.reasons} == HELD
    # No forgery gains a tenth of the points unless a person looks first.
    assert [answer for answer in answers.values() if not answer.holds] == []
    # An absent implementation earns nothing, held or not.
    absent = ("clipping/alias", "mixed_precision/sometimes", "bug_hunt/modules")
    assert {name: answers[name].share for name in absent} == dict.fromkeys(absent, 0)
