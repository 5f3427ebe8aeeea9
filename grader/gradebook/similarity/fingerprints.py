"""Fingerprints of files: runs of tokens, hashed, in whatever way the code is laid out and named.

A file is read in its normal form (`normal_form`). One that does not parse is read as text: every name of the
student's own choice, every number and every string reads the same. The hash of a run is the same in every
process.

The text is read by one regular expression that never goes back: each loop in it is possessive, and no
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
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

import msgspec

from grader.gradebook.similarity.normal_form import Token, names_in, tokens_of
from grader.submissions.source import parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Tokens in a run: about one statement. Shorter runs are idioms of the language.
RUN = 8
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
    """The hash of every run of `RUN` tokens, (n,); the first and last line of each token, (n + RUN - 1, 2)."""

    runs: NDArray[np.uint64]
    lines: NDArray[np.uint16]

    def covered(self, shared: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which tokens stand in one of the runs that are shared."""
        import numpy as np

        covered = np.zeros(len(self.lines), bool)
        for place in range(RUN):
            covered[place : place + len(self.runs)] |= shared
        return covered

    def spans(self, shared: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
        """First and last line of each stretch of statements that these runs cover."""
        stretches: list[tuple[int, int]] = []
        for first, last in sorted({(int(a), int(b)) for a, b in self.lines[self.covered(shared)]}):
            if stretches and first <= stretches[-1][1] + 1:
                begin, end = stretches.pop()
                first, last = begin, max(end, last)
            stretches.append((first, last))
        return tuple(stretches)


class Reader:
    """Reads files of an exercise; the same bytes, which whole classes hand in, are read once.

    `stub` is what the students were given: its names are not of their choice.
    """

    def __init__(self, stub: bytes) -> None:
        self._codes: dict[str, int] = {}
        self._fingerprints: dict[bytes, Fingerprint] = {}
        try:
            self._given: Set[str] = names_in(parse(stub))
        except SyntaxError:
            self._given = frozenset()

    def read(self, source: bytes) -> Fingerprint:
        """The fingerprint of a file; no code is too broken for it."""
        key = hashlib.sha256(source).digest()
        if key not in self._fingerprints:
            self._fingerprints[key] = self._fingerprint(source)
        return self._fingerprints[key]

    def _fingerprint(self, source: bytes) -> Fingerprint:
        """Hash every run of tokens: a sum of the tokens' codes, each times a power by its place in the run."""
        import numpy as np

        tokens = self._tokens(source)
        lines = np.array([(min(t.first, 0xFFFF), min(t.last, 0xFFFF)) for t in tokens], np.uint16)
        codes = np.array([self._code(token.text) for token in tokens], np.uint64)
        count = max(len(tokens) - RUN + 1, 0)
        runs = np.zeros(count, np.uint64)
        for place in range(RUN):
            # Arithmetic of unsigned arrays wraps, as a hash should.
            factor = pow(_MULTIPLIER, place + 1, 1 << 64)
            runs += codes[place : place + count] * np.full(count, factor, np.uint64)
        return Fingerprint(runs, lines.reshape(-1, 2))

    def _tokens(self, source: bytes) -> list[Token]:
        """The tokens of a file: of its syntax tree, or of its text where it has none or is too long."""
        if len(source) <= _LONGEST_SOURCE:
            try:
                return tokens_of(parse(source), self._given)
            except (SyntaxError, RecursionError):
                pass
        text = source[:_LONGEST_SOURCE].decode("utf-8", "replace")
        return [Token(word, line, line) for line, word in _tokens(text)]

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
