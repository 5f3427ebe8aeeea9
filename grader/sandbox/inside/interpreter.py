"""Changes to Python in a sandbox, made by `worker` before the student's module runs there.

A process that ends prints its Python stack first. Calls that wait for a person are refused, and `setattr` and
similar builtins change no library. In a sandbox with the course's own solution, late imports are noted. All of
this happens in the student's process; docs/security.md describes the remaining gaps.
"""

from __future__ import annotations

import builtins
import faulthandler
import functools
import os
import signal
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from grader.sandbox.private import keep_builtins

keep_builtins(globals())

# --- the end of the process -----------------------------------------------------------------------

# The stack goes to descriptor 2, and the judge removes it from the output (`sandbox.client`). Student code can
# prevent or forge it, so it decides nothing; it only shows students their own line.

# The judge sends this signal before it ends a sandbox that gave no answer.
STACK_SIGNAL = getattr(signal, "SIGUSR1", None)


def tell_endings(source: bytes) -> None:
    """Have this process print its stack at the signal, when it crashes, or when it calls os._exit.

    Also have it refuse calls that wait for a person at a keyboard; pdb's only if the `source` names pdb.
    """
    faulthandler.enable(file=2, all_threads=False)
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=2, all_threads=False)
    os._exit = functools.partial(_exit, os.getpid(), os._exit)
    builtins.input = functools.partial(_refuse_to_wait, "input()")
    sys.breakpointhook = functools.partial(_refuse_to_wait, "breakpoint()")
    if b"pdb" in source:
        # Otherwise it would stop a line later, and fail there at its own call of input().
        import pdb

        pdb.set_trace = functools.partial(_refuse_to_wait, "pdb.set_trace()")


def _exit(own: int, end: Callable[[int], NoReturn], status: int) -> NoReturn:
    # A process that the code started, such as a loader's worker, prints nothing.
    if os.getpid() == own:
        faulthandler.dump_traceback(file=2, all_threads=False)
    end(status)


def _refuse_to_wait(call: str, *_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        f"{call} waits for a person at the keyboard, which a judged program does not have: remove it"
    )


# --- builtins without audit events ----------------------------------------------------------------

# Settings of the library that programs may change.
_SWITCHES = "torch.backends"


def own_builtins(name: str) -> dict[str, Any]:
    """Return the builtins for a student's module of this name.

    `reports` tells the judge if code asks for a frame. Python has no event for a write into a library under a
    computed name, or through an object that the source check does not follow. It also has none for builtins
    that return the variables of their caller. The builtins here refuse both.
    """

    def put(owner: Any, attribute: str, value: Any, /) -> None:
        _refuse(owner, name)
        setattr(owner, attribute, value)

    def delete(owner: Any, attribute: str, /) -> None:
        _refuse(owner, name)
        delattr(owner, attribute)

    def local(*, is_global: bool = False) -> dict[str, Any]:
        # The first caller of `functools.cache(vars)` might be our own code.
        frame = sys._getframe(2)
        if frame.f_globals.get("__name__") != name:
            raise TypeError("only the judged code itself may ask for its variables")
        names = frame.f_globals if is_global else frame.f_locals
        return names if isinstance(names, dict) else dict(names)

    def own_locals() -> dict[str, Any]:
        return local()

    def own_globals() -> dict[str, Any]:
        return local(is_global=True)

    def variables(*owner: Any) -> Any:
        if not owner:
            return local()
        names = vars(*owner)
        return dict(names) if _is_library(owner[0], name) else names

    own = {
        "setattr": put,
        "delattr": delete,
        "globals": own_globals,
        "locals": own_locals,
        "vars": variables,
    }
    for key, function in own.items():
        function.__name__ = function.__qualname__ = key
    return {**vars(builtins), **own}


def _is_library(owner: object, name: str) -> bool:
    """Whether `owner` is a module or class outside of the student's module of this name."""
    if isinstance(owner, types.ModuleType):
        return owner.__name__ != name
    return isinstance(owner, type) and owner.__module__ != name


def _refuse(owner: object, name: str) -> None:
    """Raise TypeError if the owner is a library, except its settings."""
    is_switch = isinstance(owner, types.ModuleType) and owner.__name__.startswith(_SWITCHES)
    if _is_library(owner, name) and not is_switch:
        raise TypeError(f"judged code must not change {owner!r:.80}")


# --- late imports ---------------------------------------------------------------------------------


class ImportWatch:
    """A finder that finds nothing, and notes each import that is not part of another import.

    It is used only in a sandbox with the course's own solution. If the fork server knows the imports that
    happen while the module runs, it can import the same modules once, before any fork. The notes are lines of a
    file, since processes that are forked here write to it, too.
    """

    def __init__(self, scratch: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._notes = os.open(scratch / ".imports", flags, 0o600)
        self._outer = ""
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 (an interface)
        target: types.ModuleType | None = None,  # noqa: ARG002 (an interface)
    ) -> None:
        """Note the name, unless the last noted module is still being imported."""
        spec = getattr(sys.modules.get(self._outer), "__spec__", None)
        if not getattr(spec, "_initializing", False):
            self._outer = name
            os.write(self._notes, f"{name}\n".encode())

    def names(self) -> tuple[str, ...]:
        """Return the imports so far, in order."""
        size = os.fstat(self._notes).st_size
        lines = os.pread(self._notes, size, 0).decode().splitlines()
        return tuple(dict.fromkeys(lines))
