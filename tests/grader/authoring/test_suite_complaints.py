"""`verify` reports hints that are never shown, and mistakes in a suite with their line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.authoring.verify import verify
from grader.course.manifest import load_course

from ..cli.conftest import PLAIN


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return the hidden suite of a correct exercise, in a course of its own."""
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    ignored = shutil.ignore_patterns("*.toml")
    stubs = tmp_path / "course/tests/stubs"
    shutil.copytree(tmp_path / "course/exercises", stubs, ignore=ignored)
    return tmp_path / "course/tests/hidden/text/test_word_count.py"


def complaints(suite: Path) -> list[str]:
    course = load_course(suite.parents[3])
    (proof,) = verify(course, [course.exercise("word_count")], seeds=1)
    return list(proof.complaints)


def test_a_hint_that_is_never_shown_is_reported(suite: Path) -> None:
    wrong = suite.parents[2] / "wrong/text"
    for file in (wrong / "word_count").iterdir():
        file.unlink()
    counter = (
        "import collections\\n\\ndef word_count(text):\\n    return collections.Counter(text)\\n"
    )
    signature = "def word_count(text: str) -> dict[str, int]:"
    (wrong / "word_count.toml").write_text(
        '[mistake.counter]\nmistake = "m"\ntold = "not allowed"\n'
        f'line = "{signature}"\nmutant = "{counter}\\ndef unused(text):"\n',
        encoding="utf-8",
    )
    hidden = [text for text in complaints(suite) if "hint of hidden test_case" in text]
    assert hidden == [
        (
            "word_count: the hint of hidden test_case is never shown: where the test fails, something is used "
            "that is not allowed. Add a wrong answer that fails in another way."
        )
    ]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            "must_raise(ValueError, metnions='n', call='c')",
            "unexpected keyword argument 'metnions'",
        ),
        ("must_raise(7)", "isinstance"),
    ],
)
def test_a_misused_check_is_reported_with_the_line_of_the_suite(
    suite: Path, call: str, why: str
) -> None:
    replace(suite, """must_raise(ValueError, mentions="n", call="most_common('a', 0)")""", call)
    fault = next(text for text in complaints(suite) if "is at fault in" in text)
    assert why in fault
    assert "(test_word_count.py, line " in fault


def test_an_exception_caused_by_a_wrong_answer_is_reported_with_its_line(suite: Path) -> None:
    call = 'assert_equal(student.function("word_count")("A a"), {"a": 2})'
    replace(suite, call, 'assert student.function("word_count")("A")["a"] == 1, "No."')
    found = [text for text in complaints(suite) if "it makes" in text]
    assert found[0] == (
        "tests/wrong/text/word_count.toml: case_kept: it makes test_case raise KeyError (test_word_count.py, "
        "line 18): 'a'. Its student reads nothing useful: check the answer "
        "before you use it."
    )


def test_a_test_that_passes_without_work_is_reported(suite: Path) -> None:
    any_answer_will_do = 'student.function("word_count")("A a")'
    replace(suite, f'assert_equal({any_answer_will_do}, {{"a": 2}})', any_answer_will_do)
    found = [text for text in complaints(suite) if text.startswith("word_count: code that")]
    junk = "code that returns None and code that returns its first argument"
    why = "which is worth points: mark the test with `word=`."
    assert found == [f"word_count: {junk} passes hidden test_case, {why}"]
