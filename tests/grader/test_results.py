"""The structs of a result: attempts, provisional points, and results of earlier graders."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grader.results import (
    Cause,
    Entry,
    Finding,
    Outcome,
    Place,
    Result,
    Status,
    StudentInfo,
    in_version_2,
    json_schema,
    schema_json,
    to_json,
)
from tests.grader.builders import checked, entry, exercise, result

PLACE = Place("modules/glu.py", 3, "")


@pytest.mark.parametrize(
    ("status", "settled", "place", "attempted", "untouched"),
    [
        (Status.PASSED, False, None, True, False),
        (Status.FAILED, False, None, True, False),
        (Status.TIMEOUT, False, None, True, False),
        (Status.UNJUDGED, False, None, True, False),
        (Status.ERROR, False, None, True, False),  # it raised
        (Status.ERROR, True, PLACE, True, False),  # not valid Python
        (Status.ERROR, True, None, False, False),  # missing, empty or unreadable
        (Status.NOT_ATTEMPTED, True, None, False, True),  # the stub
        (Status.NOT_ATTEMPTED, False, None, False, False),  # everything raised NotImplementedError
    ],
)
def test_an_attempt_contains_work_of_the_student(
    status: Status, settled: bool, place: Place | None, attempted: bool, untouched: bool
) -> None:
    of = exercise(checked("a", Outcome.ERROR, place=place), status=status, settled=settled)
    assert (of.attempted, of.untouched) == (attempted, untouched)


def test_points_are_provisional_while_they_are_held() -> None:
    held = exercise(checked(), held=("line 3 runs code", "line 4 too"))
    assert held.provisional == (
        "Provisional until a person has looked at the file: line 3 runs code; line 4 too."
    )
    assert exercise(checked()).provisional == ""
    assert exercise(checked(outcome=Outcome.FAILED), held=("line 3",)).provisional == "", (
        "no points"
    )


def test_the_cause_of_a_test_comes_from_its_finding() -> None:
    assert checked("a", Outcome.FAILED, cause=Cause.SHAPE).cause is Cause.SHAPE
    assert checked("a").cause is Cause.OTHER


def test_a_finding_with_a_lone_brace_is_refused() -> None:
    Finding("The {value} of {{x}}.", ("{other}",))
    for wrong in (("a {",), ("fine", "a }")):
        with pytest.raises(ValueError, match="format string"):
            Finding(wrong[0], wrong[1:])
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"sentence": "a {"}', type=Finding)


def test_a_student_has_cells_and_other_ids() -> None:
    student = StudentInfo(
        id="ada",
        name="Ada",
        email="a@b.c",
        ids={"section": "A", "team": "1", "canvas_id": "7", "id": "x"},
    )
    assert student.other_ids == {"canvas_id": "7", "id": "x"}
    columns = ("id", "name", "email", "section", "canvas_id", "unknown")
    assert [student.cell(column) for column in columns] == ["ada", "Ada", "a@b.c", "A", "7", ""]


def test_a_student_without_an_attempt_is_absent() -> None:
    assert entry(attempt=0).absent
    assert not Entry(student=StudentInfo(id="ada"), result=result(exercise())).absent


# --- JSON -----------------------------------------------------------------------------------------


def test_a_result_survives_a_round_trip_through_json() -> None:
    of = result(exercise(checked(), checked("b", Outcome.FAILED, place=PLACE), output="ü\u2028"))
    text = to_json(of)
    assert msgspec.json.decode(text, type=Result) == of
    assert text.endswith(b"}\n") and b'\n  "schema_version": 2' in text
    assert in_version_2(text) is text


def old(named: str, message: str, **changes: Any) -> dict[str, Any]:
    """Make a test as in schema version 1."""
    test = msgspec.to_builtins(checked("a", Outcome.FAILED, message=message))
    del test["finding"]
    return {**test, "named": named, "cause": "shape", **changes}


def test_a_result_of_version_1_is_updated() -> None:
    of = msgspec.to_builtins(result(exercise(checked())))
    of["schema_version"] = 1
    of["exercises"][0]["tests"] = [
        old("Wrong shape.", "It is {2}."),
        old("", "It is 3."),
        old("", ""),
    ]
    read = msgspec.json.decode(in_version_2(msgspec.json.encode(of)), type=Result)
    first, second, third = read.exercises[0].tests
    assert read.schema_version == 2
    assert first.finding == Finding("It is {{2}}.", cause=Cause.SHAPE, plain=("Wrong shape.",))
    assert second.finding == Finding("It is 3.", cause=Cause.SHAPE)
    assert (third.finding, first.message) == (None, "It is {2}.")


def test_an_exercise_of_version_1_without_a_cause_is_updated() -> None:
    of = msgspec.to_builtins(exercise(checked()))
    test = old("", "It is 2.")
    del test["cause"]
    of["tests"] = [test]
    read = msgspec.json.decode(in_version_2(msgspec.json.encode(of)))
    assert "schema_version" not in read
    assert read["tests"][0]["finding"] == {"sentence": "It is 2.", "cause": "other", "plain": []}


def test_text_of_a_student_is_not_mistaken_for_a_field() -> None:
    of = to_json(result(exercise(checked("a", Outcome.FAILED, message='"named": x'))))
    assert in_version_2(of) is of


def test_the_schema_is_json_with_its_version() -> None:
    schema = json_schema()
    assert schema["title"] == "Lab Bench result, schema version 2"
    assert msgspec.json.decode(schema_json()) == schema
