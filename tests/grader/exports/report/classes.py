"""Classes made by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from grader.results import (
    CourseInfo,
    Entry,
    Environment,
    ExerciseResult,
    Outcome,
    Place,
    Result,
    Status,
    StudentInfo,
    SubmissionInfo,
    TestResult,
    Visibility,
)

__all__ = ["SOURCE", "a_class", "an_entry", "an_exercise", "sources"]

_MARKS = {
    "p": Outcome.PASSED,
    "f": Outcome.FAILED,
    "t": Outcome.TIMEOUT,
    "n": Outcome.NOT_IMPLEMENTED,
}
SOURCE = (
    b"import torch\n\n\ndef gate(x):\n    a, b = x.chunk(2, -1)\n    return a * torch.sigmoid(b)\n"
)


def an_exercise(
    name: str,
    outcomes: str,
    *,
    points: float = 10.0,
    messages: Mapping[int, str] | None = None,
    status: Status | None = None,
    message: str = "",
    output: str = "",
    seconds: float = 0.5,
) -> ExerciseResult:
    """An exercise whose tests end as the letters say; every second test is hidden."""
    tests = tuple(
        TestResult(
            name=f"test_{name}_{place}",
            title=f"The {name} holds in case {place}",
            visibility=Visibility.HIDDEN if place % 2 else Visibility.PUBLIC,
            outcome=_MARKS[letter],
            score=float(letter == "p"),
            max_score=1.0,
            duration_seconds=0.01,
            message=""
            if letter == "p"
            else (messages or {}).get(place, f"Case {place} of {name} differs."),
            hint="" if letter == "p" else f"Look at case {place}.",
            place=None if letter == "p" else Place(f"one/{name}.py", 5, "gate"),
        )
        for place, letter in enumerate(outcomes)
    )
    passed = outcomes.count("p")
    if status is None:
        status = Status.NOT_ATTEMPTED if set(outcomes) == {"n"} else Status.FAILED
        if passed:
            status = Status.PASSED if passed == len(outcomes) else Status.PARTIAL
    score = 0.0 if status is Status.UNJUDGED else round(points * passed / len(outcomes), 2)
    return ExerciseResult(
        name=name,
        title=f"A {name} of one's own",
        chapter="one",
        status=status,
        score=score,
        max_score=points,
        duration_seconds=seconds,
        message=message,
        tests=tests,
        output=output,
    )


def an_entry(student: str, exercises: Sequence[ExerciseResult], **keywords: object) -> Entry:
    """An attempt of a student with these exercises; keywords are those of StudentInfo and of Entry."""
    about = {key: keywords.pop(key) for key in ("name", "email") if key in keywords}
    result = Result(
        course=CourseInfo("small", "1.2", "c0ffee"),
        submission=SubmissionInfo(student, "d1gest"),
        score=round(sum(each.score for each in exercises), 2),
        max_score=round(sum(each.max_score for each in exercises), 2),
        seed=0,
        exercises=tuple(exercises),
        started_at="2026-03-04T05:06:07Z",
        duration_seconds=1.0,
        environment=Environment("0.1.0", "3.11", "2.13", "Linux", ("landlock",)),
    )
    return Entry(student=StudentInfo(id=student, **about), result=result, **keywords)  # type: ignore[arg-type]  # both are texts


def a_class(size: int) -> list[Entry]:
    """A class of which each student has a strength; the same size is the same class."""
    chance = random.Random(size)
    entries = []
    for number in range(size):
        strength = chance.random()
        exercises = []
        for name, tests in (("glu", 6), ("gelu", 5), ("collate", 8)):
            letters = "".join("p" if chance.random() < strength else "f" for _ in range(tests))
            exercises.append(an_exercise(name, "n" * tests if chance.random() < 0.1 else letters))
        entries.append(
            an_entry(
                f"s{number:04}",
                exercises,
                name=f"Student Number {number}",
                submitted_at=f"2026-03-{1 + number % 28:02}T10:00:00Z",
                late=number % 9 == 0,
            )
        )
    return entries


def sources(entry: Entry) -> dict[str, bytes]:
    """The same small file for every exercise of an entry."""
    return {each.name: SOURCE for each in entry.result.exercises}
