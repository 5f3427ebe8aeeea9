"""How a verdict is kept: once for the same files, never lost, and compared with the one before."""

from __future__ import annotations

import json

import pytest

from grader.errors import GraderError
from grader.gradebook import Keeper
from grader.results import Status, Student

from .conftest import School


def test_a_gradebook_is_made_and_goes_on(school: School) -> None:
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
    with Keeper.open(school.results) as book:
        assert [entry.result.score for entry in book.entries()] == [10]


def test_one_writes_at_a_time(school: School) -> None:
    with (
        Keeper.open(school.results),
        pytest.raises(GraderError, match="Another grading writes to"),
        Keeper.open(school.results),
    ):
        pass


def test_where_nothing_can_be_written_it_is_said(school: School) -> None:
    school.results.write_bytes(b"a file where the folder belongs")
    with pytest.raises(GraderError, match="cannot be written"), Keeper.open(school.results):
        pass


def test_the_same_files_are_the_same_attempt_and_count_again(school: School) -> None:
    with Keeper.open(school.results) as book:
        first = school.hand_in(book, "ann", b"x = 1\n")
        second = school.hand_in(book, "ann", b"x = 2\n")
        again = school.hand_in(book, "ann", b"x = 1\n")
        older = school.hand_in(book, "ann", b"x = 2\n", counted=False)
    assert [each.number for each in (first, second, again, older)] == [1, 2, 1, 2]
    assert again == first
    assert not older.counted


def test_a_transaction_that_fails_keeps_nothing(school: School) -> None:
    def fail(book: Keeper) -> None:
        with book.transaction():
            book.keep_student(Student(id="ann"))
            raise OSError("the disk is full")

    with Keeper.open(school.results) as book:
        with pytest.raises(OSError, match="full"):
            fail(book)
        assert book.absent() == []


def test_a_verdict_is_found_again_for_anybody(school: School) -> None:
    with Keeper.open(school.results) as book:
        ann = school.hand_in(book, "ann", b"x = 1\n")
        bob = school.hand_in(book, "bob", b"x = 1\n")
        school.wait_for(book, ann)
        key = "key of b'x = 1\\n'"
        assert book.verdict(key) is None, "what is waited for is no verdict"
        school.keep(book, ann, 7.5)
        found = book.verdict(key)
        assert found is not None and found[0].score == 7.5
        assert book.has(ann, "task", key)
        assert not book.has(bob, "task", key)


def test_waiting_takes_no_verdict_away(school: School) -> None:
    with Keeper.open(school.results) as book:
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.wait_for(book, attempt)
        assert book.verdicts_of(attempt.id)["task"].status is Status.UNJUDGED
        school.keep(book, attempt, 10)
        school.wait_for(book, attempt)
        assert book.verdicts_of(attempt.id)["task"].status is Status.PASSED


def test_what_is_replaced_is_what_stood_there_before_the_grading(school: School) -> None:
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.keep(book, attempt, 4)
        book.finish(())
        book.begin(school.course)
        school.keep(book, attempt, 6)
        # Interrupted here: the grading that goes on is the same one.
        book.begin(school.course)
        school.keep(book, attempt, 10)
        (changed,) = book.replaced()
        assert (changed.before.score, changed.after.score) == (4, 10)
        book.finish(())


def test_behind_a_fault_of_ours_stands_the_last_verdict(school: School) -> None:
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.keep(book, attempt, 4)
        book.finish(())
        book.begin(school.course)
        school.fault(book, attempt)
        book.finish(())
        book.begin(school.course)
        school.keep(book, attempt, 10)
        (changed,) = book.replaced()
        assert (changed.before.score, changed.after.score) == (4, 10)


def test_the_result_of_what_counts_is_written(school: School) -> None:
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        attempt = school.hand_in(book, "a/nn", b"x = 1\n")
        school.keep(book, attempt, 7.5)
        book.write_result(attempt)
        other = school.hand_in(book, "bob", b"x = 1\n", counted=False)
        school.keep(book, other, 10)
        book.write_result(other)
    (written,) = (school.results / "results").iterdir()
    assert json.loads(written.read_bytes())["score"] == 7.5
