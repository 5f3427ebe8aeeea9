"""Fingerprints of files: hashes of runs of tokens, independent of layout and names.

A file is read in its normal form (`normal_form`). If it does not parse, its text is read: then all names of the
student's own choice read the same, and so do all numbers and all strings. The hash of a run is the same in
every process.

One regular expression reads the text. No alternative can fail once it has begun, so the time is linear in the
length. Pygments and `tokenize` can take quadratic time for a hostile file (10 s for 40,000 characters of
escaped quotes), and `tokenize` stops at code that does not compile.
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
# Only this much of a file is compared; solutions are shorter.
_LONGEST_SOURCE = 100_000
_MULTIPLIER = 0x9E3779B97F4A7C15
_OWN_NAMES = frozenset({*dir(builtins), *keyword.kwlist})
# Strings, which without a closing quote end with their line or the file; comments; names, numbers and signs.
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
        """Return a mask of the tokens in the shared runs."""
        import numpy as np

        covered = np.zeros(len(self.lines), bool)
        for place in range(RUN):
            covered[place : place + len(self.runs)] |= shared
        return covered

    def spans(self, shared: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
        """Return the first and last line of each stretch of statements in the shared runs."""
        stretches: list[tuple[int, int]] = []
        for first, last in sorted({(int(a), int(b)) for a, b in self.lines[self.covered(shared)]}):
            if stretches and first <= stretches[-1][1] + 1:
                begin, end = stretches.pop()
                first, last = begin, max(end, last)
            stretches.append((first, last))
        return tuple(stretches)


class Reader:
    """A reader of an exercise's files; equal files are read once.

    `stub` is the given file; its names are not the students' choice.
    """

    def __init__(self, stub: bytes) -> None:
        self._codes: dict[str, int] = {}
        self._fingerprints: dict[bytes, Fingerprint] = {}
        try:
            self._given: Set[str] = names_in(parse(stub))
        except SyntaxError:
            self._given = frozenset()

    def read(self, source: bytes) -> Fingerprint:
        """Return the fingerprint of a file, which need not parse."""
        key = hashlib.sha256(source).digest()
        if key not in self._fingerprints:
            self._fingerprints[key] = self._fingerprint(source)
        return self._fingerprints[key]

    def _fingerprint(self, source: bytes) -> Fingerprint:
        """Hash every run of tokens: sum the tokens' codes, each times a power for its place in the run."""
        import numpy as np

        tokens = self._tokens(source)
        lines = np.array([(min(t.first, 0xFFFF), min(t.last, 0xFFFF)) for t in tokens], np.uint16)
        codes = np.array([self._code(token.text) for token in tokens], np.uint64)
        count = max(len(tokens) - RUN + 1, 0)
        runs = np.zeros(count, np.uint64)
        for place in range(RUN):
            # Unsigned arithmetic wraps, as a hash should.
            factor = pow(_MULTIPLIER, place + 1, 1 << 64)
            runs += codes[place : place + count] * np.full(count, factor, np.uint64)
        return Fingerprint(runs, lines.reshape(-1, 2))

    def _tokens(self, source: bytes) -> list[Token]:
        """Return the tokens of a file's syntax tree, or of its text if it does not parse or is too long."""
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
    """Yield the tokens of a text without comments and long strings; the student's own names read the same."""
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
            # Attributes, except of `self`, belong to a library.
            is_library = before == "." and owner not in ("self", "cls")
            reading = word if is_library else "name"
        yield Token(reading, line, line)
        owner, before = before if word == "." else "", word
