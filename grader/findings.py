"""Compose messages from findings for their reader. Nothing parses a message."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from string import Formatter

from grader.results import Finding
from grader.text import clean_lines

LONGEST_MESSAGE = 2_000
_ELLIPSIS = "…"
_WORD = re.compile(r"[^\W\d_]{2,}")
_FEWEST_WORDS = 3
_MAX_DETAILS = 2


def message_of(finding: Finding) -> str:
    """Return the whole message of a finding, for staff and other readers of the suite."""
    lines = (finding.sentence, *finding.details)
    return clean_lines("\n".join(filled(line, finding.values) for line in lines), LONGEST_MESSAGE)


def first_line(finding: Finding | None) -> str:
    """Return only the sentence of a finding, with its values."""
    return "" if finding is None else filled(finding.sentence, finding.values)


def details_of(finding: Finding | None) -> tuple[str, ...]:
    """Return the sentences of a finding after the first, with their values."""
    return (
        () if finding is None else tuple(filled(each, finding.values) for each in finding.details)
    )


def without_values(finding: Finding) -> Finding:
    """Return the finding for a reader who may not know its values.

    Each value becomes an ellipsis. A sentence that says too little without its values is left out, and so are
    details with values.
    """
    lines = list(finding.plain)
    if not lines:
        details = [each for each in map(_without_values, finding.details) if _ELLIPSIS not in each]
        lines = [_without_values(finding.sentence), *list(filter(None, details))[:_MAX_DETAILS]]
    first, *others = [escaped(line) for line in lines if line] or [""]
    return Finding(first, tuple(others), cause=finding.cause, plain=finding.plain)


def escaped(words: str) -> str:
    """Escape words for use as a sentence of a finding: braces in them are not names."""
    return words.replace("{", "{{").replace("}", "}}")


def filled(words: str, values: Mapping[str, str]) -> str:
    """Fill in the values for their names."""
    return "".join(
        literal if name is None else literal + values.get(name, _ELLIPSIS)
        for literal, name, _, _ in parsed(words)
    )


@functools.lru_cache(maxsize=1024)
def parsed(words: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """Return the parts of a sentence: words, and the name after them with its format and conversion."""
    return list(Formatter().parse(words))


def _without_values(words: str) -> str:
    """Replace each value by an ellipsis; empty if too few words are left."""
    # A call of which neither the function nor an argument may be known is one value.
    shown = re.sub(rf"{_ELLIPSIS}\((?:[\s,]*{_ELLIPSIS})*\)", _ELLIPSIS, filled(words, {}))
    shown = re.sub(rf"{_ELLIPSIS}(?:[\s,;()\[\]]*{_ELLIPSIS})+", _ELLIPSIS, shown)
    count = len(_WORD.findall(shown))
    enough = count >= _FEWEST_WORDS and count > 2 * shown.count(_ELLIPSIS)
    return shown if enough and not shown.endswith(f"expected {_ELLIPSIS}.") else ""
