"""What a gradebook says to whoever reads it: entries, sources, who is absent, and that it is not finished."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from grader.errors import GraderError, SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.review import Attention, Reason
from grader.gradebook.standing import total_of
from grader.results import StudentInfo

from .conftest import HERE, School


def test_reading_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="no gradebook"), Gradebook.open(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_gradebook_is_told(tmp_path: Path) -> None:
    (tmp_path / "gradebook.sqlite").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(GraderError, match="cannot be opened"), Gradebook.open(tmp_path):
        pass


def test_it_is_read_while_it_is_written(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
        with Gradebook.open(school.results) as reader:
            assert [entry.student.id for entry in reader.entries()] == ["ann"]
            assert "did not finish" in reader.unfinished
        found = (Attention(Reason.FORGER, "ann", "task", "odd"),)
        book.finish(found)
    with Gradebook.open(school.results) as reader:
        assert reader.unfinished == ""
        assert reader.attention() == found
        assert (reader.facts.title, reader.facts.revision) == ("A small course", 1)
        assert reader.facts.course == school.course.info()


def test_an_entry_is_what_counts_with_its_files(school: School) -> None:
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


def test_totals_are_those_of_the_grading_before(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        for source, score in ((b"x = 1\n", 4), (b"x = 2\n", 10), (b"x = 3\n", 7)):
            book.begin(school.course)
            school.keep(book, school.hand_in(book, "bob", source), score, source)
            school.wait_for(book, school.hand_in(book, "open", source), source)
            book.finish(())
        assert book.totals_before() == {"bob": 10}
        assert total_of(book.work(StudentInfo(id="bob")), book.rules()) == 7


def test_who_handed_in_nothing_is_absent(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        cem = StudentInfo(id="cem", name="Cem", email="c@example.org", ids={"canvas_id": "7"})
        with book.transaction():
            book.keep_student(cem)
        school.hand_in(book, "ann", b"x = 1\n")
        assert book.absent() == [cem]


def test_the_walls_of_a_result_are_those_that_held_every_time(school: School) -> None:
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
