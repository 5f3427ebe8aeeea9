"""Fingerprints of files, free of layout and of chosen names: runs of tokens, hashed.

Comments, docstrings and layout are dropped. Every name of the student's own choice, every number and
every string reads the same; an attribute (the `chunk` of `x.chunk`) and Python's own names stay. The hash of
a run is the same in every process.

The tokens are read by one regular expression that never goes back: each loop in it is possessive, and no
alternative that has begun can fail. Pygments and `tokenize` take a time that grows with the square of a
hostile file (a string of quotes behind backslashes: 40,000 characters, 10 s), and `tokenize` stops at code
that does not compile.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Tokens in a run: about one line of code. Shorter runs are idioms that everybody writes.
RUN = 12
# Of a file that is longer than any solution, only the beginning is compared.
_LONGEST_SOURCE = 100_000
# No library has a longer name, and the time to normalize it grows with its square.
_LONGEST_NAME = 200
_MULTIPLIER = 0x9E3779B97F4A7C15
_STRING = '"'
_OWN_NAMES = frozenset({*dir(builtins), *keyword.kwlist})

# An unclosed string ends with its line, or with the file. As for Python itself, every character beyond ASCII
# may stand in a name.
TOKEN = re.compile(
    r"""
    (?P<blank> [^\S\n]++ | \\\n | \#[^\n]*+ )
  | (?P<newline> \n )
  | (?P<string> (?: [bBrRuUfFtT]{1,2}+ (?=["']) )?+
        (?: "{3} (?: [^"\\] | \\[\s\S]?+ | "(?!"") )*+ (?: "{3} )?+
          | '{3} (?: [^'\\] | \\[\s\S]?+ | '(?!'') )*+ (?: '{3} )?+
          | " (?: [^"\\\n] | \\[\s\S]?+ )*+ "?+
          | ' (?: [^'\\\n] | \\[\s\S]?+ )*+ '?+ ) )
  | (?P<name> [A-Za-z_\x80-\U0010ffff] [\w\x80-\U0010ffff]*+ )
  | (?P<number> \.?+ [0-9] (?: [eE][+-][0-9] | [\w.] )*+ )
  | (?P<operator> [!=:]= | << | >> | [\s\S] )
    """,
    re.VERBOSE,
)


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
        self._codes: dict[str, int] = {}
        self._fingerprints: dict[bytes, Fingerprint] = {}

    def read(self, source: bytes) -> Fingerprint:
        """The fingerprint of a file; no code is too broken for it."""
        key = hashlib.sha256(source).digest()
        if key not in self._fingerprints:
            self._fingerprints[key] = self._fingerprint(source)
        return self._fingerprints[key]

    def _fingerprint(self, source: bytes) -> Fingerprint:
        import numpy as np

        tokens = list(_tokens(source[:_LONGEST_SOURCE].decode("utf-8", "replace")))
        lines = np.array([min(line, 0xFFFF) for line, _ in tokens], np.uint16)
        codes = np.array([self._code(text) for _, text in tokens], np.uint64)
        count = max(len(tokens) - RUN + 1, 0)
        runs = np.zeros(count, np.uint64)
        for place in range(RUN):
            # Arithmetic of unsigned arrays wraps, as a hash should.
            factor = pow(_MULTIPLIER, place + 1, 1 << 64)
            runs += codes[place : place + count] * np.full(count, factor, np.uint64)
        return Fingerprint(runs, lines)

    def _code(self, text: str) -> int:
        if text not in self._codes:
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
            self._codes[text] = int.from_bytes(digest, "little")
        return self._codes[text]


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """The line of each token that counts, and how it reads."""
    next_line, depth, begins_line = 1, 0, True
    owner, before = "", ""
    for match in TOKEN.finditer(text):
        kind, word = match.lastgroup, match[0]
        line, next_line = next_line, next_line + word.count("\n")
        if kind == "newline":
            begins_line = True
        if kind in ("newline", "blank"):
            continue
        is_docstring, begins_line = begins_line and not depth and kind == "string", False
        # Strings beside each other are one string for Python, too.
        if is_docstring or (kind == "string" and before == _STRING):
            continue
        if kind == "name":
            word = _plain_name(word)
        depth = max(depth + (word in "([{") - (word in ")]}"), 0)
        yield line, _reading(kind, word, owner, before)
        owner, before = before if word == "." else "", _STRING if kind == "string" else word


def _plain_name(name: str) -> str:
    """A name as Python knows it: a full-width letter is the letter."""
    if name.isascii() or len(name) > _LONGEST_NAME:
        return name
    return unicodedata.normalize("NFKC", name)


def _reading(kind: str | None, word: str, owner: str, before: str) -> str:
    """The text that stands in a run for a token; an attribute, but one of `self`, is the library's."""
    if kind == "string":
        return _STRING
    if kind == "number":
        return "0"
    if kind != "name" or word in _OWN_NAMES:
        return word
    return word if before == "." and owner not in ("self", "cls") else "name"
