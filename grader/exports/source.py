"""The sources of entries: the gradebook of a class, or one result as `grade run --json` wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.exports.files import ExportError
from grader.results import SCHEMA_VERSION, Entry, Result, StudentInfo


class ClassSource:
    """The entries of a RESULTS folder; each iteration reads them anew, one at a time."""

    def __init__(
        self, results: Path, assignment: str | None = None, *, anonymous: bool = False
    ) -> None:
        self._results, self._assignment, self._anonymous = results, assignment, anonymous

    def __iter__(self) -> Iterator[Entry]:
        # Here, so that one result is exported without SQLite.
        from grader.gradebook import Gradebook

        if self._anonymous:
            from grader.gradebook.anonymous import AnonymousBook

            with AnonymousBook.open(self._results, self._assignment) as hidden:
                yield from hidden.entries()
            return
        with Gradebook.open(self._results, self._assignment) as book:
            yield from book.entries()


class _Versioned(msgspec.Struct):
    schema_version: int


def read_result(path: Path) -> Entry:
    """The one entry of a result file; its student is the name of the submission."""
    try:
        raw = path.read_bytes()
        version = msgspec.json.decode(raw, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            raise ExportError(
                f"{path} is a result of schema version {version}, this grader reads "
                f"{SCHEMA_VERSION}: grade it again."
            )
        result = msgspec.json.decode(raw, type=Result)
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportError(
            f"{path} is no result as `grade run --json {path.name}` writes it: {error}."
        ) from error
    return Entry(student=StudentInfo(id=result.submission.name), result=result)
