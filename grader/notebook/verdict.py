"""What a check found, as a notebook shows it: HTML, and plain text where there is none.

Whatever comes from the code that was judged is text: cleaned, escaped, and never markup.
"""

from __future__ import annotations

import enum
import html
import re
from collections.abc import Iterator

import msgspec

from grader.notebook.composing import Composed
from grader.results import ExerciseResult, Outcome, Place, Status, TestResult, Visibility
from grader.student.advice import Finding, findings, is_untouched
from grader.text import clean, clean_lines

# As in the panel of `grade run`: one cause at a time.
_FINDINGS = 3
_LONGEST = 2_000
_STATUS = {
    Status.PASSED: "passed",
    Status.PARTIAL: "partly passed",
    Status.FAILED: "failed",
    Status.NOT_ATTEMPTED: "to do",
    Status.ERROR: "error",
    Status.TIMEOUT: "timeout",
    Status.UNJUDGED: "not judged: a fault of the grader",
}
# Of Okabe and Ito, which everyone can tell apart; the words say the same.
_COLOR = {Status.PASSED: "#009E73", Status.PARTIAL: "#E69F00", Status.NOT_ATTEMPTED: "#56B4E9"}
_BAD = "#D55E00"
_LINE = re.compile(r"\bline (\d{1,7})\b")


class LineStyle(enum.Enum):
    """What a line of a verdict is: its look in HTML, its indent and mark in plain text."""

    TITLE = "font-weight:600;margin-top:.6em", "  "
    MESSAGE = "margin-left:1em;white-space:pre-wrap", "    "
    PLACE = "margin-left:1em;font-family:monospace;opacity:.8", "    "
    HINT = "margin-left:1em;font-style:italic", "    > "
    REST = "margin-top:.6em;opacity:.75", "  "
    OUTPUT = "margin-left:1em;font-family:monospace;white-space:pre-wrap;opacity:.8", "    | "


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check; `result` is that of the exercise, as `grade run --json` has it."""

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
        """The verdict as plain text."""
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

    # --- what there is to say -------------------------------------------------------------------

    def _head(self) -> str:
        result = self.result
        return (
            f"{clean(result.title)}: {_STATUS[result.status]}, "
            f"{result.score:g} of {result.max_score:g} points"
        )

    def _lines(self) -> Iterator[tuple[LineStyle, str]]:
        result = self.result
        if is_untouched(result):
            yield LineStyle.MESSAGE, "Nothing of it is written here yet."
        elif result.message:
            # The code itself is at fault, and every test says so: once is enough.
            yield from self._told(result.message, result.tests[0].place if result.tests else None)
        else:
            yield from self._findings(findings(result))
        for note in self.composed.notes:
            yield LineStyle.REST, clean(note, _LONGEST)
        if result.output.strip() and not self.passed:
            yield LineStyle.REST, "What the code printed:"
            yield LineStyle.OUTPUT, clean_lines(result.output.rstrip("\n"), _LONGEST)
        if all(test.visibility is Visibility.PUBLIC for test in result.tests):
            yield LineStyle.REST, "By the public tests alone."

    def _findings(self, found: list[Finding]) -> Iterator[tuple[LineStyle, str]]:
        for finding in found[:_FINDINGS]:
            test, more = finding.first, len(finding.tests) - 1
            if test.outcome is Outcome.NOT_IMPLEMENTED:
                yield LineStyle.TITLE, f"- {clean(test.message, _LONGEST)}"
                continue
            yield from self._finding(test)
            if more:
                yield (
                    LineStyle.MESSAGE,
                    f"The same in {more} more {'test' if more == 1 else 'tests'}.",
                )
        passed = sum(test.outcome is Outcome.PASSED for test in self.result.tests)
        count = len(self.result.tests)
        yield LineStyle.REST, f"{passed} of {count} {'test' if count == 1 else 'tests'} passed."

    def _finding(self, test: TestResult) -> Iterator[tuple[LineStyle, str]]:
        yield LineStyle.TITLE, f"x {clean(test.title, _LONGEST)}"
        yield from self._told(test.message, test.place)
        if test.hint:
            yield LineStyle.HINT, clean(test.hint, _LONGEST)

    def _told(self, message: str, place: Place | None) -> Iterator[tuple[LineStyle, str]]:
        """A message about the composed file, told of the cells, and the place if it does not name it."""
        file = f"{self.result.chapter}/{self.result.name}.py"
        told = message.replace(file, "What stands in the cells", 1)
        told = clean_lines(_LINE.sub(lambda found: self._line(int(found[1])), told), _LONGEST)
        yield LineStyle.MESSAGE, told
        if place is not None and (where := self._line(place.line)) not in told:
            function = f" in {clean(place.function)}" if place.function else ""
            yield LineStyle.PLACE, f"{where}{function}"

    def _line(self, line: int) -> str:
        where, line = self.composed.place(line)
        return f"{where}, line {line}"
