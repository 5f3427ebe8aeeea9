"""Names in the manifest and in marks that lead nowhere: no test fails because of them, and a rule is off."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pydoc import ErrorDuringImport, locate

from grader.course.manifest import MANIFEST, Course, Exercise
from grader.course.mutants import wrong_answers
from grader.course.suite import SuiteTest
from grader.submissions.source import definitions, parse


def dangling(course: Course, exercise: Exercise, tests: Iterable[SuiteTest]) -> list[str]:
    """Complaints about functions and classes without a definition or a test, and about missing modules.

    Imports the modules that rules forbid.
    """
    manifest = course.name_of(course.folder / MANIFEST)
    defined, tests = _defined(course, exercise), list(tests)
    complaints = [
        f"{manifest}: {exercise.id!r} has a share for {_undefined(name, defined)}"
        for name in exercise.shares
        if name not in defined
    ]
    complaints += [
        f"{manifest}: {exercise.id!r} has a share for {name!r}, which no test has its place in; "
        "remove it, or write a test."
        for name in exercise.shares
        if name in defined and name not in {test.share for test in tests}
    ]
    complaints += [
        f"{manifest}: a rule of {exercise.id!r} looks inside {_undefined(name, defined)}"
        for rule in exercise.forbidden
        for name in rule.inside
        if name not in defined
    ]
    complaints += [
        f"{manifest}: a rule of {exercise.id!r} forbids {name!r}, which does not exist.{_attribute_like(name)}"
        for rule in exercise.forbidden
        for name in (*rule.names, *map(_attribute_of, rule.operators))
        if _is_installed(name.partition(".")[0]) and not _exists(name)
    ]
    complaints += [
        f"{exercise.id}: the place of {test.visibility.value} {test.name} is "
        f"{_undefined(test.place, defined)}"
        for test in tests
        if test.place and test.place not in defined
    ]
    complaints += [
        f"{manifest}: {exercise.id!r} preloads {module!r}, which is not installed here."
        for module in exercise.preload
        if not _is_installed(module)
    ]
    return complaints


def _defined(course: Course, exercise: Exercise) -> set[str]:
    """The names that the stub or an answer defines: a rule may be about what a student adds."""
    sources = [course.stub(exercise).source]
    sources += [path.read_bytes() for path in course.rights(exercise)]
    sources += [answer.source for answer in wrong_answers(course, exercise).answers]
    names: set[str] = set()
    for source in sources:
        with contextlib.suppress(SyntaxError):  # judging it tells of that
            names |= definitions(parse(source)).keys()
    return names


def _undefined(name: str, defined: Iterable[str]) -> str:
    return f"{name!r}, which neither the stub nor an answer defines.{_suggestion(name, defined)}"


def _suggestion(name: str, names: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, sorted(names), 1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _exists(name: str) -> bool:
    try:
        return locate(name) is not None
    except ErrorDuringImport:
        return True  # the module exists, and one that it imports is missing here


def _attribute_of(operator: str) -> str:
    """The dotted name of an operator of the dispatcher: of `aten::glu`, torch.ops.aten.glu."""
    return f"torch.ops.{operator.replace('::', '.')}"


def _attribute_like(name: str) -> str:
    """Suggest an attribute of nearly this name, if the object around it exists."""
    owner, _, attribute = name.rpartition(".")
    return _suggestion(attribute, dir(locate(owner))) if owner else ""


def _is_installed(module: str) -> bool:
    """Whether a module is installed; importing it would take a second for torch."""
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            # Some of Python's own modules are no packages and hold others all the same: os.path.
            return spec is not None and top in sys.stdlib_module_names
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec is not None
