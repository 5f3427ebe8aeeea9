"""What a student's source says without running it: is it untouched, where is a function, what does it name."""

from __future__ import annotations

import ast
import codecs
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from grader.course.manifest import ForbiddenRule

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Documented = _Definition | ast.Module
# Of a dotted name; longer than all that a manifest forbids.
_LONGEST_NAME = 500


class ForbiddenName(msgspec.Struct, frozen=True):
    """A forbidden name in the source: where it stands and the rule that it breaks."""

    name: str
    line: int
    function: str
    rule: ForbiddenRule


def parse(source: bytes) -> ast.Module:
    """The syntax tree; raises SyntaxError (a null byte and a bad encoding among them)."""
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SyntaxError("it is saved as UTF-16, and has to be saved as UTF-8")
    if b"\0" in source:
        raise SyntaxError("it holds null bytes, which no text file does")
    try:
        return ast.parse(source)
    except SyntaxError:
        raise
    except (ValueError, RecursionError, MemoryError, LookupError) as error:
        raise SyntaxError(str(error) or "the file is nested too deeply to be parsed") from error


def is_untouched(source: bytes, stub: bytes) -> bool:
    """Whether the code is that of the stub: comments, docstrings and layout do not count."""
    if source == stub:
        return True
    try:
        return _skeleton(source) == _skeleton(stub)
    # A literal of thousands of digits can be parsed and not be written down.
    except (SyntaxError, RecursionError, ValueError):
        return False


def _skeleton(source: bytes) -> str:
    tree = parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _Documented) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def definitions(tree: ast.Module) -> dict[str, _Definition]:
    """Every function and class by its qualified name; the last definition of a name counts."""
    found: dict[str, _Definition] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, _Definition):
                found[prefix + node.name] = node
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return found


def line_of(tree: ast.Module, qualified_name: str) -> int | None:
    """The line on which a function or class is defined; its nearest enclosing class otherwise."""
    found = definitions(tree)
    name = qualified_name
    while name:
        if name in found:
            return found[name].lineno
        name = name.rpartition(".")[0]
    return None


def find_forbidden(tree: ast.Module, rules: tuple[ForbiddenRule, ...]) -> list[ForbiddenName]:
    """The forbidden names in the bodies that the rules speak of, in the order of the file.

    Names are resolved through the imports and plain aliases of the file; a name that is only
    mentioned elsewhere, in a comment or in another function is nobody's fault. What is reached
    in some other way is seen by the sandbox as it runs.
    """
    found = definitions(tree)
    outer = _aliases(tree.body, {})
    findings = []
    for rule in rules:
        for qualified_name in rule.inside:
            if (body := found.get(qualified_name)) is None or isinstance(body, ast.ClassDef):
                continue
            aliases = _aliases(_statements(body), outer)
            for name, line in _names(body, aliases):
                if found_name := next(
                    (n for n in rule.names if f"{name}.".startswith(f"{n}.")), ""
                ):
                    findings.append(ForbiddenName(found_name, line, qualified_name, rule))
    return sorted(set(findings), key=lambda finding: (finding.line, finding.name))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    return (child for child in ast.walk(node) if isinstance(child, ast.stmt))


def _aliases(body: Iterable[ast.stmt], outer: Mapping[str, str]) -> dict[str, str]:
    """What the names bound by imports, and by assignments of dotted names, stand for."""
    known = dict(outer)
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and (name := _dotted(node.value, known)):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    known[target.id] = name
    return known


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """What a chain of attributes stands for, None if it does not begin with a name that is known."""
    root, parts = _chain(node)
    if not isinstance(root, ast.Name) or root.id not in aliases:
        return None
    # Cut short: each alias of an alias could be longer than the last one.
    return ".".join([aliases[root.id], *parts])[:_LONGEST_NAME]


def _chain(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """What stands before the first dot of a chain of attributes, and the names after it."""
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
            node, _ = _chain(node)
        waiting.extend(ast.iter_child_nodes(node))
