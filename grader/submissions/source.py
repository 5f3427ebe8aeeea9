"""Read a student's source without running it: changes from the stub, functions, and names in it."""

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

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Documented = Definition | ast.Module
# Nodes that only a function may have, and their keywords.
_OF_FUNCTIONS: dict[type[ast.AST], str] = {
    ast.Return: "return",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
}
# The longest dotted name that is read; a manifest forbids only shorter ones.
_LONGEST_NAME = 500

# PEP 263: the line in which a file may name its encoding, and Python's names of UTF-8.
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_COMMENT = re.compile(rb"[ \t\f]*(#.*)?")
_UTF_8 = re.compile(rb"utf[-_]8([-_].*)?|utf8|u8|utf|cp65001", re.IGNORECASE)

# Files within these limits take 0.2 s at most (an f-string of 50,000 bytes), so they are parsed without a
# trial.
_ORDINARY_BYTES = 50_000
_ORDINARY_LINE = 2_000
# Larger honest files take up to 0.4 s and 180 MiB. The child may use a second of processor time and 512 MiB;
# this limit is for systems without these limits.
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
    """A forbidden name in the source, with its place and the rule that it breaks."""

    name: str
    line: int
    function: str
    rule: ForbiddenRule


def decode(source: bytes) -> str:
    """Return the text of a file in UTF-8, without a byte order mark; raises SyntaxError, with the line.

    Other encodings are refused even if Python knows them: in `utf-7`, code can look like a comment to other
    readers, and `punycode` takes quadratic time.
    """
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _refusal("it is saved as UTF-16; save it as UTF-8", 1)
    if b"\0" in source:
        # Without a byte order mark, every second byte of ASCII text in UTF-16 is zero.
        halves = source[:100:2], source[1:100:2]
        if {not half.strip(b"\0") for half in halves} == {True, False} and not all(
            0 in half for half in halves
        ):
            raise _refusal("it is saved as UTF-16; save it as UTF-8", 1)
        line = _line_at(source, source.index(b"\0"))
        raise _refusal(
            "there is a null byte here, which text never has; save the file as text in UTF-8", line
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
    """Return the source with LF after every line, including the last, and no byte order mark.

    To Python, this is the same source, even in strings.
    """
    text = source.removeprefix(codecs.BOM_UTF8)
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text if not text or text.endswith(b"\n") else text + b"\n"


def code_digest(source: bytes) -> str:
    """Return the SHA-256 of the `canonical` source of a file."""
    return hashlib.sha256(canonical(source)).hexdigest()


def is_empty(source: bytes) -> bool:
    """Whether a file has only white space."""
    return not source.removeprefix(codecs.BOM_UTF8).strip()


def parse(source: bytes) -> ast.Module:
    """Return the syntax tree; raises SyntaxError, also if the source is not UTF-8 or too expensive to parse.

    A child process with limits first parses large files and files with long lines, since f-strings and names
    with combining characters take quadratic time.
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


def quick_tree(source: bytes) -> ast.Module | None:
    """Return the syntax tree; None if the source is not valid Python, or may take long to parse."""
    if _is_suspicious(source):
        return None
    try:
        return parse(source)
    except SyntaxError:
        return None


def _refusal(message: str, line: int) -> SyntaxError:
    return SyntaxError(message, (None, line, None, None))


def _line_at(source: bytes, position: int) -> int:
    return len((source[:position] + b".").splitlines())


def _is_suspicious(source: bytes) -> bool:
    """Whether parsing a file might take more than about 0.2 s."""
    longest = max(map(len, source.splitlines()), default=0)
    return len(source) > _ORDINARY_BYTES or longest > _ORDINARY_LINE


def _is_bearable(source: bytes) -> bool:
    """Whether a child process with little time and memory can parse this source."""
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
    """Whether the code is the stub's, up to comments, docstrings and layout."""
    if source == stub:
        return True
    try:
        return has_same_code(parse(source), parse(stub))
    except SyntaxError:
        return False


def has_same_code(tree: ast.Module, other: ast.Module) -> bool:
    """Whether two trees differ at most in docstrings; docstrings are removed from both."""
    try:
        return _skeleton(tree) == _skeleton(other)
    # A literal with thousands of digits can be parsed, but not written.
    except (RecursionError, ValueError):
        return False


def _skeleton(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, _Documented) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def misplaced(tree: ast.Module) -> tuple[int, str] | None:
    """Return the first line that Python parses but refuses to compile, and why; None if there is none.

    Compiling would show it, too, but can take exponential time.
    """
    found: list[tuple[int, str]] = []
    # Each node, and whether it is in a function and in a loop.
    nodes: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while nodes:
        node, in_function, in_loop = nodes.pop()
        word = _OF_FUNCTIONS.get(type(node))
        if word is not None and not in_function:
            assert isinstance(node, ast.expr | ast.stmt)
            found.append((node.lineno, f"'{word}' outside function"))
        elif isinstance(node, ast.Break | ast.Continue) and not in_loop:
            is_break = isinstance(node, ast.Break)
            why = "'break' outside loop" if is_break else "'continue' not properly in loop"
            found.append((node.lineno, why))
        inside = in_function, in_loop
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = True, False
        elif isinstance(node, ast.ClassDef):
            inside = False, False
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            inside = in_function, True
        for field, value in ast.iter_fields(node):
            around = inside if field == "body" else (in_function, in_loop)
            children = value if isinstance(value, list) else [value]
            nodes += ((child, *around) for child in children if isinstance(child, ast.AST))
    return min(found, default=None)


def definitions(tree: ast.Module) -> dict[str, Definition]:
    """Return every function and class by its qualified name; the last definition of a name counts."""
    definitions: dict[str, Definition] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Definition):
                definitions[prefix + node.name] = node
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return definitions


def line_of(tree: ast.Module, qualified_name: str) -> int | None:
    """Return the line on which a function or class is defined, else its nearest enclosing class."""
    by_name = definitions(tree)
    name = qualified_name
    while name:
        if name in by_name:
            return by_name[name].lineno
        name = name.rpartition(".")[0]
    return None


def functions_by_line(tree: ast.Module) -> dict[int, str]:
    """Map each line inside a function or class to the innermost one."""
    names: dict[int, str] = {}
    # ast.walk visits outer nodes first.
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            names |= dict.fromkeys(
                range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name
            )
    return names


def _definitions_by_line(tree: ast.Module) -> dict[int, str]:
    """Map each line inside a function or class to the innermost one's qualified name."""
    names: dict[int, str] = {}
    # A class comes before its methods, which then replace it on their lines.
    for name, node in definitions(tree).items():
        names |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return names


# The key in aliases for modules with a star import.
STARS = "*"


def find_forbidden(tree: ast.Module, rules: tuple[ForbiddenRule, ...]) -> list[ForbiddenName]:
    """Return the forbidden names in the bodies of the rules' entry points, in the order of the file.

    Functions and variables of the file that such a body uses, directly or indirectly, belong to it. Names are
    resolved through the file's imports and plain aliases. A name in a comment or in an unrelated function is
    allowed. The sandbox sees names that are reached in another way as the code runs.
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
    """Return the full names of everything that the code imports or names, such as `typing.override`."""
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
    """Whether a name is the forbidden one, inside it, or the same name in a module of its package."""
    if is_within(name, forbidden):
        return True
    package, _, last = forbidden.rpartition(".")
    # For example, torch.optim.adam.Adam is torch.optim.Adam. This does not hold for names directly in torch.
    return "." in package and name.startswith(f"{package}.") and name.endswith(f".{last}")


def used_names(tree: ast.Module, name: str) -> tuple[str, ...]:
    """Return the top-level names of the file that a function or class uses, directly or indirectly."""
    used = {name for name, _ in _reached(name, _parts(tree))} - {name}
    return tuple(sorted(used))


def _bodies(qualified_name: str, parts: Mapping[str, list[ast.AST]]) -> Iterator[ast.AST]:
    """Return the bodies of a function, of the rest of its class, and of the parts of the file that they use."""
    # All of its class, since libraries call methods that nothing in the file names.
    return (body for _, body in _reached(qualified_name.partition(".")[0], parts))


def _reached(name: str, parts: Mapping[str, list[ast.AST]]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the bodies under a name and under all names in them, each with its name."""
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
    """Return the bodies under each name: a function, the members of a class, the values of a variable.

    A variable that is only another name is an alias, not a value.
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
    """Return the dotted name for a chain of attributes, None if its first name is unknown."""
    root, parts = chain(node)
    if not isinstance(root, ast.Name) or root.id not in aliases:
        return None
    # Bounded, since each alias of an alias could be longer than the last one.
    return ".".join([aliases[root.id], *parts])[:_LONGEST_NAME]


def chain(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """Split a chain of attributes into the expression before the first dot and the names after it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return node, parts[::-1]


def _names(body: ast.AST, aliases: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yield the dotted names in a body, each chain of attributes once and as a whole.

    ast.walk would visit every part of a chain, and some chains have thousands of parts.
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


# Names that an exercise with forbidden operators does not need, and that lead around their guard.
_BEYOND_GUARDS = re.compile(
    "asyncio|concurrent|ctypes|gc|grader|multiprocessing|profiler|threading|attrgetter|builtins|eval|exec|"
    "getattr|globals|importlib|inspect|marshal|methodcaller|modules|operator|pickle|pkgutil|runpy|setattr|"
    "sys|vars|ForwardRef|get_type_hints|load|"
    "__(?!all|call|constants|doc|future|init|main|name|post_init|repr|version)[a-z_]+__"
)
# In libraries: private names, functions that run code without torch's modes, and functions that decompose
# operators before the modes see them (torch.export has a table of decompositions).
_INNER = re.compile(r"_(?!_).+|compile|custom_op|export|fx|library|package|testing")
# Other names start threads, import a module by a computed name, or run code from a string.
_PLAIN_MODULES = re.compile(
    "__future__|abc|collections|contextlib|copy|dataclasses|decimal|enum|fractions|functools|itertools|math|"
    "matplotlib|numbers|numpy|os|pathlib|random|re|statistics|time|torch|types|typing|warnings"
)


def beyond_guards(tree: ast.Module) -> dict[str, int]:
    """Return the names in the file that lead around a guard of operators, with the first line of each."""
    lines: dict[str, int] = {}
    own = {"self", "cls", "ctx"}
    own.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in ast.walk(tree):
        for part in _ways_around(node, own):
            line = getattr(node, "lineno", 1)
            lines[part] = min(line, lines.get(part, line))
    return lines


def _ways_around(node: ast.AST, own: set[str]) -> Iterator[str]:
    """Return the names in a node that lead around a guard; `own` are objects that may have private names."""
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
