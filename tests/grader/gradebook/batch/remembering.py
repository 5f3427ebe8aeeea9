"""A pool that remembers judgments, so that tests of bookkeeping judge each source once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from grader.course.manifest import Course
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import LocalPool, Task
from grader.results import Status

_known: dict[tuple[object, ...], Judgment] = {}


def _state(course: Course) -> bytes:
    """Return the digest of all files of a course and their names."""
    digest = hashlib.sha256(repr(course.exercises).encode())
    for folder in ("exercises", "solutions", "tests"):
        for path in sorted((course.root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(course.root).as_posix()
                digest.update(hashlib.sha256(name.encode()).digest())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


class RememberingPool:
    """Like `LocalPool`, but judges only files that are new for the course.

    A verdict is reused only if the whole course, the options and the source are the same. Faults of the
    grader are never remembered. Timeouts are remembered only for endless loops.
    """

    def __init__(self, course: Course, jobs: int, options: GradingOptions) -> None:
        self._pool = LocalPool(course, jobs, options)
        self._key = (_state(course), msgspec.json.encode(options))

    def __enter__(self) -> RememberingPool:
        self._pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def judged(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Judgment | JudgeFault]]:
        """Like `Pool.judged`; known verdicts come first."""
        unknown: list[Task] = []
        for task in tasks:
            known = _known.get(self._key_of(task))
            if known is None:
                unknown.append(task)
            else:
                yield task, known
        for task, judged in self._pool.judged(iter(unknown)):
            if isinstance(judged, Judgment) and _is_certain(task, judged):
                _known[self._key_of(task)] = judged
            yield task, judged

    def _key_of(self, task: Task) -> tuple[object, ...]:
        return (*self._key, task.exercise, task.source)


def _is_certain(task: Task, judgment: Judgment) -> bool:
    """Whether a judge would give the same judgment again, even on a busy machine."""
    return judgment.result.status is not Status.TIMEOUT or b"while True" in task.source
