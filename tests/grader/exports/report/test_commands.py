"""`grade similar` and `grade report` as an instructor runs them on a graded class."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from grader.gradebook.similarity.findings import read_similar
from grader.results import Status
from tests.grader import builders
from tests.grader.cli.conftest import PLAIN, run_grade
from tests.grader.gradebook.conftest import HERE, School, key_of

RIGHT = PLAIN / "solutions" / "text" / "word_count.py"


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with RESULTS: two equal files, one file with a syntax error, and one hostile name."""
    folder = tmp_path_factory.mktemp("class")
    school = School(load_course(PLAIN), folder / "results")
    solution = RIGHT.read_text(encoding="utf-8")
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student, source in (
            ("ada", solution),
            ("bob", solution.replace("words", "tokens") + "\n# mine\n"),
            ("cyd", "def word_count(:\n"),
            ("<b>dan", solution + "\n\ndef more():\n    return [n for n in range(9) if n % 2]\n"),
        ):
            attempt = school.hand_in(book, student, source.encode(), exercise="word_count")
            verdict = builders.exercise(
                builders.checked(), name="word_count", chapter="text", worth=10
            )
            if student == "cyd":
                broken = "text/word_count.py is not valid Python: line 1: invalid syntax."
                verdict = msgspec.structs.replace(
                    verdict, status=Status.ERROR, score=0.0, message=broken
                )
            book.keep(attempt, key_of(source.encode()), 0, verdict, HERE)
        book.finish(())
    return folder


def test_similar_prints_pairs_and_the_report_shows_them(graded: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(graded / "results", results)
    done = run_grade("similar", results)
    assert done.returncode == 0, done.stderr
    found = read_similar(results)
    assert found is not None
    by_name = {(pair.left, pair.right): pair.similarity for pair in found.pairs}
    assert by_name["ada", "bob"] == 1.0
    assert "ada  bob" in done.stdout
    assert "100 %  word_count" in done.stdout
    assert "fewer than 10 files, too few to learn from: reported from 60 % on" in " ".join(
        done.stdout.split()
    )
    assert "not proof of copying" in done.stdout
    done = run_grade("report", results, "-o", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"4 students: {tmp_path / 'report' / 'staff' / 'index.html'}")
    staff = (tmp_path / "report" / "staff" / "index.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;dan" in staff
    assert len(list((tmp_path / "report" / "staff" / "alike").iterdir())) == len(found.pairs)
    page = (tmp_path / "report" / "students" / "cyd.html").read_text(encoding="utf-8")
    assert "is not valid Python: line 1" in page


def test_pairs_have_names_and_an_unfinished_grading_is_reported(
    graded: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(graded / "results", results)
    with contextlib.closing(sqlite3.connect(results / "gradebook.sqlite")) as connection:
        connection.execute("UPDATE students SET name = 'Ada L.' WHERE id = 'ada'")
        connection.execute(
            "UPDATE facts SET facts = json_set(facts, '$.is_unfinished', json('true'))"
        )
        connection.commit()
    done = run_grade("similar", results)
    assert done.returncode == 0, done.stderr
    assert "ada (Ada L.)  bob" in done.stdout
    assert "did not finish" in done.stderr
    done = run_grade("report", results, "-o", tmp_path / "report")
    staff = (tmp_path / "report" / "staff" / "index.html").read_text(encoding="utf-8")
    assert "<bdi>Ada L.</bdi> (<bdi>ada</bdi>) and" in staff
    assert '<h2 id="unfinished">Not finished</h2>' in staff and "did not finish" in staff


def test_a_report_without_a_comparison_says_how_to_get_one(graded: Path, tmp_path: Path) -> None:
    done = run_grade("report", graded / "results", "-o", tmp_path / "new" / "report")
    assert done.returncode == 0, done.stderr
    staff = (tmp_path / "new" / "report" / "staff" / "index.html").read_text(encoding="utf-8")
    assert "The files were not compared: run grade similar" in staff


@pytest.mark.parametrize("command", [["similar"], ["report", "-o", "report"]], ids=lambda c: c[0])
def test_a_folder_without_a_gradebook_is_a_usage_error(command: list[str], tmp_path: Path) -> None:
    done = run_grade(*command, tmp_path)
    assert done.returncode == 2
    assert "There is no gradebook in" in done.stderr
    assert not (PLAIN / "report").exists()


def test_a_folder_that_is_not_a_report_is_left_alone(graded: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    done = run_grade("report", graded / "results", "-o", tmp_path)
    assert done.returncode == 2
    assert "something other than a report; name a new or an empty folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_comparison_is_a_fault_that_says_what_to_do(graded: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(graded / "results", results)
    (results / "similar.json").write_text("{")
    done = run_grade("report", results, "-o", tmp_path / "report")
    assert done.returncode == 3
    assert "Run `grade similar` again, or delete the file." in done.stderr
    assert not (tmp_path / "report").exists()
