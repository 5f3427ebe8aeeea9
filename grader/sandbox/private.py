"""Builtins that a student's code does not find: those of what runs beside it.

A function looks up `len` in the dict that its module called `__builtins__` when it was defined, and that is one
for all of a process. Who writes into it answers for every call of them, in the worker, too. So each module that
runs beside a student's code keeps its own, and takes functions of libraries by their names (`from functools
import partial`), not through a module that others write into.
"""

from __future__ import annotations

import builtins
from typing import Any

_BUILTINS: dict[str, Any] = dict(vars(builtins))


def keep_builtins(module: dict[str, Any]) -> None:
    """Have the functions that are defined in these globals from here on look up builtins of our own."""
    module["__builtins__"] = _BUILTINS
