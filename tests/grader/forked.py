"""`grade` in its own process, forked from one that has already imported it.

Importing the server takes a second of processor time, more than most tests need for the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
# Modules that `grade serve` imports when called, and uvicorn when it listens.
_CONTEXT.set_forkserver_preload(
    [
        "grader.cli.serve",
        "grader.serve.app",
        "uvicorn.lifespan.on",
        "uvicorn.protocols.http.h11_impl",
    ]
)


class Forked:
    """A process of `grade`, with the methods of `subprocess.Popen`."""

    def __init__(
        self, words: Sequence[str], out: Path, log: Path, limits: Mapping[int, int]
    ) -> None:
        self._process = _CONTEXT.Process(
            target=_grade, args=(words, out, log, limits, dict(os.environ))
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("grade", seconds or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _grade(
    words: Sequence[str],
    out: Path,
    log: Path,
    limits: Mapping[int, int],
    environment: Mapping[str, str],
) -> None:
    """Run the command. `limits` maps resources to soft limits of the process."""
    import resource

    from grader.cli import main

    for path, number in ((out, 1), (log, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    main(list(words), prog_name="grade")
