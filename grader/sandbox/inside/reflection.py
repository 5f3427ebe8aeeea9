"""What `getattr` and the like give the student's code: no way into a frame, a function's globals or a library.

Written out (`error.__traceback__`) such a name is found in the source, and the points are held
(`grader.submissions.odd_code`). A name that is put together as the code runs is not: here it is refused. All of
it stands in the student's process: see docs/security.md for what is left.
"""

from __future__ import annotations

import ast
import builtins
import functools
import operator
import re
import sys
import types
from typing import Any

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
