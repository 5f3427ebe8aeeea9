"""Changes to Python in a sandbox, made by `worker` before the student's module runs there.

What stops the sandbox prints the Python stack first, what waits for a person is refused, and `getattr` and the
like give no way into a frame, a function's globals or a library. In a sandbox with the course's own solution,
what is imported late is noted. All of it stands in the student's process: see docs/security.md for what is
left.
"""

from __future__ import annotations

import ast
import builtins
import faulthandler
import functools
import operator
import os
import re
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


# --- the ways to its inside -----------------------------------------------------------------------

# Written out (`error.__traceback__`) such a name is found in the source, and the points are held
# (`grader.submissions.odd_code`). A name that is put together as the code runs is not: here it is refused.
_REFUSED = re.compile(
    r"__(builtins|closure|code|getattribute|globals|loader|self|spec|subclasses|traceback)__"
    r"|(ag|cr|f|gi|tb)_(await|back|builtins|code|frame|globals|locals|next|origin|trace)"
    r"|_getframe|_current_frames|settrace|setprofile"
)
# Ways to classes, and to what the names above stand for. Honest programs ask for some of them, by a name that
# they write out; where it is not written out, it is refused.
_REFUSED_UNWRITTEN = re.compile(
    r"__(base|bases|class|delattr|dict|func|get|getstate|mro|reduce|reduce_ex|set|setattr|wrapped)__"
)
# Modules that lead to all that is loaded.
_MODULES = re.compile(
    r"(_thread|_weakref|builtins|copyreg|ctypes|gc|grader|imp|importlib|inspect|linecache|marshal|operator|pickle|"
    r"signal|sys|threading|traceback|warnings|weakref)(\..*)?"
)
# Switches of the library that programs set.
_SWITCHES = "torch.backends"


def own_builtins(name: str, source: bytes) -> dict[str, Any]:
    """The builtins for a student's module of this name and source."""

    @functools.cache
    def written() -> frozenset[str]:
        return names_in_calls(source)

    def is_refused(attribute: object) -> bool:
        if not isinstance(attribute, str):
            return False
        if _REFUSED_UNWRITTEN.fullmatch(attribute):
            return attribute not in written()
        return _REFUSED.fullmatch(attribute) is not None

    def get(owner: Any, attribute: str, /, *default: Any) -> Any:
        if is_refused(attribute):
            raise AttributeError(f"getattr does not give {attribute!r} to code that is judged")
        value = getattr(owner, attribute, *default)
        if _is_way_out(value):
            raise AttributeError(f"getattr does not give {attribute!r} to code that is judged")
        return value

    def put(owner: Any, attribute: str, value: Any, /) -> None:
        _refuse(owner, name)
        if is_refused(attribute):
            raise TypeError(f"{attribute!r} is not for the code that is judged to change")
        setattr(owner, attribute, value)

    def delete(owner: Any, attribute: str, /) -> None:
        _refuse(owner, name)
        delattr(owner, attribute)

    def local(frame: types.FrameType) -> dict[str, Any]:
        # `functools.cache(vars)` keeps the variables of what calls it first, as of the code beside.
        if frame.f_globals.get("__name__") != name:
            raise TypeError("locals and vars are not given to others than the code that is judged")
        names = frame.f_locals
        return names if isinstance(names, dict) else dict(names)

    def own_locals() -> dict[str, Any]:
        return local(sys._getframe(1))

    def variables(*owner: Any) -> Any:
        if not owner:
            return local(sys._getframe(1))
        names = vars(*owner)
        if not _is_library(owner[0], name):
            return names
        return {
            key: value
            for key, value in names.items()
            if not is_refused(key) and not _is_way_out(value)
        }

    def bring(module: str, *others: Any, **more: Any) -> Any:
        brought = __import__(module, *others, **more)
        return own_operator if brought is operator else brought

    def attribute_getter(*names: str) -> Any:
        for path in names:
            parts = path.split(".") if isinstance(path, str) else []
            if any(is_refused(part) or _MODULES.fullmatch(part) for part in parts):
                raise AttributeError(f"attrgetter does not give {path!r} to code that is judged")
        return operator.attrgetter(*names)

    def method_caller(method: str, /, *arguments: Any, **keywords: Any) -> Any:
        if is_refused(method):
            raise AttributeError(f"methodcaller does not call {method!r} for code that is judged")
        return operator.methodcaller(method, *arguments, **keywords)

    own_operator = types.ModuleType(operator.__name__)
    vars(own_operator).update(
        vars(operator), attrgetter=attribute_getter, methodcaller=method_caller
    )
    own = {
        "getattr": get,
        "setattr": put,
        "delattr": delete,
        "locals": own_locals,
        "vars": variables,
        "__import__": bring,
    }
    for key, function in own.items():
        function.__name__ = function.__qualname__ = key
    return {**vars(builtins), **own}


def names_in_calls(source: bytes) -> frozenset[str]:
    """The names that calls of getattr and the like write out."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                names.add(name)
    return frozenset(names)


def _is_way_out(value: object) -> bool:
    return isinstance(value, types.ModuleType) and _MODULES.fullmatch(value.__name__) is not None


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
