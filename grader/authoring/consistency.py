"""Check agreement within a course that no judge sees: stubs with solutions, names with definitions.

The markers of a solution make its stub (`write_stub`), which may have changed since (`drift`). A name in the
manifest or in a mark that leads nowhere fails no test, but disables a rule (`dangling`).
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from pydoc import ErrorDuringImport, locate

import msgspec

from grader.course.manifest import MANIFEST, Course, Exercise
from grader.course.mutants import wrong_answers
from grader.course.stub import has_markers, make_stub, parsed
from grader.course.suite import SuiteTest
from grader.errors import CourseError
from grader.submissions.source import definitions, parse

# The number of lines shown of a difference.
_LONGEST_DIFF = 40


# --- stubs and solutions ------------------------------------------------------------------------------


class WrittenStub(msgspec.Struct, frozen=True):
    """A written stub: its files, the changed ones among them, and the number of open parts."""

    files: tuple[Path, ...]
    changed: tuple[Path, ...]
    parts: int


def write_stub(course: Course, exercise: Exercise, *, force: bool = False) -> WrittenStub:
    """Make the stub and write it to `exercises/`, and to the copy in `tests/stubs/` if there is one.

    Raises CourseError if the file in `exercises/` may be a student's work; `force` replaces it anyway.
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
    """Return whether a file may be a student's work, and not the stub of an earlier solution.

    An earlier stub has parts that raise NotImplementedError, including the parts of the new one. A program to
    mend has none, so a stub and a student's work cannot be distinguished.
    """
    try:
        written, parts = definitions(parse(source)), definitions(parse(stub))
    except SyntaxError:
        return True
    begun = [name for name, node in parts.items() if _is_open(node) and name in written]
    return not any(map(_is_open, written.values())) or not all(_is_open(written[n]) for n in begun)


def drift(course: Course, exercise: Exercise) -> list[str]:
    """Return complaints about a stub that no longer matches its solution.

    A solution with markers makes the stub exactly. Without markers, the definitions in both must agree in
    signatures, bases and decorators, and given functions in their code. Docstrings may differ: a stub explains
    more than a reference.
    """
    try:
        return _drift(course, exercise)
    except CourseError as error:
        return [str(error)]


def _drift(course: Course, exercise: Exercise) -> list[str]:
    """Yield the complaints of `drift`; raises CourseError if a file cannot be read or the markers are wrong."""
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
            complaint = f"{course.name_of(file)}: it differs from the stub that the markers of {reference} make"
            advice = f"`grade stub {exercise.id}` writes it anew."
            complaints.append("\n".join([f"{complaint}; {advice}", *_difference(stub, expected)]))
    return complaints


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} cannot be read: {error}.") from error


def _differences(stub: ast.Module, solution: ast.Module) -> Iterator[str]:
    """Yield differences between a stub and a solution without markers, definition by definition."""
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
    """Return a definition without its body, as one line of Python."""
    decorators = "".join(f"@{ast.unparse(decorator)} " for decorator in node.decorator_list)
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in (*node.bases, *node.keywords))
        return f"{decorators}class {node.name}({bases})"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{decorators}{kind} {node.name}({ast.unparse(node.args)}){returns}"


def _is_open(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether a function is left to the student."""
    return not isinstance(node, ast.ClassDef) and any(
        isinstance(part, ast.Raise) and part.exc and "NotImplementedError" in ast.unparse(part.exc)
        for part in ast.walk(node)
    )


def _code(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return [ast.dump(statement) for statement in body]


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the values of names at the top level, as Python code."""
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


# --- names --------------------------------------------------------------------------------------------


def dangling(course: Course, exercise: Exercise, tests: Iterable[SuiteTest]) -> list[str]:
    """Return complaints about functions and classes without a definition or a test, and about missing modules.

    Imports the modules that rules forbid.
    """
    manifest = course.name_of(course.folder / MANIFEST)
    defined, tests = _defined(course, exercise), list(tests)
    complaints = [
        f"{manifest}: {exercise.id!r} has a share for {_undefined(name, defined)}"
        for name in exercise.shares
        if name not in defined
    ]
    complaints += [
        f"{manifest}: {exercise.id!r} has a share for {name!r}, which no test has its place in; "
        "remove it, or write a test."
        for name in exercise.shares
        if name in defined and name not in {test.share for test in tests}
    ]
    functions = _functions_of(course.stub(exercise).source)
    complaints += [
        f"{manifest}: builds_on of {exercise.id!r} names {name!r}, which is not a function at the top of the "
        "stub. The solution can answer for functions only; take the name out."
        for name in sorted({name for names in exercise.builds_on.values() for name in names})
        if name not in functions
    ]
    complaints += [
        f"{manifest}: a rule of {exercise.id!r} looks inside {_undefined(name, defined)}"
        for rule in exercise.forbidden
        for name in rule.inside
        if name not in defined
    ]
    complaints += [
        f"{manifest}: a rule of {exercise.id!r} forbids {name!r}, which does not exist.{_attribute_like(name)}"
        for rule in exercise.forbidden
        for name in (*rule.names, *map(_attribute_of, rule.operators))
        if _is_installed(name.partition(".")[0]) and not _exists(name)
    ]
    complaints += [
        f"{exercise.id}: the place of {test.visibility.value} {test.name} is "
        f"{_undefined(test.place, defined)}"
        for test in tests
        if test.place and test.place not in defined
    ]
    complaints += [
        f"{manifest}: {exercise.id!r} preloads {module!r}, which is not installed here."
        for module in exercise.preload
        if not _is_installed(module)
    ]
    return complaints


def _defined(course: Course, exercise: Exercise) -> set[str]:
    """Return the names that the stub or an answer defines: a rule may name something that a student adds."""
    sources = [course.stub(exercise).source]
    sources += [path.read_bytes() for path in course.rights(exercise)]
    sources += [answer.source for answer in wrong_answers(course, exercise).answers]
    names: set[str] = set()
    for source in sources:
        with contextlib.suppress(SyntaxError):  # reported when it is judged
            names |= definitions(parse(source)).keys()
    return names


def _functions_of(source: bytes) -> set[str]:
    """The functions at the top of a file."""
    return {node.name for node in parse(source).body if isinstance(node, ast.FunctionDef)}


def _undefined(name: str, defined: Iterable[str]) -> str:
    return f"{name!r}, which neither the stub nor an answer defines.{_suggestion(name, defined)}"


def _suggestion(name: str, names: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, sorted(names), 1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _exists(name: str) -> bool:
    try:
        # A package may delete the name of a module, as torch.optim does.
        return locate(name) is not None or name in sys.modules
    except ErrorDuringImport:
        return True  # the module exists, but one that it imports is missing here


def _attribute_of(operator: str) -> str:
    """Return the dotted name of a dispatcher operator: for `aten::glu`, torch.ops.aten.glu."""
    return f"torch.ops.{operator.replace('::', '.')}"


def _attribute_like(name: str) -> str:
    """Suggest an attribute with a similar name, if the object around it exists."""
    owner, _, attribute = name.rpartition(".")
    return _suggestion(attribute, dir(locate(owner))) if owner else ""


def _is_installed(module: str) -> bool:
    """Return whether a module is installed; importing torch would take a second."""
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            # Some of Python's own modules contain others without being packages: os.path.
            return spec is not None and top in sys.stdlib_module_names
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec is not None
