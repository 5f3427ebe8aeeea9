"""Files that a course gives with a stub: every answer can import them, and copies in answers are ignored."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.authoring.release import release
from grader.course.digest import exercise_digest
from grader.course.manifest import Course, load_course
from grader.errors import CourseError
from grader.grading import grade
from grader.judge.assignment import Judgment
from grader.results import ExerciseResult
from grader.student.workspace import reset_exercise
from grader.submissions.odd_code import odd_code, ordinary_in

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
WORDS = '''\
"""Words of greetings."""

import sys

END = "!"


def hello(name):
    return f"Hello, {name}{END}"


def line_of_caller():
    return sys._getframe(1).f_lineno


def call(function, *arguments):
    return function(*arguments)
'''
STUB = '''\
"""Greet somebody."""

from words import hello


def greeting(name: str) -> str:
    """`Hello, NAME!` with the name in it."""
    raise NotImplementedError("greeting: say hello")
'''
SOLUTION = STUB.replace('raise NotImplementedError("greeting: say hello")', "return hello(name)")
LEADS_OUT = """
from functools import partial
from words import call
call(partial(getattr, hello, "__glo" + "bals__"))
"""


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """The plain course, with a given file for the greeting."""
    root = tmp_path / "course"
    shutil.copytree(PLAIN, root)
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(root / "exercises", root / "tests" / "stubs", ignore=ignored)
    for name, text in {
        "exercises/text/words.py": WORDS,
        "exercises/text/greeting.py": STUB,
        "tests/stubs/text/greeting.py": STUB,
        "solutions/text/greeting.py": SOLUTION,
    }.items():
        (root / name).write_text(text, "utf-8")
    return with_given(root, '["words.py"]')


def with_given(root: Path, names: str) -> Course:
    """Set the given files of the greeting and load the course."""
    manifest = root / "exercises" / "course.toml"
    text = manifest.read_text("utf-8")
    before, mark, rest = text.partition('id = "greeting"\n')
    more = rest.partition("\n")[2] if rest.startswith("given") else rest
    manifest.write_text(f"{before}{mark}given = {names}\n{more}", "utf-8")
    return load_course(root)


def handed_in(
    course: Course, folder: Path, answer: str = SOLUTION, words: str = ""
) -> ExerciseResult:
    """Grade a submission with this answer and, if `words` is set, its own words.py."""
    (folder / "text").mkdir(parents=True)
    (folder / "text" / "greeting.py").write_text(answer, "utf-8")
    if words:
        (folder / "text" / "words.py").write_text(words, "utf-8")
    (exercise,) = grade(folder, course=course, exercises=["greeting"]).exercises
    return exercise


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ('["torch.py"]', "for its own"),
        ('["json.py"]', "for its own"),
        ('["conftest.py"]', "before any test"),
        ('["test_words.py"]', "suites, probes and plots"),
        ('["word_count.py"]', "the file of an exercise"),
        ('["words.py", "words.py"]', "2 times"),
        ('["letters.py"]', "which is missing"),
        ('["../words.py"]', "given"),
        ('["words.txt"]', "given"),
    ],
)
def test_an_unusable_name_is_refused(course: Course, names: str, complaint: str) -> None:
    with pytest.raises(CourseError, match=complaint):
        with_given(course.root, names)


def test_an_answer_can_import_the_given_file(course: Course, tmp_path: Path) -> None:
    result = handed_in(course, tmp_path / "ada")
    assert (result.score, result.note, result.held) == (2.5, "", ())


def test_an_answer_runs_by_itself(course: Course) -> None:
    chapter = course.folder / "text"
    (chapter / "greeting.py").write_text(SOLUTION + "\nprint(greeting('Ada'))\n", "utf-8")
    for command, folder in (
        (["exercises/text/greeting.py"], course.root),
        (["-m", "greeting"], chapter),
    ):
        run = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True)
        assert run.stdout.decode().strip() == "Hello, Ada!", run.stderr


@pytest.mark.parametrize("words", [WORDS.replace("Hello", "Bye"), 'hello = "Hello, {}!".format\n'])
def test_a_changed_copy_is_noted_and_not_used(course: Course, tmp_path: Path, words: str) -> None:
    result = handed_in(course, tmp_path / "ada", words=words)
    assert result.score == 2.5
    assert result.note == "words.py is given: your changes in it are not used."


def test_a_changed_copy_in_an_archive_is_noted(course: Course, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as archive:
        archive.writestr("ada/greeting.py", SOLUTION)
        archive.writestr("ada/words.py", WORDS.replace("Hello", "Bye"))
    (result,) = grade(tmp_path / "ada.zip", course=course, exercises=["greeting"]).exercises
    assert result.score == 2.5
    assert "your changes" in result.note


@pytest.mark.parametrize("words", [WORDS, WORDS.replace("\n", "\r\n"), f"{WORDS}# mine\n"])
def test_a_copy_of_the_same_code_gets_no_note(course: Course, tmp_path: Path, words: str) -> None:
    assert handed_in(course, tmp_path / "ada", words=words).note == ""


def test_a_changed_given_file_outdates_verdicts(course: Course) -> None:
    before = exercise_digest(course, course.exercise("greeting")), course.info().digest
    other = exercise_digest(course, course.exercise("word_count"))
    (course.folder / "text" / "words.py").write_text(WORDS + "# more\n", "utf-8")
    changed = load_course(course.root)
    assert exercise_digest(changed, changed.exercise("greeting")) != before[0]
    assert changed.info().digest != before[1]
    assert exercise_digest(changed, changed.exercise("word_count")) == other


def test_odd_code_of_the_given_file_is_the_course_s(course: Course, tmp_path: Path) -> None:
    exercise = course.exercise("greeting")
    source = f"{SOLUTION}\nimport words\nwords.line_of_caller()\n"
    assert odd_code(source.encode(), ordinary_in(exercise, b"")) == ()
    result = handed_in(course, tmp_path / "ada", source)
    assert (result.score, result.held) == (2.5, ())


def test_odd_code_that_a_student_runs_through_it_is_held(course: Course, tmp_path: Path) -> None:
    result = handed_in(course, tmp_path / "ada", SOLUTION + LEADS_OUT)
    assert "__globals__" in str(result.held)


@pytest.mark.thorough
def test_students_get_the_given_file_and_their_changes_are_ignored(
    course: Course, tmp_path: Path
) -> None:
    release(course, tmp_path / "students", judge=True)
    students = load_course(tmp_path / "students")
    theirs = students.folder / "text" / "words.py"
    assert theirs.read_text("utf-8") == WORDS
    theirs.write_text(WORDS.replace("Hello", "Bye"), "utf-8")
    (students.folder / "text" / "greeting.py").write_text(SOLUTION, "utf-8")
    (result,) = grade(students.folder, course=students, exercises=["greeting"]).exercises
    assert [test.score == test.max_score for test in result.tests] == [True]
    assert "your changes" in result.note
    done = reset_exercise(students, students.exercise("greeting"))
    assert [reset.file for reset in done.given] == [theirs]
    assert theirs.read_text("utf-8") == WORDS


def test_a_release_includes_the_given_file_if_any_assignment_needs_it(
    course: Course, tmp_path: Path
) -> None:
    path = course.folder / "assignments.toml"
    path.write_text(
        '[[assignment]]\nid = "a"\ntitle = "A"\nexercises = ["greeting"]\n'
        '[[assignment]]\nid = "b"\ntitle = "B"\nexercises = ["word_count"]\n',
        "utf-8",
    )
    manifest = course.folder / "course.toml"
    text = manifest.read_text("utf-8")
    both = text.replace('id = "word_count"\n', 'id = "word_count"\ngiven = ["words.py"]\n')
    for entry, assignment in ((both, "a"), (both, "b"), (text, "b")):
        manifest.write_text(entry, "utf-8")
        release(load_course(course.root).assigned(assignment), tmp_path / "students", force=True)
        assert (tmp_path / "students" / "exercises" / "text" / "words.py").is_file()


def test_an_answer_cannot_change_the_probe_s_copy(
    judged: Callable[..., Judgment], tmp_path: Path
) -> None:
    words = tmp_path / "exercises" / "one" / "words.py"
    words.parent.mkdir(parents=True)
    words.write_text(WORDS, "utf-8")
    source = "import words\nwords.hello = str\n\n\ndef first():\n    return words.hello('Ada')\n"
    suite = (
        "def test_both(student):\n    'Both'\n"
        "    assert_equal(student.run('both'), ['Ada', 'Hello, Ada!'])\n"
    )
    probe = "import words\n\n\ndef both(module):\n    return [module.first(), words.hello('Ada')]\n"
    result = judged(source, suite, probe, extra='given = ["words.py"]\n').result
    assert (result.score, result.message) == (10, "")
    assert "replaces words.hello" in str(odd_code(source.encode(), {"words"}))
