"""Private builtins for the code that runs beside a student's code.

A function looks up `len` in the dict that was its module's `__builtins__` when it was defined. Normally, a
process has one such dict, so code that writes into it changes every call, even in the worker. Therefore each
module that runs beside a student's code has its own dict. It also imports functions of libraries by name (`from
functools import partial`), since others can write into a module. Imports of a probe return the modules that
were loaded before the student's code ran.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

_BUILTINS: dict[str, Any] = dict(vars(builtins))
# The globals of modules that run beside a student's code; all modules and our own at the last `note_modules`.
OURS: list[dict[str, Any]] = []
LOADED: dict[str, ModuleType] = {}
OWN_NAMES: list[str] = []


def note_modules() -> None:
    """Note the imported modules, before a fork: in a sandbox, this would copy pages and cost 5 ms."""
    if len(LOADED) != len(sys.modules):
        LOADED.update(sys.modules)
        OWN_NAMES[:] = [name for name in sys.modules if name.partition(".")[0] == "grader"]


def keep_builtins(module: dict[str, Any]) -> None:
    """Have functions that are defined in these globals from now on look up private builtins."""
    module["__builtins__"] = dict(_BUILTINS)
    OURS.append(module)


# Imports of a probe pass through this module, so it needs private builtins, too.
keep_builtins(globals())


def keep_imports(module: dict[str, Any], own: Mapping[str, ModuleType]) -> None:
    """Have imports in these globals return the modules that were noted, even if `sys.modules` has changed.

    Modules in `own` come first; no other code has them.
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
        noted = LOADED.get(name if parts else name.partition(".")[0])
        if level or name not in LOADED or noted is None:
            return bring(name, names, local, parts, level)
        # A submodule may still have to be imported; all other names have to be there already.
        if parts and not all(part in vars(noted) for part in parts):
            return bring(name, names, local, parts, level)
        return noted

    module["__builtins__"]["__import__"] = brought
