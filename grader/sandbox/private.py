"""Builtins that a student's code does not find: those of what runs beside it.

A function looks up `len` in the dict that its module called `__builtins__` when it was defined, and that is one
for all of a process. Who writes into it answers for every call of them, in the worker, too. So each module that
runs beside a student's code has one of its own, and takes functions of libraries by their names (`from
functools import partial`), not through a module that others write into. A probe imports what was there before.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

_BUILTINS: dict[str, Any] = dict(vars(builtins))
# The globals of what runs beside a student's code, and all modules, as they were noted last.
OURS: list[dict[str, Any]] = []
LOADED: dict[str, ModuleType] = {}
OWN_NAMES: list[str] = []


def note_modules() -> None:
    """Note what is imported, before a fork: to look at each name costs a sandbox 5 ms, of copied pages."""
    if len(LOADED) != len(sys.modules):
        LOADED.update(sys.modules)
        OWN_NAMES[:] = [name for name in sys.modules if name.partition(".")[0] == "grader"]


def keep_builtins(module: dict[str, Any]) -> None:
    """Have the functions that are defined in these globals from here on look up builtins of our own."""
    module["__builtins__"] = dict(_BUILTINS)
    OURS.append(module)


# What a probe imports passes through here: this is ours, and no file of a student's.
keep_builtins(globals())


def keep_imports(module: dict[str, Any], own: Mapping[str, ModuleType]) -> None:
    """Have what is defined in these globals import what was noted, whatever stands in `sys.modules` by then.

    Modules in `own` come first: no other code has them.
    """
    bring: Callable[..., Any] = _BUILTINS["__import__"]

    def brought(
        name: str,
        names: Any = None,
        local: Any = None,
        parts: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name in own and not level:
            return own[name]
        found = LOADED.get(name if parts else name.partition(".")[0])
        if level or name not in LOADED or found is None:
            return bring(name, names, local, parts, level)
        # A module in a package is found by its own name; all else has to be there already.
        if parts and not all(part in vars(found) for part in parts):
            return bring(name, names, local, parts, level)
        return found

    module["__builtins__"]["__import__"] = brought
