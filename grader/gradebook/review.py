"""Entries that a person should look at after a batch: faults of ours, time-outs, unreadable files, odd code.

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
from grader.submissions.source import beyond_guards, decode, is_known_way, parse
from grader.text import counted


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
# A student with thousands of odd lines must not bury what others did.
_MOST_ENTRIES = 5
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
    in_stub: frozenset[str],
    result: ExerciseResult,
) -> tuple[Attention, ...]:
    """At most five entries on one exercise of one student; the last one counts the rest.

    `in_stub` is what `suspicious_in` finds in the stub, and a student had from it.
    """
    entries = [
        Attention(kind, student, exercise.id, what)
        for kind, what in _reasons(exercise, handed, in_stub, result)
    ]
    if (more := len(entries) - _MOST_ENTRIES) <= 0:
        return tuple(entries)
    *shown, last = entries[:_MOST_ENTRIES]
    what = f"{last.what}; and {counted(more, 'more thing')} of this kind"
    return (*shown, msgspec.structs.replace(last, what=what))


def _reasons(
    exercise: Exercise, handed: ExerciseFile, in_stub: frozenset[str], result: ExerciseResult
) -> Iterator[tuple[Reason, str]]:
    if result.status is Status.UNJUDGED:
        yield Reason.FAULT, result.message
    late = next((test for test in result.tests if test.outcome is Outcome.TIMEOUT), None)
    if late is not None:
        yield Reason.TIMEOUT, late.message or result.message
    if _is_problem(handed):
        yield Reason.UNREADABLE, handed.problem
    if handed.source is not None and not _is_text(handed.source):
        yield Reason.UNREADABLE, result.message
    if handed.source is not None and not result.untouched:
        for what, lines in _suspicious(handed.source).items():
            if what not in in_stub:
                more = f" (and on {counted(len(lines) - 1, 'more line')})" if lines[1:] else ""
                yield Reason.FORGER, f"line {lines[0]} {what}{more}"
        if exercise.operators and (names := _beyond_guards(handed.source)):
            first, shown = min(names.values()), ", ".join(sorted(names, key=names.__getitem__)[:5])
            yield Reason.FORGER, f"line {first} names {shown}: a way around what forbids operators"


def passed_over(student: str, exercise: Exercise, handed: ExerciseFile) -> Iterator[Attention]:
    """An entry for a file that cannot be read, where one of an earlier attempt counts instead."""
    if _is_problem(handed):
        what = f"{handed.problem} Until then the file of an earlier attempt counts."
        yield Attention(Reason.UNREADABLE, student, exercise.id, what)


def _is_problem(handed: ExerciseFile) -> bool:
    """Whether something was handed in that we cannot take for the file of the exercise."""
    return handed.source is None and (handed.path is not None or handed.seems_misnamed)


def nothing_found(
    student: str, exercises: Iterable[Exercise], files: Mapping[str, ExerciseFile]
) -> Iterator[Attention]:
    """An entry for a submission none of whose files is one of the course."""
    if all(file.source is None and file.path is None for file in files.values()):
        names = [exercise.id for exercise in exercises]
        if names:
            what = files[names[0]].problem
            yield Attention(Reason.UNREADABLE, student, ", ".join(names), what)


def _beyond_guards(source: bytes) -> dict[str, int]:
    """Ways around the guards and their lines; a module that nothing is known of is traced, and no reason."""
    try:
        names = beyond_guards(parse(source))
    except SyntaxError:
        return {}
    return {name: line for name, line in names.items() if is_known_way(name)}


def suspicious_in(source: bytes) -> frozenset[str]:
    """Suspicious code in a file, without its lines."""
    return frozenset(_suspicious(source))


def most_pressing_first(entries: Iterable[Attention]) -> tuple[Attention, ...]:
    """The entries by kind and student; one that is the same in several exercises stands once."""
    exercises: dict[tuple[Reason, str, str], list[str]] = {}
    for entry in entries:
        exercises.setdefault((entry.kind, entry.student, entry.what), []).append(entry.exercise)
    merged = [
        Attention(kind, student, ", ".join(dict.fromkeys(names)), what)
        for (kind, student, what), names in exercises.items()
    ]
    order = list(Reason)
    return tuple(sorted(merged, key=lambda entry: (order.index(entry.kind), entry.student)))


def _is_text(source: bytes) -> bool:
    try:
        decode(source)
    except SyntaxError:
        return False
    return True


class StudentAttention(msgspec.Struct, frozen=True):
    """The first entries about one student, and how many more there are."""

    student: str
    entries: tuple[Attention, ...]
    more: int


def by_student(attention: Iterable[Attention], lines: int) -> list[StudentAttention]:
    """The entries student by student, of each so many that all of them are about `lines`.

    Every student has the same room, at least an entry: thousands about one hide nobody else.
    """
    entries_of: dict[str, list[Attention]] = {}
    for entry in attention:
        entries_of.setdefault(entry.student, []).append(entry)
    room = max(lines // max(len(entries_of), 1), 1)
    return [
        StudentAttention(student, tuple(entries[:room]), len(entries[room:]))
        for student, entries in entries_of.items()
    ]


def _suspicious(source: bytes) -> dict[str, list[int]]:
    """Suspicious code and the lines on which it stands, in the order of the file."""
    # Names and texts that are written with other characters hold these words in the tree alone.
    if not (_WORTH_PARSING.search(source) or _WRITTEN_OTHERWISE.search(source)):
        return {}
    try:
        tree = parse(source)
    except SyntaxError:
        return {}
    lines: dict[str, list[int]] = {}
    for line, what in sorted(
        {(line, what) for node in ast.walk(tree) for line, what in _looks(node)}
    ):
        lines.setdefault(what, []).append(line)
    return lines


def _looks(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Reasons to look at a node of the syntax tree, in which names are normalized."""
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield from _suspicious_import(alias.name, node.lineno)
        case ast.ImportFrom(module=str(module)):
            yield from _suspicious_import(module, node.lineno)
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            if f"{owner}.{attribute}" in _ODD_NAMES:
                yield node.lineno, f"uses {owner}.{attribute}"
        case ast.Constant(value=str(text)) if len(text) < _LONGEST_TEXT:
            for word in _ODD_WORDS:
                if word in text:
                    yield node.lineno, f"names {word!r}"


def _suspicious_import(module: str, line: int) -> Iterator[tuple[int, str]]:
    top = module.partition(".")[0]
    if top in _ODD_MODULES:
        yield line, f"imports {top}, which {_ODD_MODULES[top]}"
