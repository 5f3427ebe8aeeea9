"""A server that judges on a Dask cluster whose workers and scheduler come and go."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.grader.gradebook.batch.test_cluster import NEEDS_DASK, Cluster
from tests.grader.serve.conftest import PATIENCE_SECONDS, STUDENTS, Served, marked, sql

pytestmark = [pytest.mark.thorough, NEEDS_DASK]


def fault(served: Served, says: str) -> Any:
    """Wait until the fault of the queue contains `says`, and return the queue."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while says not in (queue := served.ask("GET", "/api/staff/queue", "staff").json)["fault"]:
        assert time.monotonic() < deadline, (queue, served.log.read_text())
        time.sleep(0.1)
    return queue


def in_flight(served: Served) -> None:
    """Wait until a worker has a job."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not served.ask("GET", "/api/staff/queue", "staff").json["running"]:
        assert time.monotonic() < deadline, served.log.read_text()
        time.sleep(0.02)


def start_scheduler_again(cluster: Cluster) -> None:
    """Start another scheduler at the address of the one that ended."""
    port = cluster.address.rpartition(":")[2]
    cluster.scheduler = cluster._process(
        "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"
    )


def test_each_submission_gets_one_verdict_while_workers_and_schedulers_die(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    cluster.start(0)
    served = serving(policy='attempts = "best"\n').start(
        "--scheduler", cluster.address, "--jobs", "4"
    )
    handed: list[tuple[str, str]] = []

    def hand_in(count: int) -> None:
        for _ in range(count):
            for who in STUDENTS:
                answer = served.hand_in(who, {"greeting.py": marked(len(handed))})
                assert answer.status == 202
                handed.append((who, answer.json["id"]))

    def check() -> None:
        for who, id_ in handed:
            result = served.judged(who, id_)["result"]
            assert result["score"] == 2.5, result
        assert served.ask("GET", "/healthz").status == 200

    try:
        hand_in(1)
        fault(served, "has no worker")
        assert served.ask("GET", "/healthz").status == 503
        cluster.add_worker()
        check()
        hand_in(5)
        in_flight(served)
        cluster.workers[0].send_signal(signal.SIGKILL)
        cluster.add_worker()
        check()
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        hand_in(2)
        fault(served, "scheduler")
        start_scheduler_again(cluster)
        cluster.add_worker()
        check()
        # Files that workers have when the server stops are judged after the next start.
        hand_in(3)
        in_flight(served)
        assert served.stop() == 0
        served.start("--scheduler", cluster.address)
        check()
    finally:
        cluster.stop()
    rows = sql(
        served, "SELECT count(*) FROM submissions JOIN grades USING (attempt) GROUP BY number"
    )
    assert rows == [(1,)] * len(handed)
    assert "Traceback" not in served.log.read_text()


def test_a_scheduler_may_restart(serving: Callable[..., Served], tmp_path: Path) -> None:
    """Dask's client reconnects by itself, but the new scheduler does not know the judges."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    cluster.start(1)
    served = serving(policy='attempts = "best"\n').start(
        "--scheduler", cluster.address, "--jobs", "2"
    )
    try:
        id_ = served.hand_in("ada", {"greeting.py": marked(0)}).json["id"]
        assert served.judged("ada", id_)["result"]["score"] == 2.5
        for number in range(1, 4):
            cluster.scheduler.kill()
            cluster.scheduler.wait()
            start_scheduler_again(cluster)
            cluster.add_worker()
            id_ = served.hand_in("ada", {"greeting.py": marked(number)}).json["id"]
            assert served.judged("ada", id_)["result"]["score"] == 2.5
    finally:
        cluster.stop()


def test_the_server_stops_without_a_scheduler(serving: Callable[..., Served]) -> None:
    served = serving().start("--scheduler", "tcp://127.0.0.1:1")
    id_ = served.hand_in("ada", {"greeting.py": marked(1)}).json["id"]
    fault(served, "no Dask scheduler")
    assert served.ask("GET", f"/api/submissions/{id_}", "ada").json["state"] in (
        "waiting",
        "running",
    )
    assert served.stop() == 0
    served.start()
    assert served.judged("ada", id_)["result"]["score"] == 2.5
