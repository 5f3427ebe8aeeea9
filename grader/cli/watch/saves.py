"""Saves of exercises, for `grade watch`: events of the file system, polling where none come, files that settle.

Network drives and the folders of a host send no events. The files are looked at once a second all the same,
and after two saves that no event announced they are polled.

Editors save in many ways: in place in one or several writes, or as a new file that is renamed over the old
one. All of them end in the same: after a short quiet time the files are looked at again. Whether
something changed is for their content to say, not for the events.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from grader.course.manifest import Course
from grader.submissions import file_of
from grader.submissions.source import parse

# Quiet for so long, and a save is over: too short to be noticed, longer than an editor's
# truncation and writing of a small file. What comes later is a save of its own, and the newest wins.
_QUIET_MS = 15
_LONGEST_MS = 60
_POLL_MS = 150
# Without events for so long, the files are looked at all the same.
_LOOK_MS = 1000
# A file that is missing, empty or no Python may be half written: it gets this much time, twice.
_SETTLE_SECONDS = 0.03
_SETTLE_TIMES = 2
# A larger file takes too long to parse.
_LARGEST_PARSED = 100_000


class Saves:
    """Reports, from a thread of its own, the exercises whose files were saved.

    `tell` gets their ids, the last one saved last; `crashed` gets an exception that ended the thread.
    `polling` says why the files are looked at all the time; it is empty where events come.
    """

    def __init__(
        self,
        course: Course,
        tell: Callable[[tuple[str, ...]], None],
        crashed: Callable[[Exception], None],
        *,
        poll: bool = False,
    ) -> None:
        self.polling = "as asked" if poll else ""
        self._course, self._tell, self._crashed = course, tell, crashed
        self._missed = 0
        self._seen = self._look()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop telling."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._watch()
                except OSError as error:
                    # No more events are to be had; on Linux, inotify has only so many watches.
                    if self.polling:
                        raise
                    self.polling = error.strerror or "no events are to be had"
        except Exception as error:  # noqa: BLE001 (the border of the thread: the loop raises it)
            self._crashed(error)

    def _watch(self) -> None:
        """Watch until told to stop; return early where events turn out not to come."""
        # 20 ms, for which the first verdict need not wait.
        from watchfiles import watch

        polling = bool(self.polling)
        for changes in watch(
            self._course.folder,
            watch_filter=None,
            step=_QUIET_MS,
            debounce=_LONGEST_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            # None leaves it to watchfiles, which knows WSL and its own environment variable.
            force_polling=polling or None,
            poll_delay_ms=_POLL_MS,
            ignore_permission_denied=True,
        ):
            if not (saved := self._saved()):
                continue
            self._tell(saved)
            # The first one found without an event may have come before the watch had begun.
            self._missed += not changes
            if self._missed > 1 and not polling:
                self.polling = "no events came"
                return

    def _saved(self) -> tuple[str, ...]:
        """The exercises whose files changed, once the files are settled."""
        for attempt in range(1 + _SETTLE_TIMES):
            now = self._look()
            changed = [name for name in now if now[name] != self._seen[name]]
            # What was read must be what was looked at: a write in between is a part of this save.
            whole = not changed or (self._settled(changed) and now == self._look())
            if whole or attempt == _SETTLE_TIMES:
                break
            time.sleep(_SETTLE_SECONDS)
        self._seen = now
        return tuple(sorted(changed, key=lambda name: now[name]))

    def _look(self) -> dict[str, tuple[int, int, int]]:
        """The time, size and number of each file, which tell it from another or an older one."""
        seen = {}
        for exercise in self._course.exercises:
            try:
                file = os.lstat(file_of(self._course.folder, exercise))
                seen[exercise.id] = (file.st_mtime_ns, file.st_size, file.st_ino)
            except OSError:
                seen[exercise.id] = (0, 0, 0)
        return seen

    def _settled(self, ids: list[str]) -> bool:
        """Whether the files look whole; one that is missing, empty or no Python may not be."""
        for exercise in self._course.exercises:
            if exercise.id in ids:
                try:
                    source = file_of(self._course.folder, exercise).read_bytes()
                    if len(source) < _LARGEST_PARSED:
                        parse(source)
                except (OSError, SyntaxError):
                    return False
                if not source.strip():
                    return False
        return True
