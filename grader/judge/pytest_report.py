"""Reports in the format of pytest-json-report, with points: of a run of plain pytest, or of a result.

The `metadata` of each test has its points and its message, and the report has the scores of `exercises`. The
rest is as the plugin writes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from grader.course.manifest import Course, load_course
from grader.course.suite import SuiteTest
from grader.course.suites import tests_of
from grader.judge.scoring import score_exercise, score_test, sum_of, weighed, without_unfounded
from grader.results import ExerciseResult, Outcome, Place, Result, TestResult, Visibility


def metadata_of(exercise: str, test: TestResult) -> dict[str, Any]:
    """Return the metadata of a test: its points, message, hint and place."""
    return {
        "exercise": exercise,
        "visibility": test.visibility.value,
        "result": test.outcome.value,
        "points": test.score,
        "max_points": test.max_score,
        "message": test.message,
        "hint": test.hint,
        "place": msgspec.to_builtins(test.place),
    }


def report_of(result: Result, course: Course) -> dict[str, Any]:
    """Return the report of a result, as if plain pytest had run the same suites on the same submission."""
    from pytest import TestReport  # noqa: PT013 (no fixture)
    from pytest_jsonreport import serialize  # type: ignore[import-untyped]

    items = {}
    for exercise in result.exercises:
        lines = _lines(course, exercise)
        # Hidden tests may be folded into one test, which is in no suite.
        nowhere = (course.exercise(exercise.name).file, 1)
        for test in exercise.tests:
            file, line = lines.get((test.visibility, test.name), nowhere)
            item = serialize.make_testitem(f"{file}::{test.name}", None, (file, line, test.name))
            item["metadata"] = metadata_of(exercise.name, test)
            outcome = _outcome(test)
            if outcome != "passed":
                item["outcome"] = outcome
            stage = TestReport(
                nodeid=item["nodeid"],
                location=(file, line, test.name),
                keywords={},
                outcome=outcome,
                longrepr=test.message or None,
                when="call",
                duration=test.duration_seconds,
            )
            item["call"] = serialize.make_teststage(stage, test.printed, None, None, True)
            items[item["nodeid"]] = item
    report = serialize.make_report(
        created=time.time(),
        duration=result.duration_seconds,
        exitcode=int(any(item["outcome"] != "passed" for item in items.values())),
        root=str(course.root),
        environment=msgspec.to_builtins(result.environment),
        summary=serialize.make_summary(items, collected=len(items)),
    )
    return {**report, "tests": list(items.values()), **scores_of(result.exercises)}


def _outcome(test: TestResult) -> Literal["passed", "failed", "skipped"]:
    match test.outcome:
        case Outcome.PASSED:
            return "passed"
        case Outcome.SKIPPED:
            return "skipped"
        case _:
            return "failed"


def scores_of(exercises: Iterable[ExerciseResult]) -> dict[str, Any]:
    """Return the scores of exercises, and their total."""
    results = list(exercises)
    score, max_score = sum_of(results)
    keys = ("name", "chapter", "title", "status", "score", "max_score")
    return {
        "exercises": [
            {key: msgspec.to_builtins(getattr(result, key)) for key in keys} for result in results
        ],
        "score": score,
        "max_score": max_score,
    }


def add_scores(report: dict[str, Any], root: Path) -> None:
    """Weigh the tests of plain pytest's report by their metadata, and add the scores.

    If any test of a suite ran, the whole suite counts: deselected tests earn nothing.
    """
    suites: dict[Path, list[dict[str, Any]]] = {}
    for item in report.get("tests", []):
        if "exercise" in item.get("metadata", {}):
            suites.setdefault(root / item["nodeid"].partition("::")[0], []).append(item)
    by_exercise: dict[tuple[Path, str], list[dict[str, Any]]] = {}
    courses: dict[Path, Course] = {}
    for path, items in suites.items():
        course = load_course(path.parent)
        courses[course.root] = course
        for item in items:
            key = course.root, item["metadata"]["exercise"]
            by_exercise.setdefault(key, []).append(item)
    results = [
        _scored(courses[folder], name, items) for (folder, name), items in by_exercise.items()
    ]
    report.update(scores_of(results))


def _scored(course: Course, name: str, items: list[dict[str, Any]]) -> ExerciseResult:
    """Return the result of an exercise, and write points into its items."""
    exercise = course.exercise(name)
    ran = {
        (Visibility(item["metadata"]["visibility"]), item["nodeid"].rpartition("::")[2]): item[
            "metadata"
        ]
        for item in items
    }
    visibilities = tuple(v for v in Visibility if any(key[0] is v for key in ran))
    own = weighed(exercise, tests_of(course, exercise, visibilities))
    tests = without_unfounded(
        own, [_weighed(test, ran.get((test.visibility, test.name))) for test in own]
    )
    for test in tests:
        if (metadata := ran.get((test.visibility, test.name))) is not None:
            metadata.update(metadata_of(name, test))
    return score_exercise(exercise, tests)


def _weighed(test: SuiteTest, metadata: dict[str, Any] | None) -> TestResult:
    """Return the result of a test from its metadata, or as not run."""
    if metadata is None:
        return score_test(test, Outcome.SKIPPED, "Not run.")
    place = msgspec.convert(metadata["place"], Place | None)
    return score_test(test, Outcome(metadata["result"]), metadata["message"], place)


def _lines(course: Course, result: ExerciseResult) -> dict[tuple[Visibility, str], tuple[str, int]]:
    """Map each test to its suite and line, counted from 0 as pytest does."""
    exercise = course.exercise(result.name)
    suites = course.suites(exercise)
    return {
        (test.visibility, test.name): (
            suites[test.visibility].relative_to(course.root).as_posix(),
            test.line - 1,
        )
        for test in tests_of(course, exercise, tuple(suites))
    }
