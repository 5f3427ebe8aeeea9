"""A gradebook of an earlier grader is read, and judged again once.

`gradebook_of_an_earlier_grader.sqlite.xz` was written by one of the first graders. It has the course of
`conftest.py` and a class of six with a roster of seven, graded with `test_zero` at one point. It was graded
again with `test_zero` at three points and another file of ann's.
"""

from __future__ import annotations

import contextlib
import lzma
import shutil
import sqlite3
from pathlib import Path

import pytest

from grader.gradebook import Gradebook
from grader.gradebook.batch import changes
from grader.gradebook.review import Attention, Reason
from grader.results import Status, StudentInfo

from .conftest import HALF, RIGHT, SOURCES, School

BEFORE = Path(__file__).with_name("gradebook_of_an_earlier_grader.sqlite.xz")
ZOE = "Zoë 東"
SCORES = {
    ZOE: (10, Status.PASSED),
    "ann": (10, Status.PASSED),
    "bob": (7.5, Status.PARTIAL),
    "dee": (0, Status.ERROR),
    "fay": (0, Status.ERROR),
    "gus": (0, Status.NOT_ATTEMPTED),
    "mia": (0, Status.NOT_ATTEMPTED),
}
FILES = {ZOE: f"{RIGHT}# é\n", "ann": RIGHT, "bob": HALF} | {
    student: SOURCES[student] for student in ("dee", "fay", "gus")
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "gradebook.sqlite").write_bytes(lzma.decompress(BEFORE.read_bytes()))
    return folder


def rows(results: Path, table: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(results / "gradebook.sqlite")) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def scores(book: Gradebook) -> dict[str, tuple[float, Status]]:
    return {
        entry.student.id: (entry.result.score, entry.result.exercises[0].status)
        for entry in book.entries()
    }


def test_everything_in_it_is_read(results: Path) -> None:
    with Gradebook.open(results) as book:
        assert scores(book) == SCORES
        assert [(each.student, each.number) for each in book.tables.attempts()] == [
            (ZOE, 1), ("ann", 1), ("ann", 2), ("bob", 1), ("dee", 1), ("fay", 1), ("gus", 1),
        ]  # fmt: skip
        assert book.absent() == [StudentInfo(id="mia", name="Mia")]
        assert book.names() == {ZOE: "Zoë 東京", "ann": "Ann Arbor", "bob": "Bob", "mia": "Mia"}
        for entry in book.entries():
            sources = {name: source.decode() for name, source in book.sources(entry).items()}
            assert sources == {"task": FILES[entry.student.id]} if entry.attempt else not sources
        (bob,) = [change for change in changes(book) if change.student == "bob"]
        assert (bob.before, bob.after, bob.tests) == (5.0, 7.5, ())
        assert book.attention() == (
            Attention(Reason.ODD_CODE, "fay", ("task",), "line 2 uses os._exit"),
        )
        assert (book.facts.course.name, book.facts.revision, book.unfinished) == ("small", 2, "")


def test_its_files_are_judged_again_once_and_nothing_is_lost(results: Path, school: School) -> None:
    for student in SOURCES.keys() - FILES.keys():
        shutil.rmtree(school.submissions / student)
    for student, source in FILES.items():
        school.hand_in(student, source)
    before = {table: rows(results, table) for table in ("students", "sources", "replaced")}
    first = school.batch(results=results)
    assert first.returncode == 0, first.stderr
    # This includes files that need no judge, since the key of a verdict contains the grader's digest.
    assert "4 exercises judged, 2 settled without a judge, 0 known" in first.stdout
    with Gradebook.open(results) as book:
        assert scores(book) == SCORES
        assert list(changes(book)) == [], "no verdict changed"
        assert book.facts.revision == 3
    for table in ("students", "sources"):
        assert rows(results, table) == before[table]
    assert set(before["replaced"]) < set(rows(results, "replaced"))
    second = school.batch(results=results)
    assert "0 exercises judged, 0 settled without a judge, 6 known" in second.stdout


def test_it_can_be_written_to(results: Path) -> None:
    with Gradebook.open_to_write(results) as book, book.transaction():
        book.keep_student(StudentInfo(id="new"))
    with Gradebook.open(results) as reader:
        assert [student.id for student in reader.absent()] == ["mia", "new"]
