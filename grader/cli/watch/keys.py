"""The keyboard while something else goes on: single keys, told as they are pressed, nothing echoed.

On POSIX the terminal is put into cbreak mode, in which Ctrl-C and Ctrl-Z keep their meaning, and is put
back however the work ends, short of SIGKILL. On Windows the console is asked through msvcrt, which
changes no mode (written by its documentation; our tests run on Linux).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_WINDOWS_POLL_SECONDS = 0.05


@contextlib.contextmanager
def reading_keys(tell: Callable[[str], None]) -> Iterator[bool]:
    """Tell of each key while the context lasts, from a thread; gives False where there are none.

    There are none where standard input is no terminal.
    """
    if not _is_terminal():
        yield False
    elif sys.platform == "win32":
        with _windows_keys(tell):
            yield True
    else:
        with _posix_keys(tell):
            yield True


def _is_terminal() -> bool:
    # A process may be started without any standard input.
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def keys_pressed(data: bytes) -> str:
    """The keys that a terminal sent as these bytes: lower case, without arrows and the like.

    What begins with an escape is a key without a letter, though letters are in it: ESC [ A is "up".
    A terminal sends such a key in one piece, and what follows in the same piece was not meant either.
    """
    text = data.partition(b"\x1b")[0].decode("ascii", "ignore")
    return "".join(key for key in text.lower() if key.isprintable())


if sys.platform != "win32":
    import select
    import signal
    import termios
    import tty

    @contextlib.contextmanager
    def _posix_keys(tell: Callable[[str], None]) -> Iterator[None]:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)

        def no_echo() -> None:
            tty.setcbreak(terminal, termios.TCSANOW)

        wake, waker = os.pipe()
        thread = threading.Thread(target=_read, args=(terminal, wake, tell), daemon=True)
        try:
            no_echo()
            # After a Ctrl-Z the shell hands back a terminal as it likes it.
            with _on_signal(signal.SIGCONT, no_echo):
                thread.start()
                yield
        finally:
            os.write(waker, b".")
            if thread.is_alive():
                thread.join()
            # What was typed and not read is not for the shell.
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
            os.close(wake)
            os.close(waker)

    def _read(terminal: int, wake: int, tell: Callable[[str], None]) -> None:
        while True:
            ready, _, _ = select.select([terminal, wake], [], [])
            if wake in ready:
                return
            try:
                data = os.read(terminal, 64)
            except OSError:
                data = b""
            if not data:
                return  # the terminal is gone; the signal that says so ends the rest
            for key in keys_pressed(data):
                tell(key)

    @contextlib.contextmanager
    def _on_signal(number: int, handler: Callable[[], None]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(number)

        def handle(*arguments: Any) -> None:
            handler()
            # The handler before ours has a use for it, too.
            if callable(before):
                before(*arguments)

        signal.signal(number, handle)
        try:
            yield
        finally:
            signal.signal(number, before)

else:
    import msvcrt

    @contextlib.contextmanager
    def _windows_keys(tell: Callable[[str], None]) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=_read_console, args=(stop, tell), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _read_console(stop: threading.Event, tell: Callable[[str], None]) -> None:
        while not stop.is_set():
            if not msvcrt.kbhit():
                time.sleep(_WINDOWS_POLL_SECONDS)
                continue
            key = msvcrt.getwch()
            if key in ("\x00", "\xe0"):
                msvcrt.getwch()  # an arrow or a function key: its second half is no letter
            elif key.isprintable():
                tell(key.lower())
