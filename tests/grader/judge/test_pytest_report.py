"""The report of plain pytest has the same points as the judge."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from grader.course.manifest import load_course
from grader.course.suites import tests_of as declared
from grader.judge.pytest_report import add_scores, metadata_of, report_of, scores_of
from grader.judge.scoring import score_exercise, score_test, weighed
from grader.results import Outcome, Place, Status, Visibility
from tests.grader.builders import checked, exercise, result, unjudged

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
HIDDEN = "tests/hidden/text/test_word_count.py"
PUBLIC = "tests/public/text/test_word_count.py"
VALUES = ("test_case", "test_random_texts", "test_no_words_wanted", "test_no_torch")


def ran(suite: str, outcomes: dict[str, Outcome]) -> list[dict[str, Any]]:
    """Return items of a plain pytest report, with the plugin's metadata."""
    return [
        {
            "nodeid": f"{suite}::{name}",
            "metadata": metadata_of(
                "word_count",
                checked(
                    name, outcome, visibility=Visibility(Path(suite).parents[1].name), message="So."
                ),
            ),
        }
        for name, outcome in outcomes.items()
    ]


def scored(*items: dict[str, Any], root: Path = PLAIN) -> dict[str, Any]:
    report: dict[str, Any] = {"tests": list(items)}
    add_scores(report, root)
    return report


def test_the_metadata_of_a_test_has_its_points_and_message() -> None:
    failed = checked("test_a", Outcome.FAILED, 2, place=Place("glu.py", 7, "forward"))
    assert metadata_of("glu", failed) == {
        "exercise": "glu",
        "visibility": "public",
        "result": "failed",
        "points": 0.0,
        "max_points": 2,
        "message": "It does not hold.",
        "hint": "Look again.",
        "place": {"file": "glu.py", "line": 7, "function": "forward"},
    }


def test_the_score_is_the_sum_over_exercises() -> None:
    whole = exercise(checked(), worth=10)
    half = exercise(checked(), checked("b", Outcome.FAILED), name="gelu", worth=5)
    report = scores_of(iter([whole, half]))
    assert (report["score"], report["max_score"]) == (12.5, 15)
    assert report["exercises"][1] == {
        "name": "gelu",
        "chapter": "modules",
        "title": "The title of gelu",
        "status": "partial",
        "score": 2.5,
        "max_score": 5,
    }


def test_a_whole_suite_is_scored_like_by_the_judge() -> None:
    outcomes = dict.fromkeys(VALUES, Outcome.PASSED) | {"test_case": Outcome.FAILED}
    items = ran(HIDDEN, outcomes)
    report = scored(*items)
    course = load_course(PLAIN)
    of = course.exercise("word_count")
    tests = weighed(of, declared(course, of, (Visibility.HIDDEN,)))
    alike = score_exercise(of, [score_test(t, outcomes[t.name], "So.") for t in tests])
    assert report["exercises"][0]["score"] == alike.score == 7.5
    assert report["exercises"][0]["status"] == alike.status.value == "partial"
    assert [item["metadata"]["max_points"] for item in items] == [1, 1, 1, 1]
    failed = items[0]["metadata"]
    assert (failed["points"], failed["message"], failed["result"]) == (0, "So.", "failed")
    assert failed["hint"] == "lower() comes before split()."


def test_tests_that_were_not_selected_earn_nothing() -> None:
    report = scored(*ran(HIDDEN, {"test_case": Outcome.PASSED}))
    assert (report["score"], report["max_score"]) == (2.5, 10)


def test_both_suites_count_together_if_both_ran() -> None:
    hidden = ran(HIDDEN, dict.fromkeys(VALUES, Outcome.PASSED))
    course = load_course(PLAIN)
    public = declared(course, course.exercise("word_count"), (Visibility.PUBLIC,))
    names = {test.name: Outcome.FAILED for test in public}
    report = scored(*hidden, *ran(PUBLIC, names))
    assert sum(test.points for test in public) == 3
    assert (report["score"], report["max_score"]) == (5.71, 10)


def test_public_tests_do_not_count_if_all_hidden_values_are_wrong() -> None:
    course = load_course(PLAIN)
    public = declared(course, course.exercise("word_count"), (Visibility.PUBLIC,))
    seen = ran(PUBLIC, {test.name: Outcome.PASSED for test in public})
    report = scored(*ran(HIDDEN, dict.fromkeys(VALUES, Outcome.FAILED)), *seen)
    assert (report["score"], report["exercises"][0]["status"]) == (0, "failed")
    assert {item["metadata"]["max_points"] for item in seen} == {0}
    # Without the hidden suite, as in a release, only the public tests count.
    assert scored(*ran(PUBLIC, {test.name: Outcome.PASSED for test in public}))["score"] == 10


def test_items_of_other_files_have_no_points() -> None:
    report = scored({"nodeid": "test_other.py::test_a"}, {"nodeid": "x::y", "metadata": {"a": 1}})
    assert report["exercises"] == []
    assert (report["score"], report["max_score"]) == (0, 0)
    assert report["tests"][1] == {"nodeid": "x::y", "metadata": {"a": 1}}


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (Outcome.PASSED, "passed"),
        (Outcome.SKIPPED, "skipped"),
        (Outcome.FAILED, "failed"),
        (Outcome.ERROR, "failed"),
        (Outcome.TIMEOUT, "failed"),
        (Outcome.NOT_IMPLEMENTED, "failed"),
    ],
)
def test_a_result_reads_like_a_run_of_pytest(outcome: Outcome, shown: str) -> None:
    of = exercise(
        checked("test_case", outcome, visibility=Visibility.HIDDEN, printed="hello"),
        checked("folded", visibility=Visibility.HIDDEN),
        name="word_count",
        worth=10,
    )
    report = report_of(result(of), load_course(PLAIN))
    first, folded = report["tests"]
    assert first["nodeid"] == f"{HIDDEN}::test_case"
    assert (first["outcome"], first["call"]["outcome"]) == (shown, shown)
    assert first["metadata"]["result"] == outcome.value
    assert first["call"]["stdout"] == "hello"
    source = (PLAIN / HIDDEN).read_text(encoding="utf-8").splitlines()
    assert source[first["lineno"]].startswith("def test_case")
    assert folded["nodeid"] == "text/word_count.py::folded"
    assert report["exitcode"] == (0 if shown == "passed" else 1)
    assert report["summary"]["total"] == report["summary"]["collected"] == 2
    assert (report["score"], report["max_score"]) == (of.score, 10)


def test_an_unjudged_exercise_has_no_tests() -> None:
    report = report_of(result(unjudged("greeting", 2.5)), load_course(PLAIN))
    assert report["tests"] == []
    assert report["exercises"][0]["status"] == Status.UNJUDGED.value


def test_a_submission_beside_the_course_is_found_by_its_suite(tmp_path: Path) -> None:
    shutil.copytree(PLAIN, tmp_path / "course")
    items = ran(HIDDEN, dict.fromkeys(VALUES, Outcome.PASSED))
    for item in items:
        item["nodeid"] = f"course/{item['nodeid']}"
    assert scored(*items, root=tmp_path)["score"] == 10
