"""Entries for staff to look at: files other than requested, and odd code."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from grader.course.manifest import Course, load_course
from grader.gradebook.review import (
    Attention,
    Reason,
    attention,
    most_pressing_first,
    nothing_found,
)
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.results import Outcome, Status
from grader.submissions import ExerciseFile
from grader.submissions.odd_code import odd_names, ordinary_in, reasons
from tests.grader import builders

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


def looked_at(course: Course, handed: ExerciseFile) -> list[Attention]:
    exercise = course.exercises[0]
    result = settle(course, exercise, handed, GradingOptions())
    assert result is not None
    return list(attention("ada", exercise, handed, result))


def test_a_misnamed_file_gives_an_entry_and_a_missing_one_does_not() -> None:
    course = load_course(PLAIN)
    assert looked_at(course, ExerciseFile(None, "It is missing.")) == []
    (found,) = looked_at(course, ExerciseFile(None, "It is missing.", seems_misnamed=True))
    assert (found.kind, found.student, found.what) == (Reason.MISNAMED, "ada", "It is missing.")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_that_is_not_utf_8_gives_an_entry(encoding: str) -> None:
    (found,) = looked_at(load_course(PLAIN), ExerciseFile("x = 'é'\n".encode(encoding)))
    assert found.kind is Reason.UNREADABLE
    assert "UTF-8" in found.what


def test_a_submission_without_files_gives_one_entry_that_names_five_exercises() -> None:
    exercise = load_course(PLAIN).exercises[0]
    every = [msgspec.structs.replace(exercise, id=f"e{number}") for number in range(7)]
    files = {each.id: ExerciseFile(None, "There is no file of the course.") for each in every}
    (found,) = nothing_found("ada", every, files)
    assert found.exercises == ("e0", "e1", "e2", "e3", "e4", "e5", "e6")
    assert found.where == "e0, e1, e2, e3, e4 and 2 more"


def judged(source: str, stub: str = "") -> list[Attention]:
    """Return the entries for a file that has a verdict."""
    exercise = load_course(PLAIN).exercises[0]
    held = reasons(source.encode(), ordinary_in(exercise, stub.encode()))
    result = builders.exercise(name=exercise.id, held=held)
    return list(attention("ada", exercise, ExerciseFile(source.encode()), result))


def test_thousands_of_odd_lines_give_five_entries_that_count_them_all() -> None:
    lines = [f"import {('ctypes', 'atexit', 'mmap', 'os')[n % 4]}" for n in range(4_000)]
    lines += [f"x = '/proc/{n}', os._exit, os.fork" for n in range(400)]
    lines += [f"import socket.a{n}, signal, pytest" for n in range(400)]
    entries = judged("\n".join(lines))
    assert [entry.what for entry in entries] == [
        "line 1 imports ctypes, which reaches into the process's memory (and on 999 more lines)",
        "line 2 imports atexit, which runs code at another time (and on 999 more lines)",
        "line 3 imports mmap, which reaches into the process's memory (and on 999 more lines)",
        "line 4001 names '/proc/' (and on 399 more lines)",
        "line 4001 uses os._exit (and on 399 more lines); and 4 more things of this kind",
    ]
    assert {entry.kind for entry in entries} == {Reason.ODD_CODE}
    assert sum(len(entry.what) for entry in entries) < 500


def test_a_student_with_thousands_of_odd_lines_does_not_hide_others() -> None:
    flood = judged("\n".join(f"import ctypes.a{n}" for n in range(3_000)))
    other = Attention(Reason.ODD_CODE, "zoe", ("glu",), "line 1 imports gc")
    entries = most_pressing_first([*flood, other])
    assert len(entries) == 2
    assert other in entries


def test_a_fault_and_a_timeout_come_before_odd_code() -> None:
    exercise = load_course(PLAIN).exercises[0]
    late = builders.checked("a", Outcome.TIMEOUT, message="too late")
    result = builders.exercise(
        late,
        name=exercise.id,
        status=Status.UNJUDGED,
        message="a fault",
        held=reasons(b"import ctypes, pytest, mmap, signal, socket, atexit", ()),
    )
    entries = attention("ada", exercise, ExerciseFile(b"import ctypes"), result)
    assert [entry.kind for entry in entries[:3]] == [Reason.FAULT, Reason.TIMEOUT, Reason.ODD_CODE]
    assert entries[-1].what.endswith("; and 1 more thing of this kind")


def test_odd_code_of_the_stub_gives_no_entry() -> None:
    stub = "import signal\n\nimport socket\n"
    assert judged("import socket\nimport signal\nx = 1\n", stub) == []
    (entry,) = judged("import socket\nimport ctypes\n", stub)
    assert entry.what.startswith("line 2 imports ctypes")


@pytest.mark.parametrize(
    "source",
    [
        "import \uff43\uff54\uff59\uff50\uff45\uff53",
        "from \U0001d41c\U0001d42d\U0001d432\U0001d429\U0001d41e\U0001d42c import CDLL",
        "import ctyp\u212fs as harmless",
    ],
)
def test_a_name_in_lookalike_letters_is_recognized(source: str) -> None:
    (entry,) = judged(source)
    assert entry.what == "line 1 imports ctypes, which reaches into the process's memory"


@pytest.mark.parametrize("source", ["x = '\\x5fexit'\n", "x = '_\\\nexit'\n"])
def test_odd_names_are_found_behind_escapes(source: str) -> None:
    assert odd_names(source.encode())


def test_replacing_functions_of_a_library_gives_an_entry() -> None:
    head = "import torch\nfrom torch import nn\n"
    honest = "torch.backends.cudnn.benchmark = False\nmodel = nn.Linear(1, 1)\nmodel.bias = None\n"
    assert judged(head + honest) == []
    for write in ("torch.rand = len", "if x: torch.rand: Any = len", "torch.rand, y = len, 1"):
        (entry,) = judged(f"{head}{write}\n")
        assert entry.what == "line 3 replaces torch.rand"
    (entry,) = judged(f"{head}setattr(nn.Linear, 'forward', len)\n")
    assert entry.what == "line 3 replaces torch.nn.Linear"


def test_attempts_follow_the_table_in_the_reference() -> None:
    """Rows of the table in docs/reference.md that need no judge."""
    course = load_course(PLAIN)
    exercise = course.exercises[0]
    stub = course.stub(exercise).source
    notebook = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    for handed, is_attempt in (
        (ExerciseFile(stub + b"def (:\n"), True),
        (ExerciseFile(notebook), True),
        (ExerciseFile("x = 'é'\n".encode("utf-16")), True),
        (ExerciseFile(stub), False),
        (ExerciseFile(b" \n"), False),
        (ExerciseFile(None, "It is missing."), False),
    ):
        result = settle(course, exercise, handed, GradingOptions())
        assert result is not None
        assert result.attempted is is_attempt, result.message


def test_the_message_for_an_empty_file_says_so() -> None:
    course = load_course(PLAIN)
    for source in (b"", b" \n\n", b"\xef\xbb\xbf"):
        result = settle(course, course.exercises[0], ExerciseFile(source), GradingOptions())
        assert result is not None
        assert result.score == 0
        assert result.message == (
            f"{course.exercises[0].file} is empty: write your code into it and save it, or "
            f"bring the stub back with `grade reset {course.exercises[0].id}`, in a browser with Reset."
        )
