"""Classroom 50's result.json fits its schema and the rules that no schema expresses."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from grader.exports import FORMATS
from grader.exports.files import ExportError, NoVerdict
from grader.results import Entry, Outcome, Status

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged

ENVIRONMENT = {
    "CLASSROOM": "cs-101",
    "ASSIGNMENT": "lab1",
    "SUBMISSION_TAG": "submit/2026-09-01T10-00-00Z-a1b2c3d",
    "COMMIT_URL": "https://git.example/c",
    "RELEASE_URL": "https://git.example/r",
    "REVIEW_URL": "https://git.example/v",
    "USERNAME": "ada",
    "ASSIGNMENT_TYPE": "individual",
}
TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}
MOMENT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$"}
REQUIRED = ["schema", "classroom", "assignment", "assignment_type", "owner", "submission", "commit"]
REQUIRED += ["release", "review", "datetime", "score", "max-score", "tests"]
# classroom50/result/v1, in our own words.
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": REQUIRED,
    "properties": {
        "schema": {"const": "classroom50/result/v1"},
        **dict.fromkeys(("classroom", "assignment", "owner", "commit", "release", "review"), TEXT),
        "assignment_type": {"enum": ["individual", "group"]},
        "submission": {"type": "string", "pattern": "^submit/"},
        "datetime": MOMENT,
        "graded_at": MOMENT,
        "score": COUNT,
        "max-score": COUNT,
        "submitted_by": {
            "type": "object",
            "additionalProperties": False,
            "required": ["username"],
            "properties": {"username": TEXT, "id": {"type": ["integer", "null"]}},
        },
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["test-name", "passed", "score", "max-score"],
                "properties": {
                    "test-name": TEXT,
                    "passed": {"type": "boolean"},
                    "score": COUNT,
                    "max-score": COUNT,
                },
            },
        },
    },
}


def classroom50_reads(of: Entry, **environment: str) -> dict[str, Any]:
    raw = rendered(FORMATS["classroom50"], of, environment={**ENVIRONMENT, **environment})
    assert len(raw) <= 10 * 1024 * 1024
    result: dict[str, Any] = json.loads(raw)
    jsonschema.Draft202012Validator(SCHEMA).validate(result)
    assert result["score"] <= result["max-score"]
    assert result["score"] == sum(test["score"] for test in result["tests"])
    assert result["max-score"] == sum(test["max-score"] for test in result["tests"])
    assert all(test["score"] <= test["max-score"] for test in result["tests"])
    return result


def test_points_are_in_hundredths() -> None:
    tests = (checked(), checked("b", Outcome.FAILED), checked("c", Outcome.TIMEOUT))
    read = classroom50_reads(entry(exercise(*tests, worth=20), exercise(checked(), name="gelu")))
    assert (read["score"], read["max-score"]) == (2167, 3500)
    full = classroom50_reads(entry(exercise(checked(), worth=20), exercise(checked(), name="gelu")))
    assert (full["score"], full["max-score"]) == (3500, 3500)
    assert [test["passed"] for test in read["tests"]] == [True, False, False, True]


@pytest.mark.parametrize(
    ("outcome", "more", "total"),
    [
        (Outcome.FAILED, Outcome.FAILED, (0, 2000)),
        (Outcome.PASSED, Outcome.FAILED, (2000, 2000)),
        (Outcome.FAILED, Outcome.PASSED, (1500, 2000)),
        # Classroom 50 does not allow a score above its maximum.
        (Outcome.PASSED, Outcome.PASSED, (3500, 3500)),
    ],
)
def test_extra_credit_counts_but_is_not_in_the_maximum(
    outcome: Outcome, more: Outcome, total: tuple[int, int]
) -> None:
    extra = exercise(checked(outcome=more), name="gelu", extra_credit=True)
    read = classroom50_reads(entry(exercise(checked(outcome=outcome), worth=20), extra))
    assert (read["score"], read["max-score"]) == total
    assert [test["test-name"].partition(":")[0] for test in read["tests"]] == [
        "glu",
        "gelu (extra credit)",
    ]


def test_practice_is_listed_and_worth_nothing() -> None:
    practice = exercise(checked(), name="gelu", practice=True)
    read = classroom50_reads(entry(exercise(checked(), worth=20), practice))
    assert (read["score"], read["max-score"]) == (2000, 2000)
    assert read["tests"][1]["test-name"].startswith("gelu (practice): ")
    # The score is final even without a verdict on practice.
    waiting = exercise(name="gelu", practice=True, status=Status.UNJUDGED, score=0.0)
    assert classroom50_reads(entry(exercise(checked(), worth=20), waiting))["score"] == 2000


def test_identities_come_from_the_environment() -> None:
    read = classroom50_reads(entry(student="somebody", submitted_at="2026-08-31T09:00:00Z"))
    assert (read["classroom"], read["assignment"], read["owner"]) == ("cs-101", "lab1", "ada")
    assert read["review"] == "https://git.example/v"
    assert (read["datetime"], read["graded_at"]) == ("2026-08-31T09:00:00Z", "2026-09-01T10:00:00Z")
    assert "submitted_by" not in read
    group = classroom50_reads(
        entry(),
        ASSIGNMENT_TYPE="group",
        OWNER="group-3",
        REVIEW_URL="",
        GITHUB_ACTOR="bob",
        GITHUB_ACTOR_ID="17",
    )
    assert (group["assignment_type"], group["owner"]) == ("group", "group-3")
    assert group["review"] == group["commit"]
    assert group["submitted_by"] == {"username": "bob", "id": 17}
    assert classroom50_reads(entry(), GITHUB_ACTOR="bob")["submitted_by"] == {
        "username": "bob",
        "id": None,
    }


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"CLASSROOM": " ", "COMMIT_URL": ""}, "CLASSROOM, COMMIT_URL"),
        ({"SUBMISSION_TAG": "v1"}, "submit/"),
        ({"ASSIGNMENT_TYPE": "pairs"}, "individual or group"),
    ],
)
def test_missing_and_invalid_variables_are_named(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ExportError, match=why):
        rendered(FORMATS["classroom50"], entry(), environment={**ENVIRONMENT, **changed})


def test_results_stay_below_ten_megabytes() -> None:
    tests = [checked(f"t{n}", Outcome.FAILED, message="x" * 9000) for n in range(2000)]
    read = classroom50_reads(entry(exercise(*tests)))
    assert len(read["tests"]) == 2000
    assert read["tests"][0]["output"].startswith("xxx")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_fits_the_schema(text: str) -> None:
    classroom50_reads(hostile_entry(text), GITHUB_ACTOR=text, GITHUB_ACTOR_ID=text)


def test_without_a_verdict_there_is_no_file() -> None:
    with pytest.raises(NoVerdict, match="gelu"):
        rendered(FORMATS["classroom50"], entry(unjudged()), environment=ENVIRONMENT)
