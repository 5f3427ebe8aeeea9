"""Find odd code, which attacks on a grader use and solutions rarely need.

Odd code proves nothing. A person looks at it, and the points are provisional until then. Access to frames, code
from strings and similar events are reported as they happen (`sandbox.inside.reports`). This module looks for
actions without such events, in plainly written code: names are followed only through imports and plain
assignments. docs/reference.md gives the reason for each row.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections import ChainMap, Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from grader.course.manifest import Exercise
from grader.course.names import is_within
from grader.submissions.source import STARS, add_aliases, chain, parse
from grader.text import counted


class Oddity(NamedTuple):
    """An oddity: the `name` by which a course allows it, a sentence, its first line, and its number."""

    name: str
    what: str
    line: int
    times: int = 1


# Reasons why dotted names are odd, even at the end of a longer one (`random._os.kill`). The first match counts.
_ROWS = {
    "starts, ends or connects processes": r"""
        multiprocessing|subprocess|os\.(_exit|abort|dup2?|exec\w+|fork\w*|kill\w*|memfd_create|pidfd_open|pipe2?|
        popen|posix_spawn\w*|setuid|spawn\w+|system|wait\w*)""",
    "runs beside the judged code": r"_thread|asyncio|concurrent|threading\.(Thread|Timer)",
    "opens connections": r"http|requests|selectors|socket|urllib|torch\.(distributed\.rpc|hub)",
    "handles signals": r"(?<!torch\.)signal|faulthandler",
    "runs code at another time": r"atexit|gc\.callbacks|os\.register_at_fork|weakref\.finalize",
    "reaches into the process's memory": r"""
        _?ctypes|mmap|numpy\.(ctypeslib|lib\.stride_tricks\.as_strided)|torch\.((classes|ops)\.load_library|
        utils\.cpp_extension)""",
    "may run code from a file": r"""
        _?pickle|copyreg|marshal|numpy\.lib\.format|torch\.serialization\.(\w*safe_globals|register_package)""",
    "finds or changes imported modules": r"""
        importlib(?!\.metadata)|(builtin|\w[\w.]*)\.__(import|loader|spec)__|warnings\.catch_warnings\(\)\._module|
        sys\.(meta_path|modules|path_hooks|path_importer_cache)""",
    "reads private data of other code": r"""
        gc\.get_(objects|refer\w+)|inspect\.(\w*frames?|\w*_static|getclosurevars|stack|trace)|traceback\.walk_\w+|
        (sys|threading)\.(_[a-z]\w+|addaudithook|monitoring|set(profile|switchinterval|trace)\w*)|
        \w[\w.]*\.__(closure|code|subclasses)__""",
    "runs code from a string": r"builtin\.(breakpoint|compile|eval|exec)|numpy\.testing\.(measure|run\w+)",
    "contains the builtins of every module": r"builtins|builtin\.__build_class__|\w[\w.]*\.__self__",
    "replaces objects of other code": r"""
        unittest\.mock|(collections\.abc|numbers|typing)\.\w+\.register|builtin\.type\.__(del|set)attr__""",
    "belongs to the judge": r"_?pytest|grader",
    "changes, watches or imitates PyTorch": r"""
        torch\.(DisableTorchFunction\w*|ao|autograd\.profiler|distributed\.optim|fx|library|overrides|package|profiler|
        nn\.modules\.module\.register_module_\w+|utils\.(_pytree\.\w*[Kk]ey\w*|benchmark|hooks(?!\.RemovableHandle)))""",
    # Except base classes and helpers that honest programs name.
    "is private to its library": r"""
        (?<!\.)(?!argparse|contextlib|logging|torch\.nn\.modules\.\w+\._[A-Z]|typing)[a-z]\w*(\.\w+)*?\._(?!_|C\._set_grad|
        LRScheduler|assert\b|broadcast_coalesced|calculate_fan|check|foreach_|inst\b|ntuple|pair\b|pytree|rand\b|
        set_grad|single\b|triple\b|utils\.collate\b)\w+""",
}
_COMPILED = [
    (why, re.compile(rf"(?:^|\.)(?:{row})(?=[.(]|$)", re.VERBOSE)) for why, row in _ROWS.items()
]
# All other modules are rarely needed.
_ORDINARY_MODULES = re.compile(
    """__future__|abc|argparse|array|ast|base64|binascii|bisect|bz2|calendar|cmath|codecs|collections|colorsys|
    configparser|contextlib|contextvars|copy|csv|dataclasses|datetime|decimal|difflib|doctest|enum|errno|fnmatch|
    fractions|functools|gc|getpass|glob|graphlib|gzip|hashlib|heapq|hmac|html|importlib|inspect|io|itertools|json|
    keyword|locale|logging|lzma|math|matplotlib|numbers|numpy|operator|os|pathlib|platform|pprint|queue|random|re|
    reprlib|resource|secrets|shlex|shutil|stat|statistics|string|struct|sys|tarfile|tempfile|textwrap|threading|time|
    timeit|tomllib|torch|tqdm|traceback|tracemalloc|types|typing|typing_extensions|unicodedata|unittest|uuid|warnings|
    weakref|zipfile|zlib""",
    re.VERBOSE,
)
# A star import from other modules also imports their own imports: `functools`, `sys`.
_LIBRARIES = re.compile(r"math|numpy|torch(\.(nn(\.(functional|init))?|optim|utils\.data))?|typing")
# Attributes of any object, and strings with their names.
_ATTRIBUTES = re.compile(
    r"""__(builtins|globals)__|(ag|cr|gi|tb)_frame|f_(back|builtins|globals|locals)|
    __(torch_(dispatch|function)|(cuda_)?array_interface|array_(function|struct|ufunc))__""",
    re.VERBOSE,
)
_WORDS = re.compile(
    "/proc/|NO_WEIGHTS_ONLY|\\b_exit\\b|conftest|results\\.json|solutions/|tests/hidden"
)
_LONGEST = 200  # of a string that is checked, and of a dotted name
# Each call in a chain is a node whose name is that of the whole chain before it, so the time is quadratic.
_MAX_CALLS = 60
# So that one student with thousands of odd lines does not hide other students.
_MAX_REASONS = 5

# Functions that write into their first argument, or into a dictionary of names; settings of a program.
_SETTERS = re.compile(
    r"(builtin\.(delattr|setattr|\w+(\(\))?\.__(del|set)attr__)|functools\.update_wrapper)\(\)"
)
_CHANGES = re.compile(r"\.__dict__\.(__\w+__|clear|pop|popitem|setdefault|update)\(\)")
_SETTINGS = re.compile(
    r"torch\.(backends|_dynamo\.config)\.|sys\.(argv|path|stderr|stdin|stdout|tracebacklimit)$"
)
# Classes whose objects the grader trusts, and the class of any object.
_TENSORS = re.compile(r"torch\.([\w.]+\.)?(\w*Tensor|Parameter|Buffer)|type\(\)")
# Arguments with which reading a file runs no code.
_SAFE = {"weights_only": True, "allow_pickle": False}
_MAKERS = ("collections.namedtuple", "dataclasses.make_dataclass")
# Many answers look up a function of these by its name, such as `getattr(nn.init, name)`; if an exercise forbids
# names, that is a way around the ban. For the other libraries, it is a way to the names in the rows.
_PUBLIC = re.compile(r"(math|numpy|torch)\b")
_NAMED = re.compile(r"(gc|inspect|os|sys|threading)\b")
# Functions that do not change a module in their arguments.
_READERS = re.compile(r"builtin\.\w+|inspect\.\w+|type")
_SELF = ("self", "cls")

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_Names = ChainMap[str, str]
_Found = Iterator[tuple[str, str]]
_BUILTINS = {name: f"builtin.{name}" for name in dir(builtins)}


def odd_code(source: bytes, ordinary: Collection[str] = ()) -> tuple[Oddity, ...]:
    """Return the oddities of a file, in order, except names in `ordinary` and names inside them.

    A file that cannot be parsed has none, since it is not judged.
    """
    try:
        findings = sorted(_findings(parse(source)), key=lambda finding: finding[2])
    except SyntaxError:
        return ()
    except RecursionError:
        return (Oddity("nested", "or another one is nested too deeply to be checked", 1),)
    except Exception:  # noqa: BLE001  a person looks instead, and the batch goes on
        return (
            Oddity("unchecked", "or another one could not be checked: a fault of the grader", 1),
        )
    oddities: dict[str, Oddity] = {}
    for name, what, line in findings:
        if any(is_within(name, allowed) for allowed in ordinary):
            continue
        # Keep only the first sentence for each name, since an import is followed by uses.
        first = oddities.get(name, Oddity(name, what, line, 0))
        oddities[name] = first._replace(times=first.times + 1)
    return tuple(oddities.values())


def reasons(source: bytes, ordinary: Collection[str]) -> tuple[str, ...]:
    """Return the reasons to hold a file's points: its oddities with lines, in at most five sentences."""
    texts = [
        f"line {oddity.line} {oddity.what}"
        + (f" (and on {counted(oddity.times - 1, 'more line')})" if oddity.times > 1 else "")
        for oddity in odd_code(source, ordinary)
    ]
    if (more := len(texts) - _MAX_REASONS) > 0:
        last = texts[_MAX_REASONS - 1]
        texts[_MAX_REASONS - 1 :] = [f"{last}; and {counted(more, 'more thing')} of this kind"]
    return tuple(texts)


def odd_names(source: bytes) -> frozenset[str]:
    """Return the names of a file's oddities, in the form for `ordinary`."""
    return frozenset(oddity.name for oddity in odd_code(source))


def ordinary_in(exercise: Exercise, stub: bytes) -> frozenset[str]:
    """Return the names that are not odd in an answer: in the stub, or allowed or given by the course.

    If no name is forbidden, functions of a library may be looked up by computed names.
    """
    given = {name.removesuffix(".py") for name in exercise.given}
    names = odd_names(stub) | frozenset(exercise.ordinary) | given
    return names if any(rule.names for rule in exercise.forbidden) else names | {"getattr"}


def _findings(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield a name, a sentence and a line for each oddity."""
    nodes = list(_nodes(tree, ChainMap(_BUILTINS)))
    imports = [node for node, _ in nodes if isinstance(node, ast.Import)]
    modules = {alias.name for node in imports for alias in node.names}
    # A class pattern reads the attributes that its class names as fields.
    by_fields = any(isinstance(node, ast.MatchClass) and node.patterns for node, _ in nodes)
    for node, names in nodes:
        path = ""
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            path = _path(node, names)
        found = [*_named(node, path), *_assignments(node, path, names), *_built(node, path, names)]
        if isinstance(node, ast.Call):
            called = path.removesuffix("()")
            found += _called(node, called, names, modules)
            found += _computed(node, called, names, by_fields=by_fields)
        yield from ((name, what, getattr(node, "lineno", 1)) for name, what in found)


# --- the meanings of names ------------------------------------------------------------------------


def _nodes(scope: ast.AST, outer: _Names) -> Iterator[tuple[ast.AST, _Names]]:
    """Yield every node in a scope, each chain of attributes once, with the meanings of names there."""
    own: list[ast.AST] = []
    waiting = [*ast.iter_child_nodes(scope)][::-1]
    while waiting:
        node = waiting.pop()
        own.append(node)
        if isinstance(node, ast.Attribute):
            waiting.append(chain(node)[0])
        elif not isinstance(node, _Scope) and not _is_docstring(node):
            waiting += [*ast.iter_child_nodes(node)][::-1]
    # Names that the file itself defines have no meaning.
    names = outer.new_child(dict.fromkeys(map(_bound, own), ""))
    add_aliases(names, [node for node in own if isinstance(node, ast.stmt)])
    _add_more(names, scope, own)
    for node in own:
        yield node, names
        if isinstance(node, _Scope):
            yield from _nodes(node, outer if isinstance(scope, ast.ClassDef) else names)


def _add_more(names: _Names, scope: ast.AST, own: list[ast.AST]) -> None:
    """Add the meanings of names that are bound only by an item, a loop, a default or a pattern."""
    bindings = Counter(map(_bound, own))
    found: dict[str, list[str]] = {}
    for name, value in (pair for node in (scope, *own) for pair in _pairs(node)):
        path = _path(value, names)
        if path and "(" not in path and not names.get(name):
            found.setdefault(name, []).append(path)
            names[name] = path
    for name, paths in found.items():
        if len(paths) < bindings[name] and name in names.maps[0]:
            names[name] = ""


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a node binds, each with an expression that it may mean."""
    match node:
        case ast.NamedExpr(target=target, value=value) | ast.Assign(targets=[target], value=value):
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
                pairs = [*zip(target.elts, value.elts, strict=False)]
            yield from ((key.id, each) for key, each in pairs if isinstance(key, ast.Name))
        case ast.For(target=ast.Name(id=name), iter=ast.List(elts=items) | ast.Tuple(elts=items)):
            yield from ((name, item) for item in items)
        case ast.FunctionDef(args=parameters) | ast.Lambda(args=parameters):
            named = [*parameters.posonlyargs, *parameters.args][::-1]
            yield from (
                (parameter.arg, value)
                for parameter, value in zip(named, parameters.defaults[::-1], strict=False)
            )
        case ast.Match(subject=subject, cases=cases):
            for pattern in (part for case in cases for part in ast.walk(case.pattern)):
                if isinstance(pattern, ast.MatchClass):
                    for attribute, part in zip(
                        pattern.kwd_attrs, pattern.kwd_patterns, strict=True
                    ):
                        if isinstance(part, ast.MatchAs) and part.name:
                            yield part.name, ast.Attribute(subject, attribute, ast.Load())


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _bound(node: ast.AST) -> str:
    """Return the name that a node binds in its scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.alias(name=name, asname=other) if name != STARS:
            return other or name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.MatchAs():
            return node.name or ""
    return ""


def _path(node: ast.expr, names: _Names, calls: int = 0) -> str:
    """Return the dotted name of an imported or builtin object, with `()` for a call, else "".

    `calls` counts those around this one. Raises RecursionError for too many.
    """
    if calls > _MAX_CALLS:
        raise RecursionError
    root, parts = chain(node)
    meaning = ""
    match root:
        case ast.Name(id=name) if name in names:
            meaning = names[name]
        case ast.Subscript(value=ast.List(elts=items) | ast.Tuple(elts=items)):
            meaning = next(filter(None, (_path(item, names, calls + 1) for item in items)), "")
        case ast.Name(id=name) if STARS in names:
            meaning = f"{names[STARS].split()[-1]}.{name}"
        case ast.Call(func=function, args=arguments):
            called = _path(function, names, calls + 1)
            match called, arguments:
                case "builtin.getattr", [owner, ast.Constant(value=str(name)), *_]:
                    meaning, parts = _path(owner, names, calls + 1), [name, *parts]
                case "builtin.vars", [owner]:
                    meaning, parts = _path(owner, names, calls + 1), ["__dict__", *parts]
                case "builtin.type", [ast.Name(id=name)] if name in _SELF:
                    pass
                case "builtin.type", _:
                    meaning = "type()"
                case _:
                    meaning = f"{called}()" if called else ""
    if "__class__" in parts and not (isinstance(root, ast.Name) and root.id in _SELF):
        meaning, parts = "type()", parts[parts.index("__class__") + 1 :]
    # The root may be the file's own name, such as `x` in `x.y`.
    if not meaning or meaning.startswith("."):
        return ""
    return ".".join([meaning, *parts])[:_LONGEST]


# --- the name of something odd, and a sentence ----------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _row(path: str) -> tuple[str, str] | None:
    """Return the odd beginning of a dotted name, and the reason."""
    for why, pattern in _COMPILED:
        if match := pattern.search(path):
            return path[: match.end()].removeprefix("builtin."), why
    return None


def _named(node: ast.AST, path: str) -> _Found:
    """Yield odd imports, dotted names, attributes and strings."""
    attributes: list[str] = []
    match node:
        case ast.Import(names=aliases):
            yield from (found for alias in aliases for found in _imported(alias.name))
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            yield from (found for alias in aliases for found in _imported(f"{module}.{alias.name}"))
        case ast.Name(id=name) | ast.FunctionDef(name=name):
            attributes = [name]
        case ast.Attribute():
            attributes = chain(node)[1]
        case ast.MatchClass(kwd_attrs=attributes):
            pass
        case ast.Constant(value=str(text)) if len(text) < _LONGEST:
            attributes = [text]
            yield from ((word, f"names {word!r}") for word in _WORDS.findall(text))
    yield from ((each, f"uses {each}") for each in filter(_ATTRIBUTES.fullmatch, attributes))
    # Skip calls: the called function is visited as a separate node.
    if path and not path.endswith("()"):
        if found := _row(path):
            yield found[0], f"uses {found[0]}"
        elif ".__dict__" in path:
            yield _lookup(path), f"looks names up in {path}"


def _imported(path: str) -> _Found:
    module, _, last = path.rpartition(".")
    top = path.partition(".")[0]
    if found := _row(path):
        yield found[0], f"imports {found[0]}, which {found[1]}"
    elif not _ORDINARY_MODULES.fullmatch(top):
        yield top, f"imports {top}, which is rarely needed"
    elif last == "*" and not _LIBRARIES.fullmatch(module):
        yield path, f"imports all of {module}"


def _assignments(node: ast.AST, path: str, names: _Names) -> _Found:
    """Yield assignments to names of a library, and to the class of an object."""
    target = ""
    match node:
        case (
            ast.Attribute(attr="__class__", ctx=ast.Store())
            | ast.Name(id="__class__", ctx=ast.Store())
            | ast.FunctionDef(name="__class__")
        ):
            yield "__class__", "changes the class of an object"
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            target = path
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=owner):
            target = _path(owner, names)
            target = target if target.endswith(".__dict__") else ""
        case ast.Call(args=[owner, *_]) if _SETTERS.fullmatch(path):
            target = _path(owner, names)
        case ast.Call() if _CHANGES.search(path):
            target = path.removesuffix("()")
    # The result of a call is the file's own, except a class.
    if target and "(" not in target.removeprefix("type()") and not _SETTINGS.match(target):
        yield f"change of {target}", f"replaces {target}"


def _built(node: ast.AST, path: str, names: _Names) -> _Found:
    """Yield classes based on `torch.Tensor`, or on the class of an object."""
    bases: list[ast.expr] = []
    match node:
        case ast.ClassDef(bases=bases) | ast.keyword(arg="bases", value=ast.Tuple(elts=bases)):
            pass
        case ast.Call(args=[_, ast.Tuple(elts=elements), *_]):
            bases = elements if path in ("type()", "types.new_class()") else []
    for base in filter(_TENSORS.fullmatch, [_path(base, names) for base in bases]):
        yield base, f"builds a class on {base}"


def _called(call: ast.Call, called: str, names: _Names, modules: Collection[str]) -> _Found:
    """Yield reads of files that may run code, and modules that are passed to functions."""
    for keyword in call.keywords:
        name, value = keyword.arg or "", keyword.value
        if name in _SAFE and not (isinstance(value, ast.Constant) and value.value is _SAFE[name]):
            yield name, f"sets {name}, so that a file may run code"
    has_more = len(call.args) > 2 or any(keyword.arg is None for keyword in call.keywords)
    if called in ("numpy.load", "torch.load") and has_more:
        yield "weights_only", f"calls {called} with arguments that may run code"
    if not _READERS.fullmatch(called):
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            path = _path(argument, names)
            if path in modules or _LIBRARIES.fullmatch(path):
                yield path, f"passes the module {path} to a function"


def _computed(call: ast.Call, called: str, names: _Names, *, by_fields: bool) -> _Found:
    """Yield computed names in a library, and computed fields that a pattern reads."""
    match call.args:
        case [owner, text, *_] if called == "builtin.getattr" and not _is_literal(text):
            path = _path(owner, names)
            if _PUBLIC.match(path) or _NAMED.match(path):
                yield _lookup(path), f"gets a computed name of {path}"
        case [_, fields, *_] if by_fields and called in _MAKERS and not _is_literal(fields):
            yield called, "reads attributes by computed names"


def _lookup(path: str) -> str:
    return "getattr" if _PUBLIC.match(path) else path


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (TypeError, ValueError):
        return False
    return True
