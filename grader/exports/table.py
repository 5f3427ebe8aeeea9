"""Tables of comma-separated values: ours, in which no cell is a formula, and others' that we fill in."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec

from grader.exports.files import ExportError
from grader.exports.texts import one_line
from grader.submissions.roster import without_separator_line

# A spreadsheet takes a cell that begins so for a formula; the wide forms are those of East Asian input.
# Which sign parts its cells depends on the country: what follows any of them may begin a cell, too.
_FORMULA = re.compile(r'(^|[;,|\t\r\n])([ "]*)(?=[=+\-@＝＋－＠])')  # noqa: RUF001  # as typed
_CONTROLS = ("\t", "\r", "\n")
_SEPARATORS = (",", ";", "\t")
_LARGEST_TEMPLATE = 50_000_000


class Table:
    """Writes rows as UTF-8 to a binary stream, one at a time.

    A student chooses names and file contents; opened in a spreadsheet, a cell `=HYPERLINK(...)` would run. So
    every cell is guarded by an apostrophe where it begins like a formula.
    """

    def __init__(self, out: IO[bytes], separator: str = ",") -> None:
        # As in RFC 4180; a lone return inside a cell is quoted only where it belongs to the line end.
        self._writer = csv.writer(_Utf8(out), delimiter=separator, lineterminator="\r\n")

    def row(self, cells: Iterable[str]) -> None:
        """Write a row of our own: names are put on one line, and no cell is a formula."""
        self.kept(one_line(cell) for cell in cells)

    def kept(self, cells: Iterable[str]) -> None:
        """Write a row of another table as it is, with formulas made harmless."""
        first, *others = cells
        # With another separator the whole line may be one cell, which begins as the first one does.
        self._writer.writerow(["'-" if first == "-" else guarded(first), *map(guarded, others)])


class _Utf8:
    """A text stream for the csv module; one of Python's own would close ours."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.encode("utf-8", "replace"))


def guarded(cell: str) -> str:
    """The cell, with an apostrophe before a formula; a dash alone is not one."""
    if cell == "-":
        return cell
    safe = _FORMULA.sub(r"\1\2'", cell)
    return f"'{safe}" if safe.startswith(_CONTROLS) else safe


class Sheet(msgspec.Struct, frozen=True):
    """A table as another program wrote it: its header, its rows, and how they were written."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    separator: str
    marked: bool

    def start(self, out: IO[bytes]) -> Table:
        """A table written in the same way."""
        if self.marked:
            out.write("\ufeff".encode())
        return Table(out, self.separator)


def read_sheet(path: Path) -> Sheet:
    """Read a template; rows are made as long as the header. Raises ExportError if it is no table."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_TEMPLATE + 1)
    except OSError as error:
        raise ExportError(f"The template {path} cannot be read: {error.strerror}.") from error
    if len(raw) > _LARGEST_TEMPLATE:
        raise ExportError(f"The template {path} is larger than {_LARGEST_TEMPLATE:,} bytes.")
    try:
        text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExportError(
            f"The template {path} is not in UTF-8: use the file as it was downloaded, or save it as "
            "'CSV UTF-8'."
        ) from error
    text, separator = without_separator_line(text)
    try:
        if not separator:
            # The one that parts the header into the most columns.
            first = text.partition("\n")[0]
            columns = {sign: next(csv.reader([first], delimiter=sign), []) for sign in _SEPARATORS}
            separator = max(_SEPARATORS, key=lambda sign: len(columns[sign]))
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise ExportError(
            f"The template {path} is no table of comma-separated values: {error}."
        ) from error
    header, *rows = [line for line in lines if line] or [[]]
    if len(header) < 2:
        raise ExportError(f"The template {path} has no header with columns in its first line.")
    return Sheet(
        tuple(header),
        tuple((*row, *[""] * (len(header) - len(row))) for row in rows),
        separator,
        raw.startswith(b"\xef\xbb\xbf"),
    )
