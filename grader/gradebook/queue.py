"""Tables of `grade serve` in the gradebook: submissions, the queue of jobs, and turns.

A submission is an attempt that came through the server. A job is one of its exercises that needs a verdict.
Only this module has the SQL of these tables. Call functions that write within `Gradebook.transaction`, so that
several writes reach the disk together.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from grader.gradebook.book import Gradebook

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
CREATE TABLE IF NOT EXISTS shared (            -- attempts that another member of the team handed in
    attempt INTEGER PRIMARY KEY REFERENCES attempts (id),
    handed_in INTEGER NOT NULL REFERENCES attempts (id) -- that member's own
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS shared_by_hand_in ON shared (handed_in);
CREATE TABLE IF NOT EXISTS turns (             -- whose turn was when: the longest ago is next
    student TEXT PRIMARY KEY, turn INTEGER NOT NULL
) WITHOUT ROWID;
"""
# A shared file is judged once, as the file of the member who handed it in.
_NOT_SHARED = """
NOT EXISTS (
    SELECT 1 FROM shared JOIN jobs AS first ON first.attempt = shared.handed_in
    WHERE shared.attempt = jobs.attempt AND first.exercise = jobs.exercise
    AND first.state IN ('waiting', 'running')
)
"""
# A student's jobs stay in order. Among students, the one served longest ago is next.
_IN_ORDER = f"""
SELECT attempt, exercise, student, priority, faults FROM (
    SELECT jobs.attempt, exercise, attempts.student, priority, faults, coalesce(turn, 0) AS turn,
        row_number() OVER (PARTITION BY priority, attempts.student ORDER BY jobs.attempt, exercise)
            AS round
    FROM jobs JOIN attempts ON attempts.id = jobs.attempt
    LEFT JOIN turns ON turns.student = attempts.student
    WHERE state = 'waiting' AND {_NOT_SHARED}
) AS waiting
"""  # noqa: S608 (ours)
_FREE = """
WHERE NOT EXISTS (
    SELECT 1 FROM jobs AS other JOIN attempts ON attempts.id = other.attempt
    WHERE other.state = 'running' AND other.exercise = waiting.exercise
    AND attempts.student = waiting.student
)
"""
_BY_TURN = "ORDER BY priority, round, turn, attempt, exercise"


class JobState(enum.Enum):
    """The state of a job; a job that is `REPLACED` by a newer file is not judged."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REPLACED = "replaced"


class Submission(msgspec.Struct, frozen=True):
    """A submission; `accepted_at` is in seconds since 1970."""

    number: int
    id: str
    student: str
    attempt: int
    accepted_at: float


class Job(NamedTuple):
    """One exercise of an attempt, waiting for its verdict or being judged."""

    attempt: int
    exercise: str
    student: str
    priority: int = 0
    faults: int = 0


class Counts(NamedTuple):
    """The numbers of waiting jobs, of regrades among them, and of running jobs."""

    waiting: int
    regrades: int
    running: int


class Wait(NamedTuple):
    """When a job was queued, began and ended, in seconds since 1970."""

    queued_at: float
    started_at: float
    ended_at: float


def prepare(book: Gradebook, exercises: Collection[str]) -> int:
    """Make the tables if there are none, and requeue jobs that ran when a server ended; return their number.

    Waiting jobs for exercises that the course no longer has are dropped.
    """
    book.tables.connection.executescript(_TABLES)
    with book.transaction():
        again = book.tables.connection.execute(
            "UPDATE jobs SET state = 'waiting', started_at = 0 WHERE state = 'running'"
        ).rowcount
        book.tables.connection.execute(
            "UPDATE jobs SET state = 'replaced' WHERE state = 'waiting'"
            " AND exercise NOT IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(list(exercises)).decode(),),
        )
    return again


# --- submissions ----------------------------------------------------------------------------------


def add_submission(
    book: Gradebook, student: str, attempt: int, retry_key: str, accepted_at: float
) -> Submission:
    """Keep an attempt as a submission."""
    id_ = secrets.token_hex(16)
    cursor = book.tables.connection.execute(
        "INSERT INTO submissions (id, student, attempt, retry_key, accepted_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (id_, student, attempt, retry_key, accepted_at),
    )
    return Submission(int(cursor.lastrowid or 0), id_, student, attempt, accepted_at)


def share(book: Gradebook, attempt: int, handed_in: int) -> None:
    """Note that another member of the team handed an attempt in, unless its own student did so, too.

    Call this before `add_submission`.
    """
    book.tables.connection.execute(
        "INSERT INTO shared SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM submissions WHERE attempt = ?)",
        (attempt, handed_in, attempt),
    )


def handed_in_by(book: Gradebook, student: str) -> dict[int, str]:
    """Map each attempt of a student that another member of a team handed in to this member."""
    query = (
        "SELECT shared.attempt, first.student FROM attempts AS own"
        " JOIN shared ON shared.attempt = own.id JOIN attempts AS first ON first.id = handed_in"
        " WHERE own.student = ?"
    )
    return dict(book.tables.connection.execute(query, (student,)).fetchall())


def submission(book: Gradebook, id_: str) -> Submission | None:
    """Return the submission with this id, if there is one."""
    return next(iter(_handed(book, "WHERE id = ?", id_)), None)


def tried_before(book: Gradebook, student: str, retry_key: str) -> Submission | None:
    """Return an earlier submission with this key, whose answer the client did not get."""
    known = _handed(book, "WHERE student = ? AND retry_key = ?", student, retry_key)
    return next(iter(known), None)


def submissions_of(book: Gradebook, student: str, most: int) -> list[Submission]:
    """Return the newest submissions of a student, newest first."""
    return _handed(book, "WHERE student = ? ORDER BY number DESC LIMIT ?", student, most)


def newest(book: Gradebook, most: int, students: Collection[str] | None = None) -> list[Submission]:
    """Return the newest submissions of these students, or of the class, newest first.

    For the class, a team's submission is listed once, for the member who handed it in.
    """
    if students is None:
        own = "WHERE attempt NOT IN (SELECT attempt FROM shared)"
        return _handed(book, f"{own} ORDER BY number DESC LIMIT ?", most)
    among = "WHERE student IN (SELECT value FROM json_each(?)) ORDER BY number DESC LIMIT ?"
    return _handed(book, among, msgspec.json.encode(sorted(students)).decode(), most)


def submissions_after(book: Gradebook, number: int) -> list[tuple[Submission, set[JobState]]]:
    """Return the submissions after the one with this number, in order, each with the states of its jobs."""
    rows = book.tables.connection.execute(
        "SELECT number, id, student, attempt, accepted_at,"
        " (SELECT group_concat(DISTINCT state) FROM jobs WHERE jobs.attempt = submissions.attempt)"
        " FROM submissions WHERE number > ? ORDER BY number",
        (number,),
    )
    return [
        (Submission(*row), {JobState(state) for state in (states or "").split(",") if state})
        for *row, states in rows
    ]


def _handed(book: Gradebook, which: str, *values: Any) -> list[Submission]:
    query = "SELECT number, id, student, attempt, accepted_at FROM submissions"
    return [Submission(*row) for row in book.tables.connection.execute(f"{query} {which}", values)]


def last_time(book: Gradebook) -> float:
    """Return the time of the newest submission; 0 if there is none."""
    return next((handed.accepted_at for handed in newest(book, 1)), 0.0)


def times_of(
    book: Gradebook, student: str, exercise: str, since: float, until: float
) -> list[float]:
    """Return the times when a student handed in an exercise, in (since, until], oldest first."""
    return _column(
        book,
        "SELECT accepted_at FROM submissions JOIN jobs USING (attempt)"
        " WHERE student = ? AND exercise = ? AND accepted_at > ? AND accepted_at <= ?"
        " ORDER BY accepted_at",
        student,
        exercise,
        since,
        until,
    )


def accepted_between(book: Gradebook, since: float, until: float) -> list[float]:
    """Return the times of the class's submissions in (since, until], oldest first."""
    query = (
        "SELECT accepted_at FROM submissions WHERE accepted_at > ? AND accepted_at <= ?"
        " AND attempt NOT IN (SELECT attempt FROM shared) ORDER BY accepted_at"
    )
    return _column(book, query, since, until)


def _column(book: Gradebook, query: str, *values: Any) -> list[Any]:
    """Return the first column of the rows of a query."""
    return [row[0] for row in book.tables.connection.execute(query, values)]


# --- the queue ------------------------------------------------------------------------------------


def queue_job(
    book: Gradebook, attempt: int, exercise: str, state: JobState, now: float, *, priority: int = 0
) -> None:
    """Queue an exercise of an attempt, unless it is waiting or running already."""
    ended = now if state is JobState.DONE else 0.0
    book.tables.connection.execute(
        "INSERT INTO jobs VALUES (?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (attempt, exercise) DO UPDATE"
        " SET state = excluded.state, priority = excluded.priority, faults = 0,"
        " queued_at = excluded.queued_at, started_at = 0, ended_at = excluded.ended_at"
        " WHERE state NOT IN ('running', 'waiting')",
        (attempt, exercise, state.value, priority, now, ended, ended),
    )


def replace_job(book: Gradebook, attempt: int, exercise: str, now: float) -> None:
    """Mark a waiting job as replaced by a newer file."""
    book.tables.connection.execute(
        "UPDATE jobs SET state = 'replaced', ended_at = ?"
        " WHERE attempt = ? AND exercise = ? AND state = 'waiting'",
        (now, attempt, exercise),
    )


def waiting_of(book: Gradebook, student: str, exercise: str) -> list[int]:
    """Return the attempts of a student that wait for a verdict on an exercise."""
    return _column(
        book,
        "SELECT attempt FROM jobs JOIN attempts ON id = attempt"
        " WHERE state = 'waiting' AND student = ? AND exercise = ?",
        student,
        exercise,
    )


def take_job(book: Gradebook, now: float, *, regrades: bool = True) -> Job | None:
    """Take the next job and mark it as running; None if there is none. Skip regrades unless `regrades`.

    The student served longest ago is next. No student has two jobs of one exercise running.
    """
    connection = book.tables.connection
    urgent = "" if regrades else "AND priority = 0"
    row = connection.execute(f"{_IN_ORDER} {_FREE} {urgent} {_BY_TURN} LIMIT 1").fetchone()
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


def end_job(book: Gradebook, job: Job, now: float) -> None:
    """End a job that has its verdict."""
    book.tables.connection.execute(
        "UPDATE jobs SET state = 'done', ended_at = ? WHERE attempt = ? AND exercise = ?",
        (now, job.attempt, job.exercise),
    )


def give_back(book: Gradebook, job: Job, *, fault: bool) -> None:
    """Put a job without a verdict back into the queue; with `fault`, count a fault of the grader."""
    book.tables.connection.execute(
        "UPDATE jobs SET state = 'waiting', started_at = 0, faults = faults + ?"
        " WHERE attempt = ? AND exercise = ? AND state = 'running'",
        (fault, job.attempt, job.exercise),
    )


def shared_jobs(book: Gradebook, attempt: int | None = None) -> list[tuple[Job, int]]:
    """Return the jobs that wait for the verdict on another member's attempt, each with that attempt.

    By default, they may wait for any attempt.
    """
    rows = book.tables.connection.execute(
        "SELECT jobs.attempt, jobs.exercise, attempts.student, jobs.priority, jobs.faults, handed_in"
        " FROM jobs JOIN shared ON shared.attempt = jobs.attempt"
        " JOIN attempts ON attempts.id = jobs.attempt"
        " WHERE jobs.state = 'waiting' AND (? IS NULL OR handed_in = ?)",
        (attempt, attempt),
    )
    return [(Job(*row[:5]), row[5]) for row in rows]


def in_order(book: Gradebook) -> list[Job]:
    """Return the waiting jobs, next first."""
    return [Job(*row) for row in book.tables.connection.execute(f"{_IN_ORDER} {_BY_TURN}")]


def running(book: Gradebook) -> list[tuple[Job, float]]:
    """Return the running jobs, each with the time when it began."""
    rows = book.tables.connection.execute(
        "SELECT attempt, exercise, student, priority, faults, started_at"
        " FROM jobs JOIN attempts ON attempts.id = attempt WHERE state = 'running'"
    )
    return [(Job(*row[:5]), row[5]) for row in rows]


def counts(book: Gradebook) -> Counts:
    """Count the jobs in the queue."""
    row = book.tables.connection.execute(
        "SELECT count(*) FILTER (WHERE state = 'waiting'),"  # noqa: S608 (ours)
        " count(*) FILTER (WHERE state = 'waiting' AND priority > 0),"
        " count(*) FILTER (WHERE state = 'running')"
        f" FROM jobs WHERE state IN ('waiting', 'running') AND {_NOT_SHARED}"
    )
    return Counts(*row.fetchone())


def states_of(book: Gradebook, attempt: int) -> dict[str, JobState]:
    """Map the exercises of an attempt to the states of their jobs."""
    query = "SELECT exercise, state FROM jobs WHERE attempt = ? ORDER BY exercise"
    return {
        exercise: JobState(s) for exercise, s in book.tables.connection.execute(query, (attempt,))
    }


def open_exercises(book: Gradebook, student: str) -> set[str]:
    """Return the exercises whose jobs of this student are waiting or running, without regrades."""
    query = (
        "SELECT exercise FROM jobs JOIN attempts ON attempts.id = attempt"
        " WHERE state IN ('waiting', 'running') AND priority = 0 AND student = ?"
    )
    return set(_column(book, query, student))


def waits_since(book: Gradebook, since: float) -> list[Wait]:
    """Return the times of the jobs that ended since then, without regrades."""
    rows = book.tables.connection.execute(
        "SELECT queued_at, started_at, ended_at FROM jobs"
        " WHERE ended_at > ? AND state = 'done' AND priority = 0",
        (since,),
    )
    return [Wait(*row) for row in rows]
