"""A batch on a Dask cluster with a real scheduler and workers, some of which are killed meanwhile."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grader

from .conftest import RIGHT, School, run_alone

# Not imported here, since it takes a second in each process that collects the tests.
NEEDS_DASK = pytest.mark.skipif(
    not os.environ.get("GRADE_CI") and importlib.util.find_spec("distributed") is None,
    reason="the extra 'cluster' is not installed",
)
pytestmark = [pytest.mark.thorough, NEEDS_DASK]


class Cluster:
    """A scheduler and workers on this machine, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self.log = folder / "workers.log"

    def start(self, workers: int) -> None:
        file = self._folder / "scheduler.json"
        self.scheduler = self._process(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", str(file),
        )  # fmt: skip
        while not file.exists() or not file.read_text().strip():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        from msgspec import json

        self.address = json.decode(file.read_bytes())["address"]
        for _ in range(workers):
            self.add_worker()

    def add_worker(self, **environment: str) -> None:
        self.workers.append(
            self._process(
                "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                "--host", "127.0.0.1", "--local-directory", str(self._folder), **environment,
            )
        )  # fmt: skip

    def _process(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-m", "dask", *words]
        with self.log.open("ab") as log:
            env = {**os.environ, **environment}
            # Not in the current folder, which would come before PYTHONPATH.
            return subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=self._folder)

    def stop(self) -> None:
        # A worker that is asked to end would first look for its lost scheduler.
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    started = Cluster(folder)
    started.start(1)
    try:
        yield started
    finally:
        started.stop()


def test_a_killed_worker_costs_nothing(school: School, cluster: Cluster, tmp_path: Path) -> None:
    for number in range(30):
        school.hand_in(f"more{number}", RIGHT + f"# {number}\n")
    cluster.add_worker()
    here = tmp_path / "here"
    assert school.batch(results=here).returncode == 0
    command = school.command("batch", str(school.submissions), "-o", str(school.results))
    process = subprocess.Popen([*command, "--scheduler", cluster.address])
    results = school.results / "results"
    while not results.is_dir() or len(list(results.glob("*.json"))) < 6:
        assert process.poll() is None
        time.sleep(0.02)
    cluster.workers[0].send_signal(signal.SIGKILL)
    assert process.wait(timeout=240) == 0, cluster.log.read_text()[-3000:]
    assert school.rows() == school.rows(here)


def test_a_lost_scheduler_is_reported_and_verdicts_are_kept(
    school: School, cluster: Cluster
) -> None:
    for number in range(30):
        school.hand_in(f"more{number}", RIGHT + f"# {number}\n")
    command = school.command("batch", str(school.submissions), "-o", str(school.results))
    process = subprocess.Popen(
        [*command, "--scheduler", cluster.address], stderr=subprocess.PIPE, text=True
    )
    results = school.results / "results"
    while not results.is_dir() or len(list(results.glob("*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    cluster.scheduler.send_signal(signal.SIGKILL)
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 3
    assert "connection to the Dask scheduler" in stderr and "only the rest is judged" in stderr
    assert "Traceback" not in stderr and "please report" not in stderr
    kept = len(list(results.glob("*.json")))
    assert school.batch().returncode == 0
    assert kept < len(school.entries()) == 37


def test_a_cluster_without_workers_is_reported_and_waited_for(
    school: School, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    cluster.start(0)
    try:
        command = school.command("batch", str(school.submissions), "-o", str(school.results))
        process = subprocess.Popen(
            [*command, "--scheduler", cluster.address], stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert "has no worker: waiting for one" in process.stderr.readline()
        cluster.add_worker()
        process.communicate(timeout=240)
        assert process.returncode == 0, cluster.log.read_text()[-3000:]
    finally:
        cluster.stop()
    assert len(school.entries()) == 7


def test_a_part_of_the_course_is_judged(school: School, cluster: Cluster) -> None:
    course = school.course / "exercises"
    manifest = (course / "course.toml").read_text()
    head, _, exercise = manifest.partition("[[exercise]]")
    other = exercise.replace('"task"', '"other"')
    (course / "course.toml").write_text(f"{head}[[exercise]]{exercise}\n[[exercise]]{other}")
    for path in sorted(school.course.rglob("*task*.py")):
        shutil.copy(path, path.with_name(path.name.replace("task", "other")))
    done = school.batch("--exercise", "task", "--scheduler", cluster.address)
    assert done.returncode == 0, done.stderr
    assert [e.name for e in school.entries()["ann"].result.exercises] == ["task"]


def test_a_worker_with_another_grader_is_refused(
    school: School, cluster: Cluster, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(grader.__file__).parent, other / "grader")
    with (other / "grader" / "judge" / "scoring.py").open("a") as file:
        file.write("ANOTHER_VERSION = True\n")
    cluster.add_worker(PYTHONPATH=str(other))
    import distributed

    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=240)
    command = school.command("batch", str(school.submissions), "-o", str(school.results))
    done = run_alone([*command, "--scheduler", cluster.address])
    assert done.returncode == 3
    assert "install the same on both" in done.stderr and "Traceback" not in done.stderr
