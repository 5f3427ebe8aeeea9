"""The tests that catch a wrong answer are written into its file, and nothing else in it changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.authoring.caught import write_caught_by
from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers
from grader.errors import CourseError

PLAIN = Path(__file__).parents[1] / "courses" / "plain"

FILE = """# At the top.
base = "solutions/text/word_count.py"

[[wrong]]
id = "alphabetical"  # of words
mistake = "sorts by the alphabet"
caught_by = ["test_a"]
told = "returned normally"
change = [['''
    counts = word_count(text)
''', '''
caught_by = ["no key"]
''']]

# Written before it was judged.
[[wrong]]
id = "zeros"
mistake = "counts nothing"
change = [["counts", "0"]]
[[wrong]]
id = 'long'
caught_by = [
    "test_a",  # the first one
    "test_b",
]
mistake = "a mistake"
change = [["counts", "1"]]

[[equivalent]]
line = "a"
mutant = "b"
reason = "caught_by = []"
"""
LONG = [f"test_of_a_promise_with_a_long_name_{letter}" for letter in "abc"]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return load_course(tmp_path / "course")


def written(course: Course, text: str, lists: dict[str, list[str]]) -> str:
    exercise = course.exercise("word_count")
    path = course.mutants(exercise)
    path.write_bytes(text.encode())
    write_caught_by(course, exercise, lists)
    return path.read_bytes().decode()


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CR LF"])
def test_lists_are_written_and_all_else_stays(course: Course, end: str) -> None:
    lists = {"alphabetical": ["test_b", "test_c"], "zeros": ["test_a"], "long": LONG}
    expected = (
        FILE.replace('caught_by = ["test_a"]', 'caught_by = ["test_b", "test_c"]')
        .replace('id = "zeros"', 'id = "zeros"\ncaught_by = ["test_a"]')
        .replace(
            '    "test_a",  # the first one\n    "test_b",\n',
            "".join(f'    "{t}",\n' for t in LONG),
        )
    )
    text = FILE.replace("\n", end)
    assert written(course, text, lists) == expected.replace("\n", end)


def test_what_agrees_is_left_as_it_is(course: Course) -> None:
    assert written(course, FILE, {"alphabetical": ["test_a"], "long": ["test_a", "test_b"]}) == FILE
    assert written(course, FILE, {}) == FILE


def test_the_first_line_of_a_whole_file(course: Course) -> None:
    exercise = course.exercise("word_count")
    path = course.variants(exercise, "wrong")[0]
    before = path.read_text("utf-8").splitlines()
    assert write_caught_by(course, exercise, {"characters": ["test_case", "test_counts"]}) == (
        "tests/wrong/text/word_count/characters.py",
    )
    (answer,) = (w for w in wrong_answers(course, exercise).answers if w.id == "characters")
    assert answer.caught_by == ("test_case", "test_counts")
    assert answer.mistake == "counts characters"
    assert path.read_text("utf-8").splitlines()[1:] == before[1:]
    assert before[0].partition("| caught by")[0] in path.read_text("utf-8")


def test_a_layout_in_which_no_list_is_found_is_refused(course: Course) -> None:
    entry = '{id = "zeros", mistake = "counts nothing", change = [["counts", "0"]]}'
    text = f'base = "solutions/text/word_count.py"\nwrong = [{entry}]\n'
    with pytest.raises(CourseError, match="the lists of caught_by are not found in it"):
        written(course, text, {"zeros": ["test_a"]})
    assert course.mutants(course.exercise("word_count")).read_text("utf-8") == text
