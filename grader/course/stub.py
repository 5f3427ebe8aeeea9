"""The stub of an exercise as it is handed out, and how the markers of a solution make it.

A solution marks what the student is to write, in comments that stand alone on their lines:

    def scale(x, factor):
        # begin solution: multiply every element
        return x * factor
        # end solution

In the stub this block is a TODO and a `raise NotImplementedError("scale: multiply every element")`.
A block outside of every function, an import or a helper of the solution's own, is left out. Lines
`# stub: code` in a block stand in the stub instead of all that, without their `# stub: `.
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

    `working` is the file in `exercises/` that it was read from, where nothing else of the course says what
    was handed out: who works in that very file has changed the stub itself.
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
    """Whether a solution marks what the student writes."""
    return _marked_tree(source) is not None


def make_stub(source: str, name: str) -> str:
    """The stub of a solution; CourseError, which calls the file `name`, if it is not in order."""
    return _stub(source, parsed(source, name), name)


def without_markers(source: str) -> str:
    """A solution as one reads it: without the markers, and without what stands in the stub instead."""
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
        # A marker stood between two gaps, which are one now.
        if line or lines[-2:] != ["", ""]:
            lines.append(line)
    return "\n".join(lines)


# A course is asked for its stubs again and again, and parsing all of its solutions each time would be felt.
@functools.lru_cache(maxsize=1000)
def derived_stub(source: str, name: str) -> str | None:
    """The same; None for a solution without markers, or one that is no Python."""
    tree = _marked_tree(source)
    return None if tree is None else _stub(source, tree, name)


def _marked_tree(source: str) -> ast.Module | None:
    """The syntax tree of a source with markers; None without them, or if it is no Python."""
    # Most files without markers need not be parsed.
    if not any(_MARKER.match(line.strip()) for line in source.split("\n")):
        return None
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError):
        return None
    return tree if any(_MARKER.match(text) for _, _, text in _comments(source, tree)) else None


def _stub(source: str, tree: ast.Module, name: str) -> str:
    """The source with each block replaced; CourseError where there is none, or the stub would be no Python."""
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
    """Keep the larger of the two gaps around a block that is left out; returns the next line to copy."""
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
    """The syntax tree; CourseError, which calls the file `name`, if there is none."""
    try:
        return syntax_tree(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise CourseError(
            f"{name}{line}: {getattr(error, 'msg', error)}. A block of markers has to hold "
            "whole statements."
        ) from error


def _blocks(source: str, tree: ast.Module, name: str) -> list[_Block]:
    """The blocks that markers enclose, top to bottom; CourseError for a marker without its partner."""
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
                raise CourseError(f"{name}, line {line}: a solution ends that has not begun.")
            lines = tuple(instead) if instead else None
            blocks.append(_Block(begun[0], line, begun[1], begun[2], lines))
            begun = None
        elif replacement:
            if begun is None:
                raise CourseError(f"{name}, line {line}: `# stub:` stands outside of a solution.")
            code = replacement["code"] or ""
            instead.append(begun[1] + code if code.strip() else "")
    if begun is not None:
        raise CourseError(f"{name}, line {begun[0]}: this solution has no `# end solution`.")
    return blocks


def _comments(source: str, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Comments on a line of their own: its number, the indentation and the comment.

    A docstring may hold lines that look like markers, and is none.
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
    """The lines of the stub that replace a block."""
    if block.instead is not None:
        return list(block.instead)
    function = _enclosing(tree, block.begin)
    if function is None:
        return []
    message = f"{function}: {block.task}" if block.task else function
    todo = f"{block.indent}# TODO: {block.task}." if block.task else f"{block.indent}# TODO"
    # A JSON string is a Python string, whatever quotes the task holds.
    quoted = json.dumps(message, ensure_ascii=False)
    return [todo, f"{block.indent}raise NotImplementedError({quoted})"]


def _enclosing(tree: ast.Module, line: int) -> str | None:
    """The qualified name of the outermost function around a line; None outside of all functions."""
    body, names = tree.body, []
    while True:
        around = next((n for n in body if n.lineno < line <= (n.end_lineno or n.lineno)), None)
        if not isinstance(around, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        names.append(around.name)
        if not isinstance(around, ast.ClassDef):
            return ".".join(names)
        body = around.body
