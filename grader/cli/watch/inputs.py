"""The events that wake `grade watch`: saves of exercises and single keys, each from its own thread.

Saves. Editors write a file in place, in one or several writes, or rename a new file over it. In each case the
files are looked at after a short quiet time, and a file counts as saved if its time, size or inode differs.
Network drives and folders of a virtual machine's host send no events, so the files are also looked at twice a
second.

Keys. On POSIX the terminal is put into cbreak mode, in which Ctrl-C and Ctrl-Z keep their meaning. On Windows
the console is read with msvcrt, which changes no mode (written from its documentation; our tests run on Linux).
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

# A save is over after this quiet time: too short to notice, longer than an editor takes to truncate and write a
# small file. Later writes are a save of their own, and the newest wins.
_QUIET_MS = 15
_LONGEST_MS = 60
_POLL_MS = 150
# The files are looked at after this time without events.
_LOOK_MS = 500
# A file that is missing, empty or not Python may be half written. It gets this much time, twice.
_SETTLE_SECONDS = 0.03
_SETTLE_TIMES = 2
# A larger file takes too long to parse.
_LARGEST_PARSED = 100_000
_WINDOWS_POLL_SECONDS = 0.05


class Saves:
    """Reports, from its own thread, the exercises whose files were saved.

    `tell` gets their ids, the last saved last; `crashed` gets an exception that ended the thread. With `poll`,
    the files are looked at all the time, and no events are requested.
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
        """Stop reporting."""
        self._stop.set()
        self._thread.join()

    def _run(self, poll: bool) -> None:
        try:
            try:
                self._watch(poll)
            except OSError:
                # Linux limits the number of inotify watches.
                self._watch(poll=True)
        except Exception as error:  # noqa: BLE001 (the border of the thread: the loop raises it)
            self._crashed(error)

    def _watch(self, poll: bool) -> None:
        """Report saves until told to stop; raises OSError if there are no events."""
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
            # None leaves the choice to watchfiles, which knows WSL and its own environment variable.
            force_polling=poll or None,
            poll_delay_ms=_POLL_MS,
            ignore_permission_denied=True,
        ):
            if saved := self._saved():
                self._tell(saved)

    def _saved(self) -> tuple[str, ...]:
        """Return the exercises whose files changed, the last one last, once the files are settled."""
        for attempt in range(1 + _SETTLE_TIMES):
            now = self._look()
            changed = sorted(
                (name for name in now if now[name] != self._seen[name]), key=now.__getitem__
            )
            # The files read must be the ones looked at: a write in between belongs to this save.
            if not changed or (all(map(self._is_whole, changed)) and now == self._look()):
                break
            if attempt < _SETTLE_TIMES:
                time.sleep(_SETTLE_SECONDS)
        self._seen = now
        return tuple(changed)

    def _look(self) -> dict[str, tuple[int, int, int]]:
        """Return time, size and inode of each file, to detect changes."""
        seen = {}
        for name, path in self._files.items():
            try:
                file = os.lstat(path)
                seen[name] = (file.st_mtime_ns, file.st_size, file.st_ino)
            except OSError:
                seen[name] = (0, 0, 0)
        return seen

    def _is_whole(self, name: str) -> bool:
        """Return whether a file looks complete; a missing, empty or invalid one may be half written."""
        try:
            source = self._files[name].read_bytes()
            if len(source) < _LARGEST_PARSED:
                parse(source)
        except (OSError, SyntaxError):
            return False
        return bool(source.strip())


# --- keys ---------------------------------------------------------------------------------------------


def has_keyboard() -> bool:
    """Return whether standard input is a terminal; a process may even be started without one."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def keys_pressed(data: bytes) -> str:
    """Return the keys that a terminal sent as these bytes, in lower case, without arrows and the like.

    A sequence that begins with an escape is a key without a letter, although it contains letters: ESC [ A is
    "up". A terminal sends such a key in one piece, and the rest of the piece belongs to it.
    """
    text = data.partition(b"\x1b")[0].decode("ascii", "ignore")
    return "".join(key for key in text.lower() if key.isprintable())


if sys.platform != "win32":
    import termios
    import tty

    def mute() -> None:
        """Make the terminal echo nothing and send each key at once, also after the shell had it."""
        tty.setcbreak(sys.stdin.fileno(), termios.TCSANOW)

    @contextlib.contextmanager
    def reading_keys(tell: Callable[[str], None]) -> Iterator[None]:
        """Report each key while the context lasts, and then restore the terminal (unless killed by SIGKILL)."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)

        def read() -> None:
            # The thread ends with the process, or when the terminal is gone, which a signal reports.
            with contextlib.suppress(OSError):
                while data := os.read(terminal, 64):
                    for key in keys_pressed(data):
                        tell(key)

        try:
            mute()
            threading.Thread(target=read, daemon=True).start()
            yield
        finally:
            # Typed keys that were not read are not meant for the shell.
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

else:
    import msvcrt

    def mute() -> None:
        """Do nothing: the console does not echo keys that msvcrt reads."""

    @contextlib.contextmanager
    def reading_keys(tell: Callable[[str], None]) -> Iterator[None]:
        """Report each key while the context lasts."""

        def read() -> None:
            while True:
                if not msvcrt.kbhit():
                    time.sleep(_WINDOWS_POLL_SECONDS)
                    continue
                key = msvcrt.getwch()
                if key in ("\x00", "\xe0"):
                    msvcrt.getwch()  # the second half of an arrow or function key is not a letter
                elif key.isprintable():
                    tell(key.lower())

        threading.Thread(target=read, daemon=True).start()
        yield
