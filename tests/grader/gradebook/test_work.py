"""A student's attempts in order, and the verdict on each file."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from grader.gradebook.work import (
    SERVER,
    Attempt,
    DamagedValueError,
    Request,
    Verdict,
    Work,
    packed,
    unpacked,
    work_of,
)
from grader.results import Environment, ExerciseResult, Outcome, Place, Status, StudentInfo
from tests.grader.builders import checked, exercise, unjudged

HERE = Environment("1", "3.12", "2.13", "Linux", ())


def verdict(result: ExerciseResult) -> Verdict:
    return Verdict(
        status=result.status,
        score=result.score,
        max_score=result.max_score,
        packed=packed(result),
        graded_at="2026-10-01T10:00:00Z",
        seed=0,
        environment=HERE,
    )


def attempts(*times: str, origin: str = "") -> list[Attempt]:
    """Return attempts 1, 2, 3, ... at these times, with the ids 11, 12, 13, ..."""
    return [
        Attempt(10 + at, "ada", at, submitted_at=time, origin=origin)
        for at, time in enumerate(times, 1)
    ]


def work(
    made: list[Attempt], files: dict[int, str] | None = None, **verdicts: ExerciseResult
) -> Work:
    """Return work on the exercise glu, with `files` by attempt and verdicts by keywords such as `on_11`."""
    judged = {int(name.removeprefix("on_")): verdict(each) for name, each in verdicts.items()}
    return work_of(StudentInfo(id="ada"), made, {"glu": files or {}}, {"glu": judged})


def order(made: list[Attempt]) -> list[int]:
    return [attempt.number for attempt in work(made).attempts]


def test_attempts_without_times_are_ordered_by_canvas_s_numbers_of_files() -> None:
    first, second, third = attempts("", "", "")
    newer = msgspec.structs.replace(first, origin="oka_101_9100_glu-1.py, oka_101_9001_relu.py")
    older = msgspec.structs.replace(second, origin="oka_LATE_101_9001_glu.py")
    made = [newer, older]
    assert order(made) == [2, 1] and work(made).is_ordered and not work(made).is_dated
    # One attempt without a number, and nothing is known.
    made.append(msgspec.structs.replace(third, origin="oka"))
    assert order(made) == [1, 2, 3] and not work(made).is_ordered


def test_attempts_are_ordered_by_time() -> None:
    assert order(attempts("2026-10-03", "2026-10-01", "2026-10-02")) == [2, 3, 1]
    assert order(attempts("2026-10-01", "2026-10-01")) == [1, 2], (
        "equal times keep the order in which they were found"
    )


def test_if_a_time_is_missing_attempts_keep_the_order_in_which_they_were_found() -> None:
    made = attempts("2026-10-03", "", "2026-10-02")
    assert order(made[::-1]) == [1, 2, 3]
    assert not work(made).is_dated
    assert work(made[:1]).is_dated


def test_a_clock_that_was_set_back_does_not_reorder_attempts_of_the_server() -> None:
    served = attempts("2026-10-03", "2026-10-01", "2026-10-02", origin=SERVER)
    assert order(served) == [1, 2, 3]
    download = Attempt(14, "ada", 4, submitted_at="2026-10-02", origin="class.zip")
    assert order([*served, download]) == [4, 1, 2, 3]
    later = msgspec.structs.replace(download, submitted_at="2026-10-04")
    assert order([*served, later]) == [1, 2, 3, 4]


def test_an_attempt_without_a_file_is_not_in_the_sources() -> None:
    of = work(attempts("2026-10-02", "2026-10-01", "2026-10-03"), {11: "a", 12: "b", 13: ""})
    assert [(attempt.id, digest) for attempt, digest in of.sources("glu")] == [(12, "b"), (11, "a")]
    assert of.sources("gelu") == []
    assert list(of.files["glu"]) == [11, 12], "by attempt number"


def test_equal_files_are_one_version() -> None:
    made = attempts("", "")
    assert not work(made, {11: "a", 12: "a"}).has_versions
    assert work(made, {11: "a", 12: "b"}).has_versions


def test_a_file_without_its_own_verdict_uses_the_one_of_an_equal_file() -> None:
    made, files = attempts("", "", ""), {11: "a", 12: "a", 13: "b"}
    of = work(made, files, on_11=exercise(checked()))
    assert [of.judged_as("glu", at) for at in (11, 12, 13)] == [11, 11, None]
    of = work(made, files, on_11=exercise(checked()), on_12=exercise(checked()))
    assert of.judged_as("glu", 12) == 12


def test_an_unjudged_result_is_not_shared_with_equal_files() -> None:
    of = work(attempts("", "", ""), dict.fromkeys((11, 12, 13), "a"), on_11=unjudged())
    assert of.judged_as("glu", 11) == 11
    assert of.judged_as("glu", 12) is None
    of = work(
        attempts("", "", ""), dict.fromkeys((11, 12, 13), "a"), on_11=unjudged(), on_12=exercise()
    )
    assert of.judged_as("glu", 13) == 12


def settled(outcome: Outcome, status: Status, place: Place | None = None) -> ExerciseResult:
    test = checked(outcome=outcome, place=place)
    return exercise(test, status=status, score=0.0, settled=True)


@pytest.mark.parametrize(
    ("result", "untouched"),
    [
        (settled(Outcome.NOT_IMPLEMENTED, Status.NOT_ATTEMPTED), True),
        (settled(Outcome.ERROR, Status.ERROR), True),  # empty, missing or unreadable
        (settled(Outcome.ERROR, Status.ERROR, Place("glu.py", 3, "")), False),  # not Python
        (exercise(checked(outcome=Outcome.ERROR), status=Status.ERROR), False),
        (exercise(checked(outcome=Outcome.FAILED)), False),
        (exercise(checked()), False),
    ],
)
def test_an_untouched_file_is_distinguished_from_a_failing_one(
    result: ExerciseResult, untouched: bool
) -> None:
    assert work(attempts(""), {11: "a"}, on_11=result).is_untouched("glu", 11) is untouched


def test_a_file_without_a_verdict_is_not_untouched() -> None:
    assert not work(attempts(""), {11: "a"}).is_untouched("glu", 11)
    assert not work(attempts(""), {11: "a"}).is_untouched("gelu", 11)


def test_an_unjudged_exercise_has_no_points_rather_than_none() -> None:
    assert verdict(exercise(checked())).judged == 15
    assert verdict(exercise(checked(outcome=Outcome.FAILED))).judged == 0
    assert verdict(unjudged()).judged is None


def test_a_verdict_with_a_new_result_takes_its_points_and_keeps_the_rest() -> None:
    half = exercise(checked(), checked("b", Outcome.FAILED), worth=10)
    changed = verdict(exercise(checked())).with_result(half)
    assert changed == msgspec.structs.replace(verdict(half), graded_at="2026-10-01T10:00:00Z")
    assert changed.result == half


def test_a_packed_result_is_unpacked_and_a_damaged_one_is_refused() -> None:
    whole = exercise(checked(), checked("b", Outcome.FAILED))
    assert unpacked(packed(whole)) == whole
    for damaged in (b"", packed(whole)[:-5], zlib.compress(b"{}"), zlib.compress(b"\xff")):
        with pytest.raises(DamagedValueError):
            unpacked(damaged)


def test_a_request_is_open_until_its_first_answer() -> None:
    asked = Request(number=1, student="ada", exercise="glu", message="?", asked_at="", origin="")
    assert asked.is_open
    answers = msgspec.json.decode(b'[{"text": "no", "author": "ben", "answered_at": ""}]')
    assert not msgspec.convert(
        {**msgspec.structs.asdict(asked), "answers": answers}, Request
    ).is_open
