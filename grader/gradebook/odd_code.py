"""Odd code: what an exercise of this kind has no need of, and an attack on its grader has.

A judge looks for more (`submissions/source.py: beyond_guards`), since a second look of its own costs nobody
anything. A person's attention is dear: what honest students write every day is left out here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.submissions.source import beyond_guards, parse

_MODULES = {
    "atexit": "runs code when the process ends",
    "ctypes": "reaches into the process's memory",
    "mmap": "maps memory",
    "pytest": "is the judge's tool",
    "_pytest": "is the judge's tool",
    "signal": "handles signals",
    "socket": "opens connections",
    "subprocess": "starts programs",
    "urllib": "opens connections",
    "requests": "opens connections",
    "grader": "is the grader",
}
# `gc.collect` and `inspect.signature` are nothing to look at.
_PARTS = {
    "gc": ("reaches into the process's objects", re.compile("get_objects|get_referrers|get_referents")),
    "inspect": (
        "reads other code's frames",
        re.compile(
            "currentframe|stack|trace|getouterframes|getinnerframes|getframeinfo|getclosurevars|"
            "getmembers|getmodule|getsource(file|lines)?|getfile"
        ),
    ),
}  # fmt: skip
_NAMES = {"os._exit", "sys._getframe", "os.fork", "os.kill", "os.system", "sys.settrace"}
# A docstring may speak of anything.
_LONGEST_TEXT = 200
_WORDS = ("_exit", "conftest", "/proc/", "results.json", "tests/hidden", "solutions/")

# What a probe looks with, and who answers in its place writes into: `torch.rand = ...`. These are switches.
_SWITCHES = "torch.backends."
# Attributes are written all the time, those of what is imported hardly ever: it is found by its usual names.
_USUAL = r"\b(torch|nn|F|np|numpy|random|math|sys|builtins|inspect|contextlib)"
_WRITES = rf"setattr\(\s*{_USUAL}\b|{_USUAL}\.[\w.]+[ \t]*(=[^=]|,[^=()]*=[^=]|:[^=\n]*=)"

# Most files hold none of these words, and to parse all of a class takes longer than to search it.
_WORTH_PARSING = re.compile(
    "|".join(
        (
            _WRITES,
            *(re.escape(w.rpartition(".")[2]) for w in (*_MODULES, *_PARTS, *_NAMES, *_WORDS)),
        )
    ).encode()
)
_WRITTEN_OTHERWISE = re.compile(rb"[\x80-\xff]|\\[0-7xuUN\r\n]")

# Of the ways around a guard of operators those that no honest answer has been seen to take. `operator.mul`,
# `model.modules()`, `torch._foreach_add_`, `__slots__` and the like are ways, too; their runs are traced.
_WAYS = re.compile(
    "asyncio|attrgetter|builtins|concurrent|custom_op|fx|globals|importlib|library|"
    "marshal|methodcaller|multiprocessing|package|pickle|pkgutil|profiler|runpy|threading|ForwardRef|"
    "get_type_hints|"
    "_C|_VF|_decomp|_dispatch|_dynamo|_export|_functorch|_getframe|_higher_order_ops|_inductor|_jit_internal|"
    "_library|_ops|_prims.*|_python_dispatch|_refs|_subclasses|"
    "__(bases|base|builtins|closure|code|getattribute|globals|import|loader|mro|reduce|reduce_ex|spec|subclasses|"
    "torch_dispatch|torch_function)__"
)
# What reaches an attribute by a name: ordinary on an object of one's own, and a way into a module.
_BY_NAME = ("getattr", "setattr", "vars")


def odd_code(source: bytes) -> dict[str, list[int]]:
    """Odd code and the lines on which it stands, in the order of the file."""
    # Names and texts that are written with other characters hold these words in the tree alone.
    if not (_WORTH_PARSING.search(source) or _WRITTEN_OTHERWISE.search(source)):
        return {}
    try:
        tree = parse(source)
    except SyntaxError:
        return {}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = _imported(tree)
    lines: dict[str, list[int]] = {}
    for line, what in sorted(
        {(line, what) for node in ast.walk(tree) for line, what in _looks(node, used, imported)}
    ):
        lines.setdefault(what, []).append(line)
    return lines


def ways_around(source: bytes) -> dict[str, int]:
    """Names that are ways around what forbids operators, and their first lines."""
    try:
        tree = parse(source)
    except SyntaxError:
        return {}
    lines = {name: line for name, line in beyond_guards(tree).items() if _WAYS.fullmatch(name)}
    imported = _imported(tree)
    ordinary = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _root(node.args[0] if node.args else None) not in imported
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in _BY_NAME and id(node) not in ordinary:
                lines.setdefault(name, node.lineno)
            case ast.Name(id="eval" | "exec" | "compile" as name):
                lines.setdefault(name, node.lineno)
            case ast.Attribute(attr="__dict__", value=owner) if _root(owner) in imported:
                lines.setdefault("__dict__", node.lineno)
            case ast.Attribute(attr="modules", value=ast.Name(id="sys")):
                lines.setdefault("sys.modules", node.lineno)
    return lines


def _imported(tree: ast.Module) -> set[str]:
    """The names that imports bind."""
    return {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _root(node: ast.expr | None) -> str:
    """The first name of a chain of attributes; empty where it begins with something else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _looks(node: ast.AST, used: set[str], imported: set[str]) -> Iterator[tuple[int, str]]:
    """What is odd in a node of the syntax tree, in which names are normalized.

    `used` are all attributes, `imported` the names that imports bind.
    """
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield from _odd_import(alias.name, used, node.lineno)
        case ast.ImportFrom(module=str(module), names=names):
            yield from _odd_import(module, {alias.name for alias in names}, node.lineno)
        case ast.Attribute(ctx=ast.Store()) if _root(node) in imported:
            if not (name := ast.unparse(node)).startswith(_SWITCHES):
                yield node.lineno, f"puts something else in the place of {name}"
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, *_]) if _root(owner) in imported:
            if not (name := f"{ast.unparse(owner)}.").startswith(_SWITCHES):
                yield node.lineno, f"puts something else into {name[:-1]}"
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            if f"{owner}.{attribute}" in _NAMES:
                yield node.lineno, f"uses {owner}.{attribute}"
        case ast.Constant(value=str(text)) if len(text) < _LONGEST_TEXT:
            for word in _WORDS:
                if word in text:
                    yield node.lineno, f"names {word!r}"


def _odd_import(module: str, parts: set[str], line: int) -> Iterator[tuple[int, str]]:
    top = module.partition(".")[0]
    if top in _MODULES:
        yield line, f"imports {top}, which {_MODULES[top]}"
    elif top in _PARTS:
        why, odd = _PARTS[top]
        if any(part == "*" or odd.fullmatch(part) for part in parts):
            yield line, f"imports {top}, which {why}"
