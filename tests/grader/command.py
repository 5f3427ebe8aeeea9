"""Run the command `grade` in this process, with judges that are kept for the next command.

A process for each command takes half a second, and starting its judges takes longer than judging. Only tests
of process behavior (exit, signals, terminal) start one.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner, Result

from grader.cli import main
from grader.judge import pool
from grader.judge.process import Judge, judges


class KeptJudges:
    """Keeps a judge for each tuple of preloaded modules until a course that it has read changes."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._judges: dict[tuple[object, ...], Judge] = {}
        self._courses: dict[Path, bytes] = {}

    @contextlib.contextmanager
    def judges(self, count: int, *, preload: Sequence[str], walls: bool) -> Iterator[list[Judge]]:
        """Like `grader.judge.process.judges`, which this uses for more than one judge."""
        if count > 1:
            with judges(count, preload=preload, walls=walls) as started:
                yield started
            return
        key = (walls, *preload)
        judge = self._judges.get(key)
        if judge is None or not judge.alive:
            (judge,) = self._stack.enter_context(judges(1, preload=preload, walls=walls))
            self._judges[key] = judge
        yield [judge]

    def expect(self, course: Path) -> None:
        """End the judges if they may have read another state of the course in this folder."""
        files = (path for path in sorted(course.rglob("*.*")) if path.suffix in (".py", ".toml"))
        files = (path for path in files if path.is_file())
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).digest()
        if self._courses.setdefault(course, digest) != digest:
            self._courses[course] = digest
            self.close()

    def close(self) -> None:
        self._stack.close()
        self._judges.clear()


kept = KeptJudges()
# Use the single kept judge unless a test asks for more. The default is one for each processor.
_ONE_JUDGE = {command: {"jobs": 1} for command in ("batch", "regrade", "verify")}


def invoke(*arguments: str | Path, cwd: Path, **environment: str) -> Result:
    """Run `grade` in a folder without a terminal, with our environment plus the given variables."""
    words = [str(argument) for argument in arguments]
    named = Path(words[words.index("--course") + 1]) if "--course" in words else cwd
    if (named / "exercises").is_dir():
        kept.expect(named)
    env = {"NO_COLOR": None, "COLUMNS": None, **environment}
    with contextlib.chdir(cwd), patch.object(pool, "judges", kept.judges):
        done = CliRunner().invoke(main, words, prog_name="grade", env=env, default_map=_ONE_JUDGE)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def grade(
    *arguments: str | Path, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Like `invoke`, but return the exit code and output like those of a process."""
    done = invoke(*arguments, cwd=cwd, **environment)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
