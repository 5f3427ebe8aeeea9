"""The queue in the gradebook: whose turn it is, what is given back, and who holds a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.gradebook import Keeper, queue
from grader.gradebook.queue import Counts, Holder, Job, JobState, Role
from grader.results import StudentInfo
from grader.submissions import Attempt, ExerciseFile, Submission


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with Keeper.open(tmp_path / "results") as keeper:
        queue.prepare(keeper.book.store, ())
        yield keeper


def handed(keeper: Keeper, student: str, *exercises: str, priority: int = 0) -> int:
    """An attempt of a student that waits; returns its id."""
    files = {name: ExerciseFile(f"# {keeper.book.store.attempts()}".encode()) for name in exercises}
    with keeper.transaction():
        found = Attempt(student=StudentInfo(id=student), path=Path(student))
        attempt = keeper.register(found, Submission(student, files)).id
        for name in exercises:
            queue.queue_job(
                keeper.book.store, attempt, name, JobState.WAITING, 1.0, priority=priority
            )
    return attempt


def taken(keeper: Keeper) -> Job | None:
    with keeper.transaction():
        return queue.take_job(keeper.book.store, 2.0)


def ended(keeper: Keeper, job: Job | None) -> None:
    assert job is not None
    with keeper.transaction():
        queue.end_job(keeper.book.store, job, 3.0)


def test_one_who_hands_in_a_hundred_delays_no_other(keeper: Keeper) -> None:
    many = [handed(keeper, "eve", f"task{number}") for number in range(100)]
    handed(keeper, "ada", "task0")
    handed(keeper, "bob", "task0")
    order = [job.student for job in queue.in_order(keeper.book.store)]
    # Each has the first turn after the other.
    assert order[:4] == ["eve", "ada", "bob", "eve"]
    turns = []
    for _ in range(4):
        job = taken(keeper)
        assert job is not None
        turns.append(job.student)
        ended(keeper, job)
    assert turns == ["eve", "ada", "bob", "eve"]
    # One who comes later than all of them, and had no turn yet, is next.
    handed(keeper, "zoe", "task0")
    job = taken(keeper)
    assert job is not None and job.student == "zoe"
    assert len(many) == 100


def test_of_one_exercise_one_file_of_a_student_is_judged_at_a_time(keeper: Keeper) -> None:
    first, second = handed(keeper, "ada", "glu"), handed(keeper, "ada", "glu")
    other = handed(keeper, "ada", "gelu")
    begun = [taken(keeper), taken(keeper), taken(keeper)]
    assert [(job.attempt, job.exercise) for job in begun if job] == [
        (first, "glu"),
        (other, "gelu"),
    ]
    ended(keeper, begun[0])
    last = taken(keeper)
    assert last is not None and last.attempt == second


def test_a_regrade_waits_behind_students_until_one_of_them_waits_for_it(keeper: Keeper) -> None:
    old = handed(keeper, "ada", "glu", priority=1)
    new = handed(keeper, "bob", "glu")
    assert [job.attempt for job in queue.in_order(keeper.book.store)] == [new, old]
    assert queue.counts(keeper.book.store) == Counts(waiting=2, regrades=1, running=0)


def test_what_ran_when_the_server_ended_waits_again_and_what_is_done_does_not(
    keeper: Keeper,
) -> None:
    done, running = handed(keeper, "ada", "glu"), handed(keeper, "bob", "glu")
    ended(keeper, taken(keeper))
    assert taken(keeper) is not None
    assert queue.prepare(keeper.book.store, ["glu"]) == 1
    assert queue.states_of(keeper.book.store, done) == {"glu": JobState.DONE}
    assert queue.states_of(keeper.book.store, running) == {"glu": JobState.WAITING}


def test_what_waits_for_an_exercise_that_the_course_has_no_more_keeps_no_other_waiting(
    keeper: Keeper,
) -> None:
    gone, there = handed(keeper, "ada", "glu"), handed(keeper, "bob", "gelu")
    assert queue.prepare(keeper.book.store, ["gelu"]) == 0
    assert queue.states_of(keeper.book.store, gone) == {"glu": JobState.REPLACED}
    job = taken(keeper)
    assert job is not None and job.attempt == there


def test_a_fault_is_counted_and_a_stop_is_not(keeper: Keeper) -> None:
    handed(keeper, "ada", "glu")
    for fault, counted in ((True, 0), (False, 1), (True, 1)):
        job = taken(keeper)
        assert job is not None and job.faults == counted
        with keeper.transaction():
            queue.give_back(keeper.book.store, job, fault=fault)
    job = taken(keeper)
    assert job is not None and job.faults == 2


def test_a_part_of_what_was_handed_in_is_an_attempt_of_its_own(keeper: Keeper) -> None:
    # Within one second, as a script hands in: the time alone does not tell the two apart.
    when = "2026-03-01T10:00:00+00:00"
    found = Attempt(student=StudentInfo(id="ada"), path=Path("ada"), submitted_at=when)
    file = ExerciseFile(b"a = 1\n")
    with keeper.transaction():
        both = keeper.register(found, Submission("ada", {"one": file, "two": file}), whole=False)
        one = keeper.register(found, Submission("ada", {"one": file}), whole=False)
    assert one.id != both.id
    assert [set(keeper.book.store.files_of(each.id)) for each in (both, one)] == [
        {"one", "two"},
        {"one"},
    ]


def test_a_token_is_kept_as_a_hash_and_holds_until_it_is_revoked(tmp_path: Path) -> None:
    with queue.token_table(tmp_path) as store:
        token = queue.make_token(store, Role.STUDENT, "ada", 1.0)
        staff = queue.make_token(store, Role.STAFF, "ada", 1.0)
    assert len(bytes.fromhex(token)) * 8 == 128
    with queue.token_table(tmp_path) as store:
        kept = store.connection.execute("SELECT * FROM tokens").fetchall()
        assert token not in str(kept)
        assert queue.holder_of(store, token) == Holder(Role.STUDENT, "ada")
        assert queue.holder_of(store, staff) == Holder(Role.STAFF, "ada")
        for wrong in ("", token[:-1], token.upper(), token + "0", "\udc80", "0" * 32):
            assert queue.holder_of(store, wrong) is None
    with queue.token_table(tmp_path) as store:
        other = queue.make_token(store, Role.STUDENT, "ada", 2.0)
        assert queue.holder_of(store, token) is None
        assert queue.holder_of(store, other) == Holder(Role.STUDENT, "ada")
        assert queue.revoke_tokens(store, Role.STUDENT, "ada", 3.0) == 1
        assert queue.holder_of(store, other) is None
        assert queue.holder_of(store, staff) is not None
        assert queue.holders(store, Role.STUDENT) == set()
