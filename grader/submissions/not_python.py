"""Files that are not valid Python, with remedies: their kind, the wrong line, and names of a newer Python."""

from __future__ import annotations

import codecs
import contextlib
import re
import sys
import unicodedata
from typing import NamedTuple

import msgspec

from grader.course.names import is_within
from grader.submissions.source import decode, dotted_names, parse

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
    (
        re.compile(r"(```|~~~)"),
        "such a line marks code in a text and is not code itself; delete it",
    ),
    (re.compile(r"[%!]"), "lines with % or ! are for notebooks; delete this line"),
)
# A line of Python 2.
_OLD = re.compile(
    r"print\b(?!\s*\()|exec\b(?!\s*\()|raise\s+[\w.]+\s*,|except\s+(\([^)]*\)|[\w.]+)\s*,\s*[a-z_]\w*\s*:|.*<>"
)
_QUOTES = frozenset("“”„‘’‚«»´")  # noqa: RUF001  # of word processors
# Typeset characters, with the plain signs that they stand for.
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


def kind_of(source: bytes) -> str:
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


def explain_syntax_error(source: bytes, error: SyntaxError) -> tuple[int, str, bool]:
    """Return the wrong line, an explanation, in Python's words if there is no better one, and whether the file
    is foreign: not Python at all, or for another version of Python.
    """
    text = source.decode("utf-8-sig", "replace")
    lines = re.split(r"\r\n|\r|\n", text[:_LONGEST_EXPLAINED])
    number = error.lineno or 1
    # Python may report an error below the first mark of a merge.
    pattern, meaning = _FOREIGN_LINES[0]
    if marks := [row for row, line in enumerate(lines, 1) if pattern.match(line)]:
        return marks[0], meaning, False
    line = lines[number - 1][:_LONGEST_LINE] if 0 < number <= len(lines) else ""
    for pattern, meaning in _FOREIGN_LINES[1:]:
        if pattern.match(line.lstrip()):
            return number, meaning, False
    if foreign := _other_language(line, error.msg):
        return number, foreign, True
    is_no_text = error.lineno is not None and _is_no_utf8(source)
    return number, error.msg + _remedy(error.msg), is_no_text


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
