"""What is left of a file when layout and free choices of names are taken away: runs of tokens, hashed.

Comments, docstrings and layout are dropped. Every name of the student's own choice, every number and
every string reads the same; what is called on something (the `chunk` of `x.chunk`) and Python's own
names stay. The hash of a run is the same in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Tokens in a run: about one line of code. Shorter runs are idioms that everybody writes.
RUN = 12
# Of a file that is longer than any solution, only the beginning is compared.
_LONGEST_SOURCE = 100_000
_MULTIPLIER = 0x9E3779B97F4A7C15
_STRING = '"'


class Fingerprint(msgspec.Struct, frozen=True):
    """The hash of every run of `RUN` tokens in order, (n,), and the line of every token, (n + RUN - 1,)."""

    runs: NDArray[np.uint64]
    lines: NDArray[np.uint16]

    def spans(self, shared: NDArray[np.uint64]) -> tuple[tuple[int, int], ...]:
        """First and last line of each stretch of tokens that these runs cover."""
        import numpy as np

        # How many shared runs begin before each token, less those that have ended.
        begun = np.zeros(len(self.lines) + 2, np.intp)
        places = np.flatnonzero(np.isin(self.runs, shared))
        begun[places + 1] += 1
        begun[places + 1 + RUN] -= 1
        covered = begun.cumsum() > 0
        edges = np.flatnonzero(covered[1:] != covered[:-1])
        stretches: list[tuple[int, int]] = []
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            first, last = int(self.lines[begin]), int(self.lines[end - 1])
            if stretches and first <= stretches[-1][1] + 1:
                first = stretches.pop()[0]
            stretches.append((first, last))
        return tuple(stretches)


class Reader:
    """Reads files; the same bytes, which whole classes hand in, are read once."""

    def __init__(self) -> None:
        from pygments.lexers.python import PythonLexer

        self._lexer: Any = PythonLexer()
        self._codes: dict[str, int] = {}
        self._read: dict[bytes, Fingerprint] = {}

    def read(self, source: bytes) -> Fingerprint:
        """The fingerprint of a file; no code is too broken for it."""
        key = hashlib.sha256(source).digest()
        if key not in self._read:
            self._read[key] = self._fingerprint(source)
        return self._read[key]

    def _fingerprint(self, source: bytes) -> Fingerprint:
        import numpy as np

        text = source[:_LONGEST_SOURCE].decode("utf-8", "replace")
        # Of lines of blanks alone the lexer takes a time that grows with their square.
        text = "\n".join(line.rstrip() for line in text.split("\n"))
        tokens = list(self._tokens(text))
        lines = np.array([min(line, 0xFFFF) for line, _ in tokens], np.uint16)
        codes = np.array([self._code(shown) for _, shown in tokens], np.uint64)
        count = max(len(tokens) - RUN + 1, 0)
        runs = np.zeros(count, np.uint64)
        for place in range(RUN):
            # Arithmetic of unsigned arrays wraps, as a hash should.
            factor = pow(_MULTIPLIER, place + 1, 1 << 64)
            runs += codes[place : place + count] * np.full(count, factor, np.uint64)
        return Fingerprint(runs, lines)

    def _code(self, shown: str) -> int:
        if shown not in self._codes:
            digest = hashlib.blake2b(shown.encode("utf-8", "replace"), digest_size=8).digest()
            self._codes[shown] = int.from_bytes(digest, "little")
        return self._codes[shown]

    def _tokens(self, text: str) -> Iterator[tuple[int, str]]:
        """The line of each token that counts, and how it reads."""
        from pygments.token import Comment, Name, Number, String, Text

        line, before, owner = 1, "", ""
        for _, kind, written in self._lexer.get_tokens_unprocessed(text):
            here, line = line, line + written.count("\n")
            if kind in Text or kind in Comment or kind is String.Doc:
                continue
            shown: str = written
            if kind in String:
                if before == _STRING:  # Quotes, escapes and text are parts of one string.
                    continue
                shown = _STRING
            elif kind in Number:
                shown = "0"
            elif kind in Name and not _is_called_on(kind, written, before, owner):
                shown = "name"
            owner = before if written == "." else owner
            before = written if kind in Name else shown
            yield here, shown


def _is_called_on(kind: Any, written: str, before: str, owner: str) -> bool:
    """Whether a name is the library's choice: one of Python's own, or an attribute but of `self`."""
    from pygments.token import Name

    if before == ".":
        return owner not in ("self", "cls")
    return kind in Name.Builtin and written not in ("self", "cls")
