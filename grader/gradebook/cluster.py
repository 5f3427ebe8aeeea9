"""More than one machine: a pool whose judges are the workers of a Dask cluster.

Theory of operation. A plugin goes to every worker, also to one that joins later: it carries the files that
judge (no solution, nothing of a student), writes them to a folder of the worker's own, and starts as many
judges there as the worker has threads, with one warm fork server. A task travels as bytes, its verdict comes
back as a struct. What a lost worker was at is given to another one by Dask; only the process that asked writes
to the gradebook, so that nothing is there twice. A worker with another grader or torch is refused.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from distributed import Client, Future, Worker, WorkerPlugin, as_completed, get_worker
from distributed.scheduler import KilledWorker

from grader.course.manifest import Course, load_course
from grader.errors import GraderError, SandboxError
from grader.gradebook.verdict_key import grader_digest
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Completed, Task, TaskJudges

# To find a scheduler, and then its first worker.
_CONNECT_SECONDS = 20
_WORKER_SECONDS = 300


class _Shipment(msgspec.Struct, frozen=True):
    """All that a worker needs in order to judge."""

    manifest: str
    files: dict[str, bytes]
    options: GradingOptions
    grader: str


class _JudgesPlugin(WorkerPlugin):
    """Keeps a worker's judges from the worker's start, or ours, to the end of either."""

    def __init__(self, name: str, shipment: _Shipment) -> None:
        self.name = name
        self._shipment = shipment

    def setup(self, worker: Worker) -> None:
        """Write the course to a folder of the worker's own and start its judges."""
        if grader_digest() != self._shipment.grader:
            raise GraderError(_other(str(worker.name)))
        self._stack = contextlib.ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-bench-")))
        for name, data in self._shipment.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        course = load_course(folder / self._shipment.manifest)
        self.judges = TaskJudges(course, worker.state.nthreads, self._shipment.options)
        self._stack.callback(self.judges.close)
        self.judges.start()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002  # as inherited
        """Let go of the judges and the folder."""
        self._stack.close()


def _other(worker: str) -> str:
    return (
        f"The worker {worker} has another lab-bench or torch than this machine, or none; "
        "install the same on both, from the same constraints."
    )


def _verdict(name: str, task: Task) -> Completed:
    """Judge a task on the worker that this is called on."""
    plugin = get_worker().plugins.get(name)
    if not isinstance(plugin, _JudgesPlugin):
        raise SandboxError("This worker could not start its judges; its own log says why.")
    return plugin.judges.complete(task)


class ClusterPool:
    """The workers of the Dask cluster at an address; a context manager."""

    def __init__(self, course: Course, address: str, options: GradingOptions) -> None:
        self._name = f"lab-bench-{uuid.uuid4()}"
        self._stack = contextlib.ExitStack()
        files = {
            p.relative_to(course.root).as_posix(): p.read_bytes() for p in course.judged_files()
        }
        manifest = (course.folder / "course.toml").relative_to(course.root).as_posix()
        self._shipment = _Shipment(manifest, files, options, grader_digest())
        self._address = address

    def __enter__(self) -> ClusterPool:
        try:
            client = Client(self._address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise GraderError(
                f"There is no Dask scheduler at {self._address}: {error}. "
                "docs/cluster.md says how to start one."
            ) from error
        self._client = self._stack.enter_context(client)
        try:
            self._check_workers()
        except GraderError:
            self._stack.close()
            raise
        # A worker that joins later is checked by the plugin.
        self._client.register_plugin(_JudgesPlugin(self._name, self._shipment))
        self._stack.callback(self._client.unregister_worker_plugin, self._name)
        return self

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise GraderError(
                f"The scheduler at {self._address} has had no worker for {_WORKER_SECONDS} s; "
                "start some and run this again."
            ) from error
        digests = self._client.run(grader_digest, on_error="return")
        for worker, digest in digests.items():
            if digest != self._shipment.grader:
                raise GraderError(_other(worker))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def judged(self, tasks: Iterator[Task]) -> Iterator[Completed]:
        """As `Pool.judged`; the cluster may grow and shrink meanwhile."""
        numbers: dict[Any, int] = {}
        running: as_completed = as_completed(loop=self._client.loop)
        for task in tasks:
            # Not pure: Dask would otherwise hand out what it remembers of an equal call.
            future = self._client.submit(_verdict, self._name, task, pure=False, retries=1)
            numbers[future.key] = task.number
            running.add(future)
            while len(numbers) > self._ahead():
                yield self._next(running, numbers)
        while numbers:
            yield self._next(running, numbers)

    def _ahead(self) -> int:
        """Enough that no worker waits for the next task, few enough that memory stays flat."""
        threads: dict[str, int] = self._client.nthreads()
        return 2 * max(1, sum(threads.values())) + 2

    def _next(self, running: as_completed, numbers: dict[Any, int]) -> Completed:
        future: Future[Completed] = next(running)
        number = numbers.pop(future.key)
        try:
            verdict = future.result()
        except (KilledWorker, SandboxError) as error:
            # The workers that had it died each time: whatever it is, the others go on.
            return Completed(number, None, fault=f"No worker could judge it: {error}")
        finally:
            future.release()
        return verdict
