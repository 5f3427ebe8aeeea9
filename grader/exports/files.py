"""Formats as they are declared, where their entries come from, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import msgspec

from grader.errors import GraderError, SubmissionError, not_written
from grader.exports.disclosure import Audience, DisclosedEntries, disclosed
from grader.files import replacing
from grader.results import SCHEMA_VERSION, Disclosure, Entry, Result, StudentInfo, in_version_2

# By its first line a folder that was written is known again.
README = "README.txt"


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose bytes replace the file at `path` when all of them are written, with the usual permissions.

    An export that fails leaves the earlier file. Raises ExportError where the folder is missing, GraderError
    where it cannot be written.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device, as /dev/null, is written to and not replaced.
        with _explained(path), path.open("wb") as out:
            yield out
        return
    target = path.resolve()
    if not target.parent.exists():
        raise ExportError(f"There is no folder {path.parent}: make it, or name another with -o.")
    with _explained(path), replacing(target) as out:
        yield out


def refuse_foreign(folder: Path, first_line: str, kind: str, draft: str = "") -> None:
    """Raise SubmissionError where a folder holds something that is not ours, which stays as it is.

    Ours is one that is new, empty but for what begins with `draft`, or has a README.txt with this `first_line`.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SubmissionError(f"{folder} is a file; name a folder for {kind}.")
    readme = folder / README
    if readme.is_file() and readme.read_bytes().startswith(first_line.encode()):
        return
    if any(not (draft and path.name.startswith(draft)) for path in folder.iterdir()):
        raise SubmissionError(
            f"{folder} holds something that is not {kind}; name a new or an empty folder."
        )


def folder_at(path: Path) -> Path:
    """The folder, made if it is not there; raises GraderError where it cannot be."""
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_written(path, error) from error


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
    to the current folder. `disclose` is what students may read of hidden tests (None: as the course says).
    `title` is what was graded, as students call it, where no `column` names it.
    `feedback` names the column for comments beside the grades, `layout` is the platform by whose names a zip
    is uploaded: moodle, canvas, or plain for none.
    """

    template: Path | None = None
    column: str = ""
    out_of: float | None = None
    excel: bool = False
    environment: Mapping[str, str] = {}
    submission: Path = Path()
    disclose: Disclosure | None = None
    feedback: str = ""
    layout: str = "plain"
    title: str = ""

    def named(self, entry: Entry) -> str:
        """What was graded: the name that was given, the title of the assignment, else the course's id."""
        return self.column or self.title or entry.result.course.name


class _Format(msgspec.Struct, frozen=True):
    """What a format is for, who reads it, and which fields of Options concern it besides `disclose`."""

    summary: str
    audience: Audience
    options: tuple[str, ...]

    @property
    def _for_students(self) -> bool:
        return self.audience is Audience.STUDENTS

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of Options that it has a use for."""
        return (*self.options, "disclose") if self._for_students else self.options


class ClassFormat(_Format, frozen=True):
    """A file about the whole class.

    `writer` takes the entries (an iterable that may be iterated more than once), a binary stream and
    the options, and returns notes for the caller: rows without a person, and the like.
    """

    writer: Callable[[Iterable[Entry], IO[bytes], Options], list[str]]

    def write(self, entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
        """Write the file, for students with nothing that they may not read; returns notes."""
        if self._for_students:
            entries = DisclosedEntries(entries, options.disclose)
        return self.writer(entries, out, options)


class StudentFormat(_Format, frozen=True):
    """A file about one student; `renderer` returns its bytes or raises NoVerdict."""

    suffix: str
    renderer: Callable[[Entry, Options], bytes]

    def render(self, entry: Entry, options: Options) -> bytes:
        """The file, for students with nothing that they may not read; raises NoVerdict."""
        if self._for_students:
            entry = disclosed(entry, options.disclose)
        return self.renderer(entry, options)


# --- where entries come from: a class, or one result as `grade run --json` wrote it -------------------


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
    """The one entry of a result file, also of an earlier grader; its student is the name of the submission."""
    try:
        raw = path.read_bytes()
        version = msgspec.json.decode(raw, type=_Versioned).schema_version
        if version not in (1, SCHEMA_VERSION):
            raise ExportError(
                f"{path} is a result of schema version {version}, this grader reads "
                f"{SCHEMA_VERSION}: grade it again."
            )
        result = msgspec.json.decode(in_version_2(raw), type=Result)
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportError(
            f"{path} is no result as `grade run --json {path.name}` writes it: {error}."
        ) from error
    return Entry(student=StudentInfo(id=result.submission.name), result=result)
