"""The `results.json` of an autograder, for Gradescope and for PrairieLearn."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import NoVerdict, Options, StudentFormat
from grader.exports.texts import fitted, one_line, shortened
from grader.exports.verdicts import (
    TOTAL_LINE,
    Line,
    called,
    is_judged,
    lines,
    not_judged,
    unjudged,
    why_open,
)
from grader.judge.scoring import hundredths, total_words
from grader.results import Entry, ExerciseResult, Outcome, Result, Visibility
from grader.student.blocks import remarks
from grader.text import counted, number

# --- Gradescope, as an autograder writes it to /autograder/results ---------------------------------

# Students see the output of public tests at once, and the output of hidden ones when grades are published.
_VISIBILITY = {Visibility.PUBLIC: "visible", Visibility.HIDDEN: "after_published"}
# Gradescope names no limit; a browser still reads this much.
_MAX_GRADESCOPE_BYTES = 5_000_000


def gradescope(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """Return the result; raises NoVerdict if something was not judged, so that Gradescope reports a failure."""
    if unjudged(entry.result):
        raise NoVerdict(
            f"{why_open(entry)} No results.json is written, so that Gradescope reports a failed autograder "
            "and no score."
        )
    return fitted(lambda limit: _gradescope_json(entry.result, limit), _MAX_GRADESCOPE_BYTES)


def _gradescope_json(result: Result, limit: int) -> bytes:
    """Return the file with texts of at most `limit` characters; scores are in points."""
    text = msgspec.json.encode(
        {
            "score": result.score,
            "execution_time": result.duration_seconds,
            "output": shortened(_summary(result), limit * 10),
            "output_format": "text",
            "test_output_format": "text",
            "test_name_format": "text",
            "visibility": "visible",
            "stdout_visibility": "hidden",
            "extra_data": {"course": result.course.digest, "grader": result.environment.grader},
            "tests": [
                _gradescope_test(f"{chapter}.{place}", exercise, line, limit)
                for chapter, exercise in enumerate(result.exercises, 1)
                if is_judged(exercise)
                for place, line in enumerate(lines(exercise), 1)
            ],
        }
    )
    return msgspec.json.format(text, indent=2) + b"\n"


def _summary(result: Result) -> str:
    """Return the text shown at once, like public tests: it has no points of hidden tests."""
    reports = []
    for exercise in result.exercises:
        sentences = [f"{called(exercise)}: {_standing(exercise)}", exercise.message]
        if not _has_hidden(exercise):
            sentences.append(remarks(exercise).replace("\n", " "))
        reports.append(". ".join(filter(None, sentences)))
    return "\n".join(reports)


def _standing(exercise: ExerciseResult) -> str:
    if not is_judged(exercise):
        return not_judged(exercise).rstrip(".")
    if not _has_hidden(exercise):
        return f"{number(exercise.score)} of {number(exercise.max_score)} points"
    public = [test for test in exercise.tests if test.visibility is Visibility.PUBLIC]
    passed = sum(test.outcome is Outcome.PASSED for test in public)
    return f"{passed} of {counted(len(public), 'public test')} passed"


def _has_hidden(exercise: ExerciseResult) -> bool:
    return any(test.visibility is Visibility.HIDDEN for test in exercise.tests)


def _gradescope_test(
    place: str, exercise: ExerciseResult, line: Line, limit: int
) -> dict[str, Any]:
    """Return a test for Gradescope; `number` orders the tests and gives each a line of its own."""
    test, share = line.test, line.share
    is_total = test.name == TOTAL_LINE
    return {
        "score": share.score / 100,
        # Points earned of 0 are extra credit in Gradescope.
        "max_score": 0.0 if exercise.extra_credit else share.max_score / 100,
        "status": "passed" if test.outcome is Outcome.PASSED else "failed",
        "name": f"{called(exercise)}: {one_line(test.title)}",
        "number": place,
        "output": shortened(line.text, limit),
        "tags": [exercise.name, test.visibility.value],
        "visibility": _VISIBILITY[
            Visibility.HIDDEN if is_total and _has_hidden(exercise) else test.visibility
        ],
        "extra_data": {"outcome": test.outcome.value, "test": test.name},
    }


# --- PrairieLearn, as an external grader writes it to /grade/results -------------------------------

_MAX_PRAIRIELEARN_BYTES = 1_000_000


def prairielearn(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """Return the result; if something was not judged, it is not gradable, which costs no attempt."""
    result = entry.result
    if unjudged(result):
        message = " ".join(
            f"{e.name}: {not_judged(e)}" for e in result.exercises if not is_judged(e)
        )
        answer = {"gradable": False, "message": message, "format_errors": [message]}
        return msgspec.json.encode(answer) + b"\n"
    return fitted(lambda limit: _prairielearn_json(result, limit), _MAX_PRAIRIELEARN_BYTES)


def _prairielearn_json(result: Result, limit: int) -> bytes:
    """Return the file with texts of at most `limit` characters; the score is a share from 0 to 1."""
    printed = [
        f"{exercise.name}:\n{exercise.output.rstrip()}"
        for exercise in result.exercises
        if exercise.output.strip()
    ]
    score, worth = hundredths(result.score), hundredths(result.max_score)
    points = f"{total_words(result)}."
    text = msgspec.json.encode(
        {
            "gradable": True,
            # The score is from 0 to 1, and 1 only for full marks.
            "score": min(max(score / worth, 0.0), 1.0) if worth else 0.0,
            "message": "\n".join([points, *_messages(result, limit)]),
            "output": shortened("\n\n".join(printed), limit * 10),
            "tests": [
                _prairielearn_test(exercise, line, limit)
                for exercise in filter(is_judged, result.exercises)
                for line in lines(exercise)
            ],
        }
    )
    return msgspec.json.format(text, indent=2) + b"\n"


def _messages(result: Result, limit: int) -> list[str]:
    messages = list(dict.fromkeys(e.message for e in result.exercises if e.message))
    messages += [f"{e.name}: {text}" for e in result.exercises if (text := remarks(e))]
    return [shortened(message, limit) for message in messages]


def _prairielearn_test(exercise: ExerciseResult, line: Line, limit: int) -> dict[str, Any]:
    test, share = line.test, line.share
    return {
        "name": f"{called(exercise)}: {one_line(test.title)}",
        "description": f"{exercise.title} ({test.visibility.value} test)",
        "points": share.score / 100,
        "max_points": share.max_score / 100,
        "message": shortened(line.text, limit),
        "output": "",
    }


FORMATS = {
    "gradescope": StudentFormat(
        "Gradescope's results.json", Audience.STUDENTS, (), ".json", gradescope
    ),
    "prairielearn": StudentFormat(
        "PrairieLearn's results.json", Audience.STUDENTS, (), ".json", prairielearn
    ),
}
