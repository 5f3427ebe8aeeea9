"""Read a student's source without running it: is it untouched, where is a function, what does it name."""

from __future__ import annotations

import ast
import codecs
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping

import msgspec

from grader.course.manifest import ForbiddenRule
from grader.course.names import is_within
from grader.course.syntax import syntax_tree
from grader.errors import GraderError

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Documented = _Definition | ast.Module
# Of a dotted name; longer than all that a manifest forbids.
_LONGEST_NAME = 500

# PEP 263: where a file may name its encoding, and how Python writes UTF-8.
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_COMMENT = re.compile(rb"[ \t\f]*(#.*)?")
_UTF_8 = re.compile(rb"utf[-_]8([-_].*)?|utf8|u8|utf|cp65001", re.IGNORECASE)

# What is parsed without a trial takes 0.2 s at most: an f-string of 50,000 bytes does.
_ORDINARY_BYTES = 50_000
_ORDINARY_LINE = 2_000
# Of what is larger no honest file takes more than 0.4 s and 180 MiB. The child may take a second of
# processor time and 512 MiB; the limit below is for systems that know of neither.
_TRIAL_SECONDS = 20
_TRIAL = """
import sys
try:
    import resource
except ImportError:
    limits = []
else:
    limits = [(resource.RLIMIT_CPU, 1), (resource.RLIMIT_AS, 1 << 29), (resource.RLIMIT_CORE, 0)]
for kind, most in limits:
    try:
        resource.setrlimit(kind, (most, most))
    except ValueError:
        pass  # there is a lower one
try:
    compile(sys.stdin.buffer.read().decode("utf-8-sig"), "", "exec", 1024, True)
except (SyntaxError, ValueError, RecursionError):
    pass
"""
_TOO_MUCH = "it is nested too deeply, or takes too long to be parsed; shorten its longest lines and literals"


class ForbiddenName(msgspec.Struct, frozen=True):
    """A forbidden name in the source: where it stands and the rule that it breaks."""

    name: str
    line: int
    function: str
    rule: ForbiddenRule


def decode(source: bytes) -> str:
    """The text of a file in UTF-8, with or without a mark in front; raises SyntaxError, with the line.

    Other encodings are refused, also where Python knows them: under `utf-7` code looks like a comment to
    all that reads it as text, and under `punycode` decoding takes a time that grows with the square.
    """
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _refusal("it is saved as UTF-16; save it as UTF-8", 1)
    if b"\0" in source:
        # Without a mark in front UTF-16 shows in every second byte of an ASCII text.
        halves = source[:100:2], source[1:100:2]
        if {not half.strip(b"\0") for half in halves} == {True, False} and not all(
            0 in half for half in halves
        ):
            raise _refusal("it is saved as UTF-16; save it as UTF-8", 1)
        line = _line_at(source, source.index(b"\0"))
        raise _refusal(
            "a null byte stands here, as in no text; save the file as text in UTF-8", line
        )
    for number, text in enumerate(source.removeprefix(codecs.BOM_UTF8).splitlines()[:2], 1):
        if (match := _COOKIE.match(text)) and not _UTF_8.fullmatch(match[1]):
            name = match[1].decode("ascii")[:40]
            raise _refusal(
                f"it names the encoding {name!r}; delete that, and save the file as UTF-8", number
            )
        if not _COMMENT.fullmatch(text):
            break
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = source[error.start : error.start + 1]
        character = byte.decode("cp1252", "replace")
        is_known = character.isprintable() and character != "\ufffd"
        meaning = f" ({character} in Windows-1252)" if is_known else ""
        raise _refusal(
            f"the byte 0x{byte.hex()}{meaning} is not UTF-8; save the file as UTF-8",
            _line_at(source, error.start),
        ) from None


def canonical(source: bytes) -> bytes:
    """The source as every editor could save it: lines end with LF, the last one too, and no mark in front.

    Python reads both alike, also within a string.
    """
    text = source.removeprefix(codecs.BOM_UTF8)
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text if not text or text.endswith(b"\n") else text + b"\n"


def code_digest(source: bytes) -> str:
    """The SHA-256 of what is compared of a file: its `canonical` source."""
    return hashlib.sha256(canonical(source)).hexdigest()


def is_empty(source: bytes) -> bool:
    """Whether nothing at all is written in a file."""
    return not source.removeprefix(codecs.BOM_UTF8).strip()


def parse(source: bytes) -> ast.Module:
    """The syntax tree; raises SyntaxError, also for what is not UTF-8 or takes too much to be parsed.

    A large file and one with long lines are first parsed by a child that has limits: f-strings and names
    with combining characters take a time that grows with the square of their length.
    """
    text = decode(source)
    if _is_suspicious(source) and not _is_bearable(source):
        raise _refusal(_TOO_MUCH, 1)
    try:
        return syntax_tree(text)
    except SyntaxError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise _refusal(str(error) or _TOO_MUCH, 1) from error


def _refusal(message: str, line: int) -> SyntaxError:
    return SyntaxError(message, (None, line, None, None))


def _line_at(source: bytes, position: int) -> int:
    return len((source[:position] + b".").splitlines())


def _is_suspicious(source: bytes) -> bool:
    """Whether a file might take more than some 0.2 s; the longest lines are counted in bytes."""
    longest = max(map(len, source.splitlines()), default=0)
    return len(source) > _ORDINARY_BYTES or longest > _ORDINARY_LINE


def _is_bearable(source: bytes) -> bool:
    """Whether a child that has little time and memory comes to the end of parsing this."""
    import subprocess  # 3 ms, for few files

    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _TRIAL],
            input=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        raise GraderError(
            f"No process could be started to parse a file: {error.strerror}."
        ) from error
    return child.returncode == 0


def is_untouched(source: bytes, stub: bytes) -> bool:
    """Whether the code is that of the stub: comments, docstrings and layout do not count."""
    if source == stub:
        return True
    try:
        return has_same_code(parse(source), parse(stub))
    except SyntaxError:
        return False


def has_same_code(tree: ast.Module, other: ast.Module) -> bool:
    """Whether two trees differ at most in docstrings, which are taken out of both."""
    try:
        return _skeleton(tree) == _skeleton(other)
    # A literal of thousands of digits can be parsed and not be written down.
    except (RecursionError, ValueError):
        return False


def _skeleton(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, _Documented) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def definitions(tree: ast.Module) -> dict[str, _Definition]:
    """Every function and class by its qualified name; the last definition of a name counts."""
    definitions: dict[str, _Definition] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, _Definition):
                definitions[prefix + node.name] = node
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return definitions


def line_of(tree: ast.Module, qualified_name: str) -> int | None:
    """The line on which a function or class is defined; its nearest enclosing class otherwise."""
    by_name = definitions(tree)
    name = qualified_name
    while name:
        if name in by_name:
            return by_name[name].lineno
        name = name.rpartition(".")[0]
    return None


def functions_by_line(tree: ast.Module) -> dict[int, str]:
    """The innermost function or class around each line inside one."""
    names: dict[int, str] = {}
    # ast.walk comes to what stands outside first.
    for node in ast.walk(tree):
        if isinstance(node, _Definition):
            names |= dict.fromkeys(
                range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name
            )
    return names


def _definitions_by_line(tree: ast.Module) -> dict[int, str]:
    """The innermost function or class around each line inside one, by its qualified name."""
    names: dict[int, str] = {}
    # A class comes before what is in it.
    for name, node in definitions(tree).items():
        names |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return names


# Under this name aliases keep the modules of which all is imported.
STARS = "*"


def find_forbidden(tree: ast.Module, rules: tuple[ForbiddenRule, ...]) -> list[ForbiddenName]:
    """The forbidden names in the bodies that the rules speak of, in the order of the file.

    What of the file such a body names belongs to it, and what that names. Names are resolved through the
    imports and plain aliases of the file; a name that is only mentioned elsewhere, in a comment or in another
    function is no fault. What is reached in some other way is seen by the sandbox as it runs.
    """
    parts = _parts(tree)
    outer = _aliases(tree.body, {})
    around = _definitions_by_line(tree)
    findings = []
    for rule in rules:
        for qualified_name in rule.inside:
            for body in _bodies(qualified_name, parts):
                aliases = _aliases(_statements(body), outer)
                for name, line in _names(body, aliases):
                    if found_name := next((n for n in rule.names if _stands_for(name, n)), ""):
                        function = around.get(line, qualified_name)
                        findings.append(ForbiddenName(found_name, line, function, rule))
    return sorted(set(findings), key=lambda finding: (finding.line, finding.name))


def dotted_names(tree: ast.Module) -> set[str]:
    """What the code imports and names, under the full names: `typing.override`; a plain name as it is."""
    nodes = list(ast.walk(tree))
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in statements:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names | {name for name, _ in _names(tree, _aliases(statements, {}))}


def _stands_for(name: str, forbidden: str) -> bool:
    """Whether a name is the forbidden one, below it, or the same of a module within its package."""
    if is_within(name, forbidden):
        return True
    package, _, last = forbidden.rpartition(".")
    # As torch.optim.adam.Adam is torch.optim.Adam; below torch itself there is everything.
    return "." in package and name.startswith(f"{package}.") and name.endswith(f".{last}")


def used_names(tree: ast.Module, name: str) -> tuple[str, ...]:
    """What stands at the top of the file and a function or class of it uses, directly or by way of others."""
    used = {name for name, _ in _reached(name, _parts(tree))} - {name}
    return tuple(sorted(used))


def _bodies(qualified_name: str, parts: Mapping[str, list[ast.AST]]) -> Iterator[ast.AST]:
    """A function with the rest of its class, and what of the file it names."""
    # Of its class all: libraries call methods that nothing in the file names.
    return (body for _, body in _reached(qualified_name.partition(".")[0], parts))


def _reached(name: str, parts: Mapping[str, list[ast.AST]]) -> Iterator[tuple[str, ast.AST]]:
    """The bodies under a name and under all names in them, each with its name."""
    waiting, seen = [name], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for body in parts.get(name, ()):
            yield name, body
            waiting += [node.id for node in ast.walk(body) if isinstance(node, ast.Name)]


def _parts(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """What stands under each name: a function, what is in a class, the values of a variable.

    A variable that is another name for something is an alias, and no value.
    """
    parts: dict[str, list[ast.AST]] = {}
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name, body=body):
                parts[name] = list(body)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                parts[name] = [node]
            case ast.Assign(value=ast.Name() | ast.Attribute()):
                pass
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        parts.setdefault(target.id, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                parts.setdefault(name, []).append(value)
    return parts


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    return (child for child in ast.walk(node) if isinstance(child, ast.stmt))


def _aliases(body: Iterable[ast.stmt], outer: Mapping[str, str]) -> dict[str, str]:
    aliases = dict(outer)
    add_aliases(aliases, body)
    return aliases


def add_aliases(aliases: MutableMapping[str, str], body: Iterable[ast.stmt]) -> None:
    """Add the meanings of names that are bound by imports, and by assignments of dotted names."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if alias.name == "*":
                    stars = [aliases.get(STARS, ""), node.module]
                    aliases[STARS] = " ".join(filter(None, stars))[:_LONGEST_NAME]
        elif isinstance(node, ast.Assign) and (name := _dotted(node.value, aliases)):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    aliases[target.id] = name


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """The dotted name that a chain of attributes means; None if its first name is unknown."""
    root, parts = chain(node)
    if not isinstance(root, ast.Name) or root.id not in aliases:
        return None
    # Cut short: each alias of an alias could be longer than the last one.
    return ".".join([aliases[root.id], *parts])[:_LONGEST_NAME]


def chain(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """The expression before the first dot of a chain of attributes, and the names after it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return node, parts[::-1]


def _names(body: ast.AST, aliases: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """The dotted names in a body, each chain of attributes once and whole.

    Not by ast.walk, which comes to every part of a chain: some of them are thousands of parts long.
    """
    waiting: list[ast.AST] = [body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute | ast.Name):
            if name := _dotted(node, aliases):
                yield name, node.lineno
            root, parts = chain(node)
            if isinstance(root, ast.Name) and root.id not in aliases:
                for module in aliases.get(STARS, "").split():
                    yield ".".join([module, root.id, *parts])[:_LONGEST_NAME], node.lineno
            node = root
        elif isinstance(node, ast.Match) and (name := _dotted(node.subject, aliases)):
            for pattern in ast.walk(node):
                if isinstance(pattern, ast.MatchClass):
                    yield from ((f"{name}.{part}", pattern.lineno) for part in pattern.kwd_attrs)
        waiting.extend(ast.iter_child_nodes(node))


# What an exercise with forbidden operators has no need of, and a way around their guard has.
_BEYOND_GUARDS = re.compile(
    "asyncio|concurrent|ctypes|gc|grader|multiprocessing|profiler|threading|attrgetter|builtins|eval|exec|"
    "getattr|globals|importlib|inspect|marshal|methodcaller|modules|operator|pickle|pkgutil|runpy|setattr|"
    "sys|vars|ForwardRef|get_type_hints|load|"
    "__(?!all|call|constants|doc|future|init|main|name|post_init|repr|version)[a-z_]+__"
)
# Of libraries: what they keep for themselves, what runs a student's code with torch's modes taken off, and
# what takes operators apart before the modes see them (torch.export has a table of their decompositions).
_INNER = re.compile(r"_(?!_).+|compile|custom_op|export|fx|library|package|testing")
# Others start threads, import what a text names, or run a text: who needs one is looked at.
_PLAIN_MODULES = re.compile(
    "__future__|abc|collections|contextlib|copy|dataclasses|decimal|enum|fractions|functools|itertools|math|"
    "matplotlib|numbers|numpy|os|pathlib|random|re|statistics|time|torch|types|typing|warnings"
)


def beyond_guards(tree: ast.Module) -> dict[str, int]:
    """The ways around a guard of operators, as the file names them, and the first line."""
    lines: dict[str, int] = {}
    own = {"self", "cls", "ctx"}
    own.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in ast.walk(tree):
        for part in _ways_around(node, own):
            line = getattr(node, "lineno", 1)
            lines[part] = min(line, lines.get(part, line))
    return lines


def _ways_around(node: ast.AST, own: set[str]) -> Iterator[str]:
    """The names in a node that are ways around a guard; `own` is what may keep something for itself."""
    imported: list[str] = []
    inner: list[str] = []
    names: list[str] = []
    match node:
        case ast.Import(names=aliases):
            imported = [alias.name for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases):
            imported = [f"{module}.{alias.name}" for alias in aliases]
        case ast.Attribute(value=owner, attr=name):
            inner = [] if isinstance(owner, ast.Name) and owner.id in own else [name]
            names = [] if name == "eval" else [name]  # of a module: not the builtin
        case ast.Name(id=name):
            names = [name]
        case ast.Constant(value=str(text)) if len(text) <= _LONGEST_NAME:
            names = text.split(".")
    for path in imported:
        parts = path.split(".")
        if not _PLAIN_MODULES.fullmatch(parts[0]):
            yield parts[0]
        inner, names = [*inner, *parts], [*names, *parts]
    yield from filter(_BEYOND_GUARDS.fullmatch, names)
    yield from filter(_INNER.fullmatch, inner)
