"""What leads out of a student's own code is told to the judge, before it takes effect.

Theory of operation. Who wants to answer in the worker's place has to find the worker: by a frame, by what a
function or a class holds of its surroundings, by all objects that there are, or by a text that is run. Python
tells an audit hook (PEP 578) of most of that *before* it happens, and nothing in Python removes a hook. Of the
attributes that it does not tell of (`_UNTOLD`) it is made to: each stands behind a property that raises the
same event. What is told goes into a socket, which the judge reads and nothing in this process can take back. So
the first step of an attack counts, whatever follows.

Libraries do the same for innocent reasons: `traceback` walks through frames, `inspect` reads code, and
`dataclasses` runs texts. What counts is who leads to an event. If it is a student's line, it is told; if it is
ours, it is not. A function of a library is told of, too, unless it is known to keep what it finds to itself
(`_KEEPS`, `_RUNS`). One that hands a frame to its caller is not, nor one that reads attributes by any name that
it is given. And what a function calls may be a student's, in C, and have no frame: what holds our names is
read only by who writes the attribute out.

No class is defined here, and what is kept lies in closures: to look for it is an event as any other.
"""

from __future__ import annotations

import abc
import ctypes
import functools
import gc
import json
import opcode
import os
import re
import socket
import sys
import types
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from grader.sandbox.inside.absent import is_one_of
from grader.sandbox.wire.messages import MAX_REPORT, PROBE_FILE

# Attributes that lead out and that Python reads without an event.
_UNTOLD: tuple[tuple[type, tuple[str, ...]], ...] = (
    (types.FunctionType, ("__builtins__", "__closure__", "__globals__")),
    (types.FrameType, ("f_back", "f_builtins", "f_globals", "f_locals")),
    (type, ("__subclasses__",)),
)
_READ = frozenset(
    ["__code__", "ag_frame", "cr_frame", "gi_frame", "tb_frame"]
    + [name for _, names in _UNTOLD for name in names]
)
_SET = frozenset(["__class__", "__code__", "__defaults__", "__kwdefaults__"])
_TEXTS = frozenset(["compile", "exec"])
_EVENTS = frozenset(
    [
        "code.__new__",
        "compile",
        "exec",
        "function.__new__",
        "object.__getattr__",
        "object.__setattr__",
        "ctypes.call_function",
        "ctypes.cdata",
        "ctypes.cdata/buffer",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.string_at",
        "gc.get_objects",
        "gc.get_referents",
        "gc.get_referrers",
        "open",
        "sys._current_exceptions",
        "sys._current_frames",
        "sys._getframe",
        "sys.addaudithook",
        "sys.setprofile",
        "sys.settrace",
    ]
)

# PyTorch's compilers read and write code all the time. One of their functions is believed where another one of
# them called it: what a student calls may hand on what it finds, and what reads an attribute by its name does.
_COMPILERS = re.compile(
    r"(onnxscript|torch/(_compile|_dynamo|_export|_functorch|_guards|_higher_order_ops|_inductor|_jit_internal|_library|_logging|"
    r"_subclasses|export|fx|jit|library|onnx|utils/_config_module|__init__))\b"
)
# Functions that read frames or code, and keep them to themselves.
_KEEPS = re.compile(
    r"<frozen abc>:|_py_abc\.py:|collections/__init__\.py:namedtuple|dataclasses\.py:|dis\.py:_get_code_object|"
    r"enum\.py:|functools\.py:_compose_mro|inspect\.py:(_has_code_flag|_signature_\w+|findsource|get_annotations|getfile|getmodule|"
    r"unwrap)|jinja2/utils\.py:internalcode|logging/__init__\.py:(_is_internal_frame|findCaller)|matplotlib/(_api|pyplot)\b|"
    r"networkx/utils/decorators\.py:|torch/fx/(_symbolic_trace\.py:(create_args_for_root|module_call_wrapper|trace)|"
    r"experimental/symbolic_shapes\.py:expect_true)|torch/jit/_trace\.py:_get_interpreter_name_for_var|"
    r"torch/nn/(modules/lazy|parameter|utils/parametrize)\.py:|torch/utils/__init__\.py:swap_attr|traceback\.py:(?!walk_)|typing(_extensions)?\.py:|warnings\.py:"
)
# Functions that run texts of their own making.
_RUNS = re.compile(
    r"ast\.py:parse|collections/__init__\.py:namedtuple|dataclasses\.py:_create_fn|inspect\.py:get_annotations|"
    r"jinja2/environment\.py:(_compile|from_code)|networkx/utils/decorators\.py:|"
    r"onnxscript/_internal/converter\.py:_eval_constant_expr|typing(_extensions)?\.py:(__init__|_evaluate|evaluate_forward_ref)"
)
# Functions that read a file for who calls them.
_READERS = re.compile(r"(codecs|inspect|linecache|tokenize)\.py:")
# Functions that give what they find to their caller: it is the caller who counts.
_HANDS = re.compile(
    r"torch/nn/modules/module\.py:__setattr__|inspect\.py:currentframe|traceback\.py:walk_(stack|tb)|logging/__init__\.py:<lambda>"
)
# A file that is no library's, as one that a student wrote and imports.
_STRANGE = re.compile(r"<[^>]+\.py>:")
# Where ours begin, and those functions of ours that read frames, or run texts, themselves.
_OURS = ("grader/", PROBE_FILE)
_OUR_OWN = re.compile(
    r"grader/sandbox/inside/(guard\.py:(__enter__|__exit__|__init__|<listcomp>|_is_a_probe_s|_last_in_probe|_names|_stack_of)|interpreter\.py:(local|own_locals|variables)|"
    r"worker\.py:(_load|_load_probe))$"
)
# What probes do themselves.
_BY_PROBES = frozenset(["compile", "exec", "sys.setprofile"])
# A name of a type calls nothing, and names nothing with two underscores.
_CALLS = re.compile(r"\(|__")

Tell = Callable[[str, int, str], None]
_UNTOLD_EXIT = 71


def reporter(reports: socket.socket) -> Tell:
    """A function that tells the judge once of an event, a student's line, and a library's function in between.

    Where nothing can be told any more, it ends this process.
    """
    # Not by a signal: the first process of a namespace takes none from itself.
    send, end, told = reports.send, os._exit, set[bytes]()
    # In C, and not found by its name later: who finds `json` cannot say what it writes.
    quoted = json.encoder.encode_basestring_ascii
    descriptor, stat = reports.fileno(), os.fstat
    inode = stat(descriptor).st_ino if os.name == "posix" else None

    def tell(event: str, line: int, by: str) -> None:
        by = by[: MAX_REPORT // 4]
        report = f"[{quoted(event)},{line},{quoted(by)}]\n".encode()
        if report in told:
            return
        try:
            # Another file in its place is as bad as none.
            if inode is not None and stat(descriptor).st_ino != inode:
                raise OSError
            send(report)
        except OSError:
            end(_UNTOLD_EXIT)
        told.add(report)

    return tell


def tell_of_events(
    tell: Tell, module: types.ModuleType, files: Collection[str], forbidden: Collection[str] = ()
) -> None:
    """Have what leads out of the student's module told from now on; `files` are its names in stacks.

    Told is also who reads the files of what is `forbidden`, or has them imported once more.
    """
    get_frame, get_back = sys._getframe, types.FrameType.f_back.__get__
    get_globals, get_code = types.FunctionType.__globals__.__get__, types.FrameType.f_code.__get__
    variables, place_of = vars(module), _places()
    readers, is_forbidden = _tell_of_attributes(), is_one_of(forbidden)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        what = event
        if event == "open" and not is_forbidden(arguments[0]):
            return
        if event.startswith("object."):
            owner, what = arguments[:2]
            if what not in (_READ if event == "object.__getattr__" else _SET):
                return
            # Its own functions lead to nothing else, and a named tuple's belong to no module.
            if type(owner) is types.FunctionType and (
                get_globals(owner) is variables
                or ("defaults__" in what and "__file__" not in get_globals(owner))
            ):
                return
        elif event == "sys._getframe" and get_code(arguments[0]) is own:
            return
        frame = get_back(get_frame())
        if get_code(frame) in readers:
            frame = get_back(frame)
        is_written = frame is not None and _is_written(what, get_code(frame), frame.f_lasti)
        path: list[str] = []
        line, leader = 0, ""
        while frame is not None:
            code = get_code(frame)
            if code.co_filename in files:
                line = frame.f_lineno
                break
            place = f"{place_of(code.co_filename)}:{code.co_name}"
            if place.startswith(_OURS):
                leader = place
                break
            path.append(place)
            frame = get_back(frame)
        if what == "open":
            if (line or leader.endswith(":bring")) and not _is_for_errors(path):
                tell(what, line, path[0] if path else "")
            return
        text = str(arguments[0]) if what == "compile" else ""
        if what == "exec":
            text = f"{place_of(arguments[0].co_filename)}:"
        if not _is_innocent(what, text, path, leader) or not (
            is_written or is_open(what, arguments)
        ):
            tell(what, line, path[0] if path else "")

    def is_open(what: str, arguments: tuple[Any, ...]) -> bool:
        """Whether what is read may be read by code in C, which any function may call on a student's behalf."""
        owner = arguments[0] if arguments else None
        if type(owner) is types.FrameType:
            file = get_code(owner).co_filename
        elif type(owner) is types.FunctionType and what != "__code__":
            file = str(get_globals(owner).get("__file__"))
        else:
            return what != "__subclasses__" or isinstance(owner, abc.ABCMeta)
        return not place_of(file).startswith(_OURS)

    own = hook.__code__
    sys.addaudithook(hook)


def _is_innocent(what: str, text: str, path: list[str], leader: str) -> bool:
    """Whether an event, as the run of a text, is what libraries do.

    The path leads from it to the student's line, or to a function of ours.
    """
    leading = [place for place in path if not _HANDS.match(place)]
    if not leading:
        return _OUR_OWN.match(leader) is not None or (
            leader.startswith(PROBE_FILE) and what in _BY_PROBES
        )
    # What a library does as it is imported.
    if any(place.startswith("<frozen importlib") for place in path):
        return not any(map(_STRANGE.match, [*path, text]))
    first, second = leading[0], leading[1] if len(leading) > 1 else ""
    if first.startswith("<") and not first.startswith("<frozen"):
        # A text that is run: what PyTorch's read is how a function was compiled.
        return what == "__code__"
    is_theirs = _COMPILERS.match(first) or first.startswith("inspect.py:")
    by_name = what not in _TEXTS and "attr" in first.rpartition(":")[2]
    if is_theirs and not by_name and (_COMPILERS.match(second) or (leader and not second)):
        return True
    if what == "sys._getframe":
        return True  # what it reads of the frame is an event, too
    if what not in _TEXTS:
        return _KEEPS.match(first) is not None
    is_type = first.startswith(("inspect", "typing"))
    return _RUNS.match(first) is not None and not (is_type and _CALLS.search(text))


def _is_for_errors(path: list[str]) -> bool:
    """Whether a library reads a source to show a line of it, or to compile a function."""
    first = next((place for place in path if not _READERS.match(place)), "")
    return any(pattern.match(first) for pattern in (_KEEPS, _COMPILERS))


# The instructions that read the attribute which a function names, and the one that brings a constant.
_READS = frozenset(
    opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap
)
_MORE, _CONSTANT = opcode.opmap["EXTENDED_ARG"], opcode.opmap["LOAD_CONST"]
# Since 3.12 the lowest bit says whether a method is called.
_SHIFT = 1 if sys.version_info >= (3, 12) else 0
# So many bytes before a call of `getattr` lies the name, with a default behind it.
_NEAR = 12


def _is_written(name: str, code: types.CodeType, at: int) -> bool:
    """Whether a function, at this instruction, reads an attribute that it names: `x.name` or by getattr.

    Else it called what reads it, and that may be a student's.
    """
    instructions = code.co_code
    if at < 0:
        return False
    if instructions[at] in _READS:
        argument = instructions[at + 1]
        if at > 1 and instructions[at - 2] == _MORE:
            argument |= instructions[at - 1] << 8
        return code.co_names[argument >> _SHIFT] == name
    return any(
        instructions[before] == _CONSTANT
        and instructions[before + 1] < len(code.co_consts)
        and code.co_consts[instructions[before + 1]] == name
        for before in range(max(at - _NEAR, 0), at, 2)
    )


def _places() -> Callable[[str], str]:
    """A function that says where a file is among the libraries, or ours; `<...>` if it is none of them."""
    ours = str(Path(__file__).parents[2]) + os.sep
    # What is named by sys.path now the student's code has not named.
    roots = sorted(
        {root.rstrip(os.sep) + os.sep for root in sys.path if Path(root).is_absolute()}, key=len
    )

    @functools.cache
    def place_of(file: str) -> str:
        if file.startswith(ours):
            return _OURS[0] + Path(file[len(ours) :]).as_posix()
        if file.startswith("<"):
            return file
        root = next((root for root in reversed(roots) if file.startswith(root)), None)
        return f"<{file}>" if root is None else file[len(root) :].replace(os.sep, "/")

    return place_of


def _tell_of_attributes() -> frozenset[types.CodeType]:
    """Have the attributes told of that Python reads without an event; returns the code that does."""
    readers = set()
    for kind, names in _UNTOLD:
        # The dict behind the proxy, which is all that Python gives of a builtin type's.
        (table,) = gc.get_referents(kind.__dict__)
        for name in names:
            reader = _reader(name, table[name])
            readers.add(getattr(reader, "fget", reader).__code__)
            table[name] = reader
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    return frozenset(readers)


def _reader(name: str, original: Any) -> Any:
    """What stands for an attribute or a method, and raises an event before it."""
    audit = sys.audit
    if not hasattr(original, "__set__"):

        def call(owner: Any, *arguments: Any) -> Any:
            audit("object.__getattr__", owner, name)
            return original(owner, *arguments)

        return call
    read = original.__get__

    def get(owner: Any) -> Any:
        audit("object.__getattr__", owner, name)
        return read(owner, type(owner))

    return property(get, original.__set__, original.__delete__)
