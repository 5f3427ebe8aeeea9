"""Several gradebooks become one: what is the same stands once, what differs is told, nothing is half done."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from grader.errors import GraderError, SubmissionError
from grader.gradebook import Gradebook, Keeper
from grader.gradebook.corrections import Correction, Kind
from grader.gradebook.keeper import Keeper as Writing
from grader.gradebook.merge import merge
from grader.results import StudentInfo
from tests.grader.gradebook.conftest import School

FILE = "gradebook.sqlite"
X, Y = b"x = 1\n", b"y = 1\n"


def graded(
    school: School,
    folder: Path,
    work: dict[str, bytes],
    *,
    score: float = 10,
    at: str = "",
    policy: str = "",
    corrections: tuple[Correction, ...] = (),
) -> Path:
    """A gradebook in which these students handed in a file each, all judged alike."""
    with Keeper.open(folder) as book:
        book.begin(school.course, policy=policy)
        for student, source in work.items():
            attempt = school.hand_in(book, student, source, at)
            school.keep(book, attempt, score, source)
        book.finish(())
        for correction in corrections:
            book.correct(correction)
        for student in work:
            book.write_result(student)
    return folder


def content(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    with contextlib.closing(sqlite3.connect(folder / FILE)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for (name,) in names
        }


def scores(folder: Path) -> dict[str, float]:
    with Gradebook.open(folder) as book:
        return {entry.student.id: entry.result.score for entry in book.entries()}


def points(value: float, author: str, made_at: str) -> Correction:
    return Correction(
        student="ann", exercise="task", kind=Kind.POINTS, points=value, author=author,
        reason="Oral exam", made_at=made_at,
    )  # fmt: skip


def test_the_parts_of_a_class_become_one_and_the_sources_stay_as_they_are(
    school: School, tmp_path: Path
) -> None:
    one = graded(school, tmp_path / "one", {"ann": X, "bob": X}, score=10)
    two = graded(school, tmp_path / "two", {"bob": X, "cem": Y}, score=10)
    before = [(folder / FILE).read_bytes() for folder in (one, two)]
    done = merge(one, [two], tmp_path / "all")
    assert [(folder / FILE).read_bytes() for folder in (one, two)] == before
    assert (done.students, done.attempts, done.verdicts, done.conflicts) == (3, 3, 3, ())
    assert scores(tmp_path / "all") == {"ann": 10, "bob": 10, "cem": 10}
    results = {path.stem for path in (tmp_path / "all" / "results").iterdir()}
    assert results == {"ann", "bob", "cem"}
    with Gradebook.open(tmp_path / "all") as book:
        assert book.files_of(book.work(StudentInfo(id="cem")).attempts[0].id)["task"].source == Y


def test_merging_twice_changes_nothing(school: School, tmp_path: Path) -> None:
    one = graded(school, tmp_path / "one", {"ann": X}, corrections=(points(3, "A", "2026-01-01"),))
    two = graded(school, tmp_path / "two", {"ann": X, "cem": Y}, score=5)
    differ(two)
    merge(one, [two])
    before = content(one), (one / "results" / "ann.json").read_bytes()
    done = merge(one, [two])
    assert (done.students, done.attempts, done.verdicts, done.corrections) == (0, 0, 0, 0)
    assert (content(one), (one / "results" / "ann.json").read_bytes()) == before


def differ(folder: Path, graded_at: str = "2999-01-01T00:00:00Z") -> None:
    """Let the verdicts be those of another grader, of some time."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as connection, connection:
        connection.execute("UPDATE grades SET key = 'other' || key, graded_at = ?", (graded_at,))


@pytest.mark.parametrize(
    ("graded_at", "prefer", "expected"),
    [
        ("2999-01-01T00:00:00Z", "", 5),
        ("1999-01-01T00:00:00Z", "", 10),
        ("2999-01-01T00:00:00Z", "one", 10),
        ("1999-01-01T00:00:00Z", "two", 5),
    ],
)
@pytest.mark.parametrize("into", ["", "all"])
def test_two_verdicts_on_one_file_are_told_and_the_newer_or_preferred_one_is_kept(
    school: School, tmp_path: Path, graded_at: str, prefer: str, expected: float, into: str
) -> None:
    one = graded(school, tmp_path / "one", {"ann": X}, score=10)
    two = graded(school, tmp_path / "two", {"ann": X}, score=5)
    differ(two, graded_at)
    target = tmp_path / into if into else None
    done = merge(one, [two], target, tmp_path / prefer if prefer else None)
    assert scores(target or one) == {"ann": expected}
    (conflict,) = done.conflicts
    assert (conflict.student, conflict.exercise) == ("ann", "task")
    assert "5 of 10 points" in conflict.what and "10 of 10 points" in conflict.what
    assert conflict.kept.startswith(f"{expected} of 10")


def test_what_is_not_judged_gives_way_whoever_is_newer(school: School, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with Keeper.open(one) as book:
        book.begin(school.course)
        school.fault(book, school.hand_in(book, "ann", X), X)
        book.finish(())
    graded(school, two, {"ann": X}, score=5)
    differ(two, "1999-01-01T00:00:00Z")
    assert merge(one, [two]).conflicts == ()
    assert scores(one) == {"ann": 5}
    assert merge(two, [one]).conflicts == ()
    assert scores(two) == {"ann": 5}


def test_an_attempt_with_a_time_is_the_one_without(school: School, tmp_path: Path) -> None:
    one = graded(school, tmp_path / "one", {"ann": X})
    two = graded(school, tmp_path / "two", {"ann": X}, at="2026-01-01T00:00:00Z")
    assert merge(one, [two]).attempts == 0
    with Gradebook.open(one) as book:
        assert [each.submitted_at for each in book.attempts()] == ["2026-01-01T00:00:00Z"]
    other = graded(school, tmp_path / "other", {"ann": Y}, at="2026-02-01T00:00:00Z", score=2)
    assert merge(one, [other]).attempts == 1
    assert scores(one) == {"ann": 2}


def test_corrections_of_both_are_kept_and_the_later_points_hold(
    school: School, tmp_path: Path
) -> None:
    late, early = points(8, "Ann", "2026-03-01T00:00:00Z"), points(6, "Ben", "2026-02-01T00:00:00Z")
    one = graded(school, tmp_path / "one", {"ann": X}, corrections=(late,))
    two = graded(school, tmp_path / "two", {"ann": X}, corrections=(early,))
    done = merge(one, [two])
    assert done.corrections == 1
    (conflict,) = done.conflicts
    assert conflict.what.index("6 points by Ben") < conflict.what.index("8 points by Ann")
    assert conflict.kept.startswith("set to 8 points")
    assert scores(one) == {"ann": 8}
    with Gradebook.open(one) as book:
        assert [each.points for each in book.corrections()] == [6, 8]
    # One that is undone there is undone here.
    with Writing.open(two) as book:
        book.undo(book.corrections()[0], "Ben")
    assert merge(one, [two]).corrections == 0
    with Gradebook.open(one) as book:
        assert [bool(each.undone_at) for each in book.corrections()] == [True, False]


def test_what_cannot_be_merged_is_refused_before_anything_is_written(
    school: School, tmp_path: Path
) -> None:
    one = graded(school, tmp_path / "one", {"ann": X})
    other = graded(school, tmp_path / "other", {"bob": X}, policy="max_attempts = 3\n")
    open_one = tmp_path / "open"
    with Keeper.open(open_one) as book:
        book.begin(school.course)
    course = graded(school, tmp_path / "course2", {"bob": X})
    with contextlib.closing(sqlite3.connect(course / FILE)) as connection, connection:
        connection.execute(
            "UPDATE facts SET value = replace(value, '\"name\":\"', '\"name\":\"x') WHERE name = 'course'"
        )
    before = content(one)
    for folder, told in (
        (other, "grade policy"),
        (open_one, "not at its end"),
        (course, "one course"),
        (one, "named twice"),
        (tmp_path, "no gradebook"),
    ):
        with pytest.raises(SubmissionError, match=told):
            merge(one, [folder])
        with pytest.raises(SubmissionError, match=told):
            merge(one, [folder], tmp_path / "all")
    assert content(one) == before
    assert not (tmp_path / "all").exists()


def test_what_breaks_in_the_middle_leaves_nothing(school: School, tmp_path: Path) -> None:
    one = graded(school, tmp_path / "one", {"ann": X})
    two = graded(school, tmp_path / "two", {"bob": Y})
    three = graded(school, tmp_path / "three", {"cem": Y})
    with contextlib.closing(sqlite3.connect(three / FILE)) as connection, connection:
        connection.execute("UPDATE students SET ids = '{'")
    before = content(one)
    with pytest.raises(GraderError):
        merge(one, [two, three])
    assert content(one) == before


def test_one_address_under_two_ids_is_told(school: School, tmp_path: Path) -> None:
    one = graded(school, tmp_path / "one", {"ann": X})
    two = graded(school, tmp_path / "two", {"a17": X})
    for folder, student in ((one, "ann"), (two, "a17")):
        with Keeper.open(folder) as book, book.transaction():
            book.keep_student(StudentInfo(id=student, name=student, email="ann@uni.example"))
    (conflict,) = merge(one, [two]).conflicts
    assert (conflict.student, conflict.kept) == ("a17", "both")
    assert "address of ann" in conflict.what
