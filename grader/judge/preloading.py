"""Modules that the fork server imports before it forks: those that the author asks for, and those learned.

Theory of operation. Much of torch is imported when it is first used, and what a sandbox imports it imports
anew for every submission, in the time of the student's code. A source that names a function which begins one of
the largest of these imports has the library itself imported beforehand; the names are in a table here. And
where many are to be judged, a judge runs the course's own solution once and has its sandbox report what was
imported late. Nothing else is ever learned from a submission: what is named here is imported outside of the
walls. The names are kept in the user's cache, by the digests of all that they depend on; where that cannot be
written, they are learned again.
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
# It starts processes when it is imported.
_UNFIT = ("torch._inductor",)
_decode = msgspec.json.Decoder(tuple[str, ...]).decode


# What names in a source have imported beforehand (2 s each): of a source's own word only these keys are taken.
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
    """What this source, with its syntax tree, is known to import late."""
    # Most sources have none of the words, and need not be walked through.
    if not _LATE_WORD.search(source):
        return ()
    names = dotted_names(tree)
    found = (module for key, module in _LATE.items() if any(is_within(n, key) for n in names))
    return tuple(dict.fromkeys(found))


def modules_of(course: Course, exercises: Iterable[Exercise]) -> tuple[str, ...]:
    """The modules to import beforehand in the sandboxes of these exercises, the first one first."""
    asked_for = [module for exercise in exercises for module in exercise.preload]
    modules = [module for exercise in exercises for module in learned(course, exercise) or ()]
    return tuple(dict.fromkeys([*asked_for, *modules]))


def learned(course: Course, exercise: Exercise) -> tuple[str, ...] | None:
    """What the solution imports late; None where it is not known."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return importable(_decode(_file(course, exercise).read_bytes()))
    return None


def keep(course: Course, exercise: Exercise, modules: tuple[str, ...]) -> None:
    """Keep what was learned, for this user; where that is not possible, it is learned again."""
    cache.keep(_file(course, exercise), msgspec.json.encode(modules))


def importable(modules: Iterable[str]) -> tuple[str, ...]:
    """Those that are of an installed package, and may be imported before a fork."""
    fit = [name for name in modules if _NAME.fullmatch(name) and not name.startswith(_UNFIT)]
    return tuple(name for name in fit[:_MOST] if _is_installed(name.partition(".")[0]))


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether it lies in the Python environment, which sandboxes read: in no folder of a course."""
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
    """Where the list of an exercise stands: by what judges it, its solution and what is installed."""
    of_solution = hashlib.sha256(course.solution_source(exercise) or b"").hexdigest()
    return cache.file_of("preloading", exercise_digest(course, exercise), of_solution)
