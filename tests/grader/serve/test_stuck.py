"""Where the class is stuck: counts of the students' newest practice runs within an hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grader.course.manifest import load_course
from grader.results import ExerciseResult, Outcome, Status
from grader.serve import stuck
from grader.serve.stuck import STUCK_SECONDS, Stuck
from tests.grader.builders import checked, exercise

COURSE = load_course(Path(__file__).parents[1] / "courses" / "plain")
WORDS, GREETING, _ = COURSE.exercises


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stuck.time, "monotonic", clock)  # type: ignore[attr-defined]
    return clock


def failed(message: str = "No bias.", name: str = "greeting", **changes: Any) -> ExerciseResult:
    tests = checked("a"), checked("b", Outcome.FAILED, message=message)
    return exercise(*tests, checked("c", Outcome.FAILED, message="Later."), name=name, **changes)


PASSED = exercise(checked(), name="greeting")
STUB = exercise(name="greeting", status=Status.NOT_ATTEMPTED, settled=True)


def rows(of: Stuck, **reach: Any) -> list[tuple[str, int, int, list[tuple[str, int]]]]:
    return [
        (
            row.exercise.id,
            row.practiced,
            row.stuck,
            [(found.message, len(found.rows)) for found in row.findings],
        )
        for row in of.rows(COURSE.exercises, **reach)
    ]


def test_students_are_counted_by_their_newest_run(clock: Clock) -> None:
    of = Stuck()
    for student in ("ada", "ben", "cy"):
        of.add(student, failed())
    of.add("ada", PASSED)
    of.add("dee", STUB)
    assert rows(of) == [("greeting", 3, 2, [("No bias.", 2)])]
    of.add("ben", PASSED)
    of.add("cy", PASSED)
    assert rows(of) == [], "nobody is stuck"


def test_a_finding_is_shown_if_it_is_first_for_two_students(clock: Clock) -> None:
    of = Stuck()
    of.add("ada", failed("Only ada's."))
    of.add("ben", failed("Only ben's."))
    assert rows(of) == [("greeting", 2, 2, [])]
    for number, message in enumerate("aabbccdd"):
        of.add(f"s{number}", failed(message))
    assert rows(of)[0][3] == [("a", 2), ("b", 2), ("c", 2)]


def test_the_exercise_with_most_students_is_first(clock: Clock) -> None:
    of = Stuck()
    of.add("ada", failed(name="word_count"))
    for student in ("ada", "ben"):
        of.add(student, failed())
    assert [name for name, *_ in rows(of)] == ["greeting", "word_count"]
    assert rows(of, reach={"ada"}) == [("word_count", 1, 1, []), ("greeting", 1, 1, [])]
    assert rows(of, reach=()) == []


def test_runs_are_forgotten_after_an_hour(clock: Clock) -> None:
    of = Stuck()
    of.add("ada", failed())
    clock.now = STUCK_SECONDS / 2
    of.add("ben", failed())
    of.add("ada", failed())
    clock.now = STUCK_SECONDS
    assert rows(of)[0][1] == 2, "ada practiced again"
    clock.now = STUCK_SECONDS * 1.5
    assert rows(of)[0][1] == 2
    clock.now += 0.1
    assert rows(of) == []


def test_the_number_of_kept_runs_is_limited(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "_MAX_KEPT", 3)
    of = Stuck()
    for student in "abcd":
        of.add(student, failed())
    assert rows(of)[0][1] == 3
    assert rows(of, reach={"a"}) == []


def test_output_is_not_kept(clock: Clock) -> None:
    of = Stuck()
    of.add("ada", failed(output="x" * 1000))
    ((_, kept),) = of._newest.values()
    assert (kept.output, [test.name for test in kept.tests]) == ("", ["b"])
