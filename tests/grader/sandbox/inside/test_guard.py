"""The reply for an exception: lines of the student's code, and whether a probe raised it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grader.sandbox.inside.guard import MAX_FRAMES, own_frames, raised
from grader.sandbox.wire.messages import PROBE_FILE
from grader.sandbox.wire.values import MAX_TEXT

OWN = "modules/glu.py"
STUDENT = "def fail(error):\n    raise error\n\n\ndef call(function, *given):\n    return function(*given)\n"
PROBE = "def call(function, *given):\n    return function(*given)\n\n\ndef fail(error):\n    raise error\n"


def functions(source: str, file: str) -> dict[str, Callable[..., Any]]:
    space: dict[str, Any] = {"__name__": "probe_glu"}
    exec(compile(source, file, "exec"), space)
    return space


student, probe = functions(STUDENT, OWN), functions(PROBE, PROBE_FILE)


def reply(function: Callable[..., Any], *given: Any) -> Any:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 (any)
        function(*given)
    return raised(caught.value, OWN)


def test_only_the_students_own_lines_are_reported() -> None:
    answer = reply(student["call"], student["fail"], KeyError("x"))
    assert answer.frames == ((6, "call"), (2, "fail"))
    assert (answer.type_name, answer.text) == ("KeyError", "'x'")
    assert answer.ancestry == ("KeyError", "LookupError", "Exception", "BaseException", "object")
    assert (answer.in_probe, answer.probe) == (False, None)
    imported_again = functions(STUDENT, f"/scratch/{OWN}")
    assert reply(imported_again["fail"], ValueError()).frames == ((2, "fail"),)
    alike = functions(STUDENT, f"other{OWN}")
    assert reply(alike["fail"], ValueError()).frames == ()


def test_an_exception_in_a_probe_is_reported_with_its_line() -> None:
    answer = reply(probe["fail"], ValueError("no"))
    assert (answer.in_probe, answer.probe, answer.frames) == (True, ("probe_glu", 6), ())


def test_student_code_called_by_a_probe_is_blamed_itself() -> None:
    answer = reply(probe["call"], student["fail"], ValueError("no"))
    assert (answer.in_probe, answer.probe, answer.frames) == (False, None, ((2, "fail"),))


def test_a_probe_called_back_by_student_code_is_named() -> None:
    answer = reply(probe["call"], student["call"], probe["fail"], ValueError("no"))
    assert (answer.in_probe, answer.probe, answer.frames) == (
        False,
        ("probe_glu", 6),
        ((6, "call"),),
    )
    answer = reply(student["call"], probe["fail"], ValueError("no"))
    assert (answer.in_probe, answer.probe) == (True, ("probe_glu", 6))


def test_library_code_below_a_probe_counts_as_the_probes() -> None:
    assert reply(probe["call"], int, "x").in_probe
    library = functions(STUDENT, "/lib/library.py")
    answer = reply(probe["call"], library["fail"], ValueError())
    assert (answer.in_probe, answer.probe) == (True, ("probe_glu", 2))


def test_only_the_innermost_lines_are_kept() -> None:
    stack = [(OWN, line, "f" * 2 * MAX_TEXT) for line in range(30)]
    kept = own_frames([*stack, ("/lib/other.py", 99, "g")], OWN)
    assert [line for line, _ in kept] == list(range(10, 30))
    assert len(kept) == MAX_FRAMES and len(kept[0][1]) == MAX_TEXT


def test_texts_of_an_exception_are_limited_and_may_raise() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert reply(student["fail"], Rude()).text == ""
    assert len(reply(student["fail"], ValueError("x" * 2 * MAX_TEXT)).text) == MAX_TEXT
    long = type("N" * 2 * MAX_TEXT, (ValueError,), {})
    answer = reply(student["fail"], long())
    assert len(answer.type_name) == len(answer.ancestry[0]) == MAX_TEXT
    deep: type[Exception] = ValueError
    for number in range(30):
        deep = type(f"E{number}", (deep,), {})
    assert len(reply(student["fail"], deep()).ancestry) == 20


def test_exceptions_that_end_a_process_are_reported_like_others() -> None:
    assert reply(student["fail"], SystemExit(2)).type_name == "SystemExit"
    assert reply(student["fail"], KeyboardInterrupt()).ancestry[0] == "KeyboardInterrupt"
