"""The grading reporter, reproduced from its source, shows the right totals for our results."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.exports import FORMATS
from grader.results import Entry, Outcome, TestResult

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged

Runners = list[tuple[str, dict[str, Any]]]


def environment_of(of: Entry) -> dict[str, str]:
    """Return the variables that the Actions runner reads from GITHUB_ENV."""
    lines = rendered(FORMATS["classroom"], of).decode("ascii").splitlines()
    assert all("=" in line and "<<" not in line.partition("=")[0] for line in lines)
    return {line.partition("=")[0]: line.partition("=")[2] for line in lines}


def parse_runner_results(runners: str, environment: dict[str, str]) -> Runners:
    """`parseRunnerResults` of src/main.js."""
    found = []
    for name in (each.strip() for each in runners.split(",")):
        raw = base64.b64decode(environment[f"{name.upper()}_RESULTS"]).decode("utf-8")
        found.append((name, json.loads(raw)))
    return found


def table(runners: Runners) -> tuple[float, float]:
    """Return score and maximum: the sum of the rows of `getTestScore` in src/helpers/test-helpers.js."""
    score = 0.0
    for _, results in runners:
        passes = sum(test["status"] == "pass" for test in results["tests"])
        score += passes / len(results["tests"]) * (results["max_score"] or 0)
    return score, sum(results["max_score"] for _, results in runners)


def annotation(runners: Runners) -> tuple[float, float]:
    """Return total and maximum as `NotifyClassroom` in src/notify-classroom.js shows them."""
    total, most = 0.0, 0.0
    for _, results in runners:
        if results["max_score"]:
            most += results["max_score"]
            total += sum(test["score"] for test in results["tests"])
    return total, most


def reporter_reads(of: Entry) -> Runners:
    environment = environment_of(of)
    return parse_runner_results(environment["GRADE_RUNNERS"], environment)


WEIGHTED = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 4.0, 26.0]), st.booleans()), min_size=1, max_size=8
)


@given(st.lists(WEIGHTED, min_size=1, max_size=4))
def test_table_and_annotation_are_the_score(exercises: list[list[tuple[float, bool]]]) -> None:
    judged = [
        exercise(
            *(
                checked(f"t{n}", Outcome.PASSED if passed else Outcome.FAILED, weight)
                for n, (weight, passed) in enumerate(tests)
            ),
            name=f"e{number}",
        )
        for number, tests in enumerate(exercises)
    ]
    of = entry(*judged)
    runners = reporter_reads(of)
    # Exact in hundredths: the reporter prints its sums unrounded.
    wanted = (round(of.result.score * 100), round(of.result.max_score * 100))
    assert table(runners) == annotation(runners) == wanted
    assert all(
        f"{number:g}" == str(int(number)) for number in (*table(runners), *annotation(runners))
    )


@given(WEIGHTED, WEIGHTED, st.booleans())
def test_extra_credit_counts_but_is_not_in_the_maximum(
    needed: list[tuple[float, bool]], extra: list[tuple[float, bool]], also_unjudged: bool
) -> None:
    def tests(weights: list[tuple[float, bool]]) -> list[TestResult]:
        return [
            checked(f"t{n}", Outcome.PASSED if passed else Outcome.FAILED, weight)
            for n, (weight, passed) in enumerate(weights)
        ]

    main = exercise(*tests(needed), worth=20)
    more = exercise(*tests(extra), name="gelu", extra_credit=True)
    others = [unjudged("open")] if also_unjudged else []
    of = entry(more, main, *others)
    runners = reporter_reads(of)
    score, worth = round((main.score + more.score) * 100), 2000
    # Above full marks the maximum grows: no point is lost.
    assert table(runners) == annotation(runners) == (score, max(worth, score))
    names = [test["name"] for name, each in runners if "gelu" in name for test in each["tests"]]
    assert all(name.endswith("(extra credit)") for name in names)
    # If nothing else was graded, it counts as the maximum.
    alone = reporter_reads(entry(more))
    assert table(alone) == annotation(alone) == (round(more.score * 100), 1500)


def test_practice_is_worth_nothing_and_is_named_as_practice() -> None:
    tests = (checked(), checked("b", Outcome.FAILED))
    runners = reporter_reads(
        entry(exercise(*tests, worth=20), exercise(*tests, name="gelu", practice=True))
    )
    assert table(runners) == annotation(runners) == (1000, 2000)
    names = [test["name"] for name, each in runners if "gelu" in name for test in each["tests"]]
    assert len(names) == 2 and all(name.endswith("(practice)") for name in names)


def test_results_have_the_fields_that_the_reporter_needs() -> None:
    failed = checked("b", Outcome.FAILED, 3)
    runners = dict(reporter_reads(entry(exercise(checked(), failed, checked("c", Outcome.ERROR)))))
    assert {name: each["status"] for name, each in runners.items()} == {
        "glu": "pass",
        "glu-open": "fail",
    }
    assert [test["status"] for test in runners["glu-open"]["tests"]] == ["fail", "error"]
    for results in runners.values():
        assert results["version"] == 1
        for test in results["tests"]:
            assert set(test) == {"name", "status", "score", "message", "test_code", "line_no"} | {
                "filename",
                "duration",
            }
            assert isinstance(test["score"], int | float)
    broken = runners["glu-open"]["tests"][0]
    assert (broken["line_no"], broken["filename"]) == (7, "modules/glu.py")
    assert "It does not hold." in broken["message"]


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED])
def test_all_or_nothing_is_one_runner(outcome: Outcome) -> None:
    runners = reporter_reads(entry(exercise(checked(outcome=outcome), checked("b", outcome, 9))))
    assert [name for name, _ in runners] == ["glu"]


def test_an_unjudged_exercise_is_an_error_without_points() -> None:
    runners = reporter_reads(entry(exercise(checked()), unjudged()))
    assert [each["status"] for _, each in runners] == ["pass", "error"]
    assert annotation(runners) == (1500, 1500)
    assert all(test["status"] == "error" for test in runners[1][1]["tests"])


def test_text_that_the_reporter_prints_is_not_a_command() -> None:
    text = "Error.\n::add-mask::a\n  ::error::b\nc ##[add-mask]d :: e::f"
    failed = checked("b", Outcome.ERROR, title=text, message=text, hint="")
    ((_, results),) = reporter_reads(entry(exercise(failed)))
    for printed in (f"Error: {results['tests'][0]['message']}", results["tests"][0]["name"]):
        assert not any(line.lstrip().startswith("::") for line in printed.splitlines())
        assert "##[" not in printed
        assert "d :: e::f" in printed


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_adds_a_line_to_the_environment(text: str) -> None:
    environment = environment_of(hostile_entry(text))
    assert set(environment) == {"GRADE_RUNNERS", "GLU_RESULTS", "GLU-OPEN_RESULTS", "GELU_RESULTS"}


def test_too_many_tests_become_one() -> None:
    passed = [checked(f"t{n}", title="x" * 300) for n in range(400)]
    failed = [checked(f"u{n}", Outcome.FAILED, title="x" * 300) for n in range(400)]
    runners = reporter_reads(entry(exercise(*passed, *failed)))
    assert [len(each["tests"]) for _, each in runners] == [1, 1]
    assert table(runners) == annotation(runners) == (750, 1500)


def test_a_program_starts_with_the_longest_results() -> None:
    tests = [checked(f"t{n}", Outcome.FAILED, message="ø€𝄞" * 500) for n in range(200)]
    others = [exercise(*tests, name=f"e{n}") for n in range(20)]
    environment = environment_of(entry(exercise(*tests), *others))
    assert all(len(f"{name}={value}") < 128 * 1024 for name, value in environment.items())
    assert sum(len(name) + len(value) for name, value in environment.items()) < 1_500_000
    assert annotation(parse_runner_results(environment["GRADE_RUNNERS"], environment)) == (0, 31500)
    command = [sys.executable, "-c", "import os; print(len(os.environ['GLU_RESULTS']))"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == len(environment["GLU_RESULTS"])
