"""Fingerprints of files: runs of tokens, hashed, in whatever way the code is laid out and named.

A file is read in its normal form (`normal_form`). One that does not parse is read as text: every name of the
student's own choice, every number and every string reads the same. The hash of a run is the same in every
process.

The text is read by one regular expression in which no alternative that has begun can fail, so that the time
grows with the length alone. Pygments and `tokenize` take a time that grows with the square of a hostile file
(a string of quotes behind backslashes: 40,000 characters, 10 s), and `tokenize` stops at code that does not
compile.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
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
_MULTIPLIER = 0x9E3779B97F4A7C15
_OWN_NAMES = frozenset({*dir(builtins), *keyword.kwlist})
# Strings, which end with their line or with the file where no quote closes them; comments; names, numbers
# and signs.
_WORD = re.compile(
    r"""
    "{3} [\s\S]*? (?: "{3} | \Z ) | '{3} [\s\S]*? (?: '{3} | \Z )
  | " [^"\n]* "? | ' [^'\n]* '? | \# [^\n]*
  | [^\W\d] \w* | \d [\w.]* | [^\w\s]
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
        return list(_words(source[:_LONGEST_SOURCE].decode("utf-8", "replace")))

    def _code(self, text: str) -> int:
        if text not in self._codes:
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
            self._codes[text] = int.from_bytes(digest, "little")
        return self._codes[text]


def _words(text: str) -> Iterator[Token]:
    """The tokens of a text without comments and long strings; the student's own names read the same."""
    line, place = 1, 0
    owner = before = ""
    for match in _WORD.finditer(text):
        word = match[0]
        line += text.count("\n", place, match.start())
        place = match.start()
        if word.startswith(("#", '"""', "'''")):
            continue
        reading = word
        if word[0] in "\"'":
            reading = '"'
        elif word[0].isdigit():
            reading = "0"
        elif word.isidentifier() and word not in _OWN_NAMES:
            # An attribute, but one of `self`, is the library's.
            is_library = before == "." and owner not in ("self", "cls")
            reading = word if is_library else "name"
        yield Token(reading, line, line)
        owner, before = before if word == "." else "", word
