"""Declare formats, read their entries, and write files completely or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from grader.errors import ExitCode, GraderError, SubmissionError, not_written
from grader.exports.disclosure import Audience, DisclosedEntries, disclosed
from grader.files import replacing
from grader.results import SCHEMA_VERSION, Disclosure, Entry, Result, StudentInfo, in_version_2
from grader.submissions.roster import is_in_group

if TYPE_CHECKING:
    from grader.gradebook import Gradebook

# A written folder is recognized by the first line of this file.
README = "README.txt"


@contextlib.contextmanager
def open_export(path: Path) -> Iterator[IO[bytes]]:
    """Open a stream whose bytes replace the file at `path` once all are written, with the usual permissions.

        with open_export(path) as out:
            FORMATS["csv"].write(entries, out, Options())

    An export that fails leaves the earlier file. Raises ExportError if the folder is missing, and GraderError
    if the file cannot be written.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device, such as /dev/null, is written to and not replaced.
        with _explaining_errors(path), path.open("wb") as out:
            yield out
        return
    target = path.resolve()
    if not target.parent.exists():
        raise ExportError(f"There is no folder {path.parent}: make it, or name another with -o.")
    # No sync, which would take seconds for 300 pages: after a power failure, export again.
    with _explaining_errors(path), replacing(target, synced=False) as out:
        yield out


def refuse_foreign(folder: Path, first_line: str, kind: str, draft: str = "") -> None:
    """Raise SubmissionError if a folder contains anything that is not ours.

    Ours is a folder that is new, is empty except for names beginning with `draft`, or has a README.txt with
    this `first_line`.
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
            f"{folder} contains something other than {kind}; name a new or an empty folder."
        )


def folder_at(path: Path) -> Path:
    """Return the folder, after making it if necessary; raises GraderError if it cannot be made."""
    with _explaining_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def _explaining_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_written(path, error) from error


class ExportError(GraderError):
    """The options do not fit together, or do not fit the template or the result."""

    exit_code = ExitCode.USAGE


class NoVerdict(GraderError):
    """The format cannot express an unjudged exercise, and a 0 would be false."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all formats; a format ignores options that do not concern it.

    Attributes:
        template: the file to fill in.
        column: the name of the assignment, or of its column.
        out_of: the points that the total is scaled to; None does not scale.
        excel: whether to begin with a byte order mark.
        environment: environment variables.
        submission: the folder of the graded files, relative to the current folder.
        disclose: how much students read of hidden tests; None means as the course says.
        feedback: the column for comments beside the grades.
        layout: the platform whose names the files of a zip have: moodle, canvas, or plain for none.
        title: the name of the graded work for students, if no `column` names it.
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
        """Return the name of the graded work: the given name, the assignment's title, else the course's id."""
        return self.column or self.title or entry.result.course.name


class _Format(msgspec.Struct, frozen=True):
    """A format's purpose, its readers, and the fields of Options that concern it besides `disclose`."""

    summary: str
    audience: Audience
    options: tuple[str, ...]

    @property
    def _for_students(self) -> bool:
        return self.audience is Audience.STUDENTS

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of Options that this format uses."""
        return (*self.options, "disclose") if self._for_students else self.options


class ClassFormat(_Format, frozen=True):
    """A file about the whole class.

    `writer` takes the entries (an iterable that may be iterated more than once), a binary stream and the
    options, and returns notes for the caller, for example about rows without a person.
    """

    writer: Callable[[Iterable[Entry], IO[bytes], Options], list[str]]

    def write(self, entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:
        """Write the file, limited to what its readers may know; return notes."""
        if self._for_students:
            entries = DisclosedEntries(entries, options.disclose)
        return self.writer(entries, out, options)


class StudentFormat(_Format, frozen=True):
    """A file about one student; `renderer` returns its bytes or raises NoVerdict."""

    suffix: str
    renderer: Callable[[Entry, Options], bytes]

    def render(self, entry: Entry, options: Options) -> bytes:
        """Render the file, limited to what its readers may know; raises NoVerdict."""
        if self._for_students:
            entry = disclosed(entry, options.disclose)
        return self.renderer(entry, options)


# --- sources of entries: a class, or one result as `grade run --json` wrote it -----------------------


class ClassSource:
    """The entries of a RESULTS folder; each iteration reads them anew, one at a time.

    With `sections`, only the entries of students in one of them.
    """

    def __init__(
        self,
        results: Path,
        assignment: str | None = None,
        *,
        anonymous: bool = False,
        sections: Sequence[str] = (),
    ) -> None:
        self._results, self._assignment, self._anonymous = results, assignment, anonymous
        self._sections = sections

    def __iter__(self) -> Iterator[Entry]:
        # Imported here, so that one result is exported without SQLite.
        from grader.gradebook import Gradebook

        if self._anonymous:
            from grader.gradebook.anonymous import AnonymousBook, pseudonyms_of

            with AnonymousBook.open(self._results, self._assignment) as hidden:
                named = pseudonyms_of(hidden.book)
                wanted = {named(student.id) for student in self._students(hidden.book)}
                yield from (entry for entry in hidden.entries() if entry.student.id in wanted)
            return
        with Gradebook.open(self._results, self._assignment) as book:
            wanted = {student.id for student in self._students(book)}
            yield from (entry for entry in book.entries() if entry.student.id in wanted)

    def _students(self, book: Gradebook) -> list[StudentInfo]:
        """Return the students in the sections; without sections, all students."""
        return [
            student
            for student in book.students()
            if not self._sections or any(is_in_group(student.section, s) for s in self._sections)
        ]


class _Versioned(msgspec.Struct):
    schema_version: int


def read_result(path: Path) -> Entry:
    """Read the entry of a result file, also of an earlier grader; its student is the name of the submission.

    Raises ExportError if the file cannot be read, or is not a result of a schema version that this grader
    reads.
    """
    try:
        raw = path.read_bytes()
        version = msgspec.json.decode(raw, type=_Versioned).schema_version
        if version not in (1, SCHEMA_VERSION):
            raise ExportError(
                f"{path} is a result of schema version {version}, but this grader reads "
                f"{SCHEMA_VERSION}: grade it again."
            )
        result = msgspec.json.decode(in_version_2(raw), type=Result)
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportError(
            f"{path} is not a result of `grade run --json {path.name}`: {error}."
        ) from error
    return Entry(student=StudentInfo(id=result.submission.name), result=result)
