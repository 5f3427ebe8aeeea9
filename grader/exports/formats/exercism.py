"""exercism's `results.json`, version 3."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, change_of_points, explanation, is_judged
from grader.results import Entry, ExerciseResult, Outcome, Result, Status, TestResult

_LONGEST_OUTPUT = 500
_LONGEST_MESSAGE = 10_000
_ERRORS = (Outcome.ERROR, Outcome.TIMEOUT)


def render(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """The result; an error only if no test of any exercise ran."""
    result = entry.result
    answer: dict[str, Any] = {"version": 3, "status": _status(result)}
    if answer["status"] == "error":
        messages = [e.message if is_judged(e) else NOT_JUDGED for e in result.exercises]
        message = "\n".join(dict.fromkeys(filter(None, messages))) or "There is nothing to judge."
        answer["message"] = shortened(message, _LONGEST_MESSAGE)
        answer["tests"] = []
    else:
        answer["message"] = None
        answer["tests"] = [
            test
            for task, exercise in enumerate(result.exercises, 1)
            for test in _tests(exercise, task, alone=len(result.exercises) == 1)
        ]
    return msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n"


def _status(result: Result) -> str:
    if not any(_ran(exercise) for exercise in result.exercises):
        return "error"
    # Not by `all` tests: an exercise without a verdict is no pass.
    passed = all(exercise.status is Status.PASSED for exercise in result.exercises)
    return "pass" if passed else "fail"


def _ran(exercise: ExerciseResult) -> bool:
    """Whether any test was run: a file that is missing or cannot be read fails them all at once."""
    failed = exercise.message and all(test.outcome in _ERRORS for test in exercise.tests)
    return is_judged(exercise) and bool(exercise.tests) and not failed


def _tests(exercise: ExerciseResult, task: int, *, alone: bool) -> list[dict[str, Any]]:
    if not is_judged(exercise):
        title = f"{exercise.name}: {one_line(exercise.title)}"
        return [{"name": title, "status": "error", "message": NOT_JUDGED, "task_id": task}]
    tests = [_test(exercise, result, task, alone=alone) for result in exercise.tests]
    if tests and exercise.output.strip():
        # What was printed is known for the exercise; it is looked for at the first failure.
        first = next((test for test in tests if test["status"] != "pass"), tests[0])
        first["output"] = shortened(exercise.output, _LONGEST_OUTPUT)
    if (marked := change_of_points(exercise)) is not None:
        # No test of the code: it passes, so that it changes no status, and says what it says as output.
        title = f"{exercise.name}: {one_line(marked.title)}"
        output = shortened(marked.message or marked.title, _LONGEST_OUTPUT)
        tests.append({"name": title, "status": "pass", "output": output, "task_id": task})
    return tests


def _test(exercise: ExerciseResult, test: TestResult, task: int, *, alone: bool) -> dict[str, Any]:
    title = one_line(test.title)
    passed = test.outcome is Outcome.PASSED
    answer: dict[str, Any] = {
        "name": title if alone else f"{exercise.name}: {title}",
        "status": "pass" if passed else "error" if test.outcome in _ERRORS else "fail",
        "test_code": f"# {test.visibility.value} test {test.name}",
        "task_id": task,
    }
    if not passed:
        answer["message"] = shortened(explanation(test), _LONGEST_MESSAGE)
    return answer


FORMAT = StudentFormat("exercism's results.json, version 3", Audience.STUDENTS, ".json", render)
