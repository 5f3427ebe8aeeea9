"""GitHub Classroom and Classroom 50: files for their graders, with points as integers."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import ExportError, NoVerdict, Options, StudentFormat
from grader.exports.texts import fitted, no_commands, one_line, shortened
from grader.exports.verdicts import (
    Line,
    called,
    is_judged,
    lines_in_total,
    not_judged,
    unjudged,
    why_open,
)
from grader.results import Entry, ExerciseResult, Outcome

# --- GitHub Classroom's autograding-grading-reporter: one environment variable for each runner ------

# The reporter prints passed tests / tests x max_score in its table, and the sum of `score` in its annotation.
# They agree only if all tests of a runner weigh the same, which ours do not. So a partly passed exercise
# becomes two runners: `glu` with the passed tests, worth the points earned, and `glu-open` with the rest. Then
# both totals are right. (No id of an exercise has a hyphen.) The reporter adds in floating point and prints the
# sum, so its points are hundredths of ours, as integers.

RUNNERS = "GRADE_RUNNERS"
# Linux starts no program with a longer variable (128 KiB with its name); base64 makes 4 bytes of 3.
_MAX_VARIABLE_BYTES = 90_000
# Nor with more than 2 MiB of variables and arguments together.
_MAX_IN_ALL = 900_000


def reporter_lines(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """Return lines for GITHUB_ENV: `<ID>_RESULTS=<base64>` for each runner, and the ids in GRADE_RUNNERS."""
    exercises = entry.result.exercises
    most = min(_MAX_VARIABLE_BYTES, _MAX_IN_ALL // max(2 * len(exercises), 1))
    in_total = {exercise.name: group for exercise, group in lines_in_total(entry.result)}
    runners = [
        runner
        for exercise in exercises
        for runner in _runners(exercise, in_total.get(exercise.name, []), most)
    ]
    lines = [f"{RUNNERS}={','.join(name for name, _ in runners)}"]
    for name, results in runners:
        encoded = base64.b64encode(results).decode("ascii")
        lines.append(f"{name.upper()}_RESULTS={encoded}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _runners(exercise: ExerciseResult, group: list[Line], most: int) -> Iterator[tuple[str, bytes]]:
    """Yield the runners of an exercise with their results: one, or one for passed tests and one for others."""
    aside = exercise.aside
    if not is_judged(exercise) or not exercise.tests:
        # Neither earns nor loses a point: worth nothing, but an error that makes the step red.
        test = {"name": "verdict", "status": "error", "score": 0, "message": not_judged(exercise)}
        yield exercise.name, _encoded("error", 0, [test])
        return
    passed = [line for line in group if line.test.outcome is Outcome.PASSED]
    rest = [line for line in group if line.test.outcome is not Outcome.PASSED]
    if passed and rest:
        yield exercise.name, _fitting(passed, most, aside=aside)
        yield f"{exercise.name}-open", _fitting(rest, most, aside=aside)
    else:
        yield exercise.name, _fitting(group, most, aside=aside)


def _fitting(group: list[Line], most: int, *, aside: str) -> bytes:
    """Return the tests of a runner, all passed or all not, in at most `most` bytes: shortened, or as one."""
    worth = sum(line.share.max_score for line in group)
    statuses = [_status(line.test.outcome) for line in group]
    whole = "pass" if statuses[0] == "pass" else "fail"

    def document(limit: int) -> bytes:
        return _encoded(whole, worth, [_reported(line, limit, aside=aside) for line in group])

    if len(document(0)) <= most:
        return fitted(document, most)
    score = sum(line.share.score for line in group)
    name = f"{len(group)} tests{f' ({aside})' if aside else ''}"
    test = {"name": name, "status": statuses[0], "score": score, "message": ""}
    return _encoded(whole, worth, [test])


def _encoded(status: str, worth: int, tests: list[dict[str, Any]]) -> bytes:
    """Encode the results of a runner, adding missing keys to each test."""
    empty = {"test_code": "", "line_no": 0, "filename": "", "duration": 0}
    tests = [{**empty, **test} for test in tests]
    return msgspec.json.encode({"version": 1, "status": status, "max_score": worth, "tests": tests})


def _reported(line: Line, limit: int, *, aside: str) -> dict[str, Any]:
    """Return a test for the reporter; no line of its texts is a command for the log."""
    test, place = line.test, line.test.place
    return {
        "name": no_commands(one_line(test.title)) + (f" ({aside})" if aside else ""),
        "status": _status(test.outcome),
        "score": line.share.score,
        # The reporter prints the message of an error to the log unchanged.
        "message": no_commands(shortened(line.text, limit)),
        "line_no": place.line if place else 0,
        "filename": place.file if place else "",
        "duration": test.duration_seconds,
    }


def _status(outcome: Outcome) -> str:
    if outcome is Outcome.PASSED:
        return "pass"
    return "error" if outcome in (Outcome.ERROR, Outcome.TIMEOUT) else "fail"


# --- Classroom 50's `result.json`, schema classroom50/result/v1 ------------------------------------

# Its points are integers, so ours are written in hundredths: 26.05 of 45 is 2605 of 4500. The scale is the same
# for everybody, with or without fractions.

_MAX_RESULT_BYTES = 10_000_000
# Variables that the runner of Classroom 50 sets, and that cannot be made up.
_REQUIRED = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
}


def classroom50_result(entry: Entry, options: Options) -> bytes:
    """Return the result for one submission, with identities from the environment.

    Raises NoVerdict for an unjudged submission, and ExportError if an identity is missing.
    """
    if unjudged(entry.result):
        raise NoVerdict(
            f"{why_open(entry)} No result.json is written, so that Classroom 50 records an error and no score."
        )
    identity = _identity(entry, options.environment)
    return fitted(lambda limit: _result(identity, entry, limit), _MAX_RESULT_BYTES)


def _identity(entry: Entry, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the student and the work, from the runner's variables; raises ExportError if any is missing."""
    values = {key: environment.get(name, "").strip() for key, name in _REQUIRED.items()}
    student = entry.student
    owner = environment.get("OWNER", "").strip() or environment.get("USERNAME", "").strip()
    owner = owner or student.ids.get("github_username", "") or student.id
    if absent := [name for key, name in _REQUIRED.items() if not values[key]]:
        raise ExportError(
            f"Classroom 50 needs {', '.join(absent)}: its runner sets these variables; "
            "elsewhere, set them yourself."
        )
    if not values["submission"].startswith("submit/"):
        raise ExportError(
            f"SUBMISSION_TAG is {values['submission']!r}, but must begin with 'submit/'."
        )
    kind = environment.get("ASSIGNMENT_TYPE", "").strip() or "individual"
    if kind not in ("individual", "group"):
        raise ExportError(f"ASSIGNMENT_TYPE is {kind!r}, but must be individual or group.")
    review = environment.get("REVIEW_URL", "").strip() or values["commit"]
    identity: dict[str, Any] = {**values, "assignment_type": kind, "owner": owner, "review": review}
    if actor := environment.get("GITHUB_ACTOR", "").strip():
        number = environment.get("GITHUB_ACTOR_ID", "").strip()
        is_number = number.isascii() and number.isdigit()
        identity["submitted_by"] = {"username": actor, "id": int(number) if is_number else None}
    return identity


def _result(identity: dict[str, Any], entry: Entry, limit: int) -> bytes:
    """Return the file with texts of at most `limit` characters; points are hundredths."""
    tests = [
        {
            "test-name": f"{called(exercise)}: {one_line(line.test.title)}",
            "passed": line.test.outcome is Outcome.PASSED,
            "score": line.share.score,
            "max-score": line.share.max_score,
            "output": shortened(line.text, limit),
        }
        for exercise, group in lines_in_total(entry.result)
        for line in group
    ]
    result = {
        "schema": "classroom50/result/v1",
        **identity,
        # The runner replaces this by the time of the graded commit.
        "datetime": entry.submitted_at or entry.result.started_at,
        "graded_at": entry.result.started_at,
        "score": sum(test["score"] for test in tests),  # type: ignore[misc]  # they are integers
        "max-score": sum(test["max-score"] for test in tests),  # type: ignore[misc]  # they are integers
        "tests": tests,
    }
    return msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"


FORMATS = {
    "classroom": StudentFormat(
        "GitHub Classroom's grading reporter, lines for GITHUB_ENV",
        Audience.STUDENTS,
        (),
        ".env",
        reporter_lines,
    ),
    "classroom50": StudentFormat(
        "Classroom 50's result.json", Audience.STUDENTS, (), ".json", classroom50_result
    ),
}
