"""Replies of a sandbox are turned into exceptions and sentences."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from grader.findings import message_of
from grader.judge.outcomes import (
    MAX_TEXT,
    CheckFailed,
    Frame,
    StudentError,
    SubmissionFailure,
    adopted,
    cause_of_death,
    misfitting_call,
    missing_name,
    raised_error,
    student_error,
)
from grader.results import Cause
from grader.sandbox.wire.messages import Raised

FRAME = Frame(3, "forward")


def reply(type_name: str, text: str, *ancestry: str, **fields: Any) -> Raised:
    bases = ancestry or (type_name, "Exception", "BaseException", "object")
    return Raised(type_name, bases, text, (), **fields)


# --- exceptions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ancestry", "base"),
    [
        (("ValueError", "Exception"), ValueError),
        (("MyError", "KeyError", "LookupError", "Exception"), KeyError),
        (("FileNotFoundError", "OSError"), FileNotFoundError),
        (("MyError", "Exception"), Exception),
        ((), Exception),
    ],
)
def test_an_exception_has_the_nearest_builtin_type(
    ancestry: tuple[str, ...], base: type[Exception]
) -> None:
    error = student_error("MyError", ancestry, "no", (FRAME,))
    assert isinstance(error, StudentError) and isinstance(error, base)
    assert adopted(error) == base.__name__
    assert (error.type_name, error.text, error.frames) == ("MyError", "no", (FRAME,))


@pytest.mark.parametrize(
    "name",
    [
        "SystemExit",
        "KeyboardInterrupt",
        "StopIteration",
        "UnicodeDecodeError",
        "ExceptionGroup",
        "UserWarning",
        "print",
        "CheckFailed",
    ],
)
def test_no_other_type_is_adopted(name: str) -> None:
    error = student_error(name, (name, "Exception"), "", ())
    assert type(error) is StudentError
    assert str(error) == name


def test_an_exception_reads_like_one_of_python() -> None:
    error = student_error("KeyError", ("KeyError",), "'a'", ())
    assert str(error) == "KeyError: 'a'"
    error.misuse = "your code returned None"
    assert str(error) == "KeyError: your code returned None ('a')"


def test_a_failed_check_is_an_assertion_with_a_finding() -> None:
    failed = CheckFailed(["It is 2.", "It should be 3."], Cause.VALUES, "forward")
    assert isinstance(failed, AssertionError) and isinstance(failed, SubmissionFailure)
    assert str(failed) == "It is 2.\nIt should be 3."
    assert (message_of(failed.finding), failed.finding.cause) == (str(failed), Cause.VALUES)
    assert failed.place == "forward"
    one = CheckFailed("It is {2}.")
    assert (str(one), one.finding.details, one.finding.cause) == ("It is {2}.", (), Cause.MISTAKE)


@pytest.mark.parametrize(
    ("type_name", "text", "misuse"),
    [
        (
            "AttributeError",
            "'NoneType' object has no attribute 'shape'",
            "your code returned None (is a return missing?)",
        ),
        (
            "RuntimeError",
            "element 0 of tensors does not require grad and does not have a grad_fn",
            "the backward pass through the result of your code failed",
        ),
        ("RuntimeError", "shape mismatch", "your code returned something that could not be used"),
        ("ValueError", "no gradient", "your code returned something that could not be used"),
    ],
)
def test_an_exception_in_a_probe_blames_the_return_value(
    type_name: str, text: str, misuse: str
) -> None:
    error = raised_error(reply(type_name, f"{text}.\nTraceback", in_probe=True), ())
    assert (error.misuse, error.text) == (misuse, text)


def test_an_exception_of_the_student_is_escaped_and_limited() -> None:
    error = raised_error(
        reply("Value\x1bError", "first.\nsecond", probe=("pro\x1bbe", 7)), (FRAME,)
    )
    assert (error.type_name, error.text) == ("Value\\x1bError", "first.\nsecond")
    assert (error.misuse, error.frames, error.probe) == ("", (FRAME,), ("pro\\x1bbe", 7))
    long = raised_error(reply("E" * 200, "x" * 9_000), ())
    assert (len(long.type_name), len(long.text), long.probe) == (80, MAX_TEXT, None)


# --- names and parameters of the stub -------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_name", "text", "name"),
    [
        ("AttributeError", "module 'task' has no attribute 'relu'", "relu"),
        ("NameError", "module 'task' has no attribute 'relu'", ""),
        ("AttributeError", "module 'torch' has no attribute 'relu'", ""),
        ("AttributeError", "module 'task' has no attribute 'a b'", ""),
        ("AttributeError", "'Layer' object has no attribute 'relu'", ""),
    ],
)
def test_a_name_missing_from_the_file_is_recognized(type_name: str, text: str, name: str) -> None:
    assert missing_name(reply(type_name, text), "task") == name


@pytest.mark.parametrize(
    ("text", "name", "start"),
    [
        (
            "Layer.forward() got an unexpected keyword argument 'mask'",
            "Layer.forward",
            "Layer.forward has no parameter 'mask', which the exercise passes by name; keep the parameters",
        ),
        (
            "relu() missing 1 required positional argument: 'slope'",
            "relu",
            "relu does not accept the exercise's arguments (relu() missing 1 required",
        ),
        ("relu() takes 1 positional argument but 2 were given", "relu", "relu does not accept"),
        ("relu() got multiple values for argument 'x'", "relu", "relu does not accept"),
        ("relu() got some positional-only arguments", "relu", "relu does not accept"),
        ("unsupported operand type(s) for +: 'int' and 'str'", "", ""),
        ("'int' object is not callable", "", ""),
    ],
)
def test_a_call_that_does_not_fit_is_explained(text: str, name: str, start: str) -> None:
    found, message = misfitting_call(reply("TypeError", text))
    assert found == name
    assert message.startswith(start) and bool(message) == bool(start)
    assert message.endswith("; keep the parameters of the stub" if start else "")
    assert misfitting_call(reply("ValueError", text)) == ("", "")


# --- processes that ended -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            0,
            "ended the whole process (exit code 0) at line 3, in forward: a module must not call os._exit",
        ),
        (-signal.SIGSEGV, "(SIGSEGV) at line 3, in forward: a segmentation fault"),
        (-signal.SIGABRT, "(SIGABRT) at line 3, in forward: it aborted"),
        (-signal.SIGTERM, "(SIGTERM) at line 3, in forward: a signal ended it."),
        (-4242, "(signal 4242) at line 3, in forward: a signal ended it."),
    ],
)
def test_the_end_of_a_process_is_explained_with_the_last_line(status: int, message: str) -> None:
    assert message in cause_of_death(status, FRAME)
    assert cause_of_death(status, None) == cause_of_death(status, FRAME).replace(
        " at line 3, in forward", ""
    )


@pytest.mark.skipif(not hasattr(signal, "SIGXCPU"), reason="needs SIGXCPU")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SIGKILL", "killed for using more"),
        ("SIGXCPU", "processor time"),
        ("SIGXFSZ", "larger than"),
    ],
)
def test_an_exceeded_limit_is_named(name: str, message: str) -> None:
    assert message in cause_of_death(-getattr(signal, name), None)
