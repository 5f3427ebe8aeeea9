"""Erasing a student from a gradebook. tests/grader/serve has the full test, with a row in every table."""

from __future__ import annotations

import datetime

from grader.gradebook import Gradebook
from grader.gradebook.corrections import Correction
from grader.gradebook.personal import erase, kept_about

from .conftest import School

NOW = datetime.datetime(2036, 11, 1, tzinfo=datetime.UTC)
SHARED = b"x = 1\n"


def correction(student: str) -> Correction:
    reason = f"told by {student}"
    return Correction(
        student=student, exercise="task", add=1.0, reason=reason, author="prof", time=NOW
    )


def test_erasing_removes_everything_of_one_student_and_nothing_of_another(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        for name in ("ada", "bob"):
            attempt = school.hand_in(book, name, SHARED)
            school.keep(book, attempt, 10.0)
            school.hand_in(book, name, f"# of {name}\n".encode())
            book.correct(correction(name))
        of_bob = kept_about(book, "bob")
        tables = kept_about(book, "ada").rows.keys()
        assert {"students", "attempts", "files", "grades"} <= tables
        lost = erase(book, "ada")
        assert lost["students"] == 1 and lost["attempts"] == 2
        assert kept_about(book, "ada") == ({}, (), (), ())
        assert kept_about(book, "bob") == of_bob
        sources = book.tables.connection.execute("SELECT count(*) FROM sources").fetchone()
        assert sources == (2,), "the shared file, and bob's own"
        assert erase(book, "ada") == {}, "a repeat after a kill finds nothing"
    left = b"".join(path.read_bytes() for path in school.results.iterdir() if path.is_file())
    assert b"told by bob" in left
    assert b"told by ada" not in left and b"ada.zip" not in left
