"""The student's file: the lines and names in it, and what an error means there."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterable

import msgspec

from grader.course.manifest import Exercise
from grader.judge.outcomes import (
    KEEP_NAMES,
    MAX_FRAMES,
    Frame,
    StudentError,
    misfitting_call,
    missing_name,
    raised_error,
)
from grader.judge.probe import Probe
from grader.sandbox.client import own_frames
from grader.sandbox.wire.messages import Raised
from grader.submissions.source import definitions, functions_by_line, parse
from grader.text import clean

_UNDEFINED = re.compile(r"name '(\w{1,40})' is not defined")
# The usual names of libraries that files of this kind import.
_IMPORTS = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "np": "import numpy as np",
}
# A file with more names is not searched.
_MAX_NAMES = 500


@functools.lru_cache(maxsize=256)
def _meant(name: str, known: frozenset[str]) -> str:
    """Return a sentence on what an undefined name may mean, empty if there is none."""
    if name in _IMPORTS:
        return f" Is `{_IMPORTS[name]}` missing?"
    from difflib import get_close_matches

    others = sorted(known - {name}) if len(known) <= _MAX_NAMES else []
    close = get_close_matches(name, others, n=1, cutoff=0.75)
    own = f"Did you mean {clean(close[0], 80)!r}" if close else ""
    if name not in sys.stdlib_module_names:
        return f" {own}?" if own else ""
    # Modules have ordinary names, such as `token` and `code`.
    return f" {own}, or is `import {name}` missing?" if own else f" Is `import {name}` missing?"


class StudentFile:
    """The source of an exercise that is judged.

    The `stub` shows which functions are given: an error's place is in the student's own code.
    """

    def __init__(self, exercise: Exercise, source: bytes, stub: bytes = b"") -> None:
        """Parse the source; raises SyntaxError if it is not Python."""
        self.source, self.stub = source, stub
        self.tree: ast.Module = parse(source)
        self._exercise = exercise

    def last_frame(self, stack: bytes) -> Frame | None:
        """Return the line of the student's file that ran last, if the sandbox printed its stack."""
        frames = self.frames(own_frames(stack, self._exercise.file))
        return frames[0] if frames else None

    def frames(self, frames: Iterable[tuple[int, str]]) -> tuple[Frame, ...]:
        """Return the reported frames on lines of the file, with the functions that the file has there.

        The reported names are not used: code that the student compiled can have any name.
        """
        last = len(self.source.splitlines())
        return tuple(
            Frame(line, self._functions.get(line, "<module>"))
            for line, _ in frames
            if 0 < line <= last
        )

    def error_of(self, reply: Raised, probes: Iterable[Probe]) -> StudentError:
        """Return the exception to raise in the judge for one that a sandbox with these probes reports.

        Raises JudgeError if a probe uses a name that its source does not define.
        """
        if reply.type_name == "NameError" and reply.probe is not None:
            for probe in probes:
                probe.refuse_undefined(reply.text)
        if reply.in_probe and (missing := missing_name(reply, self._exercise.id)):
            text = f"{self._exercise.file} defines no {missing!r}; {KEEP_NAMES}"
            reply = msgspec.structs.replace(reply, text=text, in_probe=False)
        name, misfit = misfitting_call(reply)
        # If the student's own code made the call, the frames have a line of the file, and the text stays.
        if (reply.in_probe or not reply.frames) and name in definitions(self.tree):
            reply = msgspec.structs.replace(reply, text=misfit, in_probe=False)
        frames = self.frames(reply.frames[-MAX_FRAMES:])
        written = tuple(frame for frame in frames if frame.line not in self._given_lines)
        error = raised_error(reply, written or frames)
        line = error.frames[-1].line if error.frames else None
        error.unwritten = line is None or any(line in lines for lines in self._raises)
        if (undefined := _UNDEFINED.fullmatch(error.text)) and line is not None:
            error.meant = _meant(undefined[1], self._names)
        return error

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        """The names that the file gives to something."""
        names = set[str]()
        for node in ast.walk(self.tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    names.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.alias():
                    names.add(node.asname or node.name.partition(".")[0])
        return frozenset(names)

    @functools.cached_property
    def _functions(self) -> dict[int, str]:
        return functions_by_line(self.tree)

    @functools.cached_property
    def _given_lines(self) -> set[int]:
        """The lines of functions that are unchanged from the stub, which has nothing to write in them."""
        if not self.stub:
            return set()
        given, lines = definitions(parse(self.stub)), set[int]()
        for name, node in definitions(self.tree).items():
            if name in given and not isinstance(node, ast.ClassDef):
                code = ast.dump(node)
                if code == ast.dump(given[name]) and "NotImplementedError" not in code:
                    lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return lines

    @functools.cached_property
    def _raises(self) -> list[range]:
        """The lines of each raise statement."""
        statements = (node for node in ast.walk(self.tree) if isinstance(node, ast.Raise))
        return [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in statements]
