"""More than one machine: a pool whose judges are the workers of a Dask cluster.

Theory of operation. A plugin goes to every worker, even one that joins later. It carries the course's files for
judging (no student's), writes them to a folder on the worker, and starts a judge for each thread of the worker,
with one warm fork server. A task travels as bytes, and its verdict comes back as a struct. Dask gives the tasks
of a lost worker to another one. Only this process writes to the gradebook, so nothing is kept twice. Workers
with another grader or torch are refused. If the scheduler ends, its open tasks are lost, which is not a fault
of the grader; the next run goes on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import dask.config
from distributed import Client, Future, Worker, WorkerPlugin, as_completed, get_worker
from distributed.comm.addressing import get_address_host_port
from distributed.scheduler import KilledWorker

from grader.course.manifest import Course, load_course
from grader.errors import GraderError, SandboxError
from grader.gradebook.verdict_key import grader_digest
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import CallOff, LocalPool, Task
from grader.results import TestResult

_CERTIFICATE = "distributed.comm.tls.client.cert"
# Limits for finding a scheduler, and then its first worker.
_CONNECT_SECONDS = 20
_WORKER_SECONDS = 300
# Tell the user after this time without a worker.
_SILENT_SECONDS = 5
# A thread that waits for a verdict checks this often whether it should stop.
_MOMENT_SECONDS = 0.5
# The pause after a failed connection.
_AGAIN_SECONDS = 1.0


class _UnpreparedError(SandboxError):
    """A worker has no judges, since its scheduler was restarted without our plugin."""


class _JudgesPlugin(WorkerPlugin):
    """The judges of a worker, while both the worker and our run exist.

    The plugin travels with everything that a worker needs to judge.
    """

    def __init__(self, name: str, course: Course, options: GradingOptions) -> None:
        self.name = name
        # A worker reads the whole manifest, so it needs files of exercises outside of the assignment, too.
        whole = load_course(course.folder)
        self.manifest = whole.name_of(whole.folder / "course.toml")
        self.files = whole.judged_files()
        self.exercises = tuple(exercise.id for exercise in course.exercises)
        self.options, self.grader = options, grader_digest()
        self.judges: LocalPool | None = None

    def setup(self, worker: Worker) -> None:
        """Write the course to a folder on the worker, and start its judges."""
        if grader_digest() != self.grader:
            raise GraderError(_other(str(worker.name)))
        self._stack = contextlib.ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-bench-")))
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        course = load_course(folder / self.manifest)
        course = course.only(course.exercise(name) for name in self.exercises)
        judges = LocalPool(course, worker.state.nthreads, self.options)
        self._stack.callback(judges.close)
        judges.start()
        self.judges = judges

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002  # as inherited
        """End the judges and remove the folder."""
        self._stack.close()


def _other(worker: str) -> str:
    return (
        f"The worker {worker} has another lab-bench or torch than this machine, or none; "
        "install the same on both, from the same constraints."
    )


def _judged(name: str, task: Task) -> Judgment | JudgeFault:
    """Judge a task; called on a worker."""
    plugin = get_worker().plugins.get(name)
    if not isinstance(plugin, _JudgesPlugin):
        raise _UnpreparedError("This worker has no judges of this run.")
    if plugin.judges is None:
        raise SandboxError("This worker could not start its judges; its own log has the reason.")
    return plugin.judges.complete(task)


def _fault(error: Exception) -> JudgeFault:
    return JudgeFault(f"No worker could judge it: {error}")


class ClusterPool:
    """The workers of the Dask cluster at an address; a context manager."""

    def __init__(
        self,
        course: Course,
        address: str,
        options: GradingOptions,
        tell: Callable[[str], None] = lambda _: None,
        *,
        patient: bool = True,
    ) -> None:
        """Prepare a connection to the scheduler at `address`.

        `tell` is called, from another thread, with sentences for the user. A `patient` pool waits for a first
        worker when it is entered.
        """
        self._tell, self._is_patient = tell, patient
        # Whether the scheduler cannot be reached, and whether it has no worker.
        self.is_lost, self._is_alone = False, False
        self._over = threading.Event()
        self._plugin = _JudgesPlugin(f"lab-bench-{uuid.uuid4()}", course, options)
        self._address = address

    def __enter__(self) -> ClusterPool:
        # Our errors replace Dask's log of a lost connection and its traceback.
        for name in [name for name in logging.root.manager.loggerDict if "distributed" in name]:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if self._address.startswith("tls://") and not dask.config.get(_CERTIFICATE, None):
            raise GraderError(
                f"No certificate for {self._address}: name this machine's in Dask's configuration "
                "(distributed.comm.tls, in a file under DASK_CONFIG); docs/cluster.md has an example."
            )
        try:
            # A Client of a mistyped address takes 40 s to close.
            get_address_host_port(self._address)
            seconds = _CONNECT_SECONDS if self._is_patient else _SILENT_SECONDS
            self._client = Client(self._address, timeout=seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise GraderError(
                f"There is no Dask scheduler at {self._address}: {error}. "
                "docs/cluster.md explains how to start one."
            ) from error
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            watch = threading.Thread(target=self._watch, daemon=True)
            watch.start()
            stack.callback(watch.join)
            stack.callback(self._over.set)
            with self._connected():
                self._check_workers()
                # A worker that joins later is checked by the plugin.
                self._client.register_plugin(self._plugin)
                stack.callback(self._unregister)
            # Keep everything open until `__exit__`.
            self._stack = stack.pop_all()
        return self

    def _unregister(self) -> None:
        """End the workers' judges, unless the scheduler is lost."""
        with contextlib.suppress(OSError, RuntimeError, CancelledError):
            if not self.is_lost:
                self._client.unregister_worker_plugin(self._plugin.name)

    def _close(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._client.close(timeout=0 if self.is_lost else 10)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise GraderError if the connection to the scheduler ends within the block."""
        try:
            yield
        # Dask's client raises RuntimeError after it has closed itself.
        except (OSError, CancelledError, RuntimeError) as error:
            raise self._lost() from error

    def _lost(self) -> GraderError:
        self.is_lost = True
        return GraderError(
            f"The connection to the Dask scheduler at {self._address} was lost: it ended, or the network "
            "failed. Verdicts so far are kept. Start the scheduler and its workers again, and run the same "
            "command: only the rest is judged."
        )

    def _watch(self) -> None:
        """Until the run ends, tell the user each time the cluster has had no worker for a while."""
        while not self._over.wait(_SILENT_SECONDS):
            try:
                is_alone = not self._client.nthreads()
            except Exception:  # noqa: BLE001  # the connection is lost, which is reported elsewhere
                return
            if is_alone and not self._is_alone:
                self._tell(self._no_worker)
            self._is_alone = is_alone

    @property
    def _no_worker(self) -> str:
        return (
            f"The scheduler at {self._address} has no worker: waiting for one. "
            f"`dask worker {self._address}` starts one; see docs/cluster.md."
        )

    def _check_workers(self) -> None:
        """Wait for a first worker, and refuse workers with another grader or torch."""
        try:
            if self._is_patient:
                self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise GraderError(
                f"The scheduler at {self._address} has had no worker for {_WORKER_SECONDS} s; "
                "start some and run this again."
            ) from error
        digests = self._client.run(grader_digest, on_error="return")
        for worker, digest in digests.items():
            if digest != self._plugin.grader:
                raise GraderError(_other(worker))

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def judged(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Judgment | JudgeFault]]:
        """Yield tasks judged, as `Pool.judged` does; the cluster may grow and shrink meanwhile."""
        waiting: dict[Any, Task] = {}
        running: as_completed = as_completed(loop=self._client.loop)
        for task in tasks:
            # The calls are not pure: otherwise, Dask would return its cached result of an equal call.
            with self._connected():
                future = self._client.submit(
                    _judged, self._plugin.name, task, pure=False, retries=1
                )
                waiting[future.key] = task
                running.add(future)
                ahead = self._ahead()
            while len(waiting) > ahead:
                yield self._next(running, waiting)
        while waiting:
            yield self._next(running, waiting)

    def _ahead(self) -> int:
        """Return the number of tasks to send ahead: enough for every worker, few enough for the memory."""
        threads: dict[str, int] = self._client.nthreads()
        return 2 * max(1, sum(threads.values())) + 2

    def _next(
        self, running: as_completed, waiting: dict[Any, Task]
    ) -> tuple[Task, Judgment | JudgeFault]:
        """Return the next task to end; a failing worker costs only its own task the judgment."""
        with self._connected():
            future: Future[Judgment | JudgeFault] = next(running)
        task = waiting.pop(future.key)
        try:
            return task, self._judgment(future)
        except SandboxError as error:
            return task, _fault(error)

    def _judgment(self, future: Future[Judgment | JudgeFault]) -> Judgment | JudgeFault:
        """Return the judgment of a task, or its fault; raises SandboxError if its worker cannot judge."""
        try:
            with self._connected():
                error = future.exception()
                judged = future.result() if error is None else None
        finally:
            future.release()
        if isinstance(error, _UnpreparedError):
            # Dask's client reconnects by itself to a restarted scheduler, which has no judges.
            raise self._lost() from error
        if isinstance(error, KilledWorker):
            # Every worker with this task died; other tasks go on.
            return _fault(error)
        if judged is None:
            raise error or SandboxError("A worker gave no verdict.")
        return judged

    def complete(self, task: Task) -> Judgment | JudgeFault:
        """Have one task judged; several threads may call this at a time.

        Raises GraderError if the scheduler is lost or has no worker, or if the worker cannot judge. The task is
        then removed from the cluster.
        """
        with self._connected():
            future = self._client.submit(_judged, self._plugin.name, task, pure=False, retries=1)
        try:
            while not self._is_ended(future):
                if self._is_alone:
                    raise GraderError(self._no_worker)
                if self._over.is_set():
                    raise GraderError("The judging was told to stop.")
            return self._judgment(future)
        finally:
            future.release()

    def _is_ended(self, future: Future[Judgment | JudgeFault]) -> bool:
        """Wait for a moment; return whether the task has ended."""
        with self._connected():
            try:
                future.exception(timeout=_MOMENT_SECONDS)
            except TimeoutError:
                return False
        return True

    def stop(self) -> None:
        """Stop threads that wait for a verdict."""
        self._over.set()


class ClusterJudges:
    """The judges of a cluster for a server, which outlives schedulers and workers.

    It can begin without a worker, reconnects to a lost scheduler, and returns a task that no worker takes.
    """

    def __init__(self, course: Course, address: str, options: GradingOptions) -> None:
        self._course, self._address, self._options = course, address, options
        self._lock = threading.Lock()
        self._pool: ClusterPool | None = None
        self._failed_at, self._failure = -math.inf, ""
        self._closed = False

    def start(self) -> None:
        """Connect, unless already connected; raises GraderError."""
        self._connected()

    def _connected(self) -> ClusterPool:
        """Return the pool, reconnected if the scheduler was lost; raises GraderError if that fails."""
        with self._lock:
            if self._closed:
                raise GraderError("The judging was told to stop.")
            if self._pool is not None and self._pool.is_lost:
                self._end()
            if self._pool is None:
                # After a failure, not every waiting thread tries again.
                if time.monotonic() < self._failed_at + _AGAIN_SECONDS:
                    raise GraderError(self._failure)
                pool = ClusterPool(self._course, self._address, self._options, patient=False)
                try:
                    self._pool = pool.__enter__()
                except GraderError as error:
                    self._failed_at, self._failure = time.monotonic(), str(error)
                    raise
            return self._pool

    def complete(
        self,
        task: Task,
        done: Callable[[TestResult], None] | None = None,  # noqa: ARG002  # as LocalPool
        call_off: CallOff | None = None,  # noqa: ARG002  # as LocalPool
    ) -> Judgment | JudgeFault:
        """Have a task judged by a worker; its tests are not reported before the verdict.

        Raises GraderError if nothing can be judged now.
        """
        try:
            return self._connected().complete(task)
        except GraderError as error:
            if self._closed:
                return JudgeFault(str(error))
            raise

    def close(self) -> None:
        """Disconnect from the cluster; running tasks get no verdict."""
        self._closed = True
        pool = self._pool
        if pool is not None:
            pool.stop()
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.__exit__(None, None, None)
            self._pool = None
