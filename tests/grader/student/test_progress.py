"""The progress in a student's folder: tied to digests, readable by people, and never lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from grader.course.assignments import CourseAssignment, Exam, released_table
from grader.course.manifest import Course, load_course
from grader.results import ExerciseResult, Status
from grader.student.progress import Logbook, Standing, digest_of, progress_of
from grader.submissions import read_submission
from tests.grader.builders import exercise

PLAIN = Path(__file__).parents[1] / "courses" / "plain"

Standings = Callable[[], dict[str, Standing]]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A fresh clone of the plain course."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(tmp_path / "exercises", tmp_path / "tests" / "stubs", ignore=ignored)
    return load_course(tmp_path)


@pytest.fixture
def standings(course: Course) -> Standings:
    """Read the standing of each exercise again."""

    def read() -> dict[str, Standing]:
        return Logbook(course).standings(read_submission(course.folder, course).files)

    return read


def a_result(status: Status, score: float = 0.0) -> ExerciseResult:
    """Return a result of judging the greeting."""
    return exercise(name="greeting", worth=2.5, status=status, score=score)


def passes(course: Course, source: bytes) -> None:
    """Write this source to greeting.py and record that it passed."""
    greeting = course.exercise("greeting")
    (course.folder / greeting.file).write_bytes(source)
    Logbook(course).record(greeting, source, a_result(Status.PASSED, 2.5))


def test_a_fresh_clone_is_open_and_gets_no_file(course: Course, standings: Standings) -> None:
    assert set(standings().values()) == {Standing.OPEN}
    files = read_submission(course.folder, course).files
    first = Logbook(course).first_open(files)
    assert first is not None and first.id == "word_count"
    assert not (course.root / ".grade").exists()


def test_an_exercise_of_an_exam_is_not_proposed_next(course: Course) -> None:
    """A release says which assignment is an exam."""
    files = read_submission(course.folder, course).files
    exam = CourseAssignment(id="m", title="M", exercises=("word_count",), exam=Exam(hints=False))
    table = msgspec.convert(released_table(exam), CourseAssignment)
    midterm = msgspec.structs.replace(course, assignments=(table,))
    first = Logbook(midterm).first_open(files)
    assert first is not None and first.id == "greeting"
    assert table.exam == Exam()
    only = Logbook(midterm.only([course.exercise("word_count")])).first_open(files)
    assert only is not None and only.id == "word_count"


def test_done_is_tied_to_the_file(course: Course, standings: Standings) -> None:
    file = course.folder / "text" / "greeting.py"
    passes(course, b"right = 1\n")
    assert standings()["greeting"] is Standing.DONE
    file.write_bytes(b"right = 2\n")
    assert standings()["greeting"] is Standing.EDITED_SINCE
    file.write_bytes(b"right = 1\n")
    assert standings()["greeting"] is Standing.DONE


def test_done_is_tied_to_the_tests(course: Course, standings: Standings) -> None:
    passes(course, b"right = 1\n")
    suite = course.root / "tests" / "public" / "text" / "test_greeting.py"
    suite.write_bytes(suite.read_bytes() + b"\n# one more\n")
    assert standings()["greeting"] is Standing.TESTS_CHANGED


def test_a_failed_verdict_does_not_erase_a_full_one(course: Course, standings: Standings) -> None:
    greeting, file = course.exercise("greeting"), course.folder / "text" / "greeting.py"
    passes(course, b"right = 1\n")
    file.write_bytes(b"wrong = 1\n")
    Logbook(course).record(greeting, b"wrong = 1\n", a_result(Status.PARTIAL, 1.0))
    assert standings()["greeting"] is Standing.EDITED_SINCE
    handed = read_submission(course.folder, course).files["greeting"]
    kept = Logbook(course).score(greeting, handed)
    assert kept is not None and kept.score == 1.0
    file.write_bytes(b"right = 1\n")
    assert standings()["greeting"] is Standing.DONE


def test_a_verdict_of_the_server_is_kept_and_tied_to_the_file(
    course: Course, standings: Standings
) -> None:
    shutil.rmtree(course.root / "tests" / "hidden")
    greeting, file = course.exercise("greeting"), course.folder / "text" / "greeting.py"
    file.write_bytes(b"right = 1\n")
    whole = digest_of(b"right = 1\n")
    Logbook(course).record_served(greeting, whole, a_result(Status.PARTIAL, 1.0))
    assert standings()["greeting"] is Standing.BEGUN, "no public test was run here"
    handed = read_submission(course.folder, course).files["greeting"]
    kept = Logbook(course).score(greeting, handed)
    assert kept is not None and (kept.score, kept.max_score) == (1.0, 2.5)
    Logbook(course).record_served(greeting, whole, a_result(Status.PASSED, 2.5))
    assert standings()["greeting"] is Standing.FULL_MARKS
    file.write_bytes(b"right = 2\n")
    assert standings()["greeting"] is Standing.EDITED_SINCE
    Logbook(course).record(greeting, b"right = 2\n", a_result(Status.PASSED, 2.5))
    assert standings()["greeting"] is Standing.DONE
    file.write_bytes(b"right = 1\n")
    assert standings()["greeting"] is Standing.FULL_MARKS
    Logbook(course).record_served(greeting, whole, a_result(Status.UNJUDGED))
    assert standings()["greeting"] is Standing.FULL_MARKS, "a fault is not a verdict"


def test_full_marks_are_counted_if_a_server_gives_them(course: Course) -> None:
    full, done, begun = Standing.FULL_MARKS, Standing.DONE, Standing.BEGUN
    assert progress_of([full, done, begun], course) == (2, 3, "2 of 3 done")
    shutil.rmtree(course.root / "tests" / "hidden")
    passed = "Exercises that pass all public tests: 1 of 2"
    assert progress_of([done, begun], course) == (1, 2, passed)
    assert progress_of([full, full, begun], course) == (2, 3, "Full marks: 2 of 3 exercises")
    none = progress_of([done, begun], course, by_all_tests=True)
    assert none.words == "Full marks: 0 of 2 exercises, 1 passes the public tests"
    words = "Full marks: 1 of 3 exercises, 1 more passes the public tests"
    assert progress_of([full, done, begun], course) == (1, 3, words)


@pytest.mark.parametrize(
    ("source", "standing"),
    [
        (b"x = 1\n", Standing.BEGUN),
        (b"def f(:\n", Standing.INVALID),
        (None, Standing.MISSING),
    ],
)
def test_the_standing_depends_on_the_file(
    course: Course, standings: Standings, source: bytes | None, standing: Standing
) -> None:
    file = course.folder / "text" / "greeting.py"
    file.unlink()
    if source is not None:
        file.write_bytes(source)
    assert standings()["greeting"] is standing


def test_a_restored_stub_is_open_again(course: Course, standings: Standings) -> None:
    passes(course, b"right = 1\n")
    greeting = course.exercise("greeting")
    (course.folder / greeting.file).write_bytes(course.stub(greeting).source)
    assert standings()["greeting"] is Standing.OPEN


@pytest.mark.parametrize("status", [Status.NOT_ATTEMPTED, Status.UNJUDGED])
def test_a_result_without_a_verdict_is_not_kept(course: Course, status: Status) -> None:
    Logbook(course).record(course.exercise("greeting"), b"x = 1\n", a_result(status))
    assert not (course.root / ".grade").exists()


def test_hints_are_seen_one_by_one(course: Course) -> None:
    greeting = course.exercise("greeting")
    assert Logbook(course).next_hint(greeting) == 1
    Logbook(course).see_hint(greeting, 2)
    assert Logbook(course).next_hint(greeting) == 1
    for number in (1, 3, 3):
        Logbook(course).see_hint(greeting, number)
    assert Logbook(course).unseen_hints(greeting) == []
    for number in (1, 2, 3, 1):
        assert Logbook(course).next_hint(greeting) == number
        Logbook(course).see_hint(greeting, number)


def test_two_windows_keep_each_other_s_progress(course: Course) -> None:
    one, other = Logbook(course), Logbook(course)
    one.see_hint(course.exercise("greeting"), 1)
    other.see_hint(course.exercise("word_count"), 1)
    pages = json.loads((course.root / ".grade" / "state.json").read_bytes())["exercises"]
    assert sorted(pages) == ["greeting", "word_count"]


def test_the_folder_ignores_itself_and_says_what_it_is(course: Course) -> None:
    Logbook(course).see_hint(course.exercise("greeting"), 1)
    assert (course.root / ".grade" / ".gitignore").read_text("ascii") == "*\n"
    assert "Your own progress" in (course.root / ".grade" / "state.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "damaged"),
        (b"\xff\x00", "damaged"),
        (b'{"exercises": {"greeting": {"hints": "all"}}}', "damaged"),
        (b'{"format_version": 2, "exercises": {}}', "of format 2, not 1"),
    ],
)
def test_an_unreadable_file_is_reported_and_kept(course: Course, content: bytes, why: str) -> None:
    state = course.root / ".grade" / "state.json"
    for _ in range(2):
        state.parent.mkdir(exist_ok=True)
        state.write_bytes(content)
        logbook = Logbook(course)
        (notice,) = logbook.take_notices()
        assert why in notice
        assert "grade --all" in notice
        assert logbook.take_notices() == []
        logbook.see_hint(course.exercise("greeting"), 1)
    kept = sorted(state.parent.glob("*.broken*.json"))
    assert [file.read_bytes() for file in kept] == [content, content]
    assert Logbook(course).page(course.exercise("greeting")).hints == (1,)


def test_an_unwritable_folder_is_a_notice(course: Course) -> None:
    (course.root / ".grade").write_bytes(b"a file where the folder belongs")
    logbook = Logbook(course)
    logbook.see_hint(course.exercise("greeting"), 1)
    logbook.see_hint(course.exercise("word_count"), 1)
    notices = logbook.take_notices()
    assert len(notices) == 1
    assert str(course.root / ".grade") in notices[0]
    assert "moved away" in notices[0]
    # Within one command, nothing is forgotten.
    assert logbook.next_hint(course.exercise("greeting")) == 2
