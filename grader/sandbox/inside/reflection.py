"""What `getattr` and the like give the student's code: no way into a frame, a function's globals or a library.

Written out (`error.__traceback__`) such a name is found in the source, and the points are held
(`grader.submissions.odd_code`). A name that is put together as the code runs is not: here it is refused. All of
it stands in the student's process: see docs/security.md for what is left.
"""

from __future__ import annotations

import builtins
import operator
import re
import types
from typing import Any

_REFUSED = re.compile(
    r"__(builtins|closure|code|getattribute|globals|loader|self|spec|subclasses|traceback)__"
    r"|(ag|cr|f|gi|tb)_(await|back|builtins|code|frame|globals|locals|next|origin|trace)"
    r"|_getframe|_current_frames|settrace|setprofile"
)
# Switches of the library that programs set.
_SWITCHES = "torch.backends"


def own_builtins(name: str) -> dict[str, Any]:
    """The builtins for a student's module of this name."""

    def get(owner: Any, attribute: str, /, *default: Any) -> Any:
        if isinstance(attribute, str) and _REFUSED.fullmatch(attribute):
            raise AttributeError(f"getattr does not give {attribute!r} to code that is judged")
        return getattr(owner, attribute, *default)

    def put(owner: Any, attribute: str, value: Any, /) -> None:
        _refuse(owner, name)
        setattr(owner, attribute, value)

    def delete(owner: Any, attribute: str, /) -> None:
        _refuse(owner, name)
        delattr(owner, attribute)

    def bring(module: str, *others: Any, **more: Any) -> Any:
        brought = __import__(module, *others, **more)
        return own_operator if brought is operator else brought

    own_operator = types.ModuleType(operator.__name__)
    vars(own_operator).update(vars(operator), attrgetter=_attrgetter, methodcaller=_methodcaller)
    own = {"getattr": get, "setattr": put, "delattr": delete, "__import__": bring}
    for key, function in own.items():
        function.__name__ = function.__qualname__ = key
    return {**vars(builtins), **own}


def _attrgetter(*names: str) -> Any:
    for name in names:
        if isinstance(name, str) and any(map(_REFUSED.fullmatch, name.split("."))):
            raise AttributeError(f"attrgetter does not give {name!r} to code that is judged")
    return operator.attrgetter(*names)


def _methodcaller(name: str, /, *arguments: Any, **keywords: Any) -> Any:
    if isinstance(name, str) and _REFUSED.fullmatch(name):
        raise AttributeError(f"methodcaller does not call {name!r} for code that is judged")
    return operator.methodcaller(name, *arguments, **keywords)


def _refuse(owner: Any, name: str) -> None:
    """Raise where the owner is a module, or a class that the student's module does not define."""
    if isinstance(owner, types.ModuleType):
        refused = not owner.__name__.startswith(_SWITCHES)
    else:
        refused = isinstance(owner, type) and owner.__module__ != name
    if refused:
        raise TypeError(f"{owner!r:.80} is not for the code that is judged to change")
