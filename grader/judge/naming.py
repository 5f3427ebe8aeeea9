"""What a student may read of a failed hidden test, for `judge.run`: the message without values of the run.

Such a message has expected values and inputs in it, and its words are the author's or the grader's. What a
student may read of it (`TestResult.named`) is put together from texts that stand in the source of the suite
or of the checks; whatever a run filled in is an ellipsis, or is left out with its whole line. A text that is
not found in a source has no name: then a student reads the title alone.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec

from grader.course.sentences import phrases_of
from grader.judge.suite_run import TestEnd
from grader.results import Outcome

_ELLIPSIS = "…"
_CHECKS = Path(__file__).with_name("checks")
_WORD = re.compile(r"[^\W\d_]{2,}")
# In a message they may be values, and in a source they are words.
_VALUES = frozenset(("True", "False", "None", "NaN", "nan", "inf", "infinite"))
_FEWEST_WORDS = 3
# A text of the student's may stand in a message, and which of our phrases it holds could spell out an input:
# so it is not looked for phrases in holes of holes, nor on any number of lines.
_DEEPEST = 2
_MOST_RELATIONS = 2
_LONGEST = 400


class _Phrase(msgspec.Struct, frozen=True):
    """A line of a source: the parts between its holes; `ours` if it is from a check of the grader."""

    parts: tuple[str, ...]
    ours: bool


class _Sources(msgspec.Struct, frozen=True):
    """The lines that may be read: with holes, and whole ones to fill these with.

    In a message of a check a hole may also hold one of its `words`, as "transposed" or "a Tensor": what is a
    value there is quoted. In a suite's it may be anything.
    """

    open: tuple[_Phrase, ...]
    whole: frozenset[str]
    words: frozenset[str]


def named_mistake(end: TestEnd, suite: Path) -> str:
    """What a student may read of the end of a hidden test of this suite; empty where that is nothing."""
    if end.outcome is not Outcome.FAILED or end.refused:
        return end.named
    sources = _sources(suite.read_bytes())
    first, *others = end.message.split("\n")
    # Below the first one are numbers, and relations: only what needs no number says something.
    named = [_told(line, sources) for line in others]
    relations = [line for line in named if line and _ELLIPSIS not in line]
    lines = [_told(first, sources), *relations[:_MOST_RELATIONS]]
    return "\n".join(line for line in lines if line)[:_LONGEST]


def _told(line: str, sources: _Sources) -> str:
    """The line without values; empty where its words are unknown, or are too few beside them."""
    shown = _without_values(line, sources)
    shown = re.sub(rf"{_ELLIPSIS}(?:[\s,;()\[\]]*{_ELLIPSIS})+", _ELLIPSIS, shown)
    words = len(_WORD.findall(shown))
    enough = words >= _FEWEST_WORDS and words > 2 * shown.count(_ELLIPSIS)
    return shown if enough and not shown.endswith(f"expected {_ELLIPSIS}.") else ""


def _without_values(
    text: str, sources: _Sources, words: frozenset[str] = frozenset(), depth: int = 0
) -> str:
    """The text as the sources have it; with holes in holes, as that of `what` in a check's sentence."""
    if text in words or _small(text) in sources.whole or text in sources.whole:
        return text
    fitting = [
        (phrase, holes)
        for phrase in sources.open
        if (holes := _holes(text, phrase.parts)) is not None
    ]
    if not fitting or depth > _DEEPEST:
        return _ELLIPSIS
    phrase, holes = max(fitting, key=lambda fit: sum(map(len, fit[0].parts)))
    filled = [
        _without_values(hole, sources, _allowed(phrase, part, sources), depth + 1) if hole else ""
        for part, hole in zip(phrase.parts, holes, strict=False)
    ]
    first, *others = phrase.parts
    first = first if text.startswith(first) else first[:1].upper() + first[1:]
    return first + "".join(hole + part for hole, part in zip(filled, others, strict=True))


def _allowed(phrase: _Phrase, before: str, sources: _Sources) -> frozenset[str]:
    """The single words that may fill the hole after this part of a phrase."""
    is_value = before.endswith(("expected ", "got "))
    return sources.words if phrase.ours and not is_value else frozenset()


def _small(text: str) -> str:
    """The text without the capital letter that a sentence begins with."""
    return text[:1].lower() + text[1:]


def _holes(text: str, parts: tuple[str, ...]) -> list[str] | None:
    """The texts between these parts; None if the text does not have these parts."""
    first, last = parts[0], parts[-1]
    begins = text.startswith((first, first[:1].upper() + first[1:]))
    end = len(text) - len(last)
    if not begins or not text.endswith(last) or end < len(first):
        return None
    holes, at = [], len(first)
    for part in parts[1:-1]:
        place = text.find(part, at, end)
        if place < 0:
            return None
        holes.append(text[at:place])
        at = place + len(part)
    return [*holes, text[at:end]]


@functools.lru_cache(maxsize=64)
def _sources(suite: bytes) -> _Sources:
    """The lines of a suite and of the checks."""
    own, checks = phrases_of(suite), _phrases_of_checks()
    phrases = [_Phrase(parts, parts in checks) for parts in sorted(own | checks)]
    several = [phrase for phrase in phrases if len(_WORD.findall(" ".join(phrase.parts))) > 1]
    ours = {phrase.parts[0] for phrase in phrases if phrase.ours and len(phrase.parts) == 1}
    return _Sources(
        tuple(phrase for phrase in several if len(phrase.parts) > 1),
        frozenset(phrase.parts[0] for phrase in several if len(phrase.parts) == 1),
        frozenset(text for text in ours if text[:1].isalpha()) - _VALUES,
    )


@functools.cache
def _phrases_of_checks() -> frozenset[tuple[str, ...]]:
    files = sorted(_CHECKS.rglob("*.py"))
    return frozenset(phrase for file in files for phrase in phrases_of(file.read_bytes()))
