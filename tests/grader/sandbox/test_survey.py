"""The doctor's list names every wall, and agrees with a sandbox."""

from __future__ import annotations

import sys

import pytest

from grader.sandbox.walls import bubblewrap, confinement, survey, table
from grader.sandbox.walls.confinement import System
from grader.sandbox.walls.survey import WallSurvey


def test_every_wall_is_named_once() -> None:
    walls = survey.survey()
    assert [wall.name for wall in walls] == ["control_group", "bubblewrap", *confinement.WALLS]
    assert all(wall.meaning for wall in walls)
    for wall in walls:
        assert wall.stands or wall.reason
        assert not wall.stands or not (wall.reason or wall.remedy)


@pytest.mark.skipif(sys.platform != "linux", reason="the walls need Linux")
def test_walls_without_requirements_hold() -> None:
    stands = {wall.name for wall in survey.survey() if wall.stands}
    assert {"process_group", "rlimits", "capabilities", "no_new_privs"} <= stands


@pytest.mark.skipif(sys.platform != "linux", reason="the walls need Linux")
def test_a_missing_bubblewrap_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap._program.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        first = survey.survey()[1]
    bubblewrap._program.cache_clear()
    assert first == WallSurvey(
        "bubblewrap",
        stands=False,
        meaning=first.meaning,
        reason="bubblewrap is not installed",
        remedy="install the package bubblewrap",
    )


def test_each_missing_wall_has_a_reason() -> None:
    for wall in table.WALLS:
        for system in (System(), *(kind() for kind in System.__subclasses__())):
            reason, _ = system.why_not(wall)
            assert reason
