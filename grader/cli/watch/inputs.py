"""What wakes `grade watch`: saves of exercises and single keys, each from a thread of its own.

A save. Editors write a file in place, in one or several writes, or rename a new one over it. All of them end in
the same: after a short quiet time the files are looked at, and a file is saved whose time, size or inode is
another. Network drives and the folders of a host send no events: twice a second the files are looked at all
the same.

A key. On POSIX the terminal is put into cbreak mode, in which Ctrl-C and Ctrl-Z keep their meaning; on
Windows the console is asked through msvcrt, which changes no mode (written by its documentation; our tests run
on Linux).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from grader.course.manifest import Course
from grader.submissions import file_of
from grader.submissions.source import parse

# Quiet for so long, and a save is over: too short to be noticed, longer than an editor's
# truncation and writing of a small file. What comes later is a save of its own, and the newest wins.
_QUIET_MS = 15
_LONGEST_MS = 60
_POLL_MS = 150
# Without events for so long, the files are looked at all the same.
_LOOK_MS = 500
# A file that is missing, empty or no Python may be half written: it gets this much time, twice.
_SETTLE_SECONDS = 0.03
_SETTLE_TIMES = 2
# A larger file takes too long to parse.
_LARGEST_PARSED = 100_000
_WINDOWS_POLL_SECONDS = 0.05


class Saves:
    """Reports, from a thread of its own, the exercises whose files were saved.

    `tell` gets their ids, the last one saved last; `crashed` gets an exception that ended the thread. With
    `poll` the files are looked at all the time, and no events are asked for.
    """

    def __init__(
        self,
        course: Course,
        tell: Callable[[tuple[str, ...]], None],
        crashed: Callable[[Exception], None],
        *,
        poll: bool = False,
    ) -> None:
        self._files = {e.id: file_of(course.folder, e) for e in course.exercises}
        self._folder, self._tell, self._crashed = course.folder, tell, crashed
        self._seen = self._look()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(poll,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop telling."""
        self._stop.set()
        self._thread.join()

    def _run(self, poll: bool) -> None:
        try:
            try:
                self._watch(poll)
            except OSError:
                # No more events are to be had: on Linux, inotify has only so many watches.
                self._watch(poll=True)
        except Exception as error:  # noqa: BLE001 (the border of the thread: the loop raises it)
            self._crashed(error)

    def _watch(self, poll: bool) -> None:
        """Report saves until told to stop; raises OSError where no events are to be had."""
        # 20 ms, for which the first verdict need not wait.
        from watchfiles import watch

        for _ in watch(
            self._folder,
            watch_filter=None,
            step=_QUIET_MS,
            debounce=_LONGEST_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            # None leaves it to watchfiles, which knows WSL and its own environment variable.
            force_polling=poll or None,
            poll_delay_ms=_POLL_MS,
            ignore_permission_denied=True,
        ):
            if saved := self._saved():
                self._tell(saved)

    def _saved(self) -> tuple[str, ...]:
        """The exercises whose files changed, the last one last, once the files are settled."""
        for attempt in range(1 + _SETTLE_TIMES):
            now = self._look()
            changed = sorted(
                (name for name in now if now[name] != self._seen[name]), key=now.__getitem__
            )
            # What was read must be what was looked at: a write in between is a part of this save.
            if not changed or (all(map(self._is_whole, changed)) and now == self._look()):
                break
            if attempt < _SETTLE_TIMES:
                time.sleep(_SETTLE_SECONDS)
        self._seen = now
        return tuple(changed)

    def _look(self) -> dict[str, tuple[int, int, int]]:
        """The time, size and inode of each file, which tell it from another or an older one."""
        seen = {}
        for name, path in self._files.items():
            try:
                file = os.lstat(path)
                seen[name] = (file.st_mtime_ns, file.st_size, file.st_ino)
            except OSError:
                seen[name] = (0, 0, 0)
        return seen

    def _is_whole(self, name: str) -> bool:
        """Whether a file looks whole; one that is missing, empty or no Python may not be."""
        try:
            source = self._files[name].read_bytes()
            if len(source) < _LARGEST_PARSED:
                parse(source)
        except (OSError, SyntaxError):
            return False
        return bool(source.strip())


# --- keys ---------------------------------------------------------------------------------------------


def has_keyboard() -> bool:
    """Whether standard input is a terminal; a process may also be started without any."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def keys_pressed(data: bytes) -> str:
    """The keys that a terminal sent as these bytes: lower case, without arrows and the like.

    What begins with an escape is a key without a letter, though letters are in it: ESC [ A is "up".
    A terminal sends such a key in one piece, and what follows in the same piece was not meant either.
    """
    text = data.partition(b"\x1b")[0].decode("ascii", "ignore")
    return "".join(key for key in text.lower() if key.isprintable())


if sys.platform != "win32":
    import termios
    import tty

    def mute() -> None:
        """Have the terminal echo nothing and give each key at once, also after the shell had it."""
        tty.setcbreak(sys.stdin.fileno(), termios.TCSANOW)

    @contextlib.contextmanager
    def reading_keys(tell: Callable[[str], None]) -> Iterator[None]:
        """Tell of each key while the context lasts, and put the terminal back, short of SIGKILL."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)

        def read() -> None:
            # It ends with the process, or when the terminal is gone, of which a signal tells.
            with contextlib.suppress(OSError):
                while data := os.read(terminal, 64):
                    for key in keys_pressed(data):
                        tell(key)

        try:
            mute()
            threading.Thread(target=read, daemon=True).start()
            yield
        finally:
            # What was typed and not read is not for the shell.
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

else:
    import msvcrt

    def mute() -> None:
        """Do nothing: the console echoes no key that is read by msvcrt."""

    @contextlib.contextmanager
    def reading_keys(tell: Callable[[str], None]) -> Iterator[None]:
        """Tell of each key while the context lasts."""

        def read() -> None:
            while True:
                if not msvcrt.kbhit():
                    time.sleep(_WINDOWS_POLL_SECONDS)
                    continue
                key = msvcrt.getwch()
                if key in ("\x00", "\xe0"):
                    msvcrt.getwch()  # an arrow or a function key: its second half is no letter
                elif key.isprintable():
                    tell(key.lower())

        threading.Thread(target=read, daemon=True).start()
        yield
