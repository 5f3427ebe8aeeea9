"""Where exports are written: a file appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from grader.errors import GraderError
from grader.exports.format import ExportError

__all__ = ["folder_at", "written"]


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
