"""Time not spent in the student's code is excused up to a limit, and late imports are named."""

from __future__ import annotations

import ast
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from grader.judge.assignment import Judgment
from grader.judge.outcomes import TimedOut
from grader.judge.preloading import late_modules
from grader.judge.session import BegunTest, Budget, Session
from grader.judge.student_file import StudentFile
from grader.results import Outcome
from grader.sandbox.client import MAX_END, Sandbox, imported_library
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import Channel
from grader.sandbox.wire.messages import UNCLEAR, ListImports, Loaded
from grader.sandbox.wire.packing import Packing
from tests.grader.conftest import WriteCourse

JudgeSource = Callable[..., Judgment]

OWN = '  File "one/task.py", line 3 in first\n'
IMPORT = '  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed\n'
TORCH = (
    '  File "/opt/venv/lib/python3.11/site-packages/torch/_dynamo/config.py", line 9 in <module>\n'
)


@pytest.mark.parametrize(
    ("frames", "library"),
    [
        (TORCH + IMPORT + OWN, "torch"),
        # The last frames of a deep stack are not shown.
        (TORCH + IMPORT, "torch"),
        (IMPORT + OWN, "a library"),
        (TORCH + OWN, ""),
        (OWN + IMPORT, ""),
        (OWN, ""),
        ("", ""),
    ],
)
def test_an_import_is_recognized_from_the_stack(frames: str, library: str) -> None:
    stack = f"Stack (most recent call first):\n{frames}".encode()
    assert imported_library(stack, "one/task.py") == library


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import torch\ntorch.optim.Adam([])", ("torch.optim",)),
        ("from torch import optim as o\no.SGD([])", ("torch.optim",)),
        ("from torch.optim.lr_scheduler import StepLR", ("torch.optim",)),
        ("def f():\n  import torch as t\n  t.use_deterministic_algorithms(1)", ("torch._dynamo",)),
        ("import torch\n@torch.compile\ndef f(): ...", ("torch._dynamo",)),
        ("import matplotlib.pyplot as plt", ("matplotlib.pyplot",)),
        ("import re\nre.compile('a')", ()),
        ("optim = 1 # torch.optim", ()),
        ("import no_such_package.optim, os.profiler", ()),
    ],
)
def test_only_modules_of_the_table_are_imported_beforehand(
    source: str, modules: tuple[str, ...]
) -> None:
    assert late_modules(source.encode(), ast.parse(source)) == modules


def test_excused_time_has_a_limit_over_all_tests(tmp_path: Path, write_course: WriteCourse) -> None:
    (exercise,) = write_course(tmp_path, "def test_a(student):\n    'A'\n").exercises
    budget = Budget(exercise)
    assert [budget.excuse(seconds) for seconds in (5, -1, 5, 5)] == [5, 0, 3, 0]
    budget.begin()
    assert (budget.excuse(1), budget.left) == (0, 2)


class _Source:
    """A source of sandboxes without a process: there is no stack to show and nothing to stop."""

    def show_stack(self, _: int) -> bool:
        return False

    def stop(self, _: int) -> int:
        return 0

    def kill(self, _: int) -> None:
        """Do nothing, since no process runs."""


@contextlib.contextmanager
def connected(schedule: int | None = None) -> Iterator[tuple[Sandbox, Channel]]:
    ours, theirs = socket.socketpair()
    output, output_there = socket.socketpair()
    reports, reports_there = socket.socketpair()
    with theirs, output_there, reports_there:
        sandbox = Sandbox(_Source(), 0, Channel(ours), output, reports, schedule)
        yield sandbox, Channel(theirs)
        sandbox.stop()


def test_a_slowly_printed_stack_is_read_to_its_end() -> None:
    """A busy machine pauses a process while it prints.

    Without the outer calls, an import is not recognized. A stack that was printed earlier does not count.
    """
    stack = "Stack (most recent call first):\n" + IMPORT + OWN
    stack += '  File "<frozen runpy>", line 198 in _run_module_as_main\n'
    ours, theirs = socket.socketpair()
    output, printed = socket.socketpair()
    reports, reports_there = socket.socketpair()

    class Slow(_Source):
        def show_stack(self, _: int) -> bool:
            threads.submit(print_stack)
            return True

    def print_stack() -> None:
        for line in stack.encode().splitlines(keepends=True):
            time.sleep(0.05)
            printed.sendall(line)
        printed.sendall(b"and on\n" * MAX_END)

    with ThreadPoolExecutor() as threads, theirs, printed, reports_there:
        sandbox = Sandbox(Slow(), 0, Channel(ours), output, reports)
        printed.sendall(stack.replace("in first", "in made_up").encode())
        sandbox.show_stack()
        assert sandbox.output.last_stack.decode() == stack
        sandbox.stop()


def test_a_call_continues_while_more_time_is_given() -> None:
    given = iter([0.001, 0.002, 0])
    with connected() as (sandbox, there):
        with pytest.raises(TimeoutError):
            sandbox.ask(ListImports(), Packing(), 0.001, lambda _: next(given))
        assert not list(given)

        def answer(_: Sandbox) -> float:
            for _late in (True, False):
                there.receive_request()
            there.send(Loaded(), Packing(), timeout=None)
            return 10

        assert sandbox.ask(ListImports(), Packing(), 0.001, answer) == (Loaded(), [])


def test_announced_reports_that_never_arrive_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.sandbox.client._REPORT_SECONDS", 0.01)
    with connected() as (sandbox, there):

        def answer(_: Sandbox) -> float:
            there.receive_request()
            there.send(Loaded(), Packing(), timeout=None, told=1)
            return 10

        sandbox.ask(ListImports(), Packing(), 0.001, answer)
        assert sandbox.take_reports() == [UNCLEAR]


def test_time_waiting_for_a_processor_is_read_from_the_kernel(tmp_path: Path) -> None:
    counted = tmp_path / "schedstat"
    for text, seconds in (("7 1500000000 3\n", 1.5), ("", 0.0)):
        counted.write_text(text)
        with connected(os.open(counted, os.O_RDONLY)) as (sandbox, _):
            assert sandbox.delayed() == seconds
        assert sandbox.delayed() == 0


def test_a_timed_out_call_has_used_all_of_its_time(
    tmp_path: Path, write_course: WriteCourse
) -> None:
    """A wait that was excused by too little to try again must not leave a rest of time."""
    (exercise,) = write_course(tmp_path, "def test_a(student):\n    'A'\n").exercises
    exercise = msgspec.structs.replace(exercise, seconds=0.5)
    counted = tmp_path / "schedstat"
    counted.write_text("7 40000000 3\n")
    messages = []
    with contextlib.ExitStack() as opened:

        class Silent(_Source):
            def begin(self, _modules: Sequence[str], _limits: Limits) -> Callable[[], Sandbox]:
                sandbox, _ = opened.enter_context(connected(os.open(counted, os.O_RDONLY)))
                return lambda: sandbox

        session = Session(Silent(), exercise, StudentFile(exercise, b""), given={})
        for seed in range(4):
            session.begin_test(BegunTest(seed))
            with pytest.raises(TimedOut) as late:
                session.load()
            messages.append(str(late.value))
    assert ["is used up" in message for message in messages] == [False, False, False, True]


SUITE = '''
def test_first(student):
    """The first part"""
    assert_equal(student.function("first")(), 1)
'''
SLOW = """
import os, sys
sys.path.insert(0, os.getcwd())
def first():
    with open("slow.py", "w") as file:
        file.write({module!r})
    import slow
    return 1
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "outcome", "words"),
    [
        # A test may use 2 s.
        ("import time; time.sleep(2.5)", Outcome.PASSED, ""),
        ("while True: pass", Outcome.TIMEOUT, "still importing a library at line 7, in first"),
    ],
)
def test_an_import_may_take_longer_but_not_forever(
    judged: JudgeSource, module: str, outcome: Outcome, words: str
) -> None:
    # On a busy machine, a stack may come too late to show the import.
    for _ in range(4):
        (test,) = judged(SLOW.format(module=module), SUITE).result.tests
        if test.outcome is outcome and words in test.message:
            break
    assert test.outcome is outcome
    assert words in test.message
