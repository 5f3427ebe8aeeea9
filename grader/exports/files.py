"""Formats as they are declared, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import msgspec

from grader.errors import GraderError
from grader.results import Entry


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose bytes stand at `path` once all of them are there, with the usual permissions."""
    if path.exists() and not path.is_file():
        # A pipe or a device, as /dev/null, is written to and not replaced.
        with _explained(path), path.open("wb") as out:
            yield out
        return
    target = path.resolve()
    if not target.parent.exists():
        raise ExportError(f"There is no folder {path.parent}: make it, or name another with -o.")
    with _explained(path):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.")
    draft = Path(name)
    try:
        with _explained(path), os.fdopen(handle, "wb") as out:
            yield out
        with _explained(path):
            draft.chmod(target.stat().st_mode if target.is_file() else 0o666 & ~_umask())
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def folder_at(path: Path) -> Path:
    """The folder, made if it is not there."""
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GraderError(f"{path} cannot be written: {error.strerror}.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class ExportError(GraderError):
    """The options do not fit together, or not to the template or the result."""

    exit_code = 2


class NoVerdict(GraderError):
    """The format has no word for an exercise that is not judged, and a 0 would be a lie."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all formats; each format reads what concerns it.

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
    the options, and returns notes for the caller: rows without a person, and the like.
    `reads` are the fields of Options that it has a use for.
    """

    summary: str
    write: Callable[[Iterable[Entry], IO[bytes], Options], list[str]]
    reads: tuple[str, ...] = ()


class StudentFormat(msgspec.Struct, frozen=True):
    """A file about one student; `render` returns its bytes or raises NoVerdict."""

    summary: str
    suffix: str
    render: Callable[[Entry, Options], bytes]
    reads: tuple[str, ...] = ()
