"""PrairieLearn's `results.json` of an external grader, as it lies in /grade/results."""

from __future__ import annotations

from typing import Any

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import Options, StudentFormat
from grader.exports.texts import fitted, one_line, shortened
from grader.exports.verdicts import NOT_JUDGED, Line, lines, unjudged
from grader.judge.scoring import hundredths
from grader.results import Entry, ExerciseResult, Result
from grader.student.blocks import remarks
from grader.text import number

_MOST_BYTES = 1_000_000


def render(entry: Entry, options: Options) -> bytes:  # noqa: ARG001  # as every format
    """The result; where something was not judged it is not gradable, which costs no attempt."""
    result = entry.result
    if missing := unjudged(result):
        message = f"{', '.join(missing)}: {NOT_JUDGED}"
        answer = {"gradable": False, "message": message, "format_errors": [message]}
        return msgspec.json.encode(answer) + b"\n"
    return fitted(lambda limit: _written(result, limit), _MOST_BYTES)


def _written(result: Result, limit: int) -> bytes:
    printed = [
        f"{exercise.name}:\n{exercise.output.rstrip()}"
        for exercise in result.exercises
        if exercise.output.strip()
    ]
    score, worth = hundredths(result.score), hundredths(result.max_score)
    points = f"{number(result.score)} of {number(result.max_score)} points."
    text = msgspec.json.encode(
        {
            "gradable": True,
            # From 0 to 1; 1 only for everything.
            "score": min(max(score / worth, 0.0), 1.0) if worth else 0.0,
            "message": "\n".join([points, *_messages(result, limit)]),
            "output": shortened("\n\n".join(printed), limit * 10),
            "tests": [
                _test(exercise, line, limit)
                for exercise in result.exercises
                for line in lines(exercise)
            ],
        }
    )
    return msgspec.json.format(text, indent=2) + b"\n"


def _messages(result: Result, limit: int) -> list[str]:
    messages = list(dict.fromkeys(e.message for e in result.exercises if e.message))
    messages += [f"{e.name}: {text}" for e in result.exercises if (text := remarks(e))]
    return [shortened(message, limit) for message in messages]


def _test(exercise: ExerciseResult, line: Line, limit: int) -> dict[str, Any]:
    test, share = line.test, line.share
    return {
        "name": f"{exercise.name}: {one_line(test.title)}",
        "description": f"{exercise.title} ({test.visibility.value} test)",
        "points": share.score / 100,
        "max_points": share.max_score / 100,
        "message": shortened(line.text, limit),
        "output": "",
    }


FORMAT = StudentFormat("PrairieLearn's results.json", Audience.STUDENTS, (), ".json", render)
