"""Classes made by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from grader.course.assignments import CourseAssignment
from grader.findings import message_of
from grader.gradebook.term import Score, Term, TermPart, TermRow
from grader.results import (
    Entry,
    ExerciseResult,
    Finding,
    Outcome,
    Place,
    Status,
    StudentInfo,
    Visibility,
)
from tests.grader.builders import checked, entry, exercise

__all__ = ["SOURCE", "a_class", "a_long_course", "a_term", "an_entry", "an_exercise", "sources"]

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
    messages: Mapping[int, str] | None = None,
    points: float = 10.0,
    **changes: Any,
) -> ExerciseResult:
    """Return an exercise whose tests end as the letters say. Every second test is hidden."""
    tests = []
    for place, letter in enumerate(outcomes):
        values = {"place": str(place), "name": name}
        differs = Finding("Case {place} of {name} differs.", values=values)
        failed: dict[str, Any] = {
            "message": message_of(differs),
            "finding": differs,
            "hint": f"Look at case {place}.",
            "place": Place(f"one/{name}.py", 5, "gate"),
        }
        if messages and place in messages:
            del failed["finding"]
            failed["message"] = messages[place]
        test = checked(
            f"test_{name}_{place}",
            _MARKS[letter],
            title=f"The {name} holds in case {place}",
            visibility=Visibility.HIDDEN if place % 2 else Visibility.PUBLIC,
            **({} if letter == "p" else failed),
        )
        tests.append(test)
    if set(outcomes) == {"n"}:
        changes.setdefault("status", Status.NOT_ATTEMPTED)
    if changes.get("status") is Status.UNJUDGED:
        changes["score"] = 0.0
    title = f"A {name} of one's own"
    return exercise(*tests, name=name, worth=points, title=title, chapter="one", **changes)


def an_entry(student: str, exercises: Sequence[ExerciseResult], **changes: Any) -> Entry:
    """Return an attempt of a student with these exercises."""
    return entry(*exercises, student=student, **changes)


def a_class(size: int) -> list[Entry]:
    """Return a class of students of different strength. The same size always gives the same class."""
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


def a_long_course() -> Entry:
    """Return ten exercises in two chapters. One is half done and one was not begun."""
    chapters = {number: "first" if number < 5 else "second" for number in range(10)}
    outcomes = {2: "pf", 7: "nn"}
    exercises = [
        msgspec.structs.replace(
            an_exercise(f"e{number}", outcomes.get(number, "pp")), chapter=chapter
        )
        for number, chapter in chapters.items()
    ]
    return an_entry("ada", exercises)


def sources(entry: Entry) -> dict[str, bytes]:
    """Return the same small file for every exercise of an entry."""
    return {each.name: SOURCE for each in entry.result.exercises}


def a_term() -> Term:
    """Return ten assignments and a class in which two students share a name and one has none."""
    names = [f"assignment_{number}" for number in range(1, 11)]
    parts = tuple(TermPart(name, Score(6, 10, provisional=False), 60.0, 1.0, 6.0) for name in names)
    people = {"s1": "Anna Maria von und zu Nowak-Kowalska", "s2": "Jan Nowak", "s3": "Jan Nowak"}
    people["a-very-long-id-without-a-name-0123456789"] = ""
    rows = [
        TermRow(StudentInfo(id=id_, name=name), parts, 60.0, "C") for id_, name in people.items()
    ]
    note = "/home/somebody/a/long/path/without/a/space/results/week1 has no s3, who is in others."
    assignments = [CourseAssignment(id=name, title=f"Assignment {name}") for name in names]
    return Term(tuple(assignments), tuple(rows), (note,))
