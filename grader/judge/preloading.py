"""Modules that the fork server imports before it forks: named by the author, or learned.

Theory of operation. Much of torch is imported on first use. A sandbox would repeat such an import for every
submission, in the time of the student's code. There are two remedies. If a source names a function that starts
one of the largest of these imports, the library is imported beforehand; the names are in a table here. Before
many submissions are judged, a judge runs the course's own solution once, and its sandbox reports late imports.

Nothing else is learned from a submission, since these modules are imported outside of the walls. Learned names
are kept in the user's cache, by the digests of everything they depend on. If the cache cannot be written, they
are learned again.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.course.names import is_within
from grader.judge import cache
from grader.submissions.source import dotted_names

_MOST = 200
_NAME = re.compile(r"[A-Za-z_]\w{0,60}(\.\w{1,60}){0,9}", re.ASCII)
# Its import starts processes.
_UNFIT = ("torch._inductor",)
_decode = msgspec.json.Decoder(tuple[str, ...]).decode


# Modules to import beforehand if a source has one of these names (2 s each). A source can cause no other
# import.
_LATE = {
    "torch.optim": "torch.optim",
    "torch.use_deterministic_algorithms": "torch._dynamo",
    "torch.set_deterministic_debug_mode": "torch._dynamo",
    "torch.profiler": "torch._dynamo",
    "torch.compile": "torch._dynamo",
    "torch.compiler": "torch._dynamo",
    "torch._dynamo": "torch._dynamo",
    "torch.export": "torch._dynamo",
    "torch.func": "torch._dynamo",
    "torch.utils.checkpoint": "torch._dynamo",
    "torch.utils.flop_counter": "torch._dynamo",
    "torch.utils._python_dispatch": "torch._dynamo",
    "matplotlib": "matplotlib.pyplot",
}


_LATE_WORD = re.compile(rf"\b(?:{'|'.join(key.rpartition('.')[2] for key in _LATE)})\b".encode())


def late_modules(source: bytes, tree: ast.Module) -> tuple[str, ...]:
    """Return the modules of the table that this source, with its syntax tree, imports late."""
    # Most sources have none of the words, so their trees are not walked.
    if not _LATE_WORD.search(source):
        return ()
    names = dotted_names(tree)
    modules = (module for key, module in _LATE.items() if any(is_within(n, key) for n in names))
    return tuple(dict.fromkeys(modules))


def modules_of(course: Course, exercises: Iterable[Exercise]) -> tuple[str, ...]:
    """Return the modules to import beforehand for these exercises, in order of import."""
    asked_for = [module for exercise in exercises for module in exercise.preload]
    modules = [module for exercise in exercises for module in learned(course, exercise) or ()]
    return tuple(dict.fromkeys([*asked_for, *modules]))


def learned(course: Course, exercise: Exercise) -> tuple[str, ...] | None:
    """Return the late imports of an exercise's solution, None if they are not known."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return importable(_decode(_file(course, exercise).read_bytes()))
    return None


def keep(course: Course, exercise: Exercise, modules: tuple[str, ...]) -> None:
    """Keep learned modules in the user's cache, if it can be written."""
    cache.keep(_file(course, exercise), msgspec.json.encode(modules))


def importable(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that belong to an installed package and may be imported before a fork."""
    fit = [name for name in modules if _NAME.fullmatch(name) and not name.startswith(_UNFIT)]
    return tuple(name for name in fit[:_MOST] if _is_installed(name.partition(".")[0]))


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a package is in the Python environment, which sandboxes can read, not in a course."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None or package == "grader":
        return False
    prefixes = (Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix))
    inside = any(Path(spec.origin).resolve().is_relative_to(prefix) for prefix in prefixes)
    return inside or spec.origin in ("built-in", "frozen")


def _file(course: Course, exercise: Exercise) -> Path:
    """Return the cache file of an exercise, by its suites, its solution and the installed packages."""
    of_solution = hashlib.sha256(course.solution_source(exercise) or b"").hexdigest()
    return cache.file_of("preloading", exercise_digest(course, exercise), of_solution)
