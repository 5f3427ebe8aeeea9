"""Make the stub of an exercise from its solution by markers, and find where the two have drifted apart.

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
import difflib
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError
from grader.submissions.source import definitions

_MARKER = re.compile(
    r"#\s*(?:(?P<begin>begin\s+solution)\s*(?::\s*(?P<task>.*))?|(?P<end>end\s+solution)\s*)$",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"#\s*stub:(?: (?P<code>.*))?$", re.IGNORECASE)
# The number of lines of a difference that are shown.
_LONGEST_DIFF = 40


class Stub(msgspec.Struct, frozen=True):
    """A stub that was written: its files, those of them that changed, and how many parts are open."""

    files: tuple[Path, ...]
    changed: tuple[Path, ...]
    parts: int


class _Block(msgspec.Struct, frozen=True):
    """The part between two markers: lines counted from 1, both markers included."""

    begin: int
    end: int
    indent: str
    task: str
    instead: tuple[str, ...] | None


def has_markers(source: str) -> bool:
    """Whether a solution marks what the student writes."""
    try:
        return any(_MARKER.match(text) for _, _, text in _comments(source))
    except (SyntaxError, tokenize.TokenError):
        return False  # parsing it tells of the error


def make_stub(source: str, name: str) -> str:
    """The stub of a solution; CourseError, which calls the file `name`, if it is not in order."""
    tree = _parsed(source, name)
    blocks = _blocks(source, name)
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
    _parsed(stub, f"The stub that the markers of {name} make")
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


def write_stub(course: Course, exercise: Exercise, *, force: bool = False) -> Stub:
    """Make the stub and write it to `exercises/` and to `tests/stubs/`.

    Raises CourseError if the file in `exercises/` is not the stub that was handed out, but
    a student's work; `force` replaces it all the same.
    """
    path = course.solution(exercise)
    source = _text(path)
    stub = make_stub(source, course.name_of(path)).encode()
    working = course.folder / exercise.file
    original = course.root / "tests" / "stubs" / exercise.file
    before = {file: file.read_bytes() if file.is_file() else None for file in (working, original)}
    if not force and before[working] not in (None, stub, before[original]):
        raise CourseError(
            f"{course.name_of(working)} is not the stub as it was handed out: a student has written "
            "in it. Move it away, or replace it with --force."
        )
    changed = tuple(file for file, old in before.items() if old != stub)
    for file in changed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(stub)
    return Stub((working, original), changed, stub.count(b"raise NotImplementedError"))


def drift(course: Course, exercise: Exercise) -> list[str]:
    """Complaints about a stub that no longer matches its solution.

    A solution with markers makes the stub, to the letter. Without markers, the definitions in both
    must agree in signatures, bases and decorators, and given functions in their code. Docstrings
    may differ: a stub explains where a reference may be brief.
    """
    try:
        return _drift(course, exercise)
    except CourseError as error:
        return [str(error)]


def _drift(course: Course, exercise: Exercise) -> list[str]:
    solution, stub = course.solution(exercise), course.stub(exercise)
    name, source, handed_out = course.name_of(stub), _text(solution), _text(stub)
    reference = course.name_of(solution)
    if has_markers(source):
        expected = make_stub(source, reference)
        if expected == handed_out:
            return []
        complaint = f"{name}: it is not what the markers of {reference} make of it"
        advice = f"`grade stub {exercise.id}` writes it anew."
        return ["\n".join([f"{complaint}; {advice}", *_difference(handed_out, expected)])]
    trees = _parsed(handed_out, name), _parsed(source, reference)
    return [f"{name}: {text}" for text in _differences(*trees)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} cannot be read: {error}.") from error


def _parsed(source: str, name: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise CourseError(
            f"{name}{line}: {getattr(error, 'msg', error)}. A block of markers has to hold "
            "whole statements."
        ) from error


# --- from markers to a stub -----------------------------------------------------------------------


def _blocks(source: str, name: str) -> list[_Block]:
    blocks: list[_Block] = []
    begun: tuple[int, str, str] | None = None
    instead: list[str] = []
    for line, indent, text in _comments(source):
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


def _comments(source: str) -> Iterator[tuple[int, str, str]]:
    """Comments on a line of their own: its number, the indentation and the comment.

    Read from the tokens: a docstring may hold lines that look like markers.
    """
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        indent = token.line[: token.start[1]]
        if token.type == tokenize.COMMENT and not indent.strip():
            yield token.start[0], indent, token.string


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
    around = [
        name
        for name, node in definitions(tree).items()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno < line <= (node.end_lineno or node.lineno)
    ]
    return around[0] if around else None


# --- how a stub without markers drifted -----------------------------------------------------------


def _differences(stub: ast.Module, solution: ast.Module) -> Iterator[str]:
    handed_out, reference = definitions(stub), definitions(solution)
    for name, node in handed_out.items():
        if (other := reference.get(name)) is None:
            yield f"{name} is not in the solution."
        elif _signature(node) != _signature(other):
            yield f"{name} is `{_signature(node)}`, but `{_signature(other)}` in the solution."
        elif _is_given(node) and _code(node) != _code(other):
            yield f"{name} is given, but its code is not that of the solution."
    constants, others = _constants(stub), _constants(solution)
    for name, value in constants.items():
        if name in others and others[name] != value:
            yield f"{name} is {value}, but {others[name]} in the solution."


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """A definition without its body, as one line of Python."""
    decorators = "".join(f"@{ast.unparse(decorator)} " for decorator in node.decorator_list)
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in (*node.bases, *node.keywords))
        return f"{decorators}class {node.name}({bases})"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{decorators}{kind} {node.name}({ast.unparse(node.args)}){returns}"


def _is_given(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return not isinstance(node, ast.ClassDef) and not any(
        isinstance(part, ast.Raise) and part.exc and "NotImplementedError" in ast.unparse(part.exc)
        for part in ast.walk(node)
    )


def _code(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return [ast.dump(statement) for statement in body]


def _constants(tree: ast.Module) -> dict[str, str]:
    return {
        target.id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _difference(old: str, new: str) -> list[str]:
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    rest = len(lines) - _LONGEST_DIFF
    return lines[:_LONGEST_DIFF] + ([f"... and {rest} lines more"] if rest > 0 else [])
