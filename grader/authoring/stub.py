"""Write the stub of an exercise by its solution's markers, and find where the two have drifted apart."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.course.stub import has_markers, make_stub, parsed
from grader.errors import CourseError
from grader.submissions.source import definitions, parse

# The number of lines of a difference that are shown.
_LONGEST_DIFF = 40


class WrittenStub(msgspec.Struct, frozen=True):
    """A stub that was written: its files, those of them that changed, and how many parts are open."""

    files: tuple[Path, ...]
    changed: tuple[Path, ...]
    parts: int


def write_stub(course: Course, exercise: Exercise, *, force: bool = False) -> WrittenStub:
    """Make the stub and write it to `exercises/`, and to the copy in `tests/stubs/` where there is one.

    Raises CourseError if the file in `exercises/` may be a student's work; `force` replaces it all the same.
    """
    path = course.solution(exercise)
    stub = make_stub(_text(path), course.name_of(path)).encode()
    working, kept = course.folder / exercise.file, course.kept_stub(exercise)
    files = (working, kept) if kept.is_file() else (working,)
    before = {file: file.read_bytes() if file.is_file() else None for file in files}
    old = before[working]
    if not force and old not in (None, stub, before.get(kept)) and _is_work(old, stub):
        raise CourseError(
            f"{course.name_of(working)} is not the stub as it was handed out: a student has written "
            "in it. Move it away, or replace it with --force."
        )
    changed = tuple(file for file, content in before.items() if content != stub)
    for file in changed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(stub)
    return WrittenStub(files, changed, stub.count(b"raise NotImplementedError"))


def _is_work(source: bytes, stub: bytes) -> bool:
    """Whether a file may be a student's work, and not the stub that an earlier solution made.

    An earlier stub has parts that raise NotImplementedError, those of the new one among them. A program to
    mend has none, and nothing tells the two apart.
    """
    try:
        written, parts = definitions(parse(source)), definitions(parse(stub))
    except SyntaxError:
        return True
    begun = [name for name, node in parts.items() if _is_open(node) and name in written]
    return not any(map(_is_open, written.values())) or not all(_is_open(written[n]) for n in begun)


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
    """The complaints of `drift`; CourseError where a file cannot be read or the markers are wrong."""
    solution = course.solution(exercise)
    reference, source = course.name_of(solution), _text(solution)
    working, kept = course.folder / exercise.file, course.kept_stub(exercise)
    files = [working, kept] if kept.is_file() else [working]
    if not has_markers(source):
        stub, name = _text(files[-1]), course.name_of(files[-1])
        trees = parsed(stub, name), parsed(source, reference)
        return [f"{name}: {text}" for text in _differences(*trees)]
    expected = make_stub(source, reference)
    complaints = []
    for file in files:
        if (stub := _text(file)) != expected:
            complaint = (
                f"{course.name_of(file)}: it is not what the markers of {reference} make of it"
            )
            advice = f"`grade stub {exercise.id}` writes it anew."
            complaints.append("\n".join([f"{complaint}; {advice}", *_difference(stub, expected)]))
    return complaints


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} cannot be read: {error}.") from error


def _differences(stub: ast.Module, solution: ast.Module) -> Iterator[str]:
    """What a stub and a solution without markers disagree on, definition by definition."""
    handed_out, reference = definitions(stub), definitions(solution)
    for name, node in handed_out.items():
        if (other := reference.get(name)) is None:
            yield f"{name} is not in the solution."
        elif _signature(node) != _signature(other):
            yield f"{name} is `{_signature(node)}`, but `{_signature(other)}` in the solution."
        elif not (isinstance(node, ast.ClassDef) or _is_open(node)) and _code(node) != _code(other):
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


def _is_open(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a function is left to the student."""
    return not isinstance(node, ast.ClassDef) and any(
        isinstance(part, ast.Raise) and part.exc and "NotImplementedError" in ast.unparse(part.exc)
        for part in ast.walk(node)
    )


def _code(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return [ast.dump(statement) for statement in body]


def _constants(tree: ast.Module) -> dict[str, str]:
    """The values of names at the top level, as Python code."""
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
