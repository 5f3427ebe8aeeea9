"""Tests that need a package are left out with a remark if it is not installed, and cost no points."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.authoring.verify import verify
from grader.course.digest import exercise_digest
from grader.course.manifest import Course
from grader.course.suites import tests_of as judged_tests
from grader.errors import CourseError
from grader.judge.assignment import Judgment
from grader.judge.scoring import shares
from grader.results import Outcome, Status, Visibility
from grader.student.blocks import in_full, plain, summarized

JudgeSource = Callable[..., Judgment]

SUITE = """
@pytest.mark.place("one")
def test_one(student):
    '''One'''
    assert student.function("one")() == 1

@pytest.mark.place("two")
def test_two(student):
    '''Two'''
    import no_such_package
    assert student.function("two")() == 2
"""
SOURCE = """
def one():
    return {one}
def two():
    return {two}
"""
NEED = "shares = {{ one = 3, two = 1 }}\nneeds = [{{ packages = ['{0}'], share = 'two'{1} }}]\n"
MISSING, EXTRA = (
    NEED.format("no_such_package", ""),
    NEED.format("no_such_package", ", extra = 'two'"),
)
REMARK = (
    "two is not judged here, and its points do not count: it needs no_such_package. To have it judged: "
    "pip install "
)


@pytest.mark.parametrize(("one", "two", "score"), [(1, 2, 7.5), (1, 0, 7.5), (0, 2, 0)])
def test_without_the_package_its_tests_and_points_are_left_out(
    judged: JudgeSource, one: int, two: int, score: float
) -> None:
    result = judged(SOURCE.format(one=one, two=two), SUITE, extra=MISSING).result
    assert [test.name for test in result.tests] == ["test_one"]
    assert (result.score, result.max_score) == (score, 7.5)
    assert result.status is (Status.PASSED if score else Status.FAILED)
    assert result.left_out == f"{REMARK}no_such_package"
    assert sum(part.max_score for part in shares(result)) == 750


def test_with_the_package_its_tests_are_run(judged: JudgeSource) -> None:
    suite = SUITE.replace("import no_such_package", "import torch")
    result = judged(SOURCE.format(one=1, two=0), suite, extra=NEED.format("torch", "")).result
    assert [test.outcome for test in result.tests] == [Outcome.PASSED, Outcome.FAILED]
    assert (result.score, result.max_score, result.left_out) == (7.5, 10, "")


def test_the_student_reads_what_was_left_out(judged: JudgeSource) -> None:
    result = judged(SOURCE.format(one=1, two=2), SUITE, extra=EXTRA).result
    remark = f"{REMARK}'lab-bench[two]'"
    assert [plain(section.blocks) for section in summarized(result).sections] == [remark]
    assert plain(in_full(result)[-1].blocks) == remark


def test_installing_the_package_outdates_the_verdict(
    write_course: Callable[..., Course], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = write_course(tmp_path, SUITE, extra=MISSING)
    exercise = course.exercises[0]
    without = exercise_digest(course, exercise)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "no_such_package.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    assert len(judged_tests(course, exercise, tuple(Visibility))) == 2
    assert exercise_digest(course, exercise) != without


def test_mistakes_in_needs_are_explained(
    write_course: Callable[..., Course], tmp_path: Path
) -> None:
    for old, new, complaint in (
        ("share = 'two'", "share = 'three'", "which is not one of its shares"),
        ("one = 3, two = 1", "two = 1", "for all of its shares"),
        ("['no_such_package']", "[]", "expected a list of length >= 1"),
        (
            "share = 'two'",
            "share = 'two', version = '1'",
            "no key `version`.*There are: extra, packages, share",
        ),
        ("['no_such_package']", "['onnx.reference']", "a small letter"),
    ):
        with pytest.raises(CourseError, match=complaint):
            write_course(
                tmp_path / str(len(list(tmp_path.iterdir()))),
                SUITE,
                extra=MISSING.replace(old, new),
            )


def test_verify_names_the_shares_that_it_could_not_prove(
    write_course: Callable[..., Course], tmp_path: Path
) -> None:
    course = write_course(tmp_path, SUITE, extra=MISSING)
    exercise = course.exercises[0]
    solution = course.solution(exercise)
    solution.parent.mkdir(parents=True, exist_ok=True)
    solution.write_text(SOURCE.format(one=1, two=2))
    mutants = course.mutants(exercise)
    mutants.parent.mkdir(parents=True, exist_ok=True)
    course.caught(exercise).write_text("test_one = ['first']\ntest_two = ['second']\n")
    entry = "[mistake.{0}]\nmistake = '{0}'\ntold = 'hold'\nline = '{1}'\nmutant = '{2}'\n"
    mutants.write_text(
        entry.format("first", "return 1", "return 3")
        + entry.format("second", "return 2", "return 3")
    )
    (proof,) = verify(course, [exercise], seeds=1)
    assert proof.unproved == "two (needs no_such_package)"
    assert (proof.tests, proof.wrong) == (1, 1)
    about_tests = [text for text in proof.complaints if "two" in text]
    assert not about_tests, about_tests
