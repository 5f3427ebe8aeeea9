"""`grade audit` and `grade doctor`: their options and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import grader.audit.auditor as auditor
from grader.cli import audit as command
from grader.cli import doctor
from grader.errors import ExitCode
from grader.sandbox.walls.confinement import SYSTEM
from grader.sandbox.walls.survey import WallSurvey, walls_of
from grader.sandbox.walls.wall import Level
from tests.grader.command import invoke

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


def grade(*words: str) -> Result:
    return invoke(*words, cwd=PLAIN)


@pytest.mark.parametrize(
    ("forged_holds", "answers_hold", "code"),
    [
        (True, True, ExitCode.FULL_MARKS),
        (True, False, ExitCode.BELOW),
        (False, True, ExitCode.BELOW),
        (False, False, ExitCode.BELOW),
    ],
)
def test_forged_replies_and_forged_answers_must_both_earn_nothing(
    monkeypatch: pytest.MonkeyPatch, forged_holds: bool, answers_hold: bool, code: ExitCode
) -> None:
    judged: list[str] = []

    def forge(_: Any, chosen: Any, **__: object) -> list[str]:
        judged.extend(exercise.id for exercise in chosen)
        return []

    monkeypatch.setattr(command, "forged", forge)
    monkeypatch.setattr(command, "judge_forged", lambda *_, **__: [])
    monkeypatch.setattr(command, "show_forgeries", lambda *_: forged_holds)
    monkeypatch.setattr(command, "show_forged", lambda *_: answers_hold)
    assert grade("audit", "--forge", "greeting").exit_code == code
    assert judged == ["greeting"]


@pytest.mark.skipif(SYSTEM.NAME != "Linux", reason="the attacks are for Linux")
@pytest.mark.parametrize("missed", [True, False])
def test_an_attack_that_succeeds_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, missed: bool
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(auditor, "audit", lambda *words, **walls: asked.append((words[1], walls)))
    monkeypatch.setattr(command, "show_findings", lambda *_: ["an attack"] * missed)
    assert grade("audit", "--attack", "process_memory", "--no-walls").exit_code == missed
    assert asked == [(("process_memory",), {"walls": False, "bubblewrap": True})]
    grade("audit", "--attack", "process_memory", "--no-bubblewrap")
    assert asked[1] == (("process_memory",), {"walls": True, "bubblewrap": False})


def test_invalid_requests_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditor, "audit", lambda *_, **__: pytest.fail("it runs"))
    done = grade("audit", "greeting")
    assert done.exit_code == 2 and "An exercise is for --forge" in done.stderr
    if SYSTEM.NAME == "Linux":
        done = grade("audit", "--attack", "nothing")
        assert done.exit_code == 2 and "nothing" in done.stderr
    monkeypatch.setattr(SYSTEM, "NAME", "Plan 9")
    done = grade("audit")
    assert done.exit_code == 3 and "run the audit there" in done.stderr


@pytest.mark.parametrize(
    ("level", "code"), [("none", 0), ("limits", 0), ("kernel", 1), ("full", 1)]
)
def test_a_machine_below_the_required_level_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, level: str, code: int
) -> None:
    standing = walls_of(Level.LIMITS)
    walls = [WallSurvey(name, name in standing, "walls") for name in walls_of(Level.FULL)]
    monkeypatch.setattr(doctor, "survey", lambda: walls)
    done = grade("doctor", "--require-isolation", level)
    assert done.exit_code == code
    assert done.stdout.endswith("Isolation reaches the level: limits.\n")
    assert len(done.stdout.splitlines()) == len(walls) + 1
