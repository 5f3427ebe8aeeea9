"""Names in the manifest and in marks that lead nowhere: no test fails of them, and a rule is quietly off."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pydoc import ErrorDuringImport, locate

from grader.authoring.mutants import wrong_answers
from grader.course.manifest import Course, Exercise
from grader.course.suite import SuiteTest
from grader.submissions.source import definitions, parse


def dangling(course: Course, exercise: Exercise, tests: Iterable[SuiteTest]) -> list[str]:
    """Complaints about functions and classes that nobody defines, and modules that are not there.

    What a rule forbids is imported here.
    """
    manifest = (course.folder / "course.toml").relative_to(course.root).as_posix()
    known = _defined(course, exercise)
    complaints = [
        f"{manifest}: a rule of {exercise.id!r} looks inside {_lost(name, known)}"
        for rule in exercise.forbidden
        for name in rule.inside
        if name not in known
    ]
    complaints += [
        f"{manifest}: a rule of {exercise.id!r} forbids {name!r}, which there is not.{_meant(name)}"
        for rule in exercise.forbidden
        for name in (*rule.names, *map(_attribute_of, rule.operators))
        if _is_installed(name.partition(".")[0]) and not _is_there(name)
    ]
    complaints += [
        f"{exercise.id}: the place of {test.visibility.value} {test.name} is "
        f"{_lost(test.place, known)}"
        for test in tests
        if test.place and test.place not in known
    ]
    complaints += [
        f"{manifest}: {exercise.id!r} preloads {module!r}, which is not installed here."
        for module in exercise.preload
        if not _is_installed(module)
    ]
    return complaints


def _defined(course: Course, exercise: Exercise) -> set[str]:
    """What the stub defines, or any answer: a rule may be about what a student adds."""
    paths = (course.stub(exercise), *course.rights(exercise))
    sources = [path.read_bytes() for path in paths if path.is_file()]
    sources += [answer.source for answer in wrong_answers(course, exercise).answers]
    names: set[str] = set()
    for source in sources:
        with contextlib.suppress(SyntaxError):  # judging it tells of that
            names |= definitions(parse(source)).keys()
    return names


def _lost(name: str, known: Iterable[str]) -> str:
    return f"{name!r}, which neither the stub nor an answer defines.{_close_to(name, known)}"


def _close_to(name: str, known: Iterable[str]) -> str:
    meant = difflib.get_close_matches(name, sorted(known), 1)
    return f" Did you mean {meant[0]!r}?" if meant else ""


def _is_there(name: str) -> bool:
    try:
        return locate(name) is not None
    except ErrorDuringImport:
        return True  # it is there, and lacks something here


def _attribute_of(operator: str) -> str:
    """The dotted name of an operator of the dispatcher: of `aten::glu`, torch.ops.aten.glu."""
    return f"torch.ops.{operator.replace('::', '.')}"


def _meant(name: str) -> str:
    """A name like it beside it, if what it would be in is there."""
    within, _, last = name.rpartition(".")
    return _close_to(last, dir(locate(within))) if within else ""


def _is_installed(module: str) -> bool:
    """Whether there is such a module; none is imported, for that of torch takes a second."""
    top, *parts = module.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    for part in parts:
        if found is None or found.submodule_search_locations is None:
            # Some of Python's own modules are no packages and hold others all the same: os.path.
            return found is not None and top in sys.stdlib_module_names
        found = PathFinder.find_spec(f"{found.name}.{part}", found.submodule_search_locations)
    return found is not None
