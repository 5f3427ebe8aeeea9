"""Results and entries made by hand, and hostile texts."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from grader.exports.files import ClassFormat, Options, StudentFormat
from grader.findings import escaped
from grader.judge.scoring import points
from grader.results import (
    Cause,
    CourseInfo,
    Entry,
    Environment,
    ExerciseResult,
    Finding,
    Outcome,
    Place,
    Result,
    Status,
    StudentInfo,
    SubmissionInfo,
    TestResult,
    Visibility,
)

HOSTILE = (
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "＝1+1",  # noqa: RUF001  # as typed on an East Asian keyboard
    'say "hi", she;said',
    "two\nlines\r\nthree",
    "nul\x00byte",
    "\x1b[31mred\x07",
    "]]></failure><failure>",
    "\u202egnp.exe\u202c",
    "\ufffe\uffff\x0b",
    "a|b | `code` *b* _i_ [x](http://evil.example) <img src=x onerror=alert(1)>",
    "</pre><script>alert(1)</script>",
    "```\n::error file=x::owned\n```",
    "100% sure, a:b,c\n::stop-commands::x",
    "line\u2028separator\u2029",
    "Points Possible",
    "Zoë Ñandú 王小明 אבג",  # names
    "",
)


def checked(
    name: str = "test_value", outcome: Outcome = Outcome.PASSED, weight: float = 1, **changes: Any
) -> TestResult:
    """Make the result of a test. Its finding consists of the message, a `cause` and its `plain` part."""
    passed = outcome is Outcome.PASSED
    message = str(changes.get("message", "" if passed else "It does not hold."))
    if "finding" not in changes and (message or "cause" in changes):
        changes["finding"] = a_finding(
            message, changes.pop("cause", Cause.OTHER), changes.pop("plain", "")
        )
    given: dict[str, Any] = {
        "title": f"The title of {name}",
        "visibility": Visibility.PUBLIC,
        "score": weight if passed else 0.0,
        "max_score": weight,
        "duration_seconds": 0.01,
        "message": "" if passed else "It does not hold.",
        "hint": "" if passed else "Look again.",
        "place": None if passed else Place("modules/glu.py", 7, "forward"),
    }
    return TestResult(name=name, outcome=outcome, **{**given, **changes})


def a_finding(message: str, cause: Cause = Cause.OTHER, plain: str = "") -> Finding:
    """Make a finding without values from a message. Its first line is the sentence."""
    first, *details = message.split("\n")
    return Finding(
        escaped(first), tuple(map(escaped, details)), cause=cause, plain=(plain,) if plain else ()
    )


def exercise(
    *tests: TestResult, name: str = "glu", worth: float = 15, **changes: Any
) -> ExerciseResult:
    earned, total = sum(t.score for t in tests), sum(t.max_score for t in tests)
    passed = sum(t.outcome is Outcome.PASSED for t in tests)
    status = Status.PASSED if passed == len(tests) else Status.PARTIAL if passed else Status.FAILED
    given: dict[str, Any] = {
        "title": f"The title of {name}",
        "chapter": "modules",
        "status": status,
        "score": points(earned, total, worth),
        "duration_seconds": 0.5,
        "message": "",
        "output": "",
    }
    return ExerciseResult(name=name, max_score=worth, tests=tests, **{**given, **changes})


def unjudged(name: str = "gelu", worth: float = 15) -> ExerciseResult:
    return exercise(name=name, worth=worth, status=Status.UNJUDGED, score=0.0)


def result(*exercises: ExerciseResult, name: str = "ada", **changes: Any) -> Result:
    given: dict[str, Any] = {
        "course": CourseInfo("plain", "1.0", "c0ffee"),
        "submission": SubmissionInfo(name, "d1gest"),
        "score": round(sum(each.score for each in exercises if not each.practice), 2),
        "max_score": round(sum(each.max_score for each in exercises if not each.practice), 2),
        "seed": 0,
        "started_at": "2026-09-01T10:00:00Z",
        "duration_seconds": 1.25,
        "environment": Environment("0.1.0", "3.12", "2.13", "Linux", ("seccomp",)),
    }
    return Result(exercises=exercises, **{**given, **changes})


def entry(*exercises: ExerciseResult, student: str = "ada", **changes: Any) -> Entry:
    exercises = exercises or (exercise(checked()),)
    who: dict[str, Any] = {"id": student, "name": "", "email": "", "ids": {}}
    for key in list(changes):
        if key in who:
            who[key] = changes.pop(key)
    made = result(*exercises, name=student)
    return Entry(student=StudentInfo(**who), result=made, **changes)


def hostile_entry(text: str) -> Entry:
    """Make an entry with this text wherever text of a student or an author can appear."""
    tests = (
        checked("test_good", title=text),
        checked("test_bad", Outcome.FAILED, 3, title=text, message=text, hint=text),
    )
    return entry(
        exercise(*tests, title=text, output=text),
        exercise(checked("t", Outcome.ERROR), name="gelu", message=text, output=text),
        student=text or "nobody",
        name=text,
        email=text,
        ids={"username": text, "canvas_id": "", "sis_user_id": text},
        origin=text,
    )


def written(chosen: object, entries: Iterable[Entry], **options: Any) -> tuple[str, list[str]]:
    """Return the text that a class format writes, and its notes."""
    assert isinstance(chosen, ClassFormat)
    out = io.BytesIO()
    notes = chosen.write(entries, out, Options(**options))
    return out.getvalue().decode("utf-8"), notes


def rendered(chosen: object, of: Entry, **options: Any) -> bytes:
    assert isinstance(chosen, StudentFormat)
    return chosen.render(of, Options(**options))
