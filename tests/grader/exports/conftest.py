"""Push a graded class to each kind of platform."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course.manifest import Course
from tests.grader.exports.classroom_of_push import FEW, LtiPushing, Pushing, School, scores
from tests.grader.exports.platforms import CanvasServer, LtiServer, MoodleServer, serving
from tests.grader.gradebook.conftest import SUITE


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record how long the client would wait. Nothing waits."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


@pytest.fixture
def school(tmp_path: Path, write_course: Callable[..., Course]) -> School:
    return School(write_course(tmp_path / "course", SUITE), tmp_path / "results")


@pytest.fixture
def canvas(school: School, waits: list[float]) -> Iterator[Pushing]:
    platform = CanvasServer(FEW)
    school.grade(scores(FEW))
    with serving(platform):
        yield Pushing(school, platform, "--canvas")


@pytest.fixture
def moodle(school: School, waits: list[float]) -> Iterator[Pushing]:
    platform = MoodleServer(FEW)
    school.grade(scores(FEW))
    with serving(platform):
        yield Pushing(school, platform, "--moodle")


@pytest.fixture
def lti(school: School, waits: list[float]) -> Iterator[LtiPushing]:
    platform = LtiServer(FEW)
    school.grade(scores(FEW))
    with serving(platform):
        yield LtiPushing(school, platform)


# `make test` runs only Canvas where a test asks the same of both.
MOODLE = pytest.param("moodle", marks=pytest.mark.thorough)


@pytest.fixture(params=["canvas", MOODLE, "lti"])
def push(request: pytest.FixtureRequest) -> Pushing:
    """A push to each kind of platform."""
    pushing: Pushing = request.getfixturevalue(request.param)
    return pushing


@pytest.fixture(params=["canvas", MOODLE])
def rest(request: pytest.FixtureRequest) -> Pushing:
    """A push through the interface of Canvas or Moodle, with an address and a token."""
    pushing: Pushing = request.getfixturevalue(request.param)
    return pushing
