"""The result of a check for a notebook: HTML, and plain text where HTML cannot be shown.

Everything from the judged code is text: cleaned, escaped, and never markup.
"""

from __future__ import annotations

import enum
import html
import re
from collections.abc import Iterator

import msgspec

from grader.notebook.composing import Composed
from grader.results import EXTRA_CREDIT, ExerciseResult, Outcome, Status, Visibility
from grader.student import blocks
from grader.text import clean, clean_lines, counted, number

_LONGEST = 2_000
# From Okabe and Ito, which everyone can distinguish; the words say the same.
_COLOR = {Status.PASSED: "#009E73", Status.PARTIAL: "#E69F00", Status.NOT_ATTEMPTED: "#56B4E9"}
_BAD = "#D55E00"
_LINE = re.compile(r"\bline (\d{1,7})\b")


class LineStyle(enum.Enum):
    """The kinds of lines in a verdict: the look in HTML, the indent and mark in plain text."""

    TITLE = "font-weight:600;margin-top:.6em", "  "
    MESSAGE = "margin-left:1em;white-space:pre-wrap", "    "
    PLACE = "margin-left:1em;font-family:monospace;opacity:.8", "    "
    HINT = "margin-left:1em;font-style:italic", "    > "
    REST = "margin-top:.6em;opacity:.75", "  "
    OUTPUT = "margin-left:1em;font-family:monospace;white-space:pre-wrap;opacity:.8", "    | "


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check; `result` is the exercise's, as in `grade run --json`."""

    result: ExerciseResult
    composed: Composed

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return self.result.status is Status.PASSED

    @property
    def score(self) -> float:
        """The points earned, of `result.max_score`."""
        return self.result.score

    def __repr__(self) -> str:
        """Return the verdict as plain text."""
        lines = [self._head()]
        for kind, text in self._lines():
            indent = kind.value[1]
            lines += [indent + line for line in text.split("\n")]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        color = _COLOR.get(self.result.status, _BAD)
        body = "".join(
            f'<div style="{kind.value[0]}">{html.escape(text)}</div>'
            for kind, text in self._lines()
        )
        return (
            f'<div style="border-left:5px solid {color};padding:.2em 0 .4em .8em;line-height:1.4">'
            f"<div><b>{html.escape(self._head())}</b></div>{body}</div>"
        )

    # --- the lines ------------------------------------------------------------------------------

    def _head(self) -> str:
        result = self.result
        return (
            f"{clean(result.title)}: {blocks.status_text(result.status)}, "
            f"{number(result.score)} of {number(result.max_score)} points"
            f"{f', {EXTRA_CREDIT}' if result.extra_credit else ''}"
        )

    def _lines(self) -> Iterator[tuple[LineStyle, str]]:
        """Yield every line below the head, with its kind."""
        result = self.result
        if result.untouched:
            yield LineStyle.MESSAGE, "It is not written here yet."
        for section in blocks.summarized(result, blocks.FIRST_FINDINGS).sections:
            yield from self._section(section)
        if not result.message:
            passed = sum(test.outcome is Outcome.PASSED for test in result.tests)
            yield LineStyle.REST, f"{passed} of {counted(len(result.tests), 'test')} passed."
        for note in self.composed.notes:
            yield LineStyle.REST, clean(note, _LONGEST)
        if result.output.strip() and not self.passed:
            yield LineStyle.REST, "What the code printed:"
            yield LineStyle.OUTPUT, clean_lines(result.output.rstrip("\n"), _LONGEST)
        if all(test.visibility is Visibility.PUBLIC for test in result.tests):
            yield LineStyle.REST, "By the public tests only."

    def _section(self, section: blocks.Section) -> Iterator[tuple[LineStyle, str]]:
        """Yield the lines of a finding, with places in cells instead of the composed file."""
        if section.test is not None:
            mark = "-" if section.is_part else "x"
            yield LineStyle.TITLE, f"{mark} {clean(self._in_cells(section.title), _LONGEST)}"
        message = section.title
        for block in section.blocks:
            match block:
                case blocks.Message(text, details):
                    message = "\n".join((text, *details))
                    yield LineStyle.MESSAGE, clean_lines(self._in_cells(message), _LONGEST)
                case blocks.Where(place):
                    # Leave the line out if the message names it already.
                    if (where := self._line(place.line)) not in self._in_cells(message):
                        function = f" in {clean(place.function)}" if place.function else ""
                        yield LineStyle.PLACE, f"{where}{function}"
                case blocks.Hint(text):
                    yield LineStyle.HINT, clean(text, _LONGEST)
                case blocks.Note(text):
                    yield LineStyle.MESSAGE, text

    def _in_cells(self, text: str) -> str:
        """Return a text about the composed file as a text about the cells."""
        file = f"{self.result.chapter}/{self.result.name}.py"
        text = text.replace(file, "The code of the cells", 1)
        return _LINE.sub(lambda match: self._line(int(match[1])), text)

    def _line(self, line: int) -> str:
        where, line = self.composed.place(line)
        return f"{where}, line {line}"
