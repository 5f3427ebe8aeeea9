"""The tests of an exercise, from all its suites, each with the share of the points that it belongs to."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

from grader.course.manifest import MANIFEST, Course, Exercise
from grader.course.suite import SuiteTest, read_suite
from grader.course.syntax import syntax_tree
from grader.errors import CourseError
from grader.results import Visibility
from grader.text import nearest


def tests_of(course: Course, exercise: Exercise, chosen: tuple[Visibility, ...]) -> list[SuiteTest]:
    """Return the tests of an exercise's suites with these visibilities, in the order in which they run.

    Tests that need a package which is not installed are left out. A place outside of all shares of the exercise
    is a CourseError with file and line.
    """
    tests = declared_tests(course, exercise, chosen)
    closed = {need.share for need in exercise.unmet}
    return [test for test in tests if test.share not in closed]


def declared_tests(
    course: Course, exercise: Exercise, chosen: tuple[Visibility, ...]
) -> list[SuiteTest]:
    """Return the tests of `tests_of`, together with those left out of it."""
    suites = course.suites(exercise)
    return [
        _with_share(course, path, test, exercise) if exercise.shares else test
        for visibility, path in suites.items()
        if visibility in chosen
        for test in read_suite(path, visibility)
    ]


def _with_share(course: Course, path: Path, test: SuiteTest, exercise: Exercise) -> SuiteTest:
    """Return a test with the share of its place; CourseError if there is none."""
    if share := exercise.share_of(test.place):
        return msgspec.structs.replace(test, share=share)
    defined = _defined(course.stub(exercise).source)
    for share in exercise.shares:
        if defined and share.partition(".")[0] not in defined:
            raise CourseError(
                f"{course.folder / MANIFEST}: {exercise.id!r} has a share for {share!r}, which the stub does "
                f"not define. {nearest(share, defined)}"
            )
    place = f"has its place in {test.place!r}" if test.place else "has no place"
    meant = f" {nearest(test.place, exercise.shares)}" if test.place else ""
    raise CourseError(
        f"{path}, line {test.line}: {test.name} {place}, which is in no share of {exercise.id!r} in "
        f"{MANIFEST}. Give it a pytest.mark.place in one of: {', '.join(exercise.shares)}.{meant}"
    )


def _defined(stub: bytes) -> list[str]:
    """Return the classes and functions at the top of a stub."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in syntax_tree(stub).body if isinstance(node, kinds)]
