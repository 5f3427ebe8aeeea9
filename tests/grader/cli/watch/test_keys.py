"""Keys are reported one by one, and the terminal is restored even after a crash."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import IO

import pytest

from grader.cli.watch.inputs import has_keyboard, keys_pressed

posix = pytest.mark.skipif(os.name != "posix", reason="a pseudo-terminal needs POSIX")

PROGRAM = """
import sys, time
from grader.cli.watch.inputs import reading_keys

with reading_keys(lambda key: print("key", key, flush=True)):
    print("reading", flush=True)
    if sys.argv[1] == "crash":
        raise RuntimeError("on purpose")
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"h", "h"),
        (b"Hq", "hq"),
        (b"\x1b[A", ""),
        (b"n\x1bOA", "n"),
        ("ä".encode(), ""),
        (b"\x04\x00 ", " "),
    ],
)
def test_keys_pressed(data: bytes, keys: str) -> None:
    assert keys_pressed(data) == keys


@pytest.mark.parametrize("stdin", [None, io.StringIO("h")])
def test_without_a_terminal_there_are_no_keys(
    monkeypatch: pytest.MonkeyPatch, stdin: IO[str] | None
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    assert not has_keyboard()


@posix
@pytest.mark.parametrize("how", ["crash", "interrupt"])
def test_the_terminal_is_restored(how: str) -> None:
    import pty
    import select
    import signal
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        if how == "interrupt":
            assert not termios.tcgetattr(theirs)[3] & termios.ECHO
            # The letters of an arrow are not keys, nor is anything read together with them. So H is pressed
            # until a key is reported.
            os.write(ours, b"\x1b[A")
            while not select.select([process.stdout], [], [], 0.2)[0]:
                os.write(ours, b"H")
            assert process.stdout.readline() == "key h\n"
            process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
