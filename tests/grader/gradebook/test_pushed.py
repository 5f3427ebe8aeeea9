"""The memory of pushes, by which the next push distinguishes points that staff gave from ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from grader.errors import GraderError
from grader.gradebook import pushed
from grader.gradebook.database import FILE
from grader.gradebook.pushed import Pushed

TARGET = "https://canvas.example.edu/courses/1/assignments/2"
SENT = Pushed(student="ada", points=7.5, comment="d1gest", time="2026-10-01T10:00:00Z")
SENDING = Pushed(student="ada", sending_points=0.0, sending_comment="d2gest", sending_both=True)


def test_a_record_is_kept_and_replaced(memory_path: Path) -> None:
    with pushed.pushing(memory_path, TARGET) as memory:
        assert memory.all() == {}
        memory.keep("7", SENDING)
        memory.keep("8", SENT)
        memory.keep("7", SENT)
        assert memory.all() == {"7": SENT, "8": SENT}
    with pushed.reading(memory_path, TARGET) as memory:
        assert memory.all() == {"7": SENT, "8": SENT}


def test_an_unfinished_push_is_remembered(memory_path: Path) -> None:
    with pushed.pushing(memory_path, TARGET) as memory:
        memory.keep("7", SENDING)
    with pushed.reading(memory_path, TARGET) as memory:
        assert memory.all() == {"7": SENDING}


def test_each_assignment_has_its_own_memory(memory_path: Path) -> None:
    with pushed.pushing(memory_path, TARGET) as memory:
        memory.keep("7", SENT)
    with pushed.pushing(memory_path, TARGET + "3") as memory:
        assert memory.all() == {}
        memory.keep("7", SENDING)
    with pushed.reading(memory_path, TARGET) as memory:
        assert memory.all() == {"7": SENT}


def test_a_second_push_is_refused_while_the_first_goes_on(memory_path: Path) -> None:
    with pushed.pushing(memory_path, TARGET):
        for open_again in (pushed.pushing, pushed.pushing_beside_writer):
            with pytest.raises(GraderError, match="Another push"), open_again(memory_path, "other"):
                pass
    with pushed.pushing_beside_writer(memory_path, TARGET) as memory:
        memory.keep("7", SENT)
        assert memory.all() == {"7": SENT}


def test_a_gradebook_that_was_never_pushed_has_no_records(memory_path: Path) -> None:
    with pushed.pushing(memory_path, TARGET) as memory:
        memory._tables.connection.execute("DROP TABLE pushed")
    with pushed.reading(memory_path, TARGET) as memory:
        assert memory.all() == {}
    with pushed.pushing_beside_writer(memory_path, TARGET) as memory:
        memory.keep("7", SENT)
        assert memory.all() == {"7": SENT}


def test_without_a_gradebook_there_is_nothing_to_read(memory_path: Path) -> None:
    with pytest.raises(GraderError), pushed.reading(memory_path, TARGET):
        pass


def test_a_damaged_record_is_reported_with_its_file(memory_path: Path) -> None:
    with pushed.pushing(memory_path, TARGET) as memory:
        memory.keep("7", SENT)
    with sqlite3.connect(memory_path / FILE) as connection:
        connection.execute("UPDATE pushed SET pushed = '{'")
    connection.close()
    with pytest.raises(GraderError, match=FILE), pushed.reading(memory_path, TARGET) as memory:
        memory.all()
