"""A submission for the judge: the bytes of each exercise's file, or the reason why there are none."""

from __future__ import annotations

import codecs
import contextlib
import enum
import hashlib
import re
import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from grader.course.manifest import Course
from grader.course.names import is_within
from grader.course.stub import Stub
from grader.results import SubmissionInfo
from grader.submissions.source import (
    code_digest,
    decode,
    dotted_names,
    has_same_code,
    is_empty,
    parse,
)
from grader.text import clean

# More than two thousand lines, which no exercise needs.
MAX_FILE_BYTES = 200_000


class State(enum.Enum):
    """The state of an exercise's file, found without running it."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    UNTOUCHED = "untouched"
    INVALID = "not valid Python"
    EDITED = "edited"


class Look(NamedTuple):
    """The state of a file, found without running it; for invalid Python, the line and the reason.

    `is_foreign` is true if the file is not Python at all, or is for another version of Python.
    """

    state: State
    line: int = 1
    error: str = ""
    is_foreign: bool = False


class ExerciseFile(msgspec.Struct, frozen=True, dict=True):
    """One exercise of a submission: its source, or the `problem` that prevents one.

    `path` is the file, or the archive with the file, None if there is none. With both a source and a problem,
    the file is judged, and the problem names other files that are not judged, or another name of this file. If
    it `seems_misnamed`, a person has to look.
    """

    source: bytes | None
    problem: str = ""
    path: Path | None = None
    seems_misnamed: bool = False

    def with_note(self, *sentences: str) -> ExerciseFile:
        """Return the file with sentences for its student and for a person."""
        if not sentences:
            return self
        problem = " ".join(filter(None, (self.problem, *sentences)))
        noted = msgspec.structs.replace(self, problem=problem, seems_misnamed=True)
        noted.__dict__.update(self.__dict__)
        return noted

    def state(self, stub: Stub) -> State:
        """Return the state of the file; see `look`."""
        return self.look(stub).state

    def look(self, stub: Stub) -> Look:
        """Return the state of the file, by comparing its syntax tree with the stub's; it is parsed once.

        If the stub is the same file as the submission, changes cannot be determined.
        """
        looks: dict[Stub, Look] = self.__dict__.setdefault("looks", {})
        if stub not in looks:
            looks[stub] = self._look(stub)
        return looks[stub]

    @property
    def is_foreign(self) -> bool:
        """Whether the file is not Python of the judging version, so that a person has to see it."""
        return self.source is not None and self.look(Stub(b"")).is_foreign

    def _look(self, stub: Stub) -> Look:
        """Return the state of the file; see `look`."""
        if self.source is None:
            return Look(State.MISSING if self.path is None else State.UNREADABLE)
        if is_empty(self.source):
            return Look(State.EMPTY)
        stub_source = None if self._is(stub.working) else stub.source
        if self.source == stub_source:  # most of a long course
            return Look(State.UNTOUCHED)
        if kind := _kind_of(self.source):
            return Look(State.INVALID, 1, kind, is_foreign=True)
        try:
            tree = parse(self.source)
        except SyntaxError as error:
            return _explained(self.source, error)
        if stub_source is not None and has_same_code(tree, parse(stub_source)):
            return Look(State.UNTOUCHED)
        return Look(State.EDITED)

    def _is(self, working: Path | None) -> bool:
        if self.path is None or working is None:
            return False
        try:
            return self.path.samefile(working)
        except OSError:  # the file is gone, or was read on another machine: it is not the stub
            return False


class Submission(msgspec.Struct, frozen=True):
    """The files of one student, by exercise id, and requests to look at an exercise again."""

    name: str
    files: dict[str, ExerciseFile]
    requests: dict[str, str] = {}

    def info(self) -> SubmissionInfo:
        """Return its name, and a digest of the judged files that does not depend on line ends."""
        digests = {name: code_digest(file.source or b"") for name, file in self.files.items()}
        return SubmissionInfo(self.name, digest_of_files(digests))


def digest_of_files(digests: Mapping[str, str]) -> str:
    """Return the digest of a submission from its files' digests by exercise, which are empty without a file."""
    digest, nothing = hashlib.sha256(), hashlib.sha256().digest()
    for exercise, source in sorted(digests.items()):
        digest.update(exercise.encode() + b"\0" + (bytes.fromhex(source) if source else nothing))
    return digest.hexdigest()


# --- files that are not valid Python, with remedies ------------------------------------------------

# The beginnings of files that are handed in instead of code, with their kinds and remedies.
_KINDS = (
    (
        rb"version https://git-lfs\.github\.com/spec/",
        "it is a pointer of Git LFS, not a Python file; `git lfs pull` fetches the file to hand in",
    ),
    (
        rb"(?i)(<!doctype|<html|<head|<body|<\?xml|bplist|From: <Saved by|MIME-Version:)",
        "it is a web page, not a Python file; sign in and download the file, or copy the code out",
    ),
    (rb"\{\\rtf", "it is a document (RTF), not a Python file; save it as plain text"),
    (rb"%PDF-", "it is a PDF, not a Python file; hand in the code as text"),
    (
        rb"PK\x03\x04",
        "it is a zip archive or an office document, not a Python file; hand in the code as text",
    ),
    (rb"\xd0\xcf\x11\xe0", "it is an office document, not a Python file; save it as plain text"),
    (
        rb"\x1f\x8b|BZh\d|\xfd7zXZ|7z\xbc\xaf|Rar!",
        "it is an archive, not a Python file; hand in the files in it",
    ),
    (
        rb"\x89PNG|\xff\xd8\xff|GIF8|BM.{4}\0\0\0\0|RIFF.{4}WEBP",
        "it is an image, not a Python file; hand in the code as text",
    ),
    (
        rb"[\x80-\xff]\r\r\n",
        "it is compiled Python; hand in the source, the file that ends in .py",
    ),
    (rb"\0\x05\x16[\0\x07]", "it is data of macOS about a file; hand in the file itself"),
    (
        rb"(diff --git |Index: \S|From [0-9a-f]{40} |--- \S[^\n]*\n\+\+\+ \S|\*\*\* \S[^\n]*\n--- \S)",
        "it is a patch, not a Python file; hand in the whole file as it is after the change",
    ),
    (
        # A link that git wrote on a system without links, or a shortcut.
        rb"(L\0\0\0\x01\x14\x02|\[InternetShortcut\]|[\w.~ -]*([/\\][\w.~ -]+)+\.py\s*\Z|\w+\.py\s*\Z)",
        "it is the text of a link, not a Python file; hand in the file to which it leads",
    ),
)
_FOREIGN = tuple((re.compile(begin, re.DOTALL), meaning) for begin, meaning in _KINDS)
_NOTEBOOK = "it is a notebook, not a Python file; copy the code out of its cells"
_JSON = "it is JSON, not a Python file; hand in the code as text"

# Lines that show that text was copied from elsewhere, and their meanings.
_FOREIGN_LINES = (
    (
        re.compile(r"(<{7}|>{7}|\|{7})( |$)"),
        "a merge left its marks (<<<<<<<, =======, >>>>>>>); keep one of the versions and delete the marks",
    ),
    (re.compile(r"(>>>|In \[\d+\]:|Out\[\d+\]:)( |$)"), "a prompt was copied; delete it"),
    (re.compile(r"(```|~~~)"), "such a line marks code in a text, and is no code; delete it"),
    (re.compile(r"[%!]"), "lines with % or ! are for notebooks; delete this line"),
)
# A line of Python 2.
_OLD = re.compile(
    r"print\b(?!\s*\()|exec\b(?!\s*\()|raise\s+[\w.]+\s*,|except\s+(\([^)]*\)|[\w.]+)\s*,\s*[a-z_]\w*\s*:|.*<>"
)
_QUOTES = frozenset("“”„‘’‚«»´")  # noqa: RUF001  # of word processors
# What stands for these signs in a text that was set for print.
_PLAIN = {
    **dict.fromkeys("\N{MINUS SIGN}\N{EN DASH}\N{EM DASH}\N{NON-BREAKING HYPHEN}", "-"),
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{NOT EQUAL TO}": "!=",
    "\N{SUPERSCRIPT TWO}": "**2",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
}
_LONGEST_EXPLAINED = 200_000
_LONGEST_LINE = 1000


class _NewerSyntax(NamedTuple):
    """New syntax of a Python version, recognized by the line and an older Python's message."""

    since: tuple[int, int]
    name: str
    line: re.Pattern[str]
    python_says: re.Pattern[str] = re.compile("")


_NEWER = (
    _NewerSyntax((3, 15), "a lazy import", re.compile(r"\s*lazy\s+(import|from)\b")),
    _NewerSyntax(
        (3, 15),
        "unpacking in a comprehension",
        re.compile(r".*[\[({]\s*\*"),
        re.compile("(iterable|dict) unpacking cannot be used"),
    ),
    _NewerSyntax(
        (3, 14),
        "except with several types and no parentheses",
        re.compile(r"\s*except\b[^:]*,[^:]*:"),
        re.compile("multiple exception types|invalid syntax|expected"),
    ),
    _NewerSyntax((3, 14), "a template string", re.compile(r".*(?<![\w.])(t|tr|rt)[\"']", re.I)),
    _NewerSyntax(
        (3, 13),
        "a default of a type parameter",
        re.compile(r"\s*((async\s+)?def|class|type)\s+\w+\s*\[[^\]]*\w\s*="),
    ),
    _NewerSyntax(
        (3, 12),
        "a list of type parameters",
        re.compile(r"\s*((async\s+)?def|class)\s+\w+\s*\["),
    ),
    _NewerSyntax((3, 12), "a type statement", re.compile(r"\s*type\s+\w+\s*(\[.*\]\s*)?=")),
    _NewerSyntax(
        (3, 12),
        "an f-string with its own quotes, a backslash or a comment in braces",
        # The quotation mark of the string is also within its braces.
        re.compile(r".*(?<!\w)(f|fr|rf)([\"'])((?!\2).)*\{[^{}]*(\2[^{}]*\}|\\|#)", re.I),
        re.compile("f-string|invalid syntax|unterminated|forgot a comma"),
    ),
)


def newer_syntax(line: str, message: str, judging: tuple[int, int]) -> str:
    """Return a sentence on a line with syntax of a newer Python than the `judging` one, empty if unknown."""
    for newer in _NEWER:
        if judging < newer.since and newer.line.match(line) and newer.python_says.match(message):
            major, minor = newer.since
            here = ".".join(map(str, judging))
            return (
                f"{newer.name} is syntax of Python {major}.{minor}, but Python {here}"
                " judges here; write it in a way that this version reads"
            )
    return ""


def _kind_of(source: bytes) -> str:
    """Return the kind of a file by its first bytes, empty if it may be Python."""
    begin = source.removeprefix(codecs.BOM_UTF8).lstrip()
    if begin[:1] == b"{" and b'"cells"' in source and b'"nbformat"' in source:
        return _NOTEBOOK
    if begin[:1] in (b"{", b"["):
        # Python can parse most JSON, too, but no answer is a single value.
        with contextlib.suppress(ValueError, RecursionError):
            msgspec.json.decode(begin)
            return _JSON
    return next((meaning for pattern, meaning in _FOREIGN if pattern.match(begin)), "")


def _explained(source: bytes, error: SyntaxError) -> Look:
    """Return the wrong line and an explanation, in Python's words if there is no better one."""
    text = source.decode("utf-8-sig", "replace")
    lines = re.split(r"\r\n|\r|\n", text[:_LONGEST_EXPLAINED])
    number = error.lineno or 1
    # Python may report an error below the first mark of a merge.
    pattern, meaning = _FOREIGN_LINES[0]
    if marks := [row for row, line in enumerate(lines, 1) if pattern.match(line)]:
        return Look(State.INVALID, marks[0], meaning)
    line = lines[number - 1][:_LONGEST_LINE] if 0 < number <= len(lines) else ""
    for pattern, meaning in _FOREIGN_LINES[1:]:
        if pattern.match(line.lstrip()):
            return Look(State.INVALID, number, meaning)
    if foreign := _other_language(line, error.msg):
        return Look(State.INVALID, number, foreign, is_foreign=True)
    is_no_text = error.lineno is not None and _is_no_utf8(source)
    return Look(State.INVALID, number, error.msg + _remedy(error.msg), is_foreign=is_no_text)


def _other_language(line: str, message: str) -> str:
    """Return a sentence on a line for another version of Python, empty if unknown."""
    if _OLD.match(line.lstrip()) and not message.startswith(("unterminated", "'")):
        return "it is written for Python 2; write it for Python 3"
    return newer_syntax(line, message, sys.version_info[:2])


def _is_no_utf8(source: bytes) -> bool:
    """Whether a file is not text in UTF-8."""
    try:
        decode(source)
    except SyntaxError:
        return True
    return False


def _remedy(message: str) -> str:
    """Return advice on a character that only looks like one of Python's."""
    if message.startswith("invalid non-printable character"):
        return "; it looks like a space or like nothing: delete it, and type a space if one belongs there"
    if not (found := re.match(r"invalid character '(.)'", message)):
        return ""
    if found[1] in _QUOTES:
        return "; type a plain quotation mark instead"
    # Full-width signs of East Asian keyboards are plain ones in another form.
    plain = _PLAIN.get(found[1]) or unicodedata.normalize("NFKC", found[1])
    return f"; type {plain} instead" if plain.isascii() else ""


# Names that later versions added to the standard library, and that students may import.
_ADDED = {
    (
        3,
        12,
    ): "typing.override typing.TypeAliasType itertools.batched collections.abc.Buffer math.sumprod "
    "types.get_original_bases random.binomialvariate calendar.Month calendar.Day sys.monitoring",
    (
        3,
        13,
    ): "typing.TypeIs typing.ReadOnly typing.NoDefault typing.get_protocol_members typing.is_protocol "
    "warnings.deprecated copy.replace math.fma queue.ShutDown asyncio.QueueShutDown types.CapsuleType "
    "pathlib.UnsupportedOperation os.process_cpu_count re.PatternError dbm.sqlite3",
    (
        3,
        14,
    ): "string.templatelib annotationlib compression concurrent.interpreters functools.Placeholder "
    "concurrent.futures.InterpreterPoolExecutor heapq.heapify_max heapq.heappush_max heapq.heappop_max "
    "operator.is_none operator.is_not_none typing.evaluate_forward_ref io.Reader io.Writer uuid.uuid7",
}


def about_names(source: bytes) -> str:
    """Return a sentence on names that this Python lacks, or that only a notebook has, else empty."""
    return newer_names(source, sys.version_info[:2])


def newer_names(source: bytes, judging: tuple[int, int]) -> str:
    """Return the same sentence for a given version of Python."""
    try:
        names = dotted_names(parse(source))
    except SyntaxError:
        return ""
    here = ".".join(map(str, judging))
    for (major, minor), added in _ADDED.items():
        for name in added.split() if judging < (major, minor) else ():
            if any(is_within(used, name) for used in names):
                return f"{name} is available since Python {major}.{minor}, but Python {here} judges here."
    if "get_ipython" in names:
        return "It is the export of a notebook: delete the lines with get_ipython()."
    return ""


# --- requests to look at an exercise again, as a text file beside the work: `glu.request.txt` -------

# The longest part of a message that is kept.
MOST_CHARACTERS = 2000
# With the names that Canvas and browsers give to copies, as for exercises.
_NAME = re.compile(
    r"(?P<exercise>[a-z0-9_]+)\.request(?:-\d{1,3}| ?\(\d{1,3}\))?\.(?:txt|md)", re.IGNORECASE
)


def requested(course: Course, name: str) -> str | None:
    """Return the exercise that a request file of this name asks about, None for another file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    asked = match["exercise"].lower()
    return asked if any(exercise.id == asked for exercise in course.exercises) else None


def message_of(text: str) -> str:
    """Return a message in the form that is kept: one bounded line, with invisible characters escaped."""
    return clean(" ".join(text[: 8 * MOST_CHARACTERS].split()), MOST_CHARACTERS)
