"""Put what an exercise forbids out of order where it is made, not where it is named.

Theory of operation. An operator raises in PyTorch's dispatcher, to which all ways lead: a function, a method,
`torch.ops`, a script, another operator, in every thread and with every mode disabled. A function raises in its
own code, whoever holds it: a class's `__dict__`, a subclass, another module, a decorator. Both ask the `check`
that they were given, and do what they always did if it does not raise.

What was there before, and the handles of the registrations, are found in closures and in this module; to look
for them is told (`reports`). As long as a handle lives, Python has no way to the operator's own kernel.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib.util
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from grader.sandbox.private import keep_builtins

keep_builtins(globals())

Check = Callable[[], None]

# Where an operator may have a kernel that computes values or takes it apart, as PyTorch lists them. Others only
# change how it is called (autograd, autocast) and come to these, or are for devices that are not here.
_KEY = re.compile(
    r"(CPU|CompositeExplicitAutograd|CompositeImplicitAutograd(?:NestedTensor)?|FuncTorch(?:Batched(?:Decomposition)?|VmapMode)|"
    r"Batched|MkldnnCPU|NestedTensorCPU|QuantizedCPU|SparseCPU|SparseCsrCPU|VmapMode)(?:\[alias\])?: ",
)


def forbid_operators(checks: Mapping[str, Check]) -> None:
    """Have all overloads of these operators, as `aten::glu`, check before they run.

    One that this PyTorch does not have is none.
    """
    if not checks:
        return
    inner = importlib.import_module("torch")._C
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # once in a process: that there is a kernel already
        for name, check in checks.items():
            for schema in inner._jit_get_schemas_for_operator(name):
                overload = schema.overload_name
                table = inner._dispatch_dump(f"{name}.{overload}" if overload else name)
                for key in filter(None, map(_KEY.match, table.splitlines())):
                    _register(name, overload, key[1], check)


def _register(name: str, overload: str, key: str, check: Check) -> None:
    """Put a kernel before the one of this key."""
    inner = sys.modules["torch"]._C
    namespace, _, plain = name.partition("::")
    library, operation = inner._dispatch_library, inner._get_operation_overload
    whole = f"{plain}.{overload}" if overload else plain
    registration: Any = None

    def put() -> None:
        nonlocal registration
        registration = library("IMPL", namespace, "", "", 0)
        registration.impl(whole, key, kernel, False)

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        check()
        # For this one call it is as it was, whatever the key and the version of PyTorch.
        registration.reset()
        try:
            return operation(name, overload)[0](*arguments, **keywords)
        finally:
            put()

    put()


def forbid_name(dotted: str, check: Check) -> set[str]:
    """Have what has this name check before it runs: a function, what a class defines, all that a module does.

    What is written in C keeps its code: a method is replaced in the class that has it, and a function is left
    to the operators that it runs. Returns the files with the code of the others.
    """
    owner, attribute = _owner(dotted)
    holder, value = _found(owner, attribute)
    if value is None:
        value = sys.modules.get(dotted)  # torch.optim deletes the names of its modules
    functions = list(_functions(value))
    files = {function.__code__.co_filename for function in functions}
    for function in functions:
        _guard(function, check)
    # PyTorch's scripts know a builtin by its identity.
    unwrapped = (type, types.BuiltinFunctionType, types.ModuleType)
    if functions or not callable(value) or isinstance(value, unwrapped) or "torch.ops" in dotted:
        return files
    checked = functools.update_wrapper(_before(value, check), value)
    del checked.__wrapped__  # by which the function itself would be at hand
    _replace(holder, attribute, checked)
    return files


def _owner(dotted: str) -> tuple[Any, str]:
    """The object that holds the last part of a dotted name, and this part."""
    *path, attribute = dotted.split(".")
    owner: Any = None
    for end in range(len(path), 0, -1):
        try:
            owner = importlib.import_module(".".join(path[:end]))
        except ImportError:
            continue
        for part in path[end:]:
            owner = getattr(owner, part, None)
        break
    return owner, attribute


def _found(owner: Any, attribute: str) -> tuple[Any, Any]:
    """Who holds an attribute, and its value; of a class that is the one whose own it is."""
    if isinstance(owner, type):
        for kind in owner.__mro__:
            if attribute in vars(kind):
                return kind, vars(kind)[attribute]
    return owner, getattr(owner, attribute, None)


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """The functions written in Python that are, or are defined in, a function, a class or a module."""
    match value:
        case types.FunctionType():
            yield value
            inner = getattr(value, "__wrapped__", None)
            if getattr(inner, "__module__", "") == value.__module__:
                yield from _functions(inner)
        case staticmethod() | classmethod():
            yield from _functions(value.__func__)
        case property():
            for part in (value.fget, value.fset, value.fdel):
                yield from _functions(part)
        case type():
            # An enumeration holds functions of its base's as its own.
            for part in list(vars(value).values()):
                if not isinstance(part, type):
                    yield from (f for f in _functions(part) if f.__module__ == value.__module__)
        # Of a package, as torch._refs, these may be hundreds.
        case types.ModuleType() if not hasattr(value, "__path__"):
            for part in list(vars(value).values()):
                if getattr(part, "__module__", "") == value.__name__:
                    yield from _functions(part)


def _call(*arguments: Any, **keywords: Any) -> Any:
    call: Any = "call"
    return call(*arguments, **keywords)


_as_they_were: dict[types.FunctionType, types.FunctionType] = {}


def _guard(function: types.FunctionType, check: Check) -> None:
    """Put other code into a function, which checks and goes on with a copy of the function as it was."""
    code, own = _call.__code__, function.__code__
    copy = _copy(function)
    _as_they_were.setdefault(function, copy)
    call = _before(copy, check)
    function.__code__ = code.replace(
        co_consts=tuple(call if each == "call" else each for each in code.co_consts),
        co_freevars=own.co_freevars,
        co_name=own.co_name,
    )


def _before(function: Callable[..., Any], check: Check) -> Callable[..., Any]:
    def checked(*arguments: Any, **keywords: Any) -> Any:
        check()
        return function(*arguments, **keywords)

    return checked


def unguarded(function: types.FunctionType) -> types.FunctionType:
    """A function as it was before a guard, for what is ours."""
    return _as_they_were.get(function, function)


def _copy(function: types.FunctionType) -> types.FunctionType:
    """A function of the same code, which stays as it is where the function's is replaced."""
    copied = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _replace(holder: Any, attribute: str, value: Any) -> None:
    """Set an attribute, also of a class that is written in C."""
    try:
        setattr(holder, attribute, value)
    except TypeError:
        # The dict behind the proxy, which is all that Python gives of a builtin type's.
        (table,) = gc.get_referents(vars(holder))
        table[attribute] = value
        # Python remembers what it found under a name, and is told of a change by `setattr` alone.
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(holder))


def is_one_of(files: Collection[str]) -> Callable[[object], bool]:
    """A function that says whether a path is one of these modules' files, or compiled from one, by any link."""
    stat = os.stat

    def identity(path: Any) -> tuple[int, int] | None:
        try:
            status = stat(path)
        except (OSError, TypeError, ValueError):
            return None
        return status.st_dev, status.st_ino

    compiled = {importlib.util.cache_from_source(file) for file in files}
    identities = {identity(path) for path in {*files, *compiled}} - {None}
    return lambda path: bool(identities) and identity(path) in identities
