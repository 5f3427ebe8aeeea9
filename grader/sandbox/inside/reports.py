"""Report events that lead out of a student's own code, before they take effect, and hide the grader.

Theory of operation. Code that wants to answer in place of the worker has to find the worker first: through a
frame, through variables that a function or class refers to, through a list of all objects, or through code in a
string. Python calls an audit hook (PEP 578) *before* most of these events, and nothing in Python can remove a
hook. For attributes without an event (`_UNTOLD`), a property here raises one. Reports go into a socket, which
the judge reads and nothing in this process can take back. So the first step of an attack counts, whatever
follows.

Libraries cause the same events for innocent reasons: `traceback` walks through frames, `inspect` reads code,
and `dataclasses` runs generated code. The caller decides: an event caused by a student's line is reported, one
caused by our own code is not. An event caused by a library's function is reported, too, unless the function is
known to keep its findings to itself (`_KEEP_TO_THEMSELVES`, `_RUN_GENERATED`). That does not include functions
that pass a frame to their caller, or read an attribute of any given name.

Such a table is never complete. So the same properties hide the grader from everyone: frames end where the
student's code was called, and frames, functions and lists of classes show nothing that the grader defines.
PyTorch's compilers may read a probe's functions, but only with an attribute that they name themselves, since a
function in C that they call may be a student's.

No class is defined here, and all state is in closures.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import opcode
import sys
from collections.abc import Callable, Collection
from functools import cache
from json.encoder import encode_basestring_ascii
from os import _exit, fstat, sep
from os import name as system
from pathlib import Path
from re import compile as pattern
from socket import socket
from sys import addaudithook, audit
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from grader.sandbox.inside.absent import is_one_of
from grader.sandbox.private import OURS, keep_builtins
from grader.sandbox.wire.messages import MAX_REPORT, PROBE_FILE

keep_builtins(globals())

# Attributes that lead out of the student's code, but have no event in Python.
_UNTOLD: tuple[tuple[type, tuple[str, ...]], ...] = (
    (FunctionType, ("__builtins__", "__closure__", "__globals__")),
    (FrameType, ("f_back", "f_builtins", "f_globals", "f_locals")),
    (type, ("__subclasses__",)),
)
_READ = frozenset(
    ["ag_frame", "cr_frame", "gi_frame", "tb_frame"]
    + [name for _, names in _UNTOLD for name in names]
)
_SET = frozenset(["__class__", "__code__", "__defaults__", "__kwdefaults__"])
_EVENTS = frozenset(
    [
        "code.__new__",
        "exec",
        "function.__new__",
        "import",
        "marshal.loads",
        "object.__getattr__",
        "object.__setattr__",
        "ctypes.PyObj_FromPtr",
        "ctypes.addressof",
        "ctypes.call_function",
        "ctypes.cdata",
        "ctypes.cdata/buffer",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.string_at",
        "gc.get_objects",
        "gc.get_referents",
        "gc.get_referrers",
        "gc.set_debug",
        "open",
        "sys._current_exceptions",
        "sys._current_frames",
        "sys._getframe",
        "sys.addaudithook",
        "sys.monitoring.register_callback",
        "sys.setprofile",
        "sys.settrace",
        "torch.set_eval_frame",
    ]
)

# Modules of Python's own tests and of subinterpreters, which read frames without an event.
_LEAKY = pattern("_testcapi|_testinternalcapi|_xxsubinterpreters|_interpreters")

# PyTorch's compilers read and write code all the time. One of their functions is trusted if another one called
# it. A function that a student's code calls may pass on its findings, and a function that reads attributes by
# name does.
_COMPILERS = pattern(
    r"(onnxscript|torch/(_compile|_dynamo|_export|_functorch|_guards|_higher_order_ops|_inductor|_jit_internal|_library|_logging|"
    r"_subclasses|export|fx|jit|library|onnx|utils/_config_module|__init__))\b"
)
# Functions that read frames or code, and keep them to themselves.
_KEEP_TO_THEMSELVES = pattern(
    r"<frozen abc>:|_py_abc\.py:|collections/__init__\.py:namedtuple|dataclasses\.py:|"
    r"enum\.py:|functools\.py:_compose_mro|inspect\.py:(_signature_\w+|findsource|get_annotations|getfile|getmodule|"
    r"unwrap)|logging/__init__\.py:(_is_internal_frame|findCaller)|matplotlib/(_api|pyplot)\b|"
    r"networkx/utils/decorators\.py:|torch/fx/(_symbolic_trace\.py:(create_args_for_root|module_call_wrapper|trace)|"
    r"experimental/symbolic_shapes\.py:expect_true)|torch/jit/_trace\.py:_get_interpreter_name_for_var|"
    r"torch/nn/(modules/lazy|parameter|utils/parametrize)\.py:|torch/utils/__init__\.py:swap_attr|traceback\.py:(?!walk_)|typing(_extensions)?\.py:|warnings\.py:"
)
# Functions that run code which they generated.
_RUN_GENERATED = pattern(
    r"collections/__init__\.py:namedtuple|dataclasses\.py:(_create_fn|add_fns_to_class)|inspect\.py:(get_annotations|<dictcomp>)|"
    r"jinja2/environment\.py:(_compile|from_code)|networkx/utils/decorators\.py:|"
    r"onnxscript/_internal/converter\.py:_eval_constant_expr|typing(_extensions)?\.py:(__init__|_evaluate|evaluate_forward_ref)"
)
# Functions that read a file for their caller.
_READERS = pattern(r"(codecs|inspect|linecache|tokenize)\.py:")
# Functions that return their findings: their caller counts.
_PASS_ON = pattern(
    r"torch/nn/modules/module\.py:__setattr__|inspect\.py:currentframe|traceback\.py:walk_(stack|tb)|logging/__init__\.py:<lambda>"
)
# A file outside of the libraries, such as one that the student's code wrote and imports.
_STRANGE = pattern(r"<[^>]+\.pyc?>")
# The beginning of places in modules that the course gives with an exercise.
_GIVEN = "given:"
# The beginnings of our own places, and our functions that read frames or run code themselves.
_OUR_PLACES = ("grader/", PROBE_FILE)
_OUR_INSPECTORS = pattern(
    r"grader/sandbox/inside/(guard\.py:(__enter__|__exit__|<listcomp>|_frames|_is_a_probe_s|_last_in_probe|_names|_stack_of)|interpreter\.py:(local|own_locals|variables)|"
    r"worker\.py:(_load|_load_probe))$"
)
# Python's own functions that run code in an import.
_IMPORTS = pattern(
    r"<frozen importlib\._bootstrap(_external>:_compile_bytecode|>:_call_with_frames_removed)$"
)
# Events that probes may cause.
_BY_PROBES = frozenset(["exec", "sys.setprofile"])
# Modules that evaluate names of types, and the instructions of such code: no call, no name with two
# underscores.
_TYPES = pattern("inspect|typing")
_NAMES_A_TYPE = frozenset(
    opcode.opmap[name]
    for name in (
        "BINARY_OP",
        "BINARY_SUBSCR",
        "BUILD_LIST",
        "BUILD_TUPLE",
        "CACHE",
        "EXTENDED_ARG",
        "LOAD_ATTR",
        "LOAD_CONST",
        "LOAD_NAME",
        "LOAD_SMALL_INT",
        "RESUME",
        "RETURN_CONST",
        "RETURN_VALUE",
    )
    if name in opcode.opmap
)

Tell = Callable[[str, int, str], None]
_UNTOLD_EXIT = 71


def reporter(reports: socket) -> tuple[Tell, Callable[[], int]]:
    """Return a function that reports an event to the judge, and a function that returns the number of reports.

    A report has the event, a student's line, and a library's function in between, and is sent once. If it
    cannot be sent, this process ends.
    """
    # It does not end by a signal, since the first process of a namespace gets none from itself.
    send, sent = reports.send, set[bytes]()
    descriptor = reports.fileno()
    inode = fstat(descriptor).st_ino if system == "posix" else None

    def tell(event: str, line: int, by: str) -> None:
        by = by[: MAX_REPORT // 4]
        report = (
            f"[{encode_basestring_ascii(event)},{line},{encode_basestring_ascii(by)}]\n".encode()
        )
        if report in sent:
            return
        try:
            # The student's code may have put another file in place of the socket.
            if inode is not None and fstat(descriptor).st_ino != inode:
                raise OSError
            send(report)
        except OSError:
            _exit(_UNTOLD_EXIT)
        sent.add(report)

    return tell, sent.__len__


def tell_of_events(
    tell: Tell,
    module: ModuleType,
    files: Collection[str],
    forbidden: Collection[str] = (),
    given: Collection[dict[str, Any]] = (),
) -> Callable[[dict[str, Any]], None]:
    """Report events that lead out of the student's module from now on; `files` are its names in stacks.

    `given` has the globals of modules of the course, whose events are not reported. `forbidden` has the files
    of forbidden functions: reading or importing them again is reported. Return a function that marks the
    globals of a probe as ours.
    """
    # Taken before properties replace any of them.
    get_frame, get_back = sys._getframe, FrameType.f_back.__get__
    get_globals, get_code = FunctionType.__globals__.__get__, FrameType.f_code.__get__
    get_names = FrameType.f_globals.__get__
    file_place, action_of = _places(), _actions(module, is_one_of(forbidden))
    # Our own code and the course's are recognized by their globals, since any code can name our files.
    our_globals, given_globals = set(map(id, OURS)), set(map(id, given))

    def place_of(names: dict[str, Any], file: str) -> str:
        if id(names) in given_globals:
            return f"{_GIVEN}{file}"
        place = file_place(file)
        is_ours = id(names) in our_globals
        return place if is_ours or not place.startswith(_OUR_PLACES) else f"<{place}>"

    def place_of_frame(frame: FrameType) -> str:
        return place_of(get_names(frame), get_code(frame).co_filename)

    def place_of_function(function: FunctionType) -> str:
        names = get_globals(function)
        return place_of(names, str(names.get("__file__")))

    def asking(frame: FrameType) -> FrameType | None:
        """Return the caller of one of our functions, or the caller's caller if that is a reader."""
        frame = get_back(frame)
        return get_back(frame) if get_code(frame) in readers else frame

    def path_from(frame: FrameType | None) -> tuple[list[str], int, str]:
        """Return the places from a frame up to the student's code, and the student's line.

        If our own code comes first, the line is 0, and the last item is the place of our function.
        """
        path: list[str] = []
        while frame is not None:
            code = get_code(frame)
            if code.co_filename in files:
                return path, frame.f_lineno, ""
            place = f"{place_of_frame(frame)}:{code.co_name}"
            if place.startswith(_OUR_PLACES):
                return path, 0, place
            path.append(place)
            frame = get_back(frame)
        return path, 0, ""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or (action := action_of(event, arguments)) is None:
            return
        if action == "sys._getframe" and get_code(arguments[0]) in frame_takers:
            return
        first = asking(get_frame())
        path, line, leader = path_from(first)
        if action == "open":
            if line and not _is_for_errors(path):
                tell(action, line, path[0] if path else "")
            return
        if action == "exec" and path and path[0].startswith("<frozen importlib"):
            path.append(file_place(arguments[0].co_filename))
        if first is not None and id(get_names(first)) in given_globals:
            is_innocent = _is_called(action, first) and _does_itself(action, first)
        else:
            is_innocent = _is_innocent(action, arguments, path, leader, first)
        if is_innocent and action.startswith("__") and type(arguments[0]) is FunctionType:
            is_innocent = place_of_function(arguments[0]) != PROBE_FILE or (
                first is not None and _is_written(action, get_code(first), first.f_lasti)
            )
        if not is_innocent:
            tell(action, line, path[0] if path else "")

    def is_hidden(owner: object, value: object) -> bool:
        """Whether this value of an owner's attribute is ours, and other code asks for it."""
        if type(value) is FrameType:
            file = place_of_frame(value)
        elif type(owner) is FrameType:
            file = place_of_frame(owner)
        elif type(owner) is FunctionType:
            file = place_of_function(owner)
            if file == PROBE_FILE:
                return False
        else:
            return False
        asks = asking(get_frame())
        return file.startswith(_OUR_PLACES) and not (
            asks is not None and place_of_frame(asks).startswith(_OUR_PLACES)
        )

    def variables_of(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that replaces `globals`, `locals` or `vars` for all modules.

        A call from our code is on behalf of a student's, since our own code has private builtins.
        """
        get = FrameType.f_globals.__get__ if name == "globals" else FrameType.f_locals.__get__

        def names(*owner: Any) -> Any:
            if owner:
                return original(*owner)
            frame = get_back(get_frame())
            if place_of_frame(frame).startswith(_OUR_PLACES):
                tell("f_globals" if name == "globals" else "f_locals", 0, "")
                return {}
            own_names = get(frame)
            return own_names if type(own_names) is dict else dict(own_names)

        names.__name__ = names.__qualname__ = name
        return names

    replaced = {
        name: variables_of(name, getattr(builtins, name)) for name in ("globals", "locals", "vars")
    }
    vars(builtins).update(replaced)
    # Our functions that call `sys._getframe`.
    frame_takers = {hook.__code__, is_hidden.__code__, replaced["vars"].__code__}
    attribute_readers, c_functions = _tell_of_attributes(is_hidden), _tell_of_functions()
    readers = attribute_readers | c_functions
    _skip_in_compiler(c_functions, {*frame_takers, *attribute_readers})
    addaudithook(hook)
    return lambda names: our_globals.add(id(names))


def _actions(
    module: ModuleType, is_forbidden: Callable[[object], bool]
) -> Callable[[str, tuple[Any, ...]], str | None]:
    """Return a function that names the action of one of `_EVENTS`, or returns None if it does not matter.

    The action is the attribute that is read or set; for other events, the event itself.
    """
    get_globals, variables = FunctionType.__globals__.__get__, vars(module)

    def action_of(event: str, arguments: tuple[Any, ...]) -> str | None:
        if event == "import":
            return event if _LEAKY.match(str(arguments[0])) else None
        if event == "open":
            return event if is_forbidden(arguments[0]) else None
        if not event.startswith("object."):
            return event
        owner: Any = arguments[0]
        name: str = arguments[1]
        if name not in (_READ if event == "object.__getattr__" else _SET):
            return None
        # The module's own functions and classes lead nowhere else; a named tuple's belong to no module.
        if type(owner) is FunctionType and (
            (get_globals(owner) is variables and name != "__code__")
            or ("defaults__" in name and "__file__" not in get_globals(owner))
        ):
            return None
        if name == "__subclasses__" and owner.__module__ == module.__name__:
            return None
        return name

    return action_of


def _is_innocent(
    action: str, arguments: tuple[Any, ...], path: list[str], leader: str, first: FrameType | None
) -> bool:
    """Whether an event is the usual work of libraries.

    `path` leads from the event to the student's line, or to our function `leader`; `first` is the frame that
    caused it.
    """
    leading = [place for place in path if not _PASS_ON.match(place)]
    if not leading:
        by_probe = leader.startswith(PROBE_FILE) and action in _BY_PROBES
        return (by_probe and _is_called(action, first)) or _OUR_INSPECTORS.match(leader) is not None
    # A library is being imported.
    if any(place.startswith("<frozen importlib") for place in path):
        runs_it = action in ("exec", "marshal.loads") and _IMPORTS.match(leading[0]) is not None
        runs_it = runs_it and not path[-1].startswith("<string")
        return (runs_it or _is_called(action, first)) and not any(map(_STRANGE.match, path))
    if not _is_called(action, first):
        return False
    nearest, second = leading[0], leading[1] if len(leading) > 1 else ""
    if nearest.startswith("<") and not nearest.startswith("<frozen"):
        return False  # code from a string
    if action == "torch.set_eval_frame":
        return nearest.startswith("torch/_dynamo/")
    is_theirs = _COMPILERS.match(nearest) or nearest.startswith("inspect.py:")
    by_name = action != "exec" and "attr" in nearest.rpartition(":")[2]
    if is_theirs and not by_name and (_COMPILERS.match(second) or (leader and not second)):
        return True
    if action == "sys._getframe":
        return True  # reading from the frame is an event, too
    if action != "exec":
        return _KEEP_TO_THEMSELVES.match(nearest) is not None
    code = arguments[0]
    if nearest == "timeit.py:__init__":
        # If timeit gets a callable instead of a string, its code has an inner code object without names.
        return any(type(each) is CodeType and not each.co_names for each in code.co_consts)
    is_type = _TYPES.match(nearest) is not None
    return _RUN_GENERATED.match(nearest) is not None and (not is_type or _names_a_type(code))


def _is_called(action: str, frame: FrameType | None) -> bool:
    """Whether the frame's own code names the called function.

    If not, the function was passed in and may be a student's. Reads of attributes are not
    checked here, since PyTorch's compilers read them in C.
    """
    if not action.startswith(("exec", "gc.", "sys.", "torch.")):
        return True
    names = {"eval", "exec", "exec_"} if action == "exec" else {action.rpartition(".")[2]}
    return frame is not None and not names.isdisjoint(frame.f_code.co_names)


def _names_a_type(code: object) -> bool:
    """Whether code only reads names, such as `dict[str, a.B] | None`."""
    return (
        type(code) is CodeType
        and _NAMES_A_TYPE.issuperset(code.co_code[::2])
        and not any("__" in name for name in code.co_names)
    )


def _is_for_errors(path: list[str]) -> bool:
    """Whether a library reads a source to show a line, or to compile a function."""
    first = next((place for place in path if not _READERS.match(place)), "")
    return any(table.match(first) for table in (_KEEP_TO_THEMSELVES, _COMPILERS))


# The instructions that read a named attribute, or load a constant.
_READS = frozenset(
    opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap
)
_STORES = opcode.opmap["STORE_ATTR"]
_MORE, _CONSTANT = opcode.opmap["EXTENDED_ARG"], opcode.opmap["LOAD_CONST"]
# Since 3.12, the lowest bit says whether a method is called.
_SHIFT = 1 if sys.version_info >= (3, 12) else 0
# The name is at most this many bytes before a call of `getattr`, with a default in between.
_NEAR = 12


def _is_written(name: str, code: CodeType, at: int) -> bool:
    """Whether a function, at this instruction, reads an attribute that it names, by `x.name` or getattr.

    Otherwise, it called a function that reads it, which may be a student's.
    """
    instructions = code.co_code
    if at < 0:
        return False
    if instructions[at] in _READS:
        argument = instructions[at + 1]
        if at > 1 and instructions[at - 2] == _MORE:
            argument |= instructions[at - 1] << 8
        return bool(code.co_names[argument >> _SHIFT] == name)
    return any(
        instructions[before] == _CONSTANT
        and instructions[before + 1] < len(code.co_consts)
        and code.co_consts[instructions[before + 1]] == name
        for before in range(max(at - _NEAR, 0), at, 2)
    )


def _does_itself(action: str, frame: FrameType) -> bool:
    """Whether a frame names the attribute that it reads or sets; true for other events."""
    if action not in _READ and action not in _SET:
        return True
    code, at = frame.f_code, frame.f_lasti
    is_set = (
        at >= 0 and code.co_code[at] == _STORES and code.co_names[code.co_code[at + 1]] == action
    )
    return is_set or _is_written(action, code, at)


def _places() -> Callable[[str], str]:
    """Return a function that shortens paths in libraries and the grader; others become `<...>`."""
    ours = str(Path(__file__).parents[2]) + sep
    # Read before the student's code can change sys.path.
    roots = sorted(
        {root.rstrip(sep) + sep for root in sys.path if Path(root).is_absolute()}, key=len
    )

    @cache
    def place_of(file: str) -> str:
        if file.startswith(ours):
            return _OUR_PLACES[0] + file[len(ours) :].replace(sep, "/")
        if file.startswith("<"):
            return file
        root = next((root for root in reversed(roots) if file.startswith(root)), None)
        return f"<{file}>" if root is None else file[len(root) :].replace(sep, "/")

    return place_of


_IsHidden = Callable[[object, object], bool]


def _tell_of_attributes(is_hidden: _IsHidden) -> frozenset[CodeType]:
    """Make reads of attributes without an event raise one; return the code of the new readers."""
    readers = set()
    for kind, names in _UNTOLD:
        # For a builtin type, `__dict__` is a proxy; the dict is behind it.
        (table,) = gc.get_referents(kind.__dict__)
        for name in names:
            reader = _reader(name, table[name], is_hidden)
            readers.add(getattr(reader, "fget", reader).__code__)
            table[name] = reader
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    return frozenset(readers)


def _tell_of_functions() -> frozenset[CodeType]:
    """Make functions in C without an event raise one; return the code of the new functions."""
    get_code: Callable[[Any], CodeType] = vars(FunctionType)["__code__"].__get__
    places = [("gc.set_debug", gc)]
    if (frames := _compiler_s_frames()) is not None:
        places.append(("torch.set_eval_frame", frames))
        if (compiler := sys.modules.get("torch._dynamo.eval_frame")) is not None:
            places.append(("torch.set_eval_frame", compiler))
    codes = set()
    for event, module in places:
        name = event.rpartition(".")[2]
        function = _announced(event, getattr(module, name))
        setattr(module, name, function)
        codes.add(get_code(function))
    return frozenset(codes)


def _compiler_s_frames() -> Any:
    """Return the module of PyTorch's compiler that sees each frame, None if it cannot skip ours."""
    torch = sys.modules.get("torch")
    frames = None if torch is None else torch._C._dynamo.eval_frame
    return frames if hasattr(frames, "set_code_exec_strategy") else None


def _skip_in_compiler(codes: Collection[CodeType], with_callees: Collection[CodeType]) -> None:
    """Have PyTorch's compiler skip our frames, some of them with their callees."""
    if (frames := _compiler_s_frames()) is None:
        return
    skip, default = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
    for chosen, below in ((codes, default), (with_callees, skip)):
        for code in chosen:
            frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, below))


def _announced(event: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def function(*arguments: Any) -> Any:
        audit(event, *arguments)
        return original(*arguments)

    return function


def _reader(name: str, original: Any, is_hidden: _IsHidden) -> Any:
    """Return a replacement of an attribute or method that raises an event first, and hides the grader."""
    if not hasattr(original, "__set__"):

        def call(owner: Any, *arguments: Any) -> Any:
            audit("object.__getattr__", owner, name)
            kinds = original(owner, *arguments)
            return [kind for kind in kinds if not _is_ours(kind)]

        return call
    read = original.__get__
    # The value of an empty attribute: a dict, or None.
    is_dict = name not in ("__closure__", "f_back")

    def get(owner: Any) -> Any:
        audit("object.__getattr__", owner, name)
        value = read(owner, type(owner))
        if is_hidden(owner, value):
            return {} if is_dict else None
        return value

    return property(get, original.__set__, original.__delete__)


def _is_ours(kind: type) -> bool:
    return str(kind.__module__).startswith("grader.")
