"""The wrong answers whose observations are put into a package or a release. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from grader.authoring import observations as module
from grader.authoring.observations import observations
from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise, load_course
from grader.course.mutants import wrong_answers
from grader.errors import JudgeError
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.recognition import ObservedMistakes
from grader.results import Outcome, Visibility
from tests.grader.builders import checked, exercise

COURSE = load_course(Path(__file__).parents[1] / "courses" / "plain")


class Judging:
    """Judges that fail every answer at once, except that `unseen` ones pass and `faults` end with a fault."""

    threads = SimpleNamespace(map=map)

    def __init__(self) -> None:
        self.begun: list[tuple[list[str], int]] = []
        self.asked: list[tuple[str, GradingOptions]] = []
        self.unseen: set[bytes] = set()
        self.faults: set[bytes] = set()

    def for_many(self, course: Course, exercises: Sequence[Exercise], jobs: int) -> Judging:
        self.begun.append(([each.id for each in exercises], jobs))
        return self

    def __enter__(self) -> Judging:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def judge(
        self, course: Course, of: Exercise, source: bytes, options: GradingOptions
    ) -> Judgment:
        self.asked.append((of.id, options))
        if source in self.faults:
            raise JudgeError("The judge ended.")
        outcome = Outcome.PASSED if source in self.unseen else Outcome.FAILED
        return Judgment(exercise(checked("test_words", outcome), name=of.id), ())


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Judging:
    judging = Judging()
    monkeypatch.setattr(module, "Judges", SimpleNamespace(for_many=judging.for_many))
    return judging


def found(*names: str, **options: Any) -> dict[str, ObservedMistakes]:
    files = observations(COURSE, [COURSE.exercise(name) for name in names], **options)
    return {name: msgspec.json.decode(data, type=ObservedMistakes) for name, data in files}


def wrong(name: str) -> dict[str, bytes]:
    return {each.id: each.source for each in wrong_answers(COURSE, COURSE.exercise(name)).answers}


def test_every_wrong_answer_is_judged_and_kept_by_exercise(
    judging: Judging,
) -> None:
    begun: list[str] = []
    kept = found("word_count", "greeting", seed=7, jobs=3, done=begun.append)
    assert begun == ["word_count", "greeting"]
    assert judging.begun == [(["word_count", "greeting"], 3)]
    assert kept.keys() == {
        "tests/observed/text/word_count.json",
        "tests/observed/text/greeting.json",
    }
    words = kept["tests/observed/text/word_count.json"]
    assert (words.seed, words.digest) == (7, exercise_digest(COURSE, COURSE.exercise("word_count")))
    assert {each.id for each in words.mistakes} == set(wrong("word_count"))
    assert {options for _, options in judging.asked} == {GradingOptions(7, tuple(Visibility))}


def test_only_the_given_suites_are_used(
    judging: Judging,
) -> None:
    # greeting has no hidden suite.
    kept = found("word_count", "greeting", suites=(Visibility.HIDDEN,), digest=lambda of: of.id)
    assert [each.digest for each in kept.values()] == ["word_count"]
    assert {(of, options.suites) for of, options in judging.asked} == {
        ("word_count", (Visibility.HIDDEN,))
    }


def test_no_judge_starts_without_a_wrong_answer(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(answers=())
    monkeypatch.setattr(module, "wrong_answers", lambda course, of: nothing)
    assert found("word_count") == {}
    assert judging.begun == []


def test_a_wrong_answer_that_passes_or_cannot_be_judged_is_left_out(
    judging: Judging,
) -> None:
    sources = wrong("word_count")
    first, second, *others = sources
    judging.faults, judging.unseen = {sources[first]}, {sources[second]}
    (kept,) = found("word_count").values()
    assert [each.id for each in kept.mistakes] == others
    judging.unseen |= set(sources.values())
    assert found("word_count") == {}, "an exercise without observations has no file"
