"""The stub of an exercise as it is handed out, made from the markers of a solution.

A solution marks the student's part, with comments on lines of their own:

    def scale(x, factor):
        # begin solution: multiply every element
        return x * factor
        # end solution

In the stub this block is a TODO and a `raise NotImplementedError("scale: multiply every element")`.
A block outside of every function, such as an import or a helper of the solution, is left out. Lines
`# stub: code` in a block replace all this in the stub, without their `# stub: `.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.course.syntax import syntax_tree
from grader.errors import CourseError

_MARKER = re.compile(
    r"#\s*(?:(?P<begin>begin\s+solution)\s*(?::\s*(?P<task>.*))?|(?P<end>end\s+solution)\s*)$",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"#\s*stub:(?: (?P<code>.*))?$", re.IGNORECASE)


class Stub(msgspec.Struct, frozen=True):
    """A stub as it was handed out.

    `working` is the file in `exercises/` from which it was read, if nothing else of the course holds the stub.
    Students who work in that file have changed the stub itself.
    """

    source: bytes
    working: Path | None = None


class _Block(msgspec.Struct, frozen=True):
    """The part between two markers: lines counted from 1, both markers included."""

    begin: int
    end: int
    indent: str
    task: str
    instead: tuple[str, ...] | None


def has_markers(source: str) -> bool:
    """Return whether a solution marks the student's part."""
    return _marked_tree(source) is not None


def make_stub(source: str, name: str) -> str:
    """Return the stub of a solution; raises CourseError, in which the file is called `name`."""
    return _stub(source, parsed(source, name), name)


def without_markers(source: str) -> str:
    """Return a solution for reading: without the markers, and without lines for the stub."""
    if (tree := _marked_tree(source)) is None:
        return source
    marks = {
        line
        for line, _, text in _comments(source, tree)
        if _MARKER.match(text) or _INSTEAD.match(text)
    }
    lines: list[str] = []
    for number, line in enumerate(source.split("\n"), 1):
        if number in marks:
            continue
        # Without the marker between them, two gaps become one.
        if line or lines[-2:] != ["", ""]:
            lines.append(line)
    return "\n".join(lines)


# A course is asked for its stubs again and again, and parsing all solutions each time would be slow.
@functools.lru_cache(maxsize=1000)
def derived_stub(source: str, name: str) -> str | None:
    """Return the stub of a solution; None without markers, or if it is not Python."""
    tree = _marked_tree(source)
    return None if tree is None else _stub(source, tree, name)


def _marked_tree(source: str) -> ast.Module | None:
    """Return the syntax tree of a source with markers; None without them, or if it is not Python."""
    # Most files without markers need not be parsed.
    if not any(_MARKER.match(line.strip()) for line in source.split("\n")):
        return None
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError):
        return None
    return tree if any(_MARKER.match(text) for _, _, text in _comments(source, tree)) else None


def _stub(source: str, tree: ast.Module, name: str) -> str:
    """Return the source with each block replaced; CourseError without blocks, or if the stub is not Python."""
    blocks = _blocks(source, tree, name)
    if not blocks:
        raise CourseError(
            f"{name} marks nothing for the student to write. Put `# begin solution: what to do` "
            "and `# end solution` around it, each on a line of its own; see docs/authoring.md."
        )
    lines = source.split("\n")
    stub_lines: list[str] = []
    at = 0
    for block in blocks:
        stub_lines += lines[at : block.begin - 1]
        at = block.end
        replacement = _replacement(block, tree)
        if not replacement:
            at = _close_gap(stub_lines, lines, at)
        stub_lines += replacement
    stub = "\n".join([*stub_lines, *lines[at:]]).rstrip() + "\n"
    parsed(stub, f"The stub that the markers of {name} make")
    return stub


def _close_gap(stub_lines: list[str], lines: list[str], at: int) -> int:
    """Keep the larger of the two gaps around an omitted block; return the next line to copy."""
    before = after = 0
    while stub_lines and not stub_lines[-1]:
        stub_lines.pop()
        before += 1
    while at < len(lines) and not lines[at]:
        at += 1
        after += 1
    stub_lines += [""] * (max(before, after) if stub_lines else 0)
    return at


def parsed(source: str, name: str) -> ast.Module:
    """Return the syntax tree; raises CourseError, in which the file is called `name`."""
    try:
        return syntax_tree(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise CourseError(
            f"{name}{line}: {getattr(error, 'msg', error)}. A block of markers has to hold "
            "whole statements."
        ) from error


def _blocks(source: str, tree: ast.Module, name: str) -> list[_Block]:
    """Return the blocks between markers, top to bottom; CourseError for a marker without its partner."""
    blocks: list[_Block] = []
    begun: tuple[int, str, str] | None = None
    instead: list[str] = []
    for line, indent, text in _comments(source, tree):
        marker, replacement = _MARKER.match(text), _INSTEAD.match(text)
        if marker and marker["begin"]:
            if begun is not None:
                raise CourseError(f"{name}, line {line}: a solution begins inside another one.")
            begun, instead = (line, indent, (marker["task"] or "").strip().rstrip(".")), []
        elif marker:
            if begun is None:
                raise CourseError(f"{name}, line {line}: a solution ends without a beginning.")
            lines = tuple(instead) if instead else None
            blocks.append(_Block(begun[0], line, begun[1], begun[2], lines))
            begun = None
        elif replacement:
            if begun is None:
                raise CourseError(f"{name}, line {line}: `# stub:` is outside of a solution.")
            code = replacement["code"] or ""
            instead.append(begun[1] + code if code.strip() else "")
    if begun is not None:
        raise CourseError(f"{name}, line {begun[0]}: this solution has no `# end solution`.")
    return blocks


def _comments(source: str, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield comments on a line of their own: the number, the indentation and the comment.

    A docstring may contain lines that only look like markers.
    """
    quoted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            quoted |= set(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    for number, line in enumerate(source.split("\n"), 1):
        text = line.lstrip()
        if text.startswith("#") and number not in quoted:
            yield number, line[: len(line) - len(text)], text.rstrip()


def _replacement(block: _Block, tree: ast.Module) -> list[str]:
    """Return the lines of the stub that replace a block."""
    if block.instead is not None:
        return list(block.instead)
    function = _enclosing(tree, block.begin)
    if function is None:
        return []
    message = f"{function}: {block.task}" if block.task else function
    todo = f"{block.indent}# TODO: {block.task}." if block.task else f"{block.indent}# TODO"
    # A JSON string is a Python string, with any quotes in the task.
    quoted = json.dumps(message, ensure_ascii=False)
    return [todo, f"{block.indent}raise NotImplementedError({quoted})"]


def _enclosing(tree: ast.Module, line: int) -> str | None:
    """Return the qualified name of the outermost function around a line; None outside of all functions."""
    body, names = tree.body, []
    while True:
        around = next((n for n in body if n.lineno < line <= (n.end_lineno or n.lineno)), None)
        if not isinstance(around, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        names.append(around.name)
        if not isinstance(around, ast.ClassDef):
            return ".".join(names)
        body = around.body
