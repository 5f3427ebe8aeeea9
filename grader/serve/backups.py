"""The thread that makes backups of the gradebook on schedule, and keeps the newest ones.

The time of the newest backup is in its name, so a backup that was due while the server was down is made at the
next start. A failed backup deletes nothing. It appears in the log, at `/class` and as a metric, and is tried
again after growing pauses. The thread has its own connection, so no hand-in waits for it.
"""

from __future__ import annotations

import datetime
import logging
import sqlite3
import threading
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from grader.errors import GraderError, UsageError, not_written
from grader.gradebook.backup import Backup, backups_in, delete_older, make_backup, remove_unfinished
from grader.gradebook.database import FILE, opened_again
from grader.gradebook.times import read_span
from grader.serve.threads import pause_after

log = logging.getLogger("grader.serve")

# Pause between steps of 4 MiB, so that hand-ins on the same disk go on.
_STEP_SECONDS = 0.02
_PAUSES_SECONDS = (60.0, 300.0, 900.0, 3600.0)
_SHORTEST = datetime.timedelta(minutes=1)
# Look at the clock at least this often, since it may be set during a wait.
_LONGEST_WAIT_SECONDS = 60.0
# Do not wait longer for a running backup, which may be killed at any moment.
_JOIN_SECONDS = 1.0


class BackupPlan(msgspec.Struct, frozen=True):
    """The folder of backups, the time between two, and the number to keep."""

    folder: Path
    every: datetime.timedelta
    keep: int


def backup_plan(results: Path, folder: Path | None, every: str, keep: int) -> BackupPlan | None:
    """Return the plan for backups of RESULTS to a folder; None without a folder.

    Raises UsageError if the time `every` cannot be read or is too short, or if the folder is in RESULTS or
    cannot be written.
    """
    if folder is None:
        return None
    try:
        between = read_span(every)
    except ValueError as error:
        raise UsageError(f'--backup-every: {error}. Write --backup-every "1 day".') from error
    if between < _SHORTEST:
        raise UsageError("--backup-every: the shortest time between backups is 1 minute.")
    if folder.resolve().is_relative_to(results.resolve()):
        raise UsageError(
            f"--backups: {folder} is in {results}, so both would be lost together. Name a folder outside, on "
            "another disk if you can."
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from error
    return BackupPlan(folder.resolve(), between, keep)


class _ClosingError(Exception):
    """The server is ending."""


class Backups:
    """The thread, from `start` until `close`; any thread may read `newest` and `failure`.

    `newest` is the last checked backup of this gradebook, None before the first one. `failure` is the
    reason why the last try failed, else empty. Without a plan, there are no backups.
    """

    def __init__(self, results: Path, plan: BackupPlan | None, registry: CollectorRegistry) -> None:
        self._results, self.plan = results, plan
        self.newest: Backup | None = None
        self.failure = ""
        self._failed = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="backups", daemon=True)
        if plan is not None:
            last = Gauge(
                "lab_bench_last_backup_timestamp_seconds",
                "When the last checked backup was made; 0 if there is none.",
                registry=registry,
            )
            last.set_function(lambda: self.newest.made_at.timestamp() if self.newest else 0.0)

    def start(self) -> None:
        """Start the thread, if there is a plan."""
        if self.plan is not None:
            self._thread.start()

    def close(self) -> None:
        """Begin no more backups, and wait briefly for a running one to end."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        assert self.plan is not None
        try:
            remove_unfinished(self._results, self.plan.folder)
            self.newest = self._found(self.plan)
        except Exception:
            # Go on: a new backup is made now.
            log.exception("a fault in a backup")
        wait = self.seconds_until_due(_now())
        while not self._closing.wait(min(wait, _LONGEST_WAIT_SECONDS)):
            if self.seconds_until_due(_now()) <= 0:
                self._back_up(self.plan)
                if self.failure:
                    # The backup stays due, so the time until it is due cannot be the pause.
                    pause = pause_after(self._failed, _PAUSES_SECONDS)
                    if self._closing.wait(min(pause, self.plan.every.total_seconds())):
                        return
            wait = self.seconds_until_due(_now())

    def seconds_until_due(self, now: datetime.datetime) -> float:
        """Return the time until the next backup is due; not positive if it is."""
        if self.plan is None or self.newest is None:
            return 0.0
        every, since = self.plan.every, now - self.newest.made_at
        # If the clock was set back, the newest backup seems to be from the future.
        return (every - max(since, datetime.timedelta())).total_seconds()

    def _found(self, plan: BackupPlan) -> Backup | None:
        """Return the newest backup of this gradebook."""
        with opened_again(self._results / FILE) as tables:
            secret = tables.facts.secret
        own = [backup for backup in backups_in(plan.folder) if backup.secret == secret]
        return own[-1] if own else None

    def _back_up(self, plan: BackupPlan) -> None:
        """Make a backup and delete the oldest ones beyond `keep`; report a failure."""
        try:
            self.newest = make_backup(self._results, plan.folder, _now(), self._pause)
            self.failure, self._failed = "", 0
            log.info("backup", extra={"backup": self.newest.path.name})
            delete_older(plan.folder, self.newest.secret, plan.keep)
        except _ClosingError:
            return
        except (GraderError, OSError, sqlite3.Error) as error:
            self._tell(str(error))
        except Exception as error:
            log.exception("a fault in a backup")
            self._tell(f"{type(error).__name__}: {error}")

    def _tell(self, failure: str) -> None:
        self.failure, self._failed = failure, self._failed + 1
        log.error("no backup", extra={"fault": failure[:1000]})

    def _pause(self) -> None:
        if self._closing.wait(_STEP_SECONDS):
            raise _ClosingError


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
