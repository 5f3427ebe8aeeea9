"""Comma-separated values: our own tables, in which no cell is a formula, and templates that we fill in."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from grader.errors import SubmissionError
from grader.exports.files import ExportError
from grader.exports.texts import one_line
from grader.submissions.sheet import Sheet, read_sheet

# A spreadsheet takes a cell that begins like this for a formula; the wide forms are from East Asian input. The
# separator of cells depends on the country, so the text after any of them may begin a cell, too.
_FORMULA = re.compile(r'(^|[;,|\t\r\n])([ "]*)(?=[=+\-@＝＋－＠])')  # noqa: RUF001  # as typed
_CONTROLS = ("\t", "\r", "\n")


class Table:
    """Writes rows as UTF-8 to a binary stream, one at a time.

    Students choose names and file contents, and a spreadsheet would run a cell such as `=HYPERLINK(...)`. So
    every cell that begins like a formula gets an apostrophe before it.
    """

    def __init__(self, out: IO[bytes], separator: str = ",") -> None:
        # As in RFC 4180; a lone return inside a cell is quoted only if it belongs to the line end.
        self._writer = csv.writer(_Utf8(out), delimiter=separator, lineterminator="\r\n")

    def row(self, cells: Iterable[str]) -> None:
        """Write a row of our own: names are put on one line, and no cell is a formula."""
        self.kept(one_line(cell) for cell in cells)

    def kept(self, cells: Iterable[str]) -> None:
        """Write a row of another table unchanged, with formulas made harmless."""
        first, *others = cells
        # With another separator the whole line may be one cell, beginning like the first.
        self._writer.writerow(["'-" if first == "-" else guarded(first), *map(guarded, others)])


class _Utf8:
    """A text stream for the csv module; Python's own would close ours."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.encode("utf-8", "replace"))


def guarded(cell: str) -> str:
    """Return the cell, with an apostrophe before a formula; a single dash is not a formula."""
    if cell == "-":
        return cell
    safe = _FORMULA.sub(r"\1\2'", cell)
    return f"'{safe}" if safe.startswith(_CONTROLS) else safe


def read_template(path: Path) -> Sheet:
    """Read the file that an export fills in; raises ExportError if it is not a table."""
    try:
        sheet = read_sheet(path, f"The template {path}", utf8=True)
    except SubmissionError as error:
        raise ExportError(str(error)) from error
    if len(sheet.header) < 2:
        raise ExportError(f"The template {path} has no header with columns in its first line.")
    return sheet


def filled_in(out: IO[bytes], sheet: Sheet) -> Table:
    """Open a table written in the same way as a template."""
    if sheet.marked:
        out.write(codecs.BOM_UTF8)
    return Table(out, sheet.separator)
