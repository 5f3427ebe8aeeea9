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
        # Neither a point nor the loss of one: worth nothing, and an error that makes the step red.
        test = {"name": "verdict", "status": "error", "score": 0, "message": NOT_JUDGED}
        yield exercise.name, _encoded("error", 0, [test])
        return
    group = lines_that_count(exercise)
    passed = [line for line in group if line.test.outcome is Outcome.PASSED]
    rest = [line for line in group if line.test.outcome is not Outcome.PASSED]
    if passed and rest:
        yield exercise.name, _fitting(passed, most)
        yield f"{exercise.name}-open", _fitting(rest, most)
    else:
        yield exercise.name, _fitting(group, most)


def _fitting(group: list[Line], most: int) -> bytes:
    """The tests of a runner in so many bytes: with shorter texts, or all of them as one test."""
    scores, worths = zip(*((line.share.score, line.share.max_score) for line in group), strict=True)
    statuses = [_status(line.test.outcome) for line in group]
    status = "pass" if {*statuses} == {"pass"} else "fail"

    def written(limit: int) -> bytes:
        return _encoded(status, sum(worths), [_test(line, limit) for line in group])

    if len(written(0)) <= most:
        return fitted(written, most)
    # All of them hold, or none does.
    test = {
        "name": f"{len(group)} tests",
        "status": statuses[0],
        "score": sum(scores),
        "message": "",
    }
    return _encoded("pass" if statuses[0] == "pass" else "fail", sum(worths), [test])


def _encoded(status: str, worth: int, tests: list[dict[str, Any]]) -> bytes:
    """The results of a runner; each test gets the keys that it lacks."""
    empty = {"test_code": "", "line_no": 0, "filename": "", "duration": 0}
    tests = [{**empty, **test} for test in tests]
    return msgspec.json.encode({"version": 1, "status": status, "max_score": worth, "tests": tests})


def _test(line: Line, limit: int) -> dict[str, Any]:
    test, place = line.test, line.test.place
    return {
        "name": no_commands(one_line(test.title)),
        "status": _status(test.outcome),
        "score": line.share.score,
        # The reporter prints that of an error to the log as it is.
        "message": no_commands(shortened(line.text, limit)),
        "line_no": place.line if place else 0,
        "filename": place.file if place else "",
        "duration": test.duration_seconds,
    }


def _status(outcome: Outcome) -> str:
    if outcome is Outcome.PASSED:
        return "pass"
    return "error" if outcome in (Outcome.ERROR, Outcome.TIMEOUT) else "fail"


FORMAT = StudentFormat(
    "GitHub Classroom's grading reporter, lines for GITHUB_ENV",
    Audience.STUDENTS,
    (),
    ".env",
    render,
)
