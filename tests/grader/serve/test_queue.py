"""The queue in the gradebook: turns, regrades, returned jobs, and holders of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.gradebook import Gradebook, queue, tokens
from grader.gradebook.queue import Counts, Job, JobState
from grader.gradebook.tokens import Holder, Role
from grader.results import StudentInfo
from grader.submissions import Attempt, ExerciseFile, Submission


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        queue.prepare(book, ())
        yield book


def handed(book: Gradebook, student: str, *exercises: str, priority: int = 0) -> int:
    """Register an attempt whose files wait, and return its id."""
    files = {name: ExerciseFile(f"# {book.tables.attempts()}".encode()) for name in exercises}
    with book.transaction():
        found = Attempt(student=StudentInfo(id=student), path=Path(student))
        attempt = book.register(found, Submission(student, files)).id
        for name in exercises:
            queue.queue_job(book, attempt, name, JobState.WAITING, 1.0, priority=priority)
    return attempt


def taken(book: Gradebook) -> Job | None:
    with book.transaction():
        return queue.take_job(book, 2.0)


def ended(book: Gradebook, job: Job | None) -> None:
    assert job is not None
    with book.transaction():
        queue.end_job(book, job, 3.0)


def test_a_student_with_a_hundred_files_delays_nobody_else(book: Gradebook) -> None:
    many = [handed(book, "eve", f"task{number}") for number in range(100)]
    handed(book, "ada", "task0")
    handed(book, "bob", "task0")
    order = [job.student for job in queue.in_order(book)]
    # Students take turns.
    assert order[:4] == ["eve", "ada", "bob", "eve"]
    turns = []
    for _ in range(4):
        job = taken(book)
        assert job is not None
        turns.append(job.student)
        ended(book, job)
    assert turns == ["eve", "ada", "bob", "eve"]
    # A student who has had no turn yet is next, even after all others submitted.
    handed(book, "zoe", "task0")
    job = taken(book)
    assert job is not None and job.student == "zoe"
    assert len(many) == 100


def test_one_file_per_student_and_exercise_is_judged_at_a_time(book: Gradebook) -> None:
    first, second = handed(book, "ada", "glu"), handed(book, "ada", "glu")
    other = handed(book, "ada", "gelu")
    begun = [taken(book), taken(book), taken(book)]
    assert [(job.attempt, job.exercise) for job in begun if job] == [
        (first, "glu"),
        (other, "gelu"),
    ]
    ended(book, begun[0])
    last = taken(book)
    assert last is not None and last.attempt == second


def test_a_regrade_waits_behind_students(book: Gradebook) -> None:
    old = handed(book, "ada", "glu", priority=1)
    new = handed(book, "bob", "glu")
    assert [job.attempt for job in queue.in_order(book)] == [new, old]
    assert queue.counts(book) == Counts(waiting=2, regrades=1, running=0)


def test_a_regrade_of_a_submission_waits_behind_students_too(book: Gradebook) -> None:
    old = handed(book, "ada", "glu")
    ended(book, taken(book))
    with book.transaction():
        queue.queue_job(book, old, "glu", JobState.WAITING, 4.0, priority=1)
        # A job that waits stays as it is if it is queued again.
        queue.queue_job(book, old, "glu", JobState.WAITING, 5.0, priority=0)
    new = handed(book, "bob", "glu")
    assert [job.attempt for job in queue.in_order(book)] == [new, old]
    assert queue.counts(book) == Counts(waiting=2, regrades=1, running=0)


def test_running_jobs_wait_again_after_a_restart(
    book: Gradebook,
) -> None:
    done, running = handed(book, "ada", "glu"), handed(book, "bob", "glu")
    ended(book, taken(book))
    assert taken(book) is not None
    assert queue.prepare(book, ["glu"]) == 1
    assert queue.states_of(book, done) == {"glu": JobState.DONE}
    assert queue.states_of(book, running) == {"glu": JobState.WAITING}


def test_a_job_of_a_removed_exercise_blocks_no_other(
    book: Gradebook,
) -> None:
    gone, there = handed(book, "ada", "glu"), handed(book, "bob", "gelu")
    assert queue.prepare(book, ["gelu"]) == 0
    assert queue.states_of(book, gone) == {"glu": JobState.REPLACED}
    job = taken(book)
    assert job is not None and job.attempt == there


def test_faults_are_counted_but_stops_are_not(book: Gradebook) -> None:
    handed(book, "ada", "glu")
    for fault, counted in ((True, 0), (False, 1), (True, 1)):
        job = taken(book)
        assert job is not None and job.faults == counted
        with book.transaction():
            queue.give_back(book, job, fault=fault)
    job = taken(book)
    assert job is not None and job.faults == 2


def test_a_part_of_the_same_files_is_another_attempt(book: Gradebook) -> None:
    # Both have the same time, as from a script, so the time does not tell them apart.
    when = "2026-03-01T10:00:00+00:00"
    found = Attempt(student=StudentInfo(id="ada"), path=Path("ada"), submitted_at=when)
    file = ExerciseFile(b"a = 1\n")
    with book.transaction():
        both = book.register(found, Submission("ada", {"one": file, "two": file}), whole=False)
        one = book.register(found, Submission("ada", {"one": file}), whole=False)
    assert one.id != both.id
    assert [set(book.files_of(each.id)) for each in (both, one)] == [
        {"one", "two"},
        {"one"},
    ]


def test_a_token_is_kept_as_a_hash_and_valid_until_revoked(tmp_path: Path) -> None:
    with tokens.changing_tokens(tmp_path) as book:
        token = tokens.make_token(book, Role.STUDENT, "ada", 1.0)
        staff = tokens.make_token(book, Role.INSTRUCTOR, "ada", 1.0)
    assert len(bytes.fromhex(token)) * 8 == 128
    with tokens.changing_tokens(tmp_path) as book:
        kept = book.tables.connection.execute("SELECT * FROM tokens").fetchall()
        assert token not in str(kept)
        assert tokens.holder_of(book, token) == Holder(Role.STUDENT, "ada")
        assert tokens.holder_of(book, staff) == Holder(Role.INSTRUCTOR, "ada")
        for wrong in ("", token[:-1], token.upper(), token + "0", "\udc80", "0" * 32):
            assert tokens.holder_of(book, wrong) is None
    with tokens.changing_tokens(tmp_path) as book:
        other = tokens.make_token(book, Role.STUDENT, "ada", 2.0)
        assert tokens.holder_of(book, token) is None
        assert tokens.holder_of(book, other) == Holder(Role.STUDENT, "ada")
        assert tokens.revoke_tokens(book, Role.STUDENT, "ada", 3.0) == 1
        assert tokens.holder_of(book, other) is None
        assert tokens.holder_of(book, staff) is not None
        assert tokens.holders(book, Role.STUDENT) == set()
