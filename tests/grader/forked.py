"""`grade` in a process of its own that need not import it: a fork of a process that has.

The imports of a server take a second of a processor, which is more than most tests ask of it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
# What `grade serve` imports when it is called, and uvicorn when it listens.
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
    """Run the command; `limits` are soft limits of the process, by their resource."""
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
