"""Wrong answers are read in both forms, and a mutant is its base with its changes applied."""

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
[mistake.{id}]
mistake = "a mistake"
told = " words "
line = {line}
mutant = {mutant}
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


LINES = """class A:
    def one(self):
        return self.x(
            # the first
            1,
        )

    @property
    def two(self):
        def inner():
            return 3
        return 3
"""


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        ("line = '@property'\nmutant = '@cached'", "    @property\n", "    @cached\n"),
        ("line = '   @property  '\nmutant = ''", "    @property\n", ""),
        (
            "line = 'def two(self):'\nmutant = '''\ndef two(self):\n    print()\n\n    print(1)\n'''",
            "    def two(self):\n",
            "    def two(self):\n        print()\n\n        print(1)\n",
        ),
        (
            "line = 'return self.x( # the first 1, )'\nmutant = 'return 1'",
            "        return self.x(\n            # the first\n            1,\n        )\n",
            "        return 1\n",
        ),
        (
            "line = 'return 3'\ninside = 'A.two'\nmutant = 'return 4'",
            "\n        return 3\n",
            "\n        return 4\n",
        ),
        (
            "line = 'return 3'\ninside = 'A.two.inner'\nmutant = 'return 4'",
            "            return 3\n",
            "            return 4\n",
        ),
    ],
    ids=["a line", "removed", "several instead", "a statement", "inside", "inside a function"],
)
def test_a_line_or_statement_is_replaced(
    course: Course, exercise: Exercise, entry: str, old: str, new: str
) -> None:
    course.solution(exercise).write_text(LINES, encoding="utf-8")
    write(course, exercise, f"[mistake.a]\nsays = 'No.'\n{entry}\n")
    (mutant,) = [wrong for wrong in wrong_answers(course, exercise).answers if wrong.base]
    assert LINES.count(old) == 1
    assert mutant.source.decode() == LINES.replace(old, new)
    assert mutant.base == "solutions/text/word_count.py"


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (
            "line = 'return 3'\nmutant = ''",
            (
                "the line 'return 3' occurs 2 times in solutions/text/word_count.py, but must occur "
                "once; `inside` names the function that is meant."
            ),
        ),
        (
            "line = 'return'\nmutant = ''",
            "the line 'return' occurs 0 times in solutions/text/word_count.py, but must occur once.",
        ),
        (
            "line = 'return 3'\nmutant = ''\ninside = 'A.one'",
            (
                "the line 'return 3' occurs 0 times in A.one in solutions/text/word_count.py, but must occur "
                "once."
            ),
        ),
        (
            "line = '@property'\nmutant = '@property'",
            "it equals solutions/text/word_count.py.",
        ),
        (
            "line = 'return 3'",
            "it needs either `line` and `mutant`, or `change`.",
        ),
        (
            "line = 'return 3'\nmutant = ''\nchange = '-a'",
            "it needs either `line` and `mutant`, or `change`.",
        ),
        (
            "inside = 'A'\nchange = '-a'",
            "`inside` belongs to a `line`: a diff has lines that stay.",
        ),
    ],
)
def test_a_replacement_that_cannot_be_made_is_reported(
    course: Course, exercise: Exercise, entry: str, complaint: str
) -> None:
    course.solution(exercise).write_text(LINES, encoding="utf-8")
    write(course, exercise, f"[mistake.a]\nsays = 'No.'\n{entry}\n")
    (message,) = wrong_answers(course, exercise).complaints
    assert message == f"tests/wrong/text/word_count.toml: a: {complaint}"


def test_a_base_that_is_not_python_is_reported(course: Course, exercise: Exercise) -> None:
    course.solution(exercise).write_text("def f(:\n    pass\n", encoding="utf-8")
    entry = "[mistake.a]\nsays = 'No.'\nline = 'pass'\nmutant = ''\ninside = 'f'\n"
    write(course, exercise, entry)
    (complaint,) = wrong_answers(course, exercise).complaints
    assert complaint.endswith(": a: solutions/text/word_count.py, line 1, is not valid Python.")


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
def test_a_diff_is_applied(course: Course, exercise: Exercise, diff: str, mutated: str) -> None:
    right = course.variants(exercise, "right")[0]
    right.write_text(BASE, encoding="utf-8")
    head = f'base = "{course.name_of(right)}"\n[mistake.a]\nsays = "No."\n'
    write(course, exercise, f"{head}change = '''\n{diff}'''\n")
    (mutant,) = [wrong for wrong in wrong_answers(course, exercise).answers if wrong.base]
    assert mutant.source.decode() == mutated


@pytest.mark.parametrize(
    ("diff", "complaint"),
    [
        ("-two\n", "'two' occurs as whole lines 2 times in "),
        ("-thr\n+3\n", "'thr' occurs as whole lines 0 times in "),
        ("+zero\n", "no line says where '+zero' goes: begin one that stays with a space"),
        ("one\n", "a line of a diff must begin with '-', '+' or a space: 'one'"),
        (" one\n-two\n@@\n-one\n", "two changes overlap at "),
        (" one\n", "it equals "),
    ],
)
def test_a_diff_that_cannot_be_applied_is_reported(
    course: Course, exercise: Exercise, diff: str, complaint: str
) -> None:
    right = course.variants(exercise, "right")[0]
    right.write_text(BASE, encoding="utf-8")
    head = f'base = "{course.name_of(right)}"\n[mistake.a]\nsays = "No."\n'
    write(course, exercise, f"{head}change = '''\n{diff}'''\n")
    (message,) = wrong_answers(course, exercise).complaints
    assert message.startswith(f"tests/wrong/text/word_count.toml: a: {complaint}")


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
        ("[mistake\n", "line 1: this is not TOML: Expected ']' at the end of a table declaration."),
        (
            "mistake = {}\nright = []\n",
            "line 2: there is no key `right`. There are: base, equivalent, mistake.",
        ),
        (
            "base = 1\nmistake = {}\n",
            "line 1: `base`: expected a text in quotes, got a whole number.",
        ),
        ("base = 'solutions/text/word_count.py'\n", ": there is no mistake in it."),
        (
            ENTRY.format(id="Bias", line="'a'", mutant="'b'"),
            "expected a small letter, then small letters, digits and _.",
        ),
        (
            ENTRY.format(id="a", line="'a'", mutant="'b'") + "lines = 3\n",
            "there is no key `lines`. Did you mean 'line' or 'inside'?",
        ),
        (
            ENTRY.format(id="a", line="'a'", mutant="1"),
            "`mutant`: expected a text in quotes, got a whole number.",
        ),
        (
            ENTRY.format(id="a", line="'a'", mutant="'b'") + "base = 'b'\n",
            "its base 'b' is neither the solution nor a right answer.",
        ),
        (
            "[mistake.a]\nsays = 'No.'\nchange = ''\n",
            "a: it needs either `line` and `mutant`, or `change`.",
        ),
        (
            "[mistake.a]\nmistake = 'm'\nchange = '-a'\n",
            "a: it needs either `says`, or `mistake` and `told`.",
        ),
        (
            "[mistake.a]\nsays = 'No.'\ntold = 't'\nchange = '-a'\n",
            "a: it needs either `says`, or `mistake` and `told`.",
        ),
        (
            ENTRY.format(id="a", line="'a'", mutant="'b'") + "says = 'No.'\n",
            "a: it needs either `says`, or `mistake` and `told`.",
        ),
    ],
)
def test_a_mistake_in_the_file_is_one_complaint(
    course: Course, exercise: Exercise, text: str, complaint: str
) -> None:
    write(course, exercise, text)
    read = wrong_answers(course, exercise)
    assert [wrong.id for wrong in read.answers] == ["characters"]
    (message,) = read.complaints
    assert message.startswith("tests/wrong/text/word_count.toml: ")
    assert message.endswith(complaint)


def test_an_unreadable_file_of_catching_tests_is_reported(
    course: Course, exercise: Exercise
) -> None:
    course.caught(exercise).write_text("test_case = 1\n", encoding="utf-8")
    (complaint,) = wrong_answers(course, exercise).complaints
    assert complaint.startswith(
        "tests/wrong/text/word_count.caught.toml: expected a list, got a whole number"
    )


def test_a_file_that_is_not_utf_8_is_reported(course: Course, exercise: Exercise) -> None:
    course.mutants(exercise).write_bytes(b"base = '\xff'\n")
    (complaint,) = wrong_answers(course, exercise).complaints
    assert complaint.startswith("tests/wrong/text/word_count.toml: 'utf-8' codec can't decode")


def test_a_pack_has_the_same_wrong_answers(course: Course, tmp_path: Path) -> None:
    pack = tmp_path / "course.pack"
    write_pack(pack, course.info(), "exercises/course.toml", course.files())
    packed = load_course(pack)
    for exercise in course.exercises:
        assert wrong_answers(packed, exercise) == wrong_answers(course, exercise)
        assert wrong_answers(course, exercise).answers


def test_every_wrong_answer_of_the_shipped_course_can_be_made() -> None:
    course = load_course(ROOT)
    for exercise in course.exercises:
        read = wrong_answers(course, exercise)
        assert read.complaints == ()
        assert all(wrong.title and wrong.caught_by for wrong in read.answers)
        assert len(read.answers) >= 20


def test_both_forms_can_mark_a_mistake_as_central(course: Course, exercise: Exercise) -> None:
    whole = course.variants(exercise, "wrong")[0]
    assert "| central: word_count | told:" in whole.read_text("utf-8")
    toml = course.mutants(exercise).read_text("utf-8")
    write(course, exercise, toml.replace('central = "word_count"', 'central = "a.b"'))
    read = wrong_answers(course, exercise)
    assert read.complaints == ()
    assert [wrong.central for wrong in read.answers] == ["", "a.b", "word_count"]
    assert (read.answers[2].caught_by, read.answers[2].told) == (
        ("test_counts",),
        "counted characters",
    )
