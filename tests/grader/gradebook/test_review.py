"""What a person is told to look at, where the file is not what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.gradebook.review import (
    Attention,
    Reason,
    attention,
    most_pressing_first,
    suspicious_in,
)
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.results import Outcome, Status
from grader.submissions import ExerciseFile
from grader.submissions.source import beyond_guards, parse
from tests.grader import builders

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


def looked_at(course: Course, handed: ExerciseFile) -> list[Attention]:
    exercise = course.exercises[0]
    result = settle(course, exercise, handed, GradingOptions())
    assert result is not None
    return list(attention("ada", exercise, handed, frozenset(), result))


def test_a_wrong_name_is_looked_at_and_a_missing_file_is_not() -> None:
    course = load_course(PLAIN)
    assert looked_at(course, ExerciseFile(None, "It is missing.")) == []
    (found,) = looked_at(course, ExerciseFile(None, "It is missing.", seems_misnamed=True))
    assert (found.kind, found.student, found.what) == (Reason.MISNAMED, "ada", "It is missing.")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_that_is_no_utf_8_is_looked_at(encoding: str) -> None:
    (found,) = looked_at(load_course(PLAIN), ExerciseFile("x = 'é'\n".encode(encoding)))
    assert found.kind is Reason.UNREADABLE
    assert "UTF-8" in found.what


def judged(source: str, stub: str = "") -> list[Attention]:
    """What is looked at in a file that was judged and has a verdict."""
    exercise = load_course(PLAIN).exercises[0]
    result = builders.exercise(name=exercise.id)
    in_stub = suspicious_in(stub.encode())
    return list(attention("ada", exercise, ExerciseFile(source.encode()), in_stub, result))


def test_thousands_of_odd_lines_are_five_entries_and_none_is_lost_count_of() -> None:
    lines = [f"import {('ctypes', 'atexit', 'mmap', 'os')[n % 4]}" for n in range(16_000)]
    lines += [f"x = '/proc/{n}', os._exit, os.fork" for n in range(1500)]
    lines += [f"import socket.a{n}, signal, pytest" for n in range(1500)]
    entries = judged("\n".join(lines))
    assert [entry.text for entry in entries] == [
        "line 1 imports ctypes, which reaches into the process's memory (and on 3999 more lines)",
        "line 2 imports atexit, which runs code when the process ends (and on 3999 more lines)",
        "line 3 imports mmap, which maps memory (and on 3999 more lines)",
        "line 16001 names '/proc/' (and on 1499 more lines)",
        "line 16001 uses os._exit (and on 1499 more lines); and 4 more things of this kind",
    ]
    assert {entry.kind for entry in entries} == {Reason.FORGER}
    assert sum(len(entry.what) for entry in entries) < 500


def test_a_student_with_thousands_of_odd_lines_hides_no_other() -> None:
    flood = judged("\n".join(f"import ctypes.a{n}" for n in range(19_000)))
    other = Attention(Reason.FORGER, "zoe", "glu", "line 1 imports gc")
    entries = most_pressing_first([*flood, other])
    assert len(entries) == 2
    assert other in entries


def test_a_fault_and_a_timeout_come_before_odd_code() -> None:
    exercise = load_course(PLAIN).exercises[0]
    late = builders.checked("a", Outcome.TIMEOUT, message="too late")
    result = builders.exercise(late, name=exercise.id, status=Status.UNJUDGED, message="a fault")
    source = b"import ctypes, pytest, mmap, signal, socket, atexit"
    entries = attention("ada", exercise, ExerciseFile(source), frozenset(), result)
    assert [entry.kind for entry in entries[:3]] == [Reason.FAULT, Reason.TIMEOUT, Reason.FORGER]
    assert len(entries) == 5
    assert entries[-1].what.endswith("; and 3 more things of this kind")


def test_what_the_stub_holds_is_not_the_students() -> None:
    stub = "import signal\n\nimport socket\n"
    assert judged("import socket\nimport signal\nx = 1\n", stub) == []
    (entry,) = judged("import socket\nimport ctypes\n", stub)
    assert entry.text.startswith("line 2 imports ctypes")


@pytest.mark.parametrize(
    "source",
    [
        "import \uff43\uff54\uff59\uff50\uff45\uff53",
        "from \U0001d41c\U0001d42d\U0001d432\U0001d429\U0001d41e\U0001d42c import CDLL",
        "import ctyp\u212fs as harmless",
    ],
)
def test_a_name_in_other_letters_is_the_name(source: str) -> None:
    (entry,) = judged(source)
    assert entry.text == "line 1 imports ctypes, which reaches into the process's memory"


@pytest.mark.parametrize("source", ["x = '\\x5fexit'\n", "x = '_\\\nexit'\n"])
def test_odd_code_is_seen_however_it_is_written(source: str) -> None:
    assert suspicious_in(source.encode())


def test_what_is_put_in_the_place_of_a_library_s_functions_is_looked_at() -> None:
    head = "import torch\nfrom torch import nn\n"
    honest = "torch.backends.cudnn.benchmark = False\nmodel = nn.Linear(1, 1)\nmodel.bias = None\n"
    assert judged(head + honest) == []
    for write in ("torch.rand = len", "if x: torch.rand: Any = len", "torch.rand, y = len, 1"):
        (entry,) = judged(f"{head}{write}\n")
        assert entry.text == "line 3 puts something else in the place of torch.rand"
    (entry,) = judged(f"{head}setattr(nn.Linear, 'forward', len)\n")
    assert entry.text == "line 3 puts something else into nn.Linear"


def test_an_empty_file_is_told_to_be_empty() -> None:
    course = load_course(PLAIN)
    for source in (b"", b" \n\n", b"\xef\xbb\xbf"):
        result = settle(course, course.exercises[0], ExerciseFile(source), GradingOptions())
        assert result is not None
        assert result.score == 0
        assert result.message == (
            f"{course.exercises[0].file} is empty: write your code into it and save it, or "
            f"`grade reset {course.exercises[0].id}` brings the stub back."
        )


COURSE = load_course(Path(__file__).parents[3])


def looked_at_in(name: str, source: bytes, stub: bytes = b"") -> list[str]:
    """What is told of a file that was judged, in an exercise of the course."""
    exercise, result = COURSE.exercise(name), builders.exercise(name=name)
    entries = attention("ada", exercise, ExerciseFile(source), suspicious_in(stub), result)
    return [entry.text for entry in entries]


def test_a_way_around_forbidden_operators_is_looked_at() -> None:
    source = b"import torch\nx = torch._refs\ny = getattr(torch, 'n' + 'n')\n"
    told = ["line 2 names _refs, getattr: a way around what forbids operators"]
    assert looked_at_in("glu", source) == told
    assert looked_at_in("collate", source) == []
    assert looked_at_in("glu", source, stub=source) == []
    assert looked_at_in("glu", source, stub=b"x = torch._refs\n")[0].startswith("line 3 names get")
    # What everybody is given, and the solutions, name none.
    for exercise in COURSE.exercises:
        if exercise.operators:
            for path in (COURSE.stub(exercise), COURSE.solution(exercise)):
                assert beyond_guards(parse(path.read_bytes())) == {}


@pytest.mark.parametrize(
    "line",
    [
        "import operator; y = operator.mul(2, 3)",
        "import logging, json, argparse, string, sys; logging.info(sys.argv)",
        "import re; words = re.compile('a+')",
        "for m in model.modules(): m.load(torch.load(f))",
        "x = getattr(self, name); setattr(self, name, vars(self)['y'])",
        "class A: __slots__ = ('b',)",
        "torch._foreach_add_(a, b); x._version; self._x",
        "if mode == 'eval': model.eval()",
        "import gc, inspect; gc.collect(); inspect.signature(f)",
        "import einops, torch_extras",
    ],
)
def test_what_honest_people_write_is_not_looked_at(line: str) -> None:
    assert looked_at_in("glu", line.encode()) == []


@pytest.mark.parametrize(
    "line",
    [
        "import gc; gc.get_objects()",
        "from inspect import stack",
        "import threading",
        "f = getattr",
        "import torch; torch.__dict__['x']",
        "import torch as t; vars(t)",
        "import sys; sys.modules",
        "exec('x')",
        "f.__globals__",
    ],
)
def test_what_they_do_not_write_is(line: str) -> None:
    assert len(looked_at_in("glu", line.encode())) >= 1


def test_a_class_of_right_answers_gives_almost_nothing_to_look_at() -> None:
    told = {}
    right = Path(__file__).parents[2] / "right"
    for exercise in COURSE.exercises:
        stub = COURSE.stub(exercise).read_bytes()
        for path in (right / exercise.chapter / exercise.id).glob("*.py"):
            if entries := looked_at_in(exercise.id, path.read_bytes(), stub):
                told[path.stem] = entries
    # Of 253: one that starts its own processes, and two that take a name out of a function of torch.
    assert set(told) <= {"own_launch", "float32_constant", "second_function"}
