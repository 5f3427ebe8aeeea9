"""A verdict's key depends on the file, the course, the seed, the suites, the judging code and torch."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.gradebook import verdict_key as keys
from grader.judge.assignment import GradingOptions
from grader.results import Visibility
from grader.submissions import ExerciseFile

EXERCISE = load_course(Path(__file__).parents[3]).exercises[0]


@pytest.fixture(autouse=True)
def _fresh_digest() -> Iterator[None]:
    keys.grader_digest.cache_clear()
    yield
    keys.grader_digest.cache_clear()


def key_of(
    source: bytes = b"x = 1\n", course: str = "c", options: GradingOptions | None = None
) -> str:
    return keys.verdict_key(EXERCISE, ExerciseFile(source), course, options or GradingOptions()).key


def test_each_part_counts_and_line_ends_do_not() -> None:
    public = GradingOptions(suites=(Visibility.PUBLIC,))
    others = [key_of(b"x = 2\n"), key_of(course="d"), key_of(options=public)]
    others.append(key_of(options=GradingOptions(seed=1)))
    assert len({key_of(), *others}) == 5
    assert key_of(b"x = 1\r\n") == key_of()


def test_another_torch_or_other_judging_code_makes_another_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = key_of()
    keys.grader_digest.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(metadata, "version", {"torch": "9.9"}.__getitem__)
        assert key_of() != usual
    keys.grader_digest.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(keys, "judging_code", lambda: "other code")
        assert key_of() != usual


def test_another_release_with_the_same_judging_code_has_the_same_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = key_of()
    keys.grader_digest.cache_clear()
    monkeypatch.setattr("grader.__version__", "99.0")
    assert key_of() == usual
