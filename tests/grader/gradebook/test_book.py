"""A gradebook keeps equal files once, loses nothing, and explains problems to its readers."""

from __future__ import annotations

import ast
import contextlib
import datetime
import hashlib
import json
import os
import random
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from grader.errors import GraderError, SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.corrections import Correction
from grader.gradebook.review import Attention, Reason
from grader.gradebook.standing import handed_in, total_of
from grader.results import Status, StudentInfo
from tests.grader.builders import exercise, result

from .conftest import HERE, School, no_room


def test_reading_does_not_create_a_gradebook(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="no gradebook"), Gradebook.open(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_gradebook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gradebook.sqlite").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(GraderError, match="cannot be opened"), Gradebook.open(tmp_path):
        pass


def test_a_gradebook_can_be_read_while_it_is_written(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
        with Gradebook.open(school.results) as reader:
            assert [entry.student.id for entry in reader.entries()] == ["ann"]
            assert "did not finish" in reader.unfinished
        found = (Attention(Reason.ODD_CODE, "ann", ("task",), "odd"),)
        book.finish(found)
    with Gradebook.open(school.results) as reader:
        assert reader.unfinished == ""
        assert reader.attention() == found
        assert (reader.facts.title, reader.facts.revision) == ("A small course", 1)
        assert reader.facts.course == school.course.info()


def test_a_download_is_unread_until_a_batch_has_read_it_to_the_end(
    school: School, tmp_path: Path
) -> None:
    big = tmp_path / "big.zip"
    big.write_bytes(b"")
    ann = StudentInfo(id="ann")
    with Gradebook.open_to_write(school.results) as book:
        blank = result(exercise(name="task"))
        book.begin(school.course, blank, reading=[str(big)])
        book.keep_student(ann)
        # A batch of another download and a regrading end; the second one counts as a new grading.
        for reading in ([str(tmp_path / "one.zip")], []):
            book.begin(school.course, blank, reading=reading)
            book.finish((), reading)
            assert "big.zip" in book.unfinished and "one.zip" not in book.unfinished
            (entry,) = book.entries()
            assert entry.result.exercises[0].status is Status.UNJUDGED
        assert book.facts.revision == 2
        book.begin(school.course, blank, reading=[str(tmp_path)])
        book.finish((), [str(tmp_path)])
        assert book.unfinished == ""
        (entry,) = book.entries()
        assert entry.result.exercises[0].status is not Status.UNJUDGED


def test_a_download_that_is_gone_is_given_up_for_another_one(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        blank = result(exercise(name="task"))
        book.begin(school.course, blank, reading=["/gone/big.zip"])
        for reading in ([], ["/late/one.zip"]):
            assert "if it is gone, with another download" in book.unfinished
            book.begin(school.course, blank, reading=reading)
            book.finish((), reading)
        assert book.unfinished == ""


def test_an_entry_has_the_attempt_that_counts_and_its_files(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for source, score in ((b"x = 1\n", 4), (b"x = 2\n", 10)):
            school.keep(book, school.hand_in(book, "bob", source), score, source)
        (entry,) = book.entries()
        assert (entry.student.id, entry.attempt, entry.origin) == ("bob", 2, "bob.zip")
        assert (entry.result.score, entry.result.max_score) == (10, 10)
        assert book.sources(entry) == {"task": b"x = 2\n"}
        assert [(each.student, each.number) for each in book.tables.attempts()] == [
            ("bob", 1),
            ("bob", 2),
        ]
        assert book.attempt_counts() == {"bob": 2}


def test_the_history_has_each_file_once_oldest_first(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for day, (source, score) in enumerate([(b"a", 1), (b"b", 2), (b"a", 1), (b"c", 3)], 1):
            attempt = school.hand_in(book, "bob", source, f"2026-10-0{day}T00:00:00Z")
            school.keep(book, attempt, score, source)
        bob = StudentInfo(id="bob")
        assert [each.score for each in book.history(bob, 3)["task"]] == [1, 2, 3]
        assert book.history(bob, 4) == {}


def test_totals_before_come_from_the_previous_grading(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        for source, score in ((b"x = 1\n", 4), (b"x = 2\n", 10), (b"x = 3\n", 7)):
            book.begin(school.course)
            school.keep(book, school.hand_in(book, "bob", source), score, source)
            school.wait_for(book, school.hand_in(book, "open", source), source)
            book.finish(())
        assert book.totals_before() == {"bob": 10}
        assert total_of(book.work(StudentInfo(id="bob")), book.rules()) == 7


def test_a_student_without_submissions_is_absent(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        cem = StudentInfo(id="cem", name="Cem", email="c@example.org", ids={"canvas_id": "7"})
        with book.transaction():
            book.keep_student(cem)
        school.hand_in(book, "ann", b"x = 1\n")
        assert book.absent() == [cem]


def test_a_result_lists_only_walls_that_held_for_every_exercise(school: School) -> None:
    fewer = msgspec.structs.replace(HERE, isolation=("seccomp",))
    settled = msgspec.structs.replace(HERE, torch="", isolation=())
    (task,) = school.course.exercises
    names = ["task0", "task1", "task2"]
    exercises = tuple(msgspec.structs.replace(task, id=name) for name in names)
    for path in list(school.course.root.rglob("*task.py")):
        for name in names:
            shutil.copy(path, path.with_name(path.name.replace("task", name)))
    with Gradebook.open_to_write(school.results) as book:
        book.begin(msgspec.structs.replace(school.course, exercises=exercises))
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        found = []
        for name, environment in zip(names, (settled, HERE, fewer), strict=True):
            school.keep(book, attempt, 10, environment=environment, exercise=name)
            entry = book.entry_of("ann")
            assert entry is not None
            found.append(entry.result.environment)
    assert found == [settled, HERE, fewer]


ANN = StudentInfo(id="ann")


def test_a_gradebook_is_created_and_reopened(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
    with Gradebook.open_to_write(school.results) as book:
        assert [entry.result.score for entry in book.entries()] == [10]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_other_users_of_the_machine_cannot_read_a_gradebook(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        modes = {path.name: path.stat().st_mode & 0o777 for path in school.results.iterdir()}
        book.back_up(backup := school.results.with_name("backup.sqlite"))
    assert school.results.stat().st_mode & 0o777 == modes["results"] == 0o700
    assert {mode for name, mode in modes.items() if name.startswith("gradebook")} == {0o600}
    assert backup.stat().st_mode & 0o777 == 0o600


def test_only_one_process_writes_at_a_time(school: School) -> None:
    with (
        Gradebook.open_to_write(school.results),
        pytest.raises(GraderError, match="Another grading writes to"),
        Gradebook.open_to_write(school.results),
    ):
        pass


def test_a_results_path_that_cannot_be_written_is_reported(school: School) -> None:
    school.results.write_bytes(b"a file where the folder belongs")
    with (
        pytest.raises(GraderError, match="cannot be written"),
        Gradebook.open_to_write(school.results),
    ):
        pass


def test_the_same_files_are_the_same_attempt(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        first = school.hand_in(book, "ann", b"x = 1\n")
        second = school.hand_in(book, "ann", b"x = 2\n")
        again = school.hand_in(book, "ann", b"x = 1\n")
    assert [each.number for each in (first, second, again)] == [1, 2, 1]
    assert again == first


def test_the_same_files_of_another_time_are_another_attempt(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        first = school.hand_in(book, "ann", b"x = 1\n", "2026-03-01T10:00:00Z")
        later = school.hand_in(book, "ann", b"x = 1\n", "2026-03-03T10:00:00Z")
        again = school.hand_in(book, "ann", b"x = 1\n", "2026-03-01T10:00:00Z")
        undated = school.hand_in(book, "ann", b"x = 1\n")
    assert [each.number for each in (first, later, again)] == [1, 2, 1]
    assert undated.number == 2, "it matches an attempt with a known time"


CODE = b'x = """a\nb"""\n'
SAVED_OTHERWISE = {
    "Windows": CODE.replace(b"\n", b"\r\n"),
    "old Mac": CODE.replace(b"\n", b"\r"),
    "a mark in front": b"\xef\xbb\xbf" + CODE,
    "no last line end": CODE[:-1],
    "all of it": b"\xef\xbb\xbf" + CODE[:-1].replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("source", SAVED_OTHERWISE.values(), ids=SAVED_OTHERWISE)
def test_the_same_code_with_other_line_ends_is_the_same_attempt(
    school: School, source: bytes
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        first = school.hand_in(book, "ann", CODE)
        again = school.hand_in(book, "ann", source)
        bob = school.hand_in(book, "bob", source)
        other = school.hand_in(book, "ann", CODE.replace(b"a\n", b"a\n\n"))
        assert again == first
        assert other.number == 2
        # Sources are kept byte for byte: the first version of an attempt, and another student's own.
        kept = [book.files_of(each.id)["task"].source for each in (first, bob)]
        assert kept == [CODE, source]
        assert bob.digest == first.digest
    assert ast.dump(ast.parse(CODE)) == ast.dump(ast.parse(source))


def test_the_same_code_again_keeps_its_first_time_and_verdict(
    school: School,
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        first = school.hand_in(book, "ann", CODE, "2026-03-01T10:00:00Z")
        school.keep(book, first, 10, CODE)
        school.hand_in(book, "ann", SAVED_OTHERWISE["Windows"], "2026-03-03T10:00:00Z")
        work, rules = book.work(ANN), book.rules()
        files = handed_in(work, rules, "task")
        assert {file.submitted_at for file in files} == {"2026-03-01T10:00:00Z"}
        assert [file.judged for file in files] == [10, 10]
        assert book.entries().__next__().result.score == 10


def test_an_older_gradebook_is_updated_to_compare_code(school: School) -> None:
    source = SAVED_OTHERWISE["Windows"]
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        first = school.hand_in(book, "ann", source, "2026-03-01T10:00:00Z")
        kept = book.files_of(first.id)
        digest = book.tables.digests_of("ann")["task"][first.id]
    as_it_came = hashlib.sha256(source).hexdigest()
    with contextlib.closing(sqlite3.connect(school.results / "gradebook.sqlite")) as connection:
        # As an earlier grader wrote it.
        connection.execute("DROP TABLE originals")
        connection.execute("UPDATE files SET source = ?", (as_it_came,))
        connection.execute("UPDATE attempts SET digest = 'of the bytes'")
        connection.commit()
    with Gradebook.open(school.results) as book:
        assert book.files_of(first.id) == kept
        assert book.tables.originals() == {}
    with Gradebook.open_to_write(school.results) as book:
        assert book.files_of(first.id) == kept
        assert book.tables.digests_of("ann")["task"][first.id] == digest
        assert book.tables.originals() == {as_it_came: digest}
        assert school.hand_in(book, "ann", CODE, "2026-03-01T10:00:00Z") == first
        time = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
        released = Correction(
            author="me",
            time=time,
            student="ann",
            exercise="task",
            release=as_it_came,
            reason="seen",
        )
        book.correct(released)
        assert book.corrections()[0].release == digest


def test_attention_is_replaced_for_one_exercise_of_one_student(school: School) -> None:
    def entry(student: str, exercise: str, what: str) -> Attention:
        return Attention(Reason.MISNAMED, student, (exercise,), what)

    with Gradebook.open_to_write(school.results) as book:
        for student, exercise in (("bob", "task"), ("ann", "task"), ("ann", "other")):
            with book.transaction():
                book.replace_attention(student, exercise, [entry(student, exercise, "before")])
        with book.transaction():
            book.replace_attention("ann", "task", [entry("ann", "task", "now")])
            book.replace_attention("bob", "task", [])
        found = [(e.student, e.exercises, e.what) for e in book.attention()]
        both = Attention(Reason.MISNAMED, "eve", ("task", "other"), "merged")
        book.change(attention=(both,))
        book.replace_attention("eve", "task", [])
        assert [e.exercises for e in book.attention()] == [("other",)]
        book.replace_attention("eve", "other", [])
        assert book.attention() == ()
    assert found == [("ann", ("other",), "before"), ("ann", ("task",), "now")]


def test_a_time_that_becomes_known_later_is_kept(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        school.hand_in(book, "ann", b"x = 1\n")
        again = school.hand_in(book, "ann", b"x = 1\n", "2026-03-01T10:00:00Z")
        undated = school.hand_in(book, "ann", b"x = 1\n")
    assert again.number == 1 and again.submitted_at == "2026-03-01T10:00:00Z"
    assert undated == again


def test_a_transaction_that_fails_keeps_nothing(school: School) -> None:
    def fail(book: Gradebook) -> None:
        with book.transaction():
            book.keep_student(StudentInfo(id="ann"))
            raise OSError("the disk is full")

    with Gradebook.open_to_write(school.results) as book:
        with pytest.raises(OSError, match="full"):
            fail(book)
        assert book.absent() == []


def test_a_verdict_is_found_for_any_student(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        ann = school.hand_in(book, "ann", b"x = 1\n")
        bob = school.hand_in(book, "bob", b"x = 1\n")
        school.wait_for(book, ann)
        key = "key of b'x = 1\\n'"
        assert not [*book.tables.verdicts(key)], "a verdict that is waited for is not one yet"
        school.keep(book, ann, 7.5)
        (found,) = book.tables.verdicts(key)
        assert found.score == 7.5
        assert book.tables.verdict(ann.id, "task", key) == found
        assert book.tables.verdict(bob.id, "task", key) is None


def test_waiting_does_not_remove_a_verdict(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.wait_for(book, attempt)
        assert book.work(ANN).verdicts["task"][attempt.id].status is Status.UNJUDGED
        school.keep(book, attempt, 10)
        school.wait_for(book, attempt)
        assert book.work(ANN).verdicts["task"][attempt.id].status is Status.PASSED


def test_replaced_verdicts_are_those_from_before_the_grading(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
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


def test_a_fault_of_the_grader_does_not_hide_the_last_verdict(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
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


def test_the_result_of_the_attempt_that_counts_is_written(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        later, earlier = "2026-03-02T10:00:00Z", "2026-03-01T10:00:00Z"
        school.keep(book, school.hand_in(book, "a/nn", b"x = 1\n", later), 7.5)
        school.keep(book, school.hand_in(book, "a/nn", b"x = 2\n", earlier), 10)
        book.write_result("a/nn")
    (written,) = (school.results / "results").iterdir()
    assert json.loads(written.read_bytes())["score"] == 7.5


def test_fields_that_a_newer_roster_omits_are_kept(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
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


def test_odd_ids_keep_students_apart(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for number, student in enumerate(reversed(ODD_IDS)):
            source = f"x = {number}\n".encode()
            school.keep(book, school.hand_in(book, student, source), number, source)
        entries = list(book.entries())
        # SQLite compares ids by their bytes, so the order is the same on every machine.
        assert [entry.student.id for entry in entries] == sorted(ODD_IDS, key=str.encode)
        for entry in entries:
            number = len(ODD_IDS) - 1 - ODD_IDS.index(entry.student.id)
            assert entry.result.score == number
            assert book.sources(entry) == {"task": f"x = {number}\n".encode()}
            assert book.entry_of(entry.student.id) == entry
        for each in book.students():
            book.write_result(each.id)
    written = list((school.results / "results").iterdir())
    assert len(written) == len(ODD_IDS)
    assert {json.loads(path.read_bytes())["submission"]["name"] for path in written} == set(ODD_IDS)
    assert list(school.results.parent.rglob("*.part")) == []


@pytest.mark.parametrize("is_dated", [True, False])
def test_the_newest_attempt_counts_in_any_order_of_arrival(
    school: School, *, is_dated: bool
) -> None:
    chance = random.Random(0)
    first_seen: dict[str, list[int]] = {"ann": [], "bob": [], "cem": []}
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for _ in range(200):
            student, content = chance.choice(list(first_seen)), chance.randrange(12)
            source = f"x = {content}\n".encode()
            at = f"2026-03-{content + 1:02}T10:00:00Z" if is_dated else ""
            attempt = school.hand_in(book, student, source, at)
            if content not in first_seen[student]:
                first_seen[student].append(content)
            number = first_seen[student].index(content) + 1
            assert (attempt.student, attempt.number) == (student, number)
            school.keep(book, attempt, content % 11, source)
        kept = [(attempt.student, attempt.number) for attempt in book.tables.attempts()]
        assert kept == [
            (student, number)
            for student, contents in first_seen.items()
            for number in range(1, len(contents) + 1)
        ]
        for entry in book.entries():
            seen = first_seen[entry.student.id]
            newest = max(seen) if is_dated else seen[-1]
            assert entry.attempt == seen.index(newest) + 1
            assert book.sources(entry) == {"task": f"x = {newest}\n".encode()}
        assert book.attempt_counts() == {name: len(seen) for name, seen in first_seen.items()}


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO attempts VALUES (9, 'ann', 1, 'other', '', 0, '')",
        "INSERT INTO attempts SELECT 9, student, 9, digest, submitted_at, 0, '' FROM attempts",
        "INSERT INTO files SELECT * FROM files",
        "INSERT INTO grades SELECT * FROM grades",
        "INSERT INTO students SELECT * FROM students",
        "INSERT INTO sources SELECT * FROM sources",
        "INSERT INTO environments SELECT 9, environment FROM environments",
        "UPDATE grades SET result = NULL",
        "UPDATE attempts SET student = NULL",
    ],
)
def test_the_tables_refuse_duplicates_and_missing_values(school: School, statement: str) -> None:
    with Gradebook.open_to_write(school.results) as book:
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
    with (
        contextlib.closing(sqlite3.connect(school.results / "gradebook.sqlite")) as connection,
        pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE|NOT NULL"),
    ):
        connection.execute(statement)


def test_a_failed_write_keeps_the_previous_result(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        attempt = school.hand_in(book, "ann", b"x = 1\n")
        school.keep(book, attempt, 4)
        book.write_result("ann")
        (path,) = (school.results / "results").iterdir()
        before = path.read_bytes()
        school.keep(book, attempt, 10)
        with no_room(), pytest.raises(GraderError, match=r"ann\.json cannot be written.*are kept"):
            book.write_result("ann")
        assert path.read_bytes() == before
        assert [*path.parent.iterdir()] == [path]
        book.write_result("ann")
        assert json.loads(path.read_bytes())["score"] == 10
