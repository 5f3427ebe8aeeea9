"""GitHub Classroom's autograding-grading-reporter: one environment variable a runner.

The reporter prints passed tests / tests x max_score in its table and the sum of `score` in its annotation. They
agree only where all tests of a runner weigh the same, and ours do not. So an exercise of which a part is earned
becomes two runners: `glu` with what holds, worth what it earned, and `glu-open` with the rest. Then both
say what the result says. (No id of an exercise has a hyphen.) The reporter adds in floating point and prints
what comes out, so its points are hundredths of the grader's, and integers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import fitted, no_commands, one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, Line, is_judged, lines_that_count
from grader.results import Entry, ExerciseResult, Outcome

RUNNERS = "GRADE_RUNNERS"
# Linux starts no program with a longer variable (128 KiB with its name); base64 makes 4 bytes of 3.
_MOST_BYTES = 90_000
# And none whose variables and arguments are 2 MiB together.
_MOST_IN_ALL = 900_000

_Group = list[Line]


def render(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """Lines for GITHUB_ENV: `<ID>_RESULTS=<base64>` for each runner, and the ids in GRADE_RUNNERS."""
    exercises = entry.result.exercises
    most = min(_MOST_BYTES, _MOST_IN_ALL // max(2 * len(exercises), 1))
    runners = [runner for exercise in exercises for runner in _runners(exercise, most)]
    lines = [f"{RUNNERS}={','.join(name for name, _ in runners)}"]
    for name, results in runners:
        encoded = base64.b64encode(results).decode("ascii")
        lines.append(f"{name.upper()}_RESULTS={encoded}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _runners(exercise: ExerciseResult, most: int) -> Iterator[tuple[str, bytes]]:
    if not is_judged(exercise) or not exercise.tests:
        yield exercise.name, msgspec.json.encode(_without_verdict())
        return
    group = lines_that_count(exercise)
    passed = [line for line in group if line.test.outcome is Outcome.PASSED]
    rest = [line for line in group if line.test.outcome is not Outcome.PASSED]
    if passed and rest:
        yield exercise.name, _fitting(passed, most)
        yield f"{exercise.name}-open", _fitting(rest, most)
    else:
        yield exercise.name, _fitting(group, most)


def _without_verdict() -> dict[str, Any]:
    """Neither a point nor the loss of one: worth nothing, and an error that makes the step red."""
    test = {"name": "verdict", "status": "error", "score": 0, "message": NOT_JUDGED}
    return {"version": 1, "status": "error", "max_score": 0, "tests": [_filled(test)]}


def _fitting(group: _Group, most: int) -> bytes:
    if len(_written(group, 0)) > most:
        return msgspec.json.encode(_summed(group))
    return fitted(lambda limit: _written(group, limit), most)


def _summed(group: _Group) -> dict[str, Any]:
    """A group of too many tests as one: all of them hold, or none does."""
    first = _status(group[0].test.outcome)
    score = sum(line.share.score for line in group)
    test = {"name": f"{len(group)} tests", "status": first, "score": score, "message": ""}
    worth = sum(line.share.max_score for line in group)
    status = "pass" if first == "pass" else "fail"
    return {"version": 1, "status": status, "max_score": worth, "tests": [_filled(test)]}


def _written(group: _Group, limit: int) -> bytes:
    passed = all(line.test.outcome is Outcome.PASSED for line in group)
    return msgspec.json.encode(
        {
            "version": 1,
            "status": "pass" if passed else "fail",
            "max_score": sum(line.share.max_score for line in group),
            "tests": [_test(line, limit) for line in group],
        }
    )


def _test(line: Line, limit: int) -> dict[str, Any]:
    test, place = line.test, line.test.place
    return _filled(
        {
            "name": no_commands(one_line(test.title)),
            "status": _status(test.outcome),
            "score": line.share.score,
            # The reporter prints that of an error to the log as it is.
            "message": no_commands(shortened(line.text, limit)),
            "line_no": place.line if place else 0,
            "filename": place.file if place else "",
            "duration": test.duration_seconds,
        }
    )


def _filled(test: dict[str, Any]) -> dict[str, Any]:
    return {"test_code": "", "line_no": 0, "filename": "", "duration": 0, **test}


def _status(outcome: Outcome) -> str:
    if outcome is Outcome.PASSED:
        return "pass"
    return "error" if outcome in (Outcome.ERROR, Outcome.TIMEOUT) else "fail"


FORMAT = StudentFormat(
    "GitHub Classroom's grading reporter, lines for GITHUB_ENV", Audience.STUDENTS, ".env", render
)
