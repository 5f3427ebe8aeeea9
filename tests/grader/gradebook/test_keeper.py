"""How a verdict is kept: once for the same files, never lost, and compared with the one before."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3

import pytest

from grader.errors import GraderError
from grader.gradebook import Keeper
from grader.results import Status, StudentInfo

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
            book.keep_student(StudentInfo(id="ann"))
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


def test_what_a_roster_said_stays_where_nothing_is_said_now(school: School) -> None:
    with Keeper.open(school.results) as book:
        for student in (
            StudentInfo(id="ann", name="Ann", email="a@example.org", ids={"canvas_id": "7"}),
            StudentInfo(id="ann", ids={"section": "2"}),
            StudentInfo(id="ann", name="Ann B."),
        ):
            with book.transaction():
                book.keep_student(student)
        assert book.students() == [
            StudentInfo(
                id="ann",
                name="Ann B.",
                email="a@example.org",
                ids={"canvas_id": "7", "section": "2"},
            )
        ]


ODD_IDS = (
    "'; DROP TABLE grades; --",
    "%",
    "",
    "../../etc/passwd",
    "A" * 5000,
    "a",
    "a\0b",
    "a\nb",
    "e\u0301",
    "\u00e9",
    "\u0130stanbul",
    "\u202eevil",
    "\u6771\u4eac",
    "\U0001f600",
)


def test_a_student_is_one_student_whatever_the_id(school: School) -> None:
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        for number, student in enumerate(reversed(ODD_IDS)):
            source = f"x = {number}\n".encode()
            school.keep(book, school.hand_in(book, student, source), number, source)
        entries = list(book.entries())
        # By id as SQLite compares: by its bytes, the same on every machine.
        assert [entry.student.id for entry in entries] == sorted(ODD_IDS, key=str.encode)
        for entry in entries:
            number = len(ODD_IDS) - 1 - ODD_IDS.index(entry.student.id)
            assert entry.result.score == number
            assert book.sources(entry) == {"task": f"x = {number}\n".encode()}
            assert book.entry_of(entry.student.id) == entry
        for attempt in book.attempts():
            book.write_result(attempt)
    written = list((school.results / "results").iterdir())
    assert len(written) == len(ODD_IDS)
    assert {json.loads(path.read_bytes())["submission"]["name"] for path in written} == set(ODD_IDS)
    assert list(school.results.parent.rglob("*.part")) == []


def test_attempts_are_numbered_by_student_and_one_of_them_counts(school: School) -> None:
    chance = random.Random(0)
    first_seen: dict[str, list[int]] = {"ann": [], "bob": [], "cem": []}
    newest: dict[str, int] = {}
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        for _ in range(200):
            student, content = chance.choice(list(first_seen)), chance.randrange(12)
            counted = chance.random() < 0.5
            source = f"x = {content}\n".encode()
            attempt = school.hand_in(book, student, source, counted=counted)
            if content not in first_seen[student]:
                first_seen[student].append(content)
            number = first_seen[student].index(content) + 1
            if counted:
                newest[student] = number
            assert (attempt.student, attempt.number) == (student, number)
            assert attempt.counted == (newest.get(student) == number)
            school.keep(book, attempt, content % 11, source)
        kept = [(attempt.student, attempt.number, attempt.counted) for attempt in book.attempts()]
        assert kept == [
            (student, number, newest[student] == number)
            for student, contents in first_seen.items()
            for number in range(1, len(contents) + 1)
        ]
        assert [entry.attempt for entry in book.entries()] == [newest[name] for name in first_seen]
        assert book.attempt_counts() == {name: len(seen) for name, seen in first_seen.items()}


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO attempts VALUES (9, 'ann', 1, 'other', 1, '', 0, '')",
        "INSERT INTO attempts SELECT 9, student, 9, digest, 1, '', 0, '' FROM attempts",
        "INSERT INTO grades SELECT * FROM grades",
        "INSERT INTO students SELECT * FROM students",
        "INSERT INTO sources SELECT * FROM sources",
        "INSERT INTO environments SELECT 9, environment FROM environments",
        "UPDATE grades SET result = NULL",
        "UPDATE attempts SET student = NULL",
    ],
)
def test_the_tables_themselves_hold_nothing_twice_and_nothing_empty(
    school: School, statement: str
) -> None:
    with Keeper.open(school.results) as book:
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
    with (
        contextlib.closing(sqlite3.connect(school.results / "gradebook.sqlite")) as connection,
        pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE|NOT NULL"),
    ):
        connection.execute(statement)


def test_a_result_that_cannot_be_written_leaves_the_one_before(school: School) -> None:
    with Keeper.open(school.results) as book:
        book.begin(school.course)
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.keep(book, attempt, 4)
        book.write_result(attempt)
        (path,) = (school.results / "results").iterdir()
        before = path.read_bytes()
        school.keep(book, attempt, 10)
        path.with_suffix(".part").mkdir()
        with pytest.raises(GraderError, match=r"ann\.json cannot be written.*is kept"):
            book.write_result(attempt)
        assert path.read_bytes() == before
        path.with_suffix(".part").rmdir()
        book.write_result(attempt)
        assert json.loads(path.read_bytes())["score"] == 10
