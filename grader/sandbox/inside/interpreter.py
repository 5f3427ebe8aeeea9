"""Changes to Python in a sandbox, made by `worker` before the student's module runs there.

What stops the sandbox prints the Python stack first, what waits for a person is refused, and `setattr` and the
like change no library. In a sandbox with the course's own solution, late imports are noted. All of it is in the
student's process: see docs/security.md for what is left.
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

# --- its end --------------------------------------------------------------------------------------

# The stack goes to descriptor 2, where the judge takes it out of what the code printed (`sandbox.client`). It
# is in the student's hands, who can turn it off or make it up: it decides nothing, and shows a student the own
# line.

# Asked for by the judge, before it ends a sandbox that gave no answer.
STACK_SIGNAL = getattr(signal, "SIGUSR1", None)


def tell_endings(source: bytes) -> None:
    """Have this process print its stack when it is asked to, crashes, or calls os._exit.

    And have it refuse what waits for a person at a keyboard, as far as the `source` names it.
    """
    faulthandler.enable(file=2, all_threads=False)
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=2, all_threads=False)
    os._exit = functools.partial(_exit, os.getpid(), os._exit)
    builtins.input = functools.partial(_refuse_to_wait, "input()")
    sys.breakpointhook = functools.partial(_refuse_to_wait, "breakpoint()")
    if b"pdb" in source:
        # Else it would stop a line later, and fail there at its own call of input().
        import pdb

        pdb.set_trace = functools.partial(_refuse_to_wait, "pdb.set_trace()")


def _exit(own: int, end: Callable[[int], NoReturn], status: int) -> NoReturn:
    # A process that the code started, as a loader's worker, may end as it likes.
    if os.getpid() == own:
        faulthandler.dump_traceback(file=2, all_threads=False)
    end(status)


def _refuse_to_wait(call: str, *_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        f"{call} waits for a person at the keyboard, which a judged program does not have: take it out"
    )


# --- what the audit hook does not tell ------------------------------------------------------------

# Switches of the library that programs set.
_SWITCHES = "torch.backends"


def own_builtins(name: str) -> dict[str, Any]:
    """The builtins for a student's module of this name.

    Who asks for a frame is told of (`reports`). A write into a library is not, under a name that the code puts
    together or through an object that the source check does not follow, and neither is a builtin that gives
    away the variables of whatever calls it.
    """

    def put(owner: Any, attribute: str, value: Any, /) -> None:
        _refuse(owner, name)
        setattr(owner, attribute, value)

    def delete(owner: Any, attribute: str, /) -> None:
        _refuse(owner, name)
        delattr(owner, attribute)

    def local(*, is_global: bool = False) -> dict[str, Any]:
        # `functools.cache(vars)` keeps the variables of what calls it first, as of the code beside.
        frame = sys._getframe(2)
        if frame.f_globals.get("__name__") != name:
            raise TypeError("variables are not given to others than the code that is judged")
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
    """Whether this is a module or a class that the student's module of this name does not define."""
    if isinstance(owner, types.ModuleType):
        return owner.__name__ != name
    return isinstance(owner, type) and owner.__module__ != name


def _refuse(owner: object, name: str) -> None:
    """Raise where the owner is a library that is not one of its switches."""
    is_switch = isinstance(owner, types.ModuleType) and owner.__name__.startswith(_SWITCHES)
    if _is_library(owner, name) and not is_switch:
        raise TypeError(f"{owner!r:.80} is not for the code that is judged to change")


# --- its late imports -----------------------------------------------------------------------------


class ImportWatch:
    """A finder that finds nothing, and notes each import that no other import asked for.

    Watched only in a sandbox with the course's own solution: a fork server that knows what is imported while
    the module runs, and not when the process was forked, imports the same once, and no sandbox has to.
    The notes are lines of a file, to which processes that are forked here write, too.
    """

    def __init__(self, scratch: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._notes = os.open(scratch / ".imports", flags, 0o600)
        self._outer = ""
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 (as every finder is called)
        target: types.ModuleType | None = None,  # noqa: ARG002 (as every finder is called)
    ) -> None:
        """Note the name, unless the module that was noted last is still being imported."""
        spec = getattr(sys.modules.get(self._outer), "__spec__", None)
        if not getattr(spec, "_initializing", False):
            self._outer = name
            os.write(self._notes, f"{name}\n".encode())

    def names(self) -> tuple[str, ...]:
        """The imports so far, in their order."""
        size = os.fstat(self._notes).st_size
        lines = os.pread(self._notes, size, 0).decode().splitlines()
        return tuple(dict.fromkeys(lines))
