"""The cluster pool, tested without a cluster: what losing a scheduler, worker or connection costs."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from grader.course.manifest import Course
from grader.errors import GraderError, SandboxError
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import Task

from .batch.test_cluster import NEEDS_DASK
from .conftest import School

pytestmark = NEEDS_DASK

ADDRESS = "tcp://127.0.0.1:1"
TASK = Task(1, "task", b"x = 1\n")
VERDICT = cast("Judgment", object())
Pools = Callable[..., Any]
LOST = "connection to the Dask scheduler"


class Future:
    """A task on a worker: ended with an error or a result, or running for some more polls."""

    def __init__(self, key: str, result: Any, moments: int = 0) -> None:
        self.key, self._result, self._moments = key, result, moments
        self.is_released = False

    def exception(self, timeout: float | None = None) -> Exception | None:
        if self._moments and timeout is not None:
            self._moments -= 1
            raise TimeoutError
        if isinstance(self._result, KeyboardInterrupt):
            raise OSError("connection closed")
        return self._result if isinstance(self._result, Exception) else None

    def result(self) -> Any:
        return self._result

    def release(self) -> None:
        self.is_released = True


class Client:
    """A connection to a scheduler whose tasks end with the given results."""

    def __init__(self, *results: Any, workers: int = 1) -> None:
        self.results = list(results)
        self.submitted: list[Future] = []
        self.workers, self.loop = workers, None

    def submit(self, function: object, name: str, task: Task, **options: Any) -> Future:
        assert callable(function) and options == {"pure": False, "retries": 1}
        result = self.results.pop(0)
        if isinstance(result, OSError | RuntimeError):
            raise result
        future = result if isinstance(result, Future) else Future(f"k{len(self.submitted)}", result)
        self.submitted.append(future)
        return future

    def nthreads(self) -> dict[str, int]:
        return {f"w{n}": 1 for n in range(self.workers)}


class Completed:
    """Futures in the order in which they were added."""

    def __init__(self, loop: object) -> None:
        self._futures: list[Future] = []

    def add(self, future: Future) -> None:
        self._futures.append(future)

    def __next__(self) -> Future:
        return self._futures.pop(0)


@pytest.fixture
def course(school: School) -> Course:
    return school.course


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Import the module here: it takes a second, which workers that only collect tests should not spend."""
    return importlib.import_module("grader.gradebook.cluster")


@pytest.fixture
def pool_of(cluster: Any, course: Course, monkeypatch: pytest.MonkeyPatch) -> Pools:
    """Return a function that makes a pool connected by a given client."""
    monkeypatch.setattr(cluster, "as_completed", Completed)

    def make(client: Client, **options: Any) -> Any:
        pool = cluster.ClusterPool(course, ADDRESS, GradingOptions(), **options)
        pool._client = client
        return pool

    return make


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_worker_that_fails_costs_only_its_own_task(
    cluster: Any, pool_of: Pools, is_killed: bool
) -> None:
    worker = type("Worker", (), {"address": "tcp://w"})()
    error = cluster.KilledWorker("k", worker, 3) if is_killed else SandboxError("no judge")
    pool = pool_of(Client(VERDICT, error, VERDICT))
    tasks = [Task(n, "task", b"x\n") for n in range(3)]
    judged = {task.number: verdict for task, verdict in pool.judged(iter(tasks))}
    assert judged[0] is judged[2] is VERDICT
    assert isinstance(judged[1], JudgeFault) and "No worker could judge it" in judged[1].message
    assert not pool.is_lost


def test_tasks_are_sent_ahead_for_each_thread_but_not_all_at_once(
    pool_of: Pools,
) -> None:
    client = Client(*[VERDICT] * 20, workers=2)
    taken: list[int] = []

    def tasks() -> Iterator[Task]:
        for number in range(20):
            taken.append(number)
            yield Task(number, "task", b"x\n")

    judged = pool_of(client).judged(tasks())
    next(judged)
    assert len(taken) == 2 * 2 + 2 + 1
    assert len(list(judged)) == 19 and all(future.is_released for future in client.submitted)
    client.workers = 0
    assert pool_of(client)._ahead() == 4, "a first worker may come"


@pytest.mark.parametrize(
    "end",
    [OSError("closed"), RuntimeError("closed"), KeyboardInterrupt(), None],
    ids=["connection", "closed client", "while it waits", "another scheduler"],
)
def test_a_lost_scheduler_is_reported_and_not_blamed_on_the_task(
    cluster: Any, pool_of: Pools, end: BaseException | None
) -> None:
    end = end or cluster._UnpreparedError("no judges")
    pool = pool_of(Client(end))
    with pytest.raises(GraderError, match=f"{LOST} at {ADDRESS} was lost.*only the rest is judged"):
        list(pool.judged(iter([TASK])))
    assert pool.is_lost
    pool = pool_of(Client(end))
    with pytest.raises(GraderError, match=LOST):
        pool.complete(TASK)
    assert pool.is_lost


def test_a_server_waits_for_its_task(pool_of: Pools) -> None:
    future = Future("k", VERDICT, moments=3)
    assert pool_of(Client(future)).complete(TASK) is VERDICT
    assert future.is_released


@pytest.mark.parametrize(("end", "message"), [("alone", "has no worker"), ("stop", "told to stop")])
def test_a_task_that_no_worker_takes_is_released(pool_of: Pools, end: str, message: str) -> None:
    future = Future("k", VERDICT, moments=1000)
    pool = pool_of(Client(future))
    pool._is_alone = end == "alone"
    if end == "stop":
        pool.stop()
    with pytest.raises(GraderError, match=message):
        pool.complete(TASK)
    assert future.is_released, "the cluster does not judge it in vain"
    assert not pool.is_lost


def test_a_cluster_without_workers_is_reported_each_time(
    pool_of: Pools,
) -> None:
    notes: list[str] = []
    pool = pool_of(client := Client(), tell=notes.append)
    workers = iter([0, 0, 2, 0])

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            count = next(workers, None)
            client.workers = count or 0
            return count is None

    pool._over = Over()
    pool._watch()
    assert len(notes) == 2 and all("has no worker: waiting for one" in each for each in notes)


def test_workers_with_another_grader_are_refused(pool_of: Pools) -> None:
    class Digests(Client):
        digests: dict[str, Any]

        def run(self, *_: object, on_error: str) -> dict[str, Any]:
            assert on_error == "return"
            return self.digests

        def wait_for_workers(self, count: int, timeout: float) -> None:
            if not self.digests:
                raise TimeoutError

    pool = pool_of(client := Digests())
    client.digests = {"tcp://a": pool._plugin.grader}
    pool._check_workers()
    for other in ("0123", ImportError("no grader")):
        client.digests["tcp://b"] = other
        with pytest.raises(GraderError, match="The worker tcp://b has another lab-bench or torch"):
            pool._check_workers()
    client.digests = {}
    with pytest.raises(GraderError, match="has had no worker for 300 s"):
        pool._check_workers()
    impatient = pool_of(client, patient=False)
    impatient._check_workers()


def test_the_plugin_of_a_late_worker_refuses_another_grader(
    cluster: Any, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = cluster._JudgesPlugin("name", course, GradingOptions())
    assert plugin.exercises == ("task",)
    assert plugin.manifest == "exercises/course.toml" and plugin.manifest in plugin.files
    monkeypatch.setattr(cluster, "grader_digest", lambda: "another")
    worker = type("Worker", (), {"name": "late"})()
    with pytest.raises(GraderError, match="The worker late has another"):
        plugin.setup(worker)


def test_a_worker_without_our_judges_judges_nothing(
    cluster: Any, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins: dict[str, object] = {}
    worker = type("Worker", (), {"plugins": plugins})()
    monkeypatch.setattr(cluster, "get_worker", lambda: worker)
    with pytest.raises(cluster._UnpreparedError):
        cluster._judged("name", TASK)
    plugin = plugins["name"] = cluster._JudgesPlugin("name", course, GradingOptions())
    with pytest.raises(SandboxError, match="could not start its judges"):
        cluster._judged("name", TASK)
    plugin.judges = type("Judges", (), {"complete": lambda _, task: (task, VERDICT)})()
    assert cluster._judged("name", TASK) == (TASK, VERDICT)


def test_missing_certificates_are_reported_before_connecting(cluster: Any, course: Course) -> None:
    pool = cluster.ClusterPool(course, "tls://127.0.0.1:1", GradingOptions())
    with pytest.raises(GraderError, match=r"No certificate for tls://127\.0\.0\.1:1"):
        pool.__enter__()


def test_a_missing_scheduler_is_reported(
    cluster: Any, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("refused")

    monkeypatch.setattr(cluster, "Client", refuse)
    with pytest.raises(GraderError, match=f"There is no Dask scheduler at {ADDRESS}: refused"):
        cluster.ClusterPool(course, ADDRESS, GradingOptions()).__enter__()


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1", "http://127.0.0.1:1"])
def test_a_mistyped_address_is_reported_before_connecting(
    cluster: Any, course: Course, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(cluster, "Client", lambda *_, **__: pytest.fail("a client"))
    with pytest.raises(GraderError, match=f"There is no Dask scheduler at {address}: "):
        cluster.ClusterPool(course, address, GradingOptions()).__enter__()


class Pool:
    """A pool that connects or is refused."""

    made: list[Pool]
    refuses = False

    def __init__(self, *_: object, patient: bool) -> None:
        assert not patient, "a server starts without a worker"
        self.is_lost, self.ended, self.stopped = False, False, False
        self.made.append(self)

    def __enter__(self) -> Pool:
        if self.refuses:
            raise GraderError("There is no Dask scheduler.")
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True

    def complete(self, task: Task) -> Judgment:
        if self.is_lost:
            raise GraderError(LOST)
        return VERDICT

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def judges(cluster: Any, course: Course, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Pool, "made", [], raising=False)
    monkeypatch.setattr(cluster, "ClusterPool", Pool)
    return cluster.ClusterJudges(course, ADDRESS, GradingOptions())


def test_a_server_connects_once_and_reconnects_after_losing_the_scheduler(
    judges: Any,
) -> None:
    judges.start()
    assert judges.complete(TASK) is judges.complete(TASK) is VERDICT
    (first,) = Pool.made
    first.is_lost = True
    assert judges.complete(TASK) is VERDICT
    assert first.ended and len(Pool.made) == 2


def test_after_a_failure_threads_do_not_all_retry_at_once(
    cluster: Any, judges: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(cluster.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Pool, "refuses", True)
    for _ in range(3):
        with pytest.raises(GraderError, match="There is no Dask scheduler"):
            judges.complete(TASK)
    assert len(Pool.made) == 1
    now[0] += 1.5
    monkeypatch.setattr(Pool, "refuses", False)
    assert judges.complete(TASK) is VERDICT and len(Pool.made) == 2


def test_tasks_of_a_closed_server_end_with_a_fault(judges: Any) -> None:
    judges.start()
    judges.close()
    (pool,) = Pool.made
    assert pool.stopped and pool.ended
    fault = judges.complete(TASK)
    assert isinstance(fault, JudgeFault) and "told to stop" in fault.message
    assert len(Pool.made) == 1
    with pytest.raises(GraderError, match="told to stop"):
        judges.start()
