"""Wrong answers are read from both of their forms, and a mutant is its base with the changes made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.course.manifest import Course, Exercise, load_course
from grader.course.mutants import wrong_answers
from grader.course.pack import write_pack

ROOT = Path(__file__).resolve().parents[3]
PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return load_course(tmp_path / "course")


@pytest.fixture
def exercise(course: Course) -> Exercise:
    return course.exercise("word_count")


def write(course: Course, exercise: Exercise, text: str) -> None:
    course.mutants(exercise).write_text(text, encoding="utf-8")


ENTRY = """
[wrong.{id}]
mistake = "a mistake"
told = " words "
change = {change}
"""


def test_both_forms_are_listed_by_id(course: Course, exercise: Exercise) -> None:
    read = wrong_answers(course, exercise)
    assert read.complaints == ()
    assert [(wrong.id, wrong.name) for wrong in read.answers] == [
        ("alphabetical", "tests/wrong/text/word_count.toml: alphabetical"),
        ("case_kept", "tests/wrong/text/word_count.toml: case_kept"),
        ("characters", "tests/wrong/text/word_count/characters.py"),
    ]
    mutant, other, whole = read.answers
    solution = course.solution(exercise).read_text("utf-8")
    head, _, _ = solution.partition("    if n < 1:")
    assert mutant.source.decode() == head + "    return sorted(word_count(text))[:n]\n"
    assert mutant.base == "solutions/text/word_count.py"
    assert other.base == "tests/right/text/word_count/sets.py"
    assert b'text.split(" ")' in other.source
    assert whole.source == (course.root / whole.name).read_bytes()
    assert (whole.mistake, whole.caught_by, whole.told) == (
        "counts characters",
        ("test_counts",),
        "counted characters",
    )


def test_every_change_is_made_in_the_base_and_nowhere_else(
    course: Course, exercise: Exercise
) -> None:
    # The new text of the first change holds the old one of the second, and they stand in any order.
    change = (
        '[["n < 1", "text.lower() < n"], ["text.lower()", "text"], ["Count the words", "Count"]]'
    )
    base = 'base = "solutions/text/word_count.py"\n'
    write(course, exercise, base + ENTRY.format(id="several", change=change))
    (mutant,) = [wrong for wrong in wrong_answers(course, exercise).answers if wrong.base]
    solution = course.solution(exercise).read_text("utf-8")
    expected = solution.replace("text.lower()", "text").replace("n < 1", "text.lower() < n")
    assert mutant.source.decode() == expected.replace("Count the words", "Count")
    assert (mutant.caught_by, mutant.told) == ((), "words")


BASE = "one\ntwo\n\ntwo\n    three\n"


@pytest.mark.parametrize(
    ("diff", "mutated"),
    [
        ("-one\n+ONE\n", "ONE\ntwo\n\ntwo\n    three\n"),
        (" one\n-two\n", "one\n\ntwo\n    three\n"),
        ("\n-two\n+zwei", "one\ntwo\n\nzwei\n    three\n"),
        ("+zero\n one\n@@\n-    three\n+\n+    3\n", "zero\none\ntwo\n\ntwo\n\n    3\n"),
        ("-    three\n@@\n-one\n", "two\n\ntwo\n"),
    ],
    ids=["replaced", "removed", "after an empty line", "two places", "in any order"],
)
def test_a_diff(course: Course, exercise: Exercise, diff: str, mutated: str) -> None:
    right = course.variants(exercise, "right")[0]
    right.write_text(BASE, encoding="utf-8")
    head = f'base = "{course.name_of(right)}"\n[wrong.a]\nsays = "No."\n'
    write(course, exercise, f"{head}change = '''\n{diff}'''\n")
    (mutant,) = [wrong for wrong in wrong_answers(course, exercise).answers if wrong.base]
    assert mutant.source.decode() == mutated


@pytest.mark.parametrize(
    ("diff", "complaint"),
    [
        ("-two\n", "'two' stands as whole lines 2 times in "),
        ("-thr\n+3\n", "'thr' stands as whole lines 0 times in "),
        ("+zero\n", "no line says where '+zero' goes: begin one that stays with a space"),
        ("one\n", "a line of a diff begins with '-', '+' or a space, and not so: 'one'"),
        (" one\n-two\n@@\n-one\n", "two changes overlap at "),
        (" one\n", "it is the same as "),
    ],
)
def test_a_diff_that_cannot_be_applied(
    course: Course, exercise: Exercise, diff: str, complaint: str
) -> None:
    right = course.variants(exercise, "right")[0]
    right.write_text(BASE, encoding="utf-8")
    head = f'base = "{course.name_of(right)}"\n[wrong.a]\nsays = "No."\n'
    write(course, exercise, f"{head}change = '''\n{diff}'''\n")
    (told,) = wrong_answers(course, exercise).complaints
    assert told.startswith(f"tests/wrong/text/word_count.toml: a: {complaint}")


def test_line_ends_of_another_system_make_the_same_mutant(
    course: Course, exercise: Exercise
) -> None:
    expected = wrong_answers(course, exercise).answers[:2]
    for path in (course.mutants(exercise), *course.rights(exercise)):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert wrong_answers(course, exercise).answers[:2] == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[wrong\n", ", line 1."),
        (
            "wrong = {}\nright = []\n",
            "there is no key `right`, line 2. There are: base, equivalent, wrong.",
        ),
        ("base = 1\nwrong = {}\n", "Expected `str`, got `int` (`base`), line 1."),
        ("base = 'solutions/text/word_count.py'\n", "Object missing required field `wrong`."),
        (ENTRY.format(id="Bias", change='[["a", "b"]]'), "matching regex '^[a-z][a-z0-9_]*$'."),
        (
            ENTRY.format(id="a", change='[["a", "b"]]') + "line = 3\n",
            "there is no key `line`. There are: base, central, change, mistake, says, told.",
        ),
        (ENTRY.format(id="a", change='[["", "b"]]'), "length >= 1 - at `$.change[0][0]`."),
        (
            ENTRY.format(id="a", change='[["a", "b"]]'),
            "its base '' is neither the solution nor a right answer.",
        ),
        ("[wrong.a]\n", "a: Object missing required field `change`."),
        ("[wrong.a]\nchange = ''\n", "a: Expected `str` of length >= 1 - at `$.change`."),
        (
            "[wrong.a]\nmistake = 'm'\nchange = '-a'\n",
            "a: it needs either `says`, or `mistake` and `told`.",
        ),
        (
            "[wrong.a]\nsays = 'No.'\ntold = 't'\nchange = '-a'\n",
            "a: it needs either `says`, or `mistake` and `told`.",
        ),
        (
            ENTRY.format(id="a", change="'-a'") + "says = 'No.'\n",
            "a: it needs either `says`, or `mistake` and `told`.",
        ),
    ],
)
def test_a_file_that_is_not_in_order_is_one_complaint(
    course: Course, exercise: Exercise, text: str, complaint: str
) -> None:
    write(course, exercise, text)
    read = wrong_answers(course, exercise)
    assert [wrong.id for wrong in read.answers] == ["characters"]
    (told,) = read.complaints
    assert told.startswith("tests/wrong/text/word_count.toml: ")
    assert told.endswith(complaint)


def test_a_file_of_tests_that_cannot_be_read(course: Course, exercise: Exercise) -> None:
    course.caught(exercise).write_text("case_kept = 1\n", encoding="utf-8")
    (told,) = wrong_answers(course, exercise).complaints
    assert told.startswith("tests/wrong/text/word_count.caught.toml: Expected `array`, got `int`")


def test_bytes_that_are_no_text(course: Course, exercise: Exercise) -> None:
    course.mutants(exercise).write_bytes(b"base = '\xff'\n")
    (told,) = wrong_answers(course, exercise).complaints
    assert told.startswith("tests/wrong/text/word_count.toml: 'utf-8' codec can't decode")


def test_a_pack_has_the_same_wrong_answers(course: Course, tmp_path: Path) -> None:
    pack = tmp_path / "course.pack"
    write_pack(pack, course.info(), "exercises/course.toml", course.files())
    packed = load_course(pack)
    for exercise in course.exercises:
        assert wrong_answers(packed, exercise) == wrong_answers(course, exercise)
        assert wrong_answers(course, exercise).answers


def test_every_wrong_answer_of_our_course_can_be_made() -> None:
    course = load_course(ROOT)
    for exercise in course.exercises:
        read = wrong_answers(course, exercise)
        assert read.complaints == ()
        assert all(wrong.title and wrong.caught_by for wrong in read.answers)
        assert len(read.answers) >= 25


def test_a_mistake_may_be_central_in_both_forms(course: Course, exercise: Exercise) -> None:
    whole = course.variants(exercise, "wrong")[0]
    text = whole.read_text("utf-8").replace("| told:", "| central: word_count | told:")
    whole.write_text(text, encoding="utf-8")
    toml = course.mutants(exercise).read_text("utf-8")
    write(course, exercise, toml.replace('told = "expected"', 'told = "expected"\ncentral = "a.b"'))
    read = wrong_answers(course, exercise)
    assert read.complaints == ()
    assert [wrong.central for wrong in read.answers] == ["", "a.b", "word_count"]
    assert (read.answers[2].caught_by, read.answers[2].told) == (
        ("test_counts",),
        "counted characters",
    )
