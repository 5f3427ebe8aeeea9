"""What a file that is not valid Python is instead, in words that say what to do."""

from __future__ import annotations

import re

# A line by which a text from elsewhere is known, and what it means.
_LINES = (
    (
        re.compile(r"(<{7}|>{7}|\|{7})( |$)"),
        "a merge left its marks (<<<<<<<, =======, >>>>>>>); keep one of the versions and delete the marks",
    ),
    (re.compile(r"(>>>|In \[\d+\]:|Out\[\d+\]:)( |$)"), "a prompt was copied; delete it"),
    (re.compile(r"(```|~~~)"), "such a line marks code in a text, and is no code; delete it"),
    (re.compile(r"[%!]"), "lines with % or ! are for notebooks; delete this line"),
)
_QUOTES = frozenset("“”„‘’‚«»´")  # noqa: RUF001  # as editors of prose write them
_LONGEST = 200_000


def notebook_in(source: bytes) -> bool:
    """Whether it is the file of a notebook under the name of a Python file."""
    begin = source.lstrip()[:1] == b"{"
    return begin and b'"cells"' in source and b'"nbformat"' in source


NOTEBOOK = "it is a notebook, not a Python file; copy the code out of its cells"


def explained(text: str, error: SyntaxError) -> tuple[int, str]:
    """The line to look at and what stands there, in Python's words if nothing more is known."""
    lines = re.split(r"\r\n|\r|\n", text[:_LONGEST])
    number = error.lineno or 1
    # Python may find the fault below the first mark of a merge, and above its other ones.
    pattern, meaning = _LINES[0]
    if marks := [row for row, line in enumerate(lines, 1) if pattern.match(line)]:
        return marks[0], meaning
    line = lines[number - 1].lstrip() if number <= len(lines) else ""
    for pattern, meaning in _LINES[1:]:
        if pattern.match(line):
            return number, meaning
    return number, error.msg + _remedy(error.msg)


def _remedy(message: str) -> str:
    """What to do about a character that only looks like one of Python's."""
    if message.startswith("invalid non-printable character"):
        return "; it looks like a space or like nothing: delete it, and type a space if one belongs there"
    if message.startswith("invalid character") and _QUOTES & set(message):
        return "; type a plain quotation mark instead"
    return ""
