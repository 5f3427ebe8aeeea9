"""Make forbidden operators and functions raise at their definitions, under all of their names.

Theory of operation. An operator raises in PyTorch's dispatcher, which every call reaches: from a function, a
method, `torch.ops`, a script or another operator, in every thread and with every mode disabled. A function
raises in its own code, so it does not matter whether it is reached through a class's `__dict__`, a subclass,
another module or a decorator. Both call a `check` first, and do their usual work if it does not raise.

The originals and the handles of the registrations are in closures and in this module. Searching for them is
reported (`reports`). As long as a handle lives, Python cannot reach the operator's own kernel.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib.util
import inspect
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

# Dispatch keys, in PyTorch's notation, with kernels that compute values or decompose the operator. Other keys
# only change the call (autograd, autocast) and then lead to these, or are for devices that are not here.
_KEY = re.compile(
    r"(CPU|CompositeExplicitAutograd|CompositeImplicitAutograd(?:NestedTensor)?|FuncTorch(?:Batched(?:Decomposition)?|VmapMode)|"
    r"Batched|MkldnnCPU|NestedTensorCPU|QuantizedCPU|SparseCPU|SparseCsrCPU|VmapMode)(?:\[alias\])?: ",
)


def forbid_operators(checks: Mapping[str, Check]) -> None:
    """Have all overloads of these operators, such as `aten::glu`, check before they run.

    Operators that this PyTorch does not have are skipped.
    """
    if not checks:
        return
    inner = importlib.import_module("torch")._C
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that there is already a kernel
        for name, check in checks.items():
            for schema in inner._jit_get_schemas_for_operator(name):
                overload = schema.overload_name
                table = inner._dispatch_dump(f"{name}.{overload}" if overload else name)
                for key in filter(None, map(_KEY.match, table.splitlines())):
                    _register(name, overload, key[1], check)


def _register(name: str, overload: str, key: str, check: Check) -> None:
    """Register a kernel that checks before the kernel of this key."""
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
        # For this call, the registration is removed; this works for any key and version of PyTorch.
        registration.reset()
        try:
            return operation(name, overload)[0](*arguments, **keywords)
        finally:
            put()

    put()


def forbid_name(dotted: str, check: Check) -> set[str]:
    """Have the function, class or module of this name check before its code runs.

    Code in C cannot be changed. A method in C is replaced in its class, and a function in C is left to the
    operators that it runs. Return the files with the code of functions in Python.
    """
    owner, attribute = _owner(dotted)
    holder, value = _holder(owner, attribute)
    if value is None:
        value = sys.modules.get(dotted)  # torch.optim deletes the names of its modules
    functions = list(_functions(value))
    files = {function.__code__.co_filename for function in functions}
    for function in functions:
        _guard(function, check)
    # PyTorch's scripts recognize a builtin by its identity.
    unwrapped = (type, types.BuiltinFunctionType, types.ModuleType)
    if functions or not callable(value) or isinstance(value, unwrapped) or "torch.ops" in dotted:
        return files
    checked = functools.update_wrapper(_before(value, check), value)
    del checked.__wrapped__  # a way to the original
    _replace(holder, attribute, checked)
    return files


def _owner(dotted: str) -> tuple[Any, str]:
    """Return the object that has the last part of a dotted name as an attribute, and this part."""
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


def _holder(owner: Any, attribute: str) -> tuple[Any, Any]:
    """Return the object that holds an attribute, and its value; for a class, maybe one of its bases."""
    if isinstance(owner, type):
        for kind in owner.__mro__:
            if attribute in vars(kind):
                return kind, vars(kind)[attribute]
    return owner, getattr(owner, attribute, None)


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Yield the Python functions of a function, property, class or module."""
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
            # An enumeration has functions of its base in its own dict.
            for part in list(vars(value).values()):
                if not isinstance(part, type):
                    yield from (f for f in _functions(part) if f.__module__ == value.__module__)
        # Not for a package such as torch._refs, which may have hundreds.
        case types.ModuleType() if not hasattr(value, "__path__"):
            for part in list(vars(value).values()):
                if getattr(part, "__module__", "") == value.__name__:
                    yield from _functions(part)


def _call(*arguments: Any, **keywords: Any) -> Any:
    call: Any = "call"
    return call(*arguments, **keywords)


_as_they_were: dict[types.FunctionType, types.FunctionType] = {}


def _guard(function: types.FunctionType, check: Check) -> None:
    """Replace the code of a function by code that checks, and then calls a copy of the original."""
    code, own = _call.__code__, function.__code__
    copy = _copy(function)
    # Code such as `torch.nn.utils.skip_init` looks up the parameters.
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
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
    """Return the original of a guarded function, for our own calls."""
    return _as_they_were.get(function, function)


def _copy(function: types.FunctionType) -> types.FunctionType:
    """Return a copy of a function, which keeps its code if the function's is replaced."""
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
    """Set an attribute, even of a class in C."""
    try:
        setattr(holder, attribute, value)
    except TypeError:
        # For a builtin type, `vars` returns a proxy; the dict is behind it.
        (table,) = gc.get_referents(vars(holder))
        table[attribute] = value
        # Python caches attributes of types, and only `setattr` clears the cache by itself.
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(holder))


def is_one_of(files: Collection[str]) -> Callable[[object], bool]:
    """Return a function that recognizes paths of these modules' files or bytecode, through any link."""
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
