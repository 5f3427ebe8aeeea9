"""What `grade serve` keeps in the gradebook beside verdicts: submissions, the queue, turns, and tokens.

A submission is what one student handed in at once, an attempt of the gradebook; a job is one exercise of it,
which needs a verdict. This module alone has the SQL of these tables. A function that writes is called
within `Keeper.transaction`, together with what must be on the disk at the same moment.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from grader.gradebook.book import Gradebook
from grader.gradebook.store import FILE, Store, opened

_TABLES = """
CREATE TABLE IF NOT EXISTS submissions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the server's own order, whatever its clock says
    id TEXT NOT NULL UNIQUE,                   -- 128 random bits
    student TEXT NOT NULL REFERENCES students (id),
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    retry_key TEXT NOT NULL,                   -- a client that tries again sends the same one
    accepted_at REAL NOT NULL,                 -- seconds since 1970, as the clock said
    UNIQUE (student, retry_key)
);
CREATE INDEX IF NOT EXISTS submissions_by_attempt ON submissions (attempt);
CREATE INDEX IF NOT EXISTS submissions_by_time ON submissions (accepted_at);
CREATE TABLE IF NOT EXISTS jobs (
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,                 -- 0 where a student waits, 1 for a regrade
    faults INTEGER NOT NULL,                   -- how often the grader came to no verdict
    queued_at REAL NOT NULL,
    started_at REAL NOT NULL,                  -- 0 before that
    ended_at REAL NOT NULL,
    PRIMARY KEY (attempt, exercise)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS jobs_open ON jobs (state) WHERE state IN ('waiting', 'running');
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended_at);
CREATE TABLE IF NOT EXISTS turns (             -- whose turn was when: the longest ago is next
    student TEXT PRIMARY KEY, turn INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
    digest TEXT PRIMARY KEY,                   -- SHA-256 of the token, which is kept nowhere
    role TEXT NOT NULL,
    holder TEXT NOT NULL,                      -- a student's id, or the name of a member of staff
    made_at REAL NOT NULL,
    revoked_at REAL NOT NULL                   -- 0 while it holds
) WITHOUT ROWID;
"""
_PAUSED = "serve paused"
_CLOCK = "serve clock"
_MOST_CHANGES = 10
# One's own jobs in order, and of all students' first ones that of whom had no turn for the longest time.
_IN_ORDER = """
SELECT attempt, exercise, student, priority, faults FROM (
    SELECT jobs.attempt, exercise, attempts.student, priority, faults, coalesce(turn, 0) AS turn,
        row_number() OVER (PARTITION BY priority, attempts.student ORDER BY jobs.attempt, exercise)
            AS round
    FROM jobs JOIN attempts ON attempts.id = jobs.attempt
    LEFT JOIN turns ON turns.student = attempts.student
    WHERE state = 'waiting'
) AS waiting
"""
_FREE = """
WHERE NOT EXISTS (
    SELECT 1 FROM jobs AS other JOIN attempts ON attempts.id = other.attempt
    WHERE other.state = 'running' AND other.exercise = waiting.exercise
    AND attempts.student = waiting.student
)
"""
_BY_TURN = "ORDER BY priority, round, turn, attempt, exercise"


class JobState(enum.Enum):
    """Where an exercise of a submission stands; one that is `replaced` by a newer file is not judged."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REPLACED = "replaced"


class Role(enum.Enum):
    """What the holder of a token may do."""

    STUDENT = "student"
    STAFF = "staff"


class Handed(msgspec.Struct, frozen=True):
    """A submission; `accepted_at` is in seconds since 1970."""

    number: int
    id: str
    student: str
    attempt: int
    accepted_at: float


class Job(NamedTuple):
    """One exercise of an attempt that waits for a verdict or is judged."""

    attempt: int
    exercise: str
    student: str
    priority: int = 0
    faults: int = 0


class Counts(NamedTuple):
    """How many jobs wait, how many of them are a regrade, and how many are judged now."""

    waiting: int
    regrades: int
    running: int


class Wait(NamedTuple):
    """When a job was queued, when its judging began and when it ended, in seconds since 1970."""

    queued_at: float
    started_at: float
    ended_at: float


def prepare(store: Store, exercises: Collection[str]) -> int:
    """Make the tables where there are none; what was running when a server ended waits again: how many.

    What waits for a verdict on none of these exercises, which the course has no more, is not judged.
    """
    store.connection.executescript(_TABLES)
    with store.transaction():
        again = store.connection.execute(
            "UPDATE jobs SET state = 'waiting', started_at = 0 WHERE state = 'running'"
        ).rowcount
        store.connection.execute(
            "UPDATE jobs SET state = 'replaced' WHERE state = 'waiting'"
            " AND exercise NOT IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(list(exercises)).decode(),),
        )
    return again


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[Gradebook]:
    """A further reader beside the writer, which looked the file over when it opened it."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("PRAGMA query_only = ON")
        yield Gradebook(folder, Store(connection))


def back_up(folder: Path, target: Path) -> None:
    """Copy the gradebook while others write to it, whole as of one moment (SQLite's online backup).

    Only its owner can read the copy. Raises FileExistsError, or another OSError.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    with (
        contextlib.closing(sqlite3.connect(folder / FILE)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)


# --- submissions ----------------------------------------------------------------------------------


def add_submission(
    store: Store, student: str, attempt: int, retry_key: str, accepted_at: float
) -> Handed:
    """Keep that a student handed in an attempt."""
    id_ = secrets.token_hex(16)
    cursor = store.connection.execute(
        "INSERT INTO submissions (id, student, attempt, retry_key, accepted_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (id_, student, attempt, retry_key, accepted_at),
    )
    return Handed(int(cursor.lastrowid or 0), id_, student, attempt, accepted_at)


def submission(store: Store, id_: str) -> Handed | None:
    """The submission of this id."""
    return next(iter(_handed(store, "WHERE id = ?", id_)), None)


def tried_before(store: Store, student: str, retry_key: str) -> Handed | None:
    """The submission that a client sent before with this key, and whose answer it did not get."""
    known = _handed(store, "WHERE student = ? AND retry_key = ?", student, retry_key)
    return next(iter(known), None)


def submissions_of(store: Store, student: str, most: int) -> list[Handed]:
    """The newest submissions of a student, the last one first."""
    return _handed(store, "WHERE student = ? ORDER BY number DESC LIMIT ?", student, most)


def newest(store: Store, most: int) -> list[Handed]:
    """The newest submissions of the class, the last one first."""
    return _handed(store, "ORDER BY number DESC LIMIT ?", most)


def _handed(store: Store, which: str, *values: Any) -> list[Handed]:
    query = "SELECT number, id, student, attempt, accepted_at FROM submissions"
    return [Handed(*row) for row in store.connection.execute(f"{query} {which}", values)]


def last_time(store: Store) -> float:
    """When the last submission was accepted; 0 before the first one."""
    return next((handed.accepted_at for handed in newest(store, 1)), 0.0)


def times_of(store: Store, student: str, exercise: str, since: float, until: float) -> list[float]:
    """When a student handed in an exercise between two moments, oldest first."""
    return _column(
        store,
        "SELECT accepted_at FROM submissions JOIN jobs USING (attempt)"
        " WHERE student = ? AND exercise = ? AND accepted_at > ? AND accepted_at <= ?"
        " ORDER BY accepted_at",
        *(student, exercise, since, until),
    )


def accepted_between(store: Store, since: float, until: float) -> list[float]:
    """When submissions of the class were accepted between two moments, oldest first."""
    query = (
        "SELECT accepted_at FROM submissions WHERE accepted_at > ? AND accepted_at <= ?"
        " ORDER BY accepted_at"
    )
    return _column(store, query, since, until)


def _column(store: Store, query: str, *values: Any) -> list[Any]:
    """The first column of the rows of a query."""
    return [row[0] for row in store.connection.execute(query, values)]


# --- the queue ------------------------------------------------------------------------------------


def queue_job(
    store: Store, attempt: int, exercise: str, state: JobState, now: float, *, priority: int = 0
) -> None:
    """Queue an exercise of an attempt; one that is being judged stays as it is, another waits anew."""
    ended = now if state is JobState.DONE else 0.0
    store.connection.execute(
        "INSERT INTO jobs VALUES (?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (attempt, exercise) DO UPDATE"
        " SET state = excluded.state, priority = min(priority, excluded.priority), faults = 0,"
        " queued_at = excluded.queued_at, started_at = 0, ended_at = excluded.ended_at"
        " WHERE state NOT IN ('running', 'waiting')",
        (attempt, exercise, state.value, priority, now, ended, ended),
    )


def replace_job(store: Store, attempt: int, exercise: str, now: float) -> None:
    """A newer file takes the place of one that still waits."""
    store.connection.execute(
        "UPDATE jobs SET state = 'replaced', ended_at = ?"
        " WHERE attempt = ? AND exercise = ? AND state = 'waiting'",
        (now, attempt, exercise),
    )


def waiting_of(store: Store, student: str, exercise: str) -> list[int]:
    """The attempts of a student whose file for an exercise waits."""
    return _column(
        store,
        "SELECT attempt FROM jobs JOIN attempts ON id = attempt"
        " WHERE state = 'waiting' AND student = ? AND exercise = ?",
        *(student, exercise),
    )


def take_job(store: Store, now: float) -> Job | None:
    """The next job, which runs from now on; None where none can.

    A student whose turn was longest ago is next, and has at most one job of an exercise running.
    """
    connection = store.connection
    row = connection.execute(f"{_IN_ORDER} {_FREE} {_BY_TURN} LIMIT 1").fetchone()
    if row is None:
        return None
    job = Job(*row)
    connection.execute(
        "UPDATE jobs SET state = 'running', started_at = ? WHERE attempt = ? AND exercise = ?",
        (now, job.attempt, job.exercise),
    )
    connection.execute(
        "INSERT OR REPLACE INTO turns SELECT ?, coalesce(max(turn), 0) + 1 FROM turns",
        (job.student,),
    )
    return job


def end_job(store: Store, job: Job, now: float) -> None:
    """The job has its verdict."""
    store.connection.execute(
        "UPDATE jobs SET state = 'done', ended_at = ? WHERE attempt = ? AND exercise = ?",
        (now, job.attempt, job.exercise),
    )


def give_back(store: Store, job: Job, *, fault: bool) -> None:
    """The job waits again, for no judge came to a verdict; with `fault` that counts as one."""
    store.connection.execute(
        "UPDATE jobs SET state = 'waiting', started_at = 0, faults = faults + ?"
        " WHERE attempt = ? AND exercise = ? AND state = 'running'",
        (fault, job.attempt, job.exercise),
    )


def in_order(store: Store) -> list[Job]:
    """The jobs that wait, in the order in which they are going to be taken."""
    return [Job(*row) for row in store.connection.execute(f"{_IN_ORDER} {_BY_TURN}")]


def running(store: Store) -> list[tuple[Job, float]]:
    """The jobs that are judged now, and since when."""
    rows = store.connection.execute(
        "SELECT attempt, exercise, student, priority, faults, started_at"
        " FROM jobs JOIN attempts ON attempts.id = attempt WHERE state = 'running'"
    )
    return [(Job(*row[:5]), row[5]) for row in rows]


def counts(store: Store) -> Counts:
    """How much is in the queue."""
    row = store.connection.execute(
        "SELECT count(*) FILTER (WHERE state = 'waiting'),"
        " count(*) FILTER (WHERE state = 'waiting' AND priority > 0),"
        " count(*) FILTER (WHERE state = 'running')"
        " FROM jobs WHERE state IN ('waiting', 'running')"
    )
    return Counts(*row.fetchone())


def states_of(store: Store, attempt: int) -> dict[str, JobState]:
    """The states of the exercises of an attempt."""
    query = "SELECT exercise, state FROM jobs WHERE attempt = ? ORDER BY exercise"
    return {exercise: JobState(s) for exercise, s in store.connection.execute(query, (attempt,))}


def open_exercises(store: Store, student: str) -> set[str]:
    """The exercises of a student that wait or are judged now, and that the student waits for."""
    query = (
        "SELECT exercise FROM jobs JOIN attempts ON attempts.id = attempt"
        " WHERE state IN ('waiting', 'running') AND priority = 0 AND student = ?"
    )
    return set(_column(store, query, student))


def waits_since(store: Store, since: float) -> list[Wait]:
    """The times of the jobs that ended since then and that a student waited for."""
    rows = store.connection.execute(
        "SELECT queued_at, started_at, ended_at FROM jobs"
        " WHERE ended_at > ? AND state = 'done' AND priority = 0",
        (since,),
    )
    return [Wait(*row) for row in rows]


def is_paused(store: Store) -> bool:
    """Whether a member of staff paused the judging."""
    return store.fact(_PAUSED) == "yes"


def pause(store: Store, *, paused: bool) -> None:
    """Pause the judging, or go on; a server that starts again remembers it."""
    store.set_facts({_PAUSED: "yes" if paused else ""})


class ClockChange(msgspec.Struct, frozen=True):
    """The clock was set `seconds` ahead, or back where they are negative; noticed at this time of its own."""

    noticed_at: str
    seconds: float


def clock_changes(store: Store) -> tuple[ClockChange, ...]:
    """The last changes of the clock that a server noticed, oldest first."""
    return store.json_fact(_CLOCK, tuple[ClockChange, ...]) or ()


def keep_clock_change(store: Store, change: ClockChange) -> None:
    """Keep that the clock was set, for staff to see."""
    store.set_facts({_CLOCK: (*clock_changes(store), change)[-_MOST_CHANGES:]})


# --- tokens ---------------------------------------------------------------------------------------


class Holder(NamedTuple):
    """Who has a token."""

    role: Role
    name: str


@contextlib.contextmanager
def token_table(folder: Path) -> Iterator[Store]:
    """The gradebook to change tokens in, also while a server writes to it; made where there is none.

    What is changed within is on the disk together when this ends, or nothing of it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with opened(folder / FILE, create=True) as store:
        store.connection.executescript(_TABLES)
        with store.transaction():
            yield store


def make_token(store: Store, role: Role, name: str, now: float) -> str:
    """A new token of 128 random bits, in the place of those that the holder had; it is kept as a hash."""
    revoke_tokens(store, role, name, now)
    token = secrets.token_hex(16)
    store.connection.execute(
        "INSERT INTO tokens VALUES (?, ?, ?, ?, 0)", (_digest(token), role.value, name, now)
    )
    return token


def revoke_tokens(store: Store, role: Role, name: str, now: float) -> int:
    """The tokens of a holder hold no more; returns how many did."""
    return store.connection.execute(
        "UPDATE tokens SET revoked_at = ? WHERE role = ? AND holder = ? AND revoked_at = 0",
        (now, role.value, name),
    ).rowcount


def holders(store: Store, role: Role) -> set[str]:
    """Those who have a token that holds."""
    query = "SELECT holder FROM tokens WHERE role = ? AND revoked_at = 0"
    return set(_column(store, query, role.value))


def holder_of(store: Store, token: str) -> Holder | None:
    """Who has this token, if it holds.

    The index is asked for the beginning of the hash alone; the rest is compared in constant time.
    """
    digest = _digest(token)
    rows = store.connection.execute(
        "SELECT digest, role, holder FROM tokens WHERE digest >= ? AND digest < ? AND revoked_at = 0",
        (digest[:8], digest[:8] + "g"),
    )
    held = [
        Holder(Role(r), name) for stored, r, name in rows if hmac.compare_digest(stored, digest)
    ]
    return held[0] if held else None


def _digest(token: str) -> str:
    # Of 128 random bits no slow hash is needed: there is nothing to guess.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
