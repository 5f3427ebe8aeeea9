"""A student's module sees the surroundings of a program, and nothing of the grader's process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import grader
from grader.judge.assignment import Judgment
from grader.results import Status
from grader.sandbox.surroundings import keep_open, without_paths

JudgeSource = Callable[..., Judgment]

SUITE = '''
import torch

def test_answer(student):
    """The answer"""
    assert_equal(student.function("answer")(), 1)
'''
# Honest files have such lines at the top.
PROGRAM = """
import argparse, io, multiprocessing, os, signal, sys, torch
import __main__

assert sys.argv == ["task.py"], sys.argv
assert sys.orig_argv == ["python", "task.py"], sys.orig_argv
parser = argparse.ArgumentParser()
parser.add_argument("--lr", default=0.1)
assert (parser.prog, parser.parse_args().lr) == ("task.py", 0.1)
assert __name__ != "__main__"
assert __main__.parser is parser and __main__.__file__ == __file__

torch.set_num_threads(2)
torch.randn(300, 300) @ torch.randn(300, 300)
torch.set_num_interop_threads(1)
torch.set_num_interop_threads(4)
try:
    torch.set_num_interop_threads(0)
except RuntimeError as error:
    assert "positive integer" in str(error)
else:
    raise AssertionError("it took zero")

multiprocessing.set_start_method("spawn")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

os.closerange(3, 256)
for descriptor in range(3, 256):
    try:
        os.close(descriptor)
    except OSError:
        pass

# Programs do this to print UTF-8 on every system. The replaced stream must not close descriptor 1.
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
print("wrapped")
sys.__stdout__.write("direct\\n")

def deep(n):
    return n and 1 + deep(n - 1)

assert deep(980) == 980

def answer():
    return 1
"""


def test_a_module_runs_like_a_program(judged: JudgeSource) -> None:
    result = judged(PROGRAM, SUITE).result
    assert (result.status, result.message) == (Status.PASSED, "")
    assert result.output.splitlines() == ["wrapped", "direct"]


def test_output_and_errors_name_no_folder_of_this_machine(judged: JudgeSource) -> None:
    source = (
        "import torch, traceback, warnings\n"
        "traceback.print_stack()\n"
        "print(torch.__file__, __file__)\n"
        "from torch.nn import no_such_layer\n"
    )
    result = judged(source, SUITE).result
    shown = result.message + result.output
    assert "torch/__init__.py one/task.py\n" in result.output
    assert "from 'torch.nn' (torch/nn/__init__.py) (line 4, in <module>)" in result.message
    folders = (Path(grader.__file__).parents[1], sys.prefix, sys.base_prefix, "grade-")
    assert not [folder for folder in folders if str(folder) in shown]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (f"{torch.__file__}: it", "torch/__init__.py: it"),
        (f"{sysconfig.get_path('stdlib')}/json/decoder.py", "json/decoder.py"),
        (f"({sys.prefix})", "()"),
        (f"{tempfile.gettempdir()}/grade-ab1_/tmpx9/one/task.py", "one/task.py"),
        ("/usr/share/fonts and /data/x.csv", "/usr/share/fonts and /data/x.csv"),
    ],
)
def test_paths_are_shortened(text: str, cut: str) -> None:
    assert without_paths(text) == cut


def test_a_protected_descriptor_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    # monkeypatch restores these afterwards.
    monkeypatch.setattr(os, "close", os.close)
    monkeypatch.setattr(os, "closerange", os.closerange)
    # Far above the open descriptors of this process: the range below closes nothing else.
    first = os.dup(1)
    kept, *others = (os.dup2(first, first + 300 + number) for number in range(3))
    os.close(first)
    keep_open(kept)
    bad = os.strerror(errno.EBADF)
    with pytest.raises(OSError, match=bad):
        os.close(kept)
    os.closerange(kept - 1, kept + 10)
    os.fstat(kept)
    for other in others:
        with pytest.raises(OSError, match=bad):
            os.fstat(other)
    monkeypatch.undo()
    os.close(kept)


CLOSED = """
import os, sys
from grader.sandbox.surroundings import open_standard_streams

open_standard_streams()
assert os.open(os.devnull, os.O_RDONLY) > 2
assert sys.stdin.read() == ""
print("harmless"), print("harmless", file=sys.stderr)
for number in range(3):
    assert os.get_inheritable(number)
os._exit(7)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_opened(closed: str) -> None:
    command = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, CLOSED]
    assert subprocess.run(command, check=False).returncode == 7
