"""JSON Lines: every entry whole, one a line, for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

import msgspec

from grader.exports.disclosure import Audience
from grader.exports.files import ClassFormat, Options
from grader.results import Entry


def write(entries: Iterable[Entry], out: IO[bytes], options: Options) -> list[str]:  # noqa: ARG001  # as every format
    """Write every entry as it is in `grader.results.Entry`."""
    encode = msgspec.json.Encoder().encode
    for entry in entries:
        # Legal in JSON, and a line break to many who read line by line.
        line = (
            encode(entry).replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")
        )
        out.write(line + b"\n")
    return []


FORMAT = ClassFormat("everything, an entry a line", Audience.STAFF, (), write)
