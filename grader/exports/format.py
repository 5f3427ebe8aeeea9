"""What an export is: a class in one file or a student in one file, and what the caller may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

import msgspec

from grader.errors import GraderError
from grader.results import Entry

__all__ = ["ClassFormat", "ExportError", "NoVerdict", "Options", "StudentFormat"]


class ExportError(GraderError):
    """What was asked for does not fit together: a template, a column, a result."""

    exit_code = 2


class NoVerdict(GraderError):
    """The format has no word for an exercise that nobody judged, and a 0 would be a lie."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may ask for; each format reads what concerns it.

    `template` is the file to fill in, `column` the name of the assignment or of its column, `out_of`
    the points that the total is scaled to (as they are where it is None). `environment` holds
    variables, `excel` asks for a byte order mark, `submission` says where the graded files lie, relative
    to the current folder.
    """

    template: Path | None = None
    column: str = ""
    out_of: float | None = None
    excel: bool = False
    environment: Mapping[str, str] = {}
    submission: Path = Path()


class ClassFormat(msgspec.Struct, frozen=True):
    """A file about everybody.

    `write` takes the entries (an iterable that may be iterated more than once), a binary stream and
    the options, and returns sentences for whoever exports: rows that matched nobody, and the like.
    `reads` are the options that not every format has a use for: template, column, out_of, excel.
    """

    summary: str
    write: Callable[[Iterable[Entry], IO[bytes], Options], list[str]]
    reads: tuple[str, ...] = ()


class StudentFormat(msgspec.Struct, frozen=True):
    """A file about one student; `render` returns its bytes or raises NoVerdict."""

    summary: str
    suffix: str
    render: Callable[[Entry, Options], bytes]
