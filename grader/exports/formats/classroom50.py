"""Classroom 50's `result.json`, schema classroom50/result/v1.

Its points are integers, so ours are written in hundredths: 26.05 of 45 is 2605 of 4500. The scale is the same
for everybody, whether their points have a fraction or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import ExportError, NoVerdict, Options, StudentFormat
from grader.exports.texts import fitted, one_line, shortened
from grader.exports.verdicts import lines_that_count, unjudged
from grader.results import Entry, Outcome

_MOST_BYTES = 10_000_000
# What the runner of Classroom 50 gives a grader, and what cannot be made up.
_REQUIRED = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
}


def render(entry: Entry, options: Options) -> bytes:
    """The result for one submission; the identities are those of the environment."""
    if missing := unjudged(entry.result):
        raise NoVerdict(
            f"{', '.join(missing)} could not be judged, by a fault of the grader: no result.json is written, "
            "so that Classroom 50 records an error and no score."
        )
    identity = _identity(entry, options.environment)
    return fitted(lambda limit: _written(identity, entry, limit), _MOST_BYTES)


def _identity(entry: Entry, environment: Mapping[str, str]) -> dict[str, Any]:
    given = {key: environment.get(name, "").strip() for key, name in _REQUIRED.items()}
    student = entry.student
    owner = environment.get("OWNER", "").strip() or environment.get("USERNAME", "").strip()
    owner = owner or student.ids.get("github_username", "") or student.id
    if absent := [name for key, name in _REQUIRED.items() if not given[key]]:
        raise ExportError(
            f"Classroom 50 wants to know {', '.join(absent)}: its runner sets these variables; "
            "elsewhere set them by hand."
        )
    if not given["submission"].startswith("submit/"):
        raise ExportError(
            f"SUBMISSION_TAG is {given['submission']!r}, it has to begin with 'submit/'."
        )
    kind = environment.get("ASSIGNMENT_TYPE", "").strip() or "individual"
    if kind not in ("individual", "group"):
        raise ExportError(f"ASSIGNMENT_TYPE is {kind!r}, it has to be individual or group.")
    review = environment.get("REVIEW_URL", "").strip() or given["commit"]
    identity: dict[str, Any] = {**given, "assignment_type": kind, "owner": owner, "review": review}
    if actor := environment.get("GITHUB_ACTOR", "").strip():
        number = environment.get("GITHUB_ACTOR_ID", "").strip()
        is_number = number.isascii() and number.isdigit()
        identity["submitted_by"] = {"username": actor, "id": int(number) if is_number else None}
    return identity


def _written(identity: dict[str, Any], entry: Entry, limit: int) -> bytes:
    tests = [
        {
            "test-name": f"{exercise.name}: {one_line(line.test.title)}",
            "passed": line.test.outcome is Outcome.PASSED,
            "score": line.share.score,
            "max-score": line.share.max_score,
            "output": shortened(line.text, limit),
        }
        for exercise in entry.result.exercises
        for line in lines_that_count(exercise)
    ]
    result = {
        "schema": "classroom50/result/v1",
        **identity,
        # The runner puts the time of the graded commit here, whatever we write.
        "datetime": entry.submitted_at or entry.result.started_at,
        "graded_at": entry.result.started_at,
        "score": sum(test["score"] for test in tests),  # type: ignore[misc]  # they are integers
        "max-score": sum(test["max-score"] for test in tests),  # type: ignore[misc]  # they are integers
        "tests": tests,
    }
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


FORMAT = StudentFormat("Classroom 50's result.json", Audience.STUDENTS, (), ".json", render)
