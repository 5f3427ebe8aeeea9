"""Tables of comma-separated values as spreadsheets and platforms write them, in any encoding and line end."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.errors import SubmissionError

MAX_BYTES = 50 << 20
_SEPARATORS = (",", ";", "\t")
_SEPARATOR_LINE = re.compile(r'\s*"?sep=([,;\t|])"?[ ,;\t]*(?:\r\n?|\n|$)', re.IGNORECASE)
# A sign separates groups of three digits: 1,234.50 and 1.234,50, or with spaces or apostrophes.
_GROUPED = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d{1,3}(?P<mark>[,.'\u2019 \u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*)"
    r"(?P<rest>(?!(?P=mark))[.,]\d+)?"
)
_PLAIN = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)")


class Sheet(msgspec.Struct, frozen=True):
    """A table: its header, its rows (as long as the header, or longer), and its form in the file.

    `numbers` has the number of each row in a spreadsheet, and `lines` its first line in the file. `marked` is
    true if the file begins with a byte order mark.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]
    lines: tuple[int, ...]
    separator: str
    marked: bool

    def where(self, at: int) -> str:
        """Return a row's place for a message: `row 5`, and its line if that has another number."""
        number, line = self.numbers[at], self.lines[at]
        return f"row {number}" if number == line else f"row {number} (line {line} of the file)"


def read_sheet(path: Path, what: str, *, utf8: bool = False) -> Sheet:
    """Read a table with a header.

    Args:
        path: the file.
        what: the name of the file at the beginning of errors.
        utf8: whether to refuse encodings except UTF-8 and UTF-16, for a file that is written again.

    Raises:
        SubmissionError: the file is not such a table; the text has the reason and a remedy.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SubmissionError(f"{what} cannot be read: {error.strerror}.") from error
    if len(raw) > MAX_BYTES:
        raise SubmissionError(f"{what} is larger than {MAX_BYTES >> 20} MiB: is it a class list?")
    if raw.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise SubmissionError(
            f"{what} is a workbook or an archive: save the list as CSV, and name that file."
        )
    text = _decoded(raw, what, utf8=utf8)
    if text.lstrip().startswith("<"):
        raise SubmissionError(
            f"{what} is a web page: sign in on the platform, and download the file again."
        )
    text, separator = _without_separator_line(text)
    first = 2 if separator else 1
    separator = separator or _separator(text)
    records = [
        record
        for record in _records(text, separator, first, what)
        if record[2] and (any(map(str.strip, record[2])) or len(record[2]) > 1)
    ]
    while records and not any(map(str.strip, records[0][2])):
        del records[0]
    _, _, header = records.pop(0) if records else (0, 0, [])
    return Sheet(
        tuple(header),
        tuple((*cells, *[""] * (len(header) - len(cells))) for _, _, cells in records),
        tuple(number for number, _, _ in records),
        tuple(line for _, line, _ in records),
        separator,
        raw.startswith(b"\xef\xbb\xbf"),
    )


def as_number(cell: str) -> float | None:
    """Return the number in a cell, in any country's notation; None for other text, nan and inf.

    >>> as_number("1.234,50"), as_number("15,0"), as_number("B+")
    (1234.5, 15.0, None)
    """
    text = cell.strip()
    # As in Canvas, a single comma or point begins the decimals: 1,234 is a little more than one.
    if (match := _GROUPED.fullmatch(text)) is not None and (
        match["rest"] or match["mark"] not in ",." or match["whole"].count(match["mark"]) > 1
    ):
        whole = match["whole"].replace(match["mark"], "")
        text = f"{match['sign']}{whole}{match['rest'] or ''}"
    elif _PLAIN.fullmatch(text) is None:
        return None
    value = float(text.replace(",", "."))
    return value if math.isfinite(value) else None


def _decoded(raw: bytes, what: str, *, utf8: bool) -> str:
    """Return the text of a file; each line may have its own encoding."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if utf8:
            raise SubmissionError(
                f"{what} is not in UTF-8: use the file as it was downloaded, or save it as 'CSV UTF-8'."
            ) from error
    # In these encodings, line ends and separators are the same bytes.
    end, older = (b"\n", "cp1252") if b"\n" in raw else (b"\r", "mac_roman")
    return end.decode().join(
        _line(line, older) for line in raw.removeprefix(b"\xef\xbb\xbf").split(end)
    )


def _line(line: bytes, older: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(older, "replace")


def _without_separator_line(text: str) -> tuple[str, str]:
    """Return a table without a first line `sep=;` for Excel, and the separator in that line, if any."""
    match = _SEPARATOR_LINE.match(text)
    return (text[match.end() :], match[1]) if match else (text, "")


def _separator(text: str) -> str:
    """Return the sign that splits the header into the most columns."""
    header = next((line for line in text.splitlines() if line.strip()), "").replace("\0", "")
    columns = {sign: next(csv.reader([header], delimiter=sign), []) for sign in _SEPARATORS}
    return max(_SEPARATORS, key=lambda sign: len(columns[sign]))


def _records(
    text: str, separator: str, first: int, what: str
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield each row's number in a spreadsheet, first line, and cells; an empty line is a row, too."""
    # Read without translation, so that line ends of old Macs end lines, too.
    lines = io.StringIO(text.replace("\0", "\ufffd"), newline="")
    reader = csv.reader(lines, delimiter=separator, strict=True)
    number, line = 0, first
    while True:
        number += 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why = str(error)
            if "unexpected end" in why or "field larger" in why:
                why = "a cell begins with a quotation mark, but does not end with one"
            elif "expected after" in why:
                why = 'write a quotation mark in a cell twice (""), and put the cell in quotes'
            raise SubmissionError(f"{what} cannot be read: row {number}: {why}.") from error
        yield number, line, cells
        line = first + reader.line_num
