"""What a person should look at after a batch: faults of ours, time-outs, unreadable files, odd code.

Nothing here changes a score, and nothing here is a verdict on a student: an import of `ctypes` may have an
innocent reason. It is a list of where to look first.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from grader.course.manifest import Exercise
from grader.results import ExerciseResult, Outcome, Status
from grader.submissions import ExerciseFile
from grader.submissions.source import decode, parse


class Reason(enum.Enum):
    """Why a person should look, the most pressing first."""

    FAULT = "not judged"
    FORGER = "odd code"
    UNREADABLE = "unreadable"
    TIMEOUT = "timeout"


class Attention(msgspec.Struct, frozen=True):
    """One thing to look at; `exercise` names several where it is the same in each."""

    kind: Reason
    student: str
    exercise: str
    what: str


# What an exercise of this kind has no need of, and an attack on its grader has.
_ODD_MODULES = {
    "atexit": "runs code when the process ends",
    "ctypes": "reaches into the process's memory",
    "gc": "reaches into the process's objects",
    "inspect": "reads other code's frames",
    "mmap": "maps memory",
    "pytest": "is the judge's tool",
    "_pytest": "is the judge's tool",
    "signal": "handles signals",
    "socket": "opens connections",
    "subprocess": "starts programs",
    "urllib": "opens connections",
    "requests": "opens connections",
    "grader": "is the grader",
}
_ODD_NAMES = {"os._exit", "sys._getframe", "os.fork", "os.kill", "os.system", "sys.settrace"}
# A docstring may speak of anything.
_LONGEST_TEXT = 200
_ODD_WORDS = ("_exit", "conftest", "/proc/", "results.json", "tests/hidden", "solutions/")


# Most files hold none of these words, and to parse all of a class takes longer than to search it.
_WORTH_PARSING = re.compile(
    "|".join(
        re.escape(word.rpartition(".")[2]) for word in (*_ODD_MODULES, *_ODD_NAMES, *_ODD_WORDS)
    ).encode()
)
_WRITTEN_OTHERWISE = re.compile(rb"[\x80-\xff]|\\[0-7xuUN\r\n]")


def attention(
    student: str,
    exercise: Exercise,
    handed: ExerciseFile,
    usual: frozenset[str],
    result: ExerciseResult,
) -> Iterator[Attention]:
    """What to look at in one exercise of one student; what is usual, as `ordinary` says, is not odd."""
    if result.status is Status.UNJUDGED:
        yield Attention(Reason.FAULT, student, exercise.id, result.message)
    late = next((test for test in result.tests if test.outcome is Outcome.TIMEOUT), None)
    if late is not None:
        yield Attention(Reason.TIMEOUT, student, exercise.id, late.message or result.message)
    if handed.source is None and (handed.path is not None or handed.seems_misnamed):
        yield Attention(Reason.UNREADABLE, student, exercise.id, handed.problem)
    if handed.source is not None and not _is_text(handed.source):
        yield Attention(Reason.UNREADABLE, student, exercise.id, result.message)
    # One that is settled as the stub has a message, one that was judged has none.
    untouched = result.status is Status.NOT_ATTEMPTED and bool(result.message)
    if handed.source is not None and not untouched:
        for line, what in sorted(set(_odd(handed.source))):
            if what not in usual:
                text = f"line {line} {what}"
                yield Attention(Reason.FORGER, student, exercise.id, text)


def nothing_found(
    student: str, exercises: Iterable[Exercise], files: Mapping[str, ExerciseFile]
) -> Iterator[Attention]:
    """What to look at where somebody handed in something, and none of it is a file of the course."""
    if all(each.source is None and each.path is None for each in files.values()):
        names = [each.id for each in exercises]
        if names:
            what = files[names[0]].problem
            yield Attention(Reason.UNREADABLE, student, ", ".join(names), what)


def ordinary(stub: bytes) -> frozenset[str]:
    """What would be odd, were it not in the stub."""
    return frozenset(what for _, what in _odd(stub))


def most_pressing_first(found: Iterable[Attention]) -> tuple[Attention, ...]:
    """Sorted by kind and student; what is the same in several exercises is told once."""
    exercises: dict[tuple[Reason, str, str], list[str]] = {}
    for each in found:
        exercises.setdefault((each.kind, each.student, each.what), []).append(each.exercise)
    told = [
        Attention(kind, student, ", ".join(dict.fromkeys(names)), what)
        for (kind, student, what), names in exercises.items()
    ]
    order = list(Reason)
    return tuple(sorted(told, key=lambda each: (order.index(each.kind), each.student)))


def _is_text(source: bytes) -> bool:
    try:
        decode(source)
    except SyntaxError:
        return False
    return True


def _odd(source: bytes) -> Iterator[tuple[int, str]]:
    """The lines that a person should read, and why."""
    # Names and texts that are written with other characters hold these words in the tree alone.
    if not (_WORTH_PARSING.search(source) or _WRITTEN_OTHERWISE.search(source)):
        return
    try:
        tree = parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _odd_import(alias.name, node.lineno)
            case ast.ImportFrom(module=str(module)):
                yield from _odd_import(module, node.lineno)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                if f"{owner}.{attribute}" in _ODD_NAMES:
                    yield node.lineno, f"uses {owner}.{attribute}"
            case ast.Constant(value=str(text)) if len(text) < _LONGEST_TEXT:
                for word in _ODD_WORDS:
                    if word in text:
                        yield node.lineno, f"names {word!r}"


def _odd_import(module: str, line: int) -> Iterator[tuple[int, str]]:
    top = module.partition(".")[0]
    if top in _ODD_MODULES:
        yield line, f"imports {top}, which {_ODD_MODULES[top]}"
