"""`check` judges classes and functions of a notebook; `%%grade` judges a cell instead of running it."""

from __future__ import annotations

import ast
import atexit
import concurrent.futures
import functools
import itertools
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.course.manifest import Course, Exercise, load_course
from grader.errors import GraderError, SubmissionError
from grader.grading import grading_options, settle
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.pool import Judges
from grader.notebook.composing import (
    Composed,
    Gathering,
    SourcePiece,
    blanked,
    is_of_library,
    parsed,
)
from grader.notebook.verdict import CheckResult
from grader.submissions import ExerciseFile
from grader.submissions.source import definitions, parse

_PATIENCE_SECONDS = 5.0


def check(
    *parts: object, course: Path | str = ".", seed: int = 0, suite: str = "all"
) -> CheckResult:
    """Judge parts of an exercise that are defined in this notebook.

        check("glu", GatedLinearUnit, gradient_flow)
        check("glu")                                     every part that the notebook defines

    Judges the source of the cells, not the objects in memory, together with the imports, constants and helpers
    that it names. A part that is not given counts as not written yet.

    Args:
        parts: the id of the exercise, and classes and functions of it, in any order.
        course: the course's folder, or a folder below it.
        seed: seeds the inputs of every test.
        suite: `public`, `hidden` or `all` suites.

    Returns:
        A `CheckResult`, which a notebook shows as HTML; its `result` is the exercise's.

    Raises:
        TypeError, ValueError: the parts are not one id, and classes and functions named as in the stub.
        GraderError: a fault that is not the code's.
    """
    ids = [part for part in parts if isinstance(part, str)]
    given: list[Any] = [part for part in parts if not isinstance(part, str)]
    if len(ids) != 1:
        raise ValueError('Name one exercise: check("glu", GatedLinearUnit).')
    loaded = load_course(course)
    exercise = loaded.exercise(ids[0])
    stub = loaded.stub(exercise).source.decode()
    names = [name for name in definitions(parse(stub.encode())) if "." not in name]
    namespace = _namespace_of(given)
    gathering = Gathering(namespace, stub)
    if not given:
        given = [part for name in names if (part := _own(gathering, namespace, name)) is not None]
        if not given:
            told = (
                f"No part of {exercise.id} is defined here. Its parts are {', '.join(names)}: "
                "run the cell that defines one."
            )
            raise ValueError(" ".join([told, *gathering.notes]))
    for part in given:
        name = _name_of(part, namespace, exercise, names)
        is_definition = isinstance(part, type) or getattr(part, "__name__", "") == name
        if not (
            gathering.add_definition(part) if is_definition else gathering.add_value(name, part)
        ):
            raise ValueError(
                f"The source of {name} was not found as it is now: run the cell that defines it again, "
                "with `def` or `class` at its top."
            )
    return _judge(loaded, exercise, gathering.composed(), grading_options(seed, suite))


def _judge(
    course: Course, exercise: Exercise, composed: Composed, options: GradingOptions
) -> CheckResult:
    """Settle a file or have it judged; SubmissionError if the course has none of these suites."""
    if not set(options.suites) & set(course.suites(exercise)):
        names = " or ".join(suite.value for suite in options.suites)
        raise SubmissionError(f"There is no {names} suite here for {exercise.id}.")
    # Source that cannot be parsed is settled without a judge.
    result = settle(course, exercise, ExerciseFile(composed.source), options)
    if result is None:
        result = _judged(course, exercise, composed.source, options).result
    return CheckResult(result, composed)


def _judged(course: Course, exercise: Exercise, source: bytes, options: GradingOptions) -> Judgment:
    """Have a judge judge; an interrupt ends it, and the next check starts another."""
    judges = _judges()
    # Do not start it in the cell's thread: bubblewrap ends with the thread that started it.
    asked = judges.threads.submit(judges.judge, course, exercise, source, options)
    try:
        return asked.result()
    except KeyboardInterrupt:
        judges.stop()
        concurrent.futures.wait([asked], timeout=_PATIENCE_SECONDS)
        raise


@functools.cache
def _judges() -> Judges:
    """Return the judge of all checks, kept warm until the interpreter ends.

    A notebook has no process of the grader to hold it in.
    """
    judges = Judges()
    atexit.register(judges.close)
    return judges


# --- the given parts ------------------------------------------------------------------------------


def _namespace_of(parts: Sequence[object]) -> dict[str, Any]:
    """Return the globals of the module that defines the parts: in a notebook, its only namespace."""
    own = [part for part in parts if not is_of_library(part)]
    module = getattr(own[0], "__module__", None) if own else None
    return vars(sys.modules.get(module or "__main__", sys.modules["__main__"]))


def _name_of(
    part: Any, namespace: Mapping[str, Any], exercise: Exercise, names: Sequence[str]
) -> str:
    """Return the name in the exercise of a student's class or function; TypeError, ValueError for others."""
    if not callable(part) or (not isinstance(part, type) and hasattr(type(part), "forward")):
        raise TypeError(
            "Give the class or the function itself, without calling it, not an object of type "
            f"{type(part).__name__}."
        )
    name = getattr(part, "__name__", "")
    if name not in names:
        name = next((name for name in names if namespace.get(name) is part), name)
    if name not in names:
        raise ValueError(f"{exercise.id} has no {name!r}; its parts are {', '.join(names)}.")
    if is_of_library(part):
        raise ValueError(
            f"{name} is now from {part.__module__}, not yours: an import has taken its name. Run your "
            "cell again after the import."
        )
    return name


def _own(gathering: Gathering, namespace: Mapping[str, Any], name: str) -> Any:
    """Return the class or function of this name, unless it is a library's, which makes a note."""
    value = namespace.get(name)
    if value is None or not callable(value):
        return None
    if getattr(value, "__module__", None) == namespace.get("__name__"):
        return value
    if is_of_library(value):
        gathering.notes.append(
            f"{name} is now from {value.__module__}: an import has taken its name, so it counts as not "
            "written. Run your cell again after the import."
        )
        return None
    return value


# --- %%grade ---------------------------------------------------------------------------------------


def load_ipython_extension(shell: Any) -> None:
    """Register `%%grade`; called by `%load_ext grader.notebook`."""
    from IPython.core.error import UsageError
    from IPython.core.magic_arguments import MagicArgumentParser

    arguments = MagicArgumentParser()  # type: ignore[no-untyped-call]  # IPython has no types
    arguments.add_argument("exercise")
    arguments.add_argument("--course", default=".")
    arguments.add_argument("--suite", choices=("public", "hidden", "all"), default="all")
    arguments.add_argument("--run", action="store_true")

    def grade(line: str, cell: str) -> CheckResult:
        """Judge the text of this cell, behind the walls, without running it in the notebook.

            %%grade glu [--course FOLDER] [--suite public|hidden|all] [--run]

        Includes names that it takes from other cells: their imports, helpers and plain constants. A missing
        part of the exercise counts as not written yet. With --run, the cell is then also run here.
        """
        try:
            options = arguments.parse_args(shlex.split(line))
        except (UsageError, ValueError) as error:
            said = str(error).rstrip(".")
            raise UsageError(
                f"{said[:1].lower()}{said[1:]}. Use it as: %%grade EXERCISE [--course FOLDER] "
                "[--suite public|hidden|all] [--run]"
            ) from error
        try:
            course = load_course(options.course)
            exercise = course.exercise(options.exercise)
            gathering = Gathering(shell.user_ns, course.stub(exercise).source.decode())
            gathering.add_piece(_piece(shell, cell))
            verdict = _judge(
                course, exercise, gathering.composed(), grading_options(0, options.suite)
            )
        except GraderError as error:
            # One sentence for the reader, instead of a traceback through our code.
            raise UsageError(str(error)) from error
        if options.run:
            shell.run_cell(cell)
        return verdict

    shell.register_magic_function(grade, "cell", "grade")


def _piece(shell: Any, cell: str) -> SourcePiece:
    """Return the Python of a cell, with its number and the line on which it begins."""
    # `execution_count` has already changed; the line of the magic is the first.
    number = len(shell.user_ns["In"]) - 1
    # IPython removes empty lines at the beginning.
    first = 2 + len(list(itertools.takewhile(lambda line: not line.strip(), cell.split("\n"))))
    return SourcePiece(_python_of(shell.transform_cell(cell)), f"In[{number}]", first)


def _python_of(transformed: str) -> str:
    """Return a cell with blank lines instead of its %magics and !commands, which are for the notebook."""
    body = parsed(transformed).body
    statements = [node for node in body if isinstance(node, ast.Expr | ast.Assign)]
    return blanked(transformed, [node for node in statements if _is_magic(node.value)])


def _is_magic(value: ast.expr) -> bool:
    """Return whether IPython made this from a magic: get_ipython().run_line_magic(...)."""
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and isinstance(value.func.value, ast.Call)
        and isinstance(value.func.value.func, ast.Name)
        and value.func.value.func.id == "get_ipython"
    )
