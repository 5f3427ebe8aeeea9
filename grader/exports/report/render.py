"""Render templates to files: everything in a page is escaped, and nothing in it is invisible.

Names, messages and code come from strangers. Jinja's autoescape turns them into text. In addition, every value
on its way into a page passes `shown`, which replaces control characters and characters that reorder a line by
visible escapes. The pages allow only the report's one style and script, by their digests: if a text ever became
markup, it still could not run or fetch anything.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from grader.gradebook.times import moment, span_words
from grader.judge.scoring import extra_credit_words, extra_words, shares
from grader.results import ExerciseResult
from grader.student.blocks import OUTCOME, STATUS, every_test, fault, remarks, summarized
from grader.submissions import safe_name
from grader.text import clean, number

TEMPLATES = Path(__file__).with_name("templates")
# The limit of one text on one line, of a name, and of a file; names are complete.
_LONGEST_TEXT = 5000
_LONGEST_NAME = 120
_LONGEST_SENTENCE = 300
_LONGEST_CODE = 200_000
_NOTHING = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"
_MAX_LINES = 5000

_SYMBOLS = {"good": "✓", "part": "◐", "bad": "✗", "quiet": "○", "look": "!"}


class Renderer:
    """Renders the templates of this package, with times in the `timezone` of the class.

    Templates in the caller's `own` folder replace the report's templates of the same name. All are read at the
    start, so that a running server keeps its own templates while a newer version is installed.
    """

    def __init__(self, own: Path | None = None) -> None:
        self.timezone = ""
        folders = [TEMPLATES] if own is None else [TEMPLATES, own]
        templates = {
            path.name: (path.read_text(encoding="utf-8"), str(path), None)
            for folder in folders
            for path in folder.glob("*.html")
        }
        self._environment = Environment(
            loader=FunctionLoader(templates.get),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalize,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        style, script = _asset("style.css"), _asset("report.js")
        self._environment.globals.update(
            style=style,
            script=script,
            style_digest=_digest(style),
            script_digest=_digest(script),
            status=lambda value: _state(*STATUS[value]),
            outcome=lambda value: _state(*OUTCOME[value]),
            every_test=every_test,
            summarized=summarized,
            fault=fault,
        )
        self._environment.filters.update(
            lines=text_lines,
            code_lines=code_lines,
            kind=lambda block: type(block).__name__,
            points=number,
            extra_words=extra_words,
            extra_credit_words=extra_credit_words,
            missed=missed,
            remarks=lambda exercise: remarks(exercise).splitlines(),
            lost=lost,
            change=change,
            percent=percent,
            seconds=seconds,
            correlation=correlation,
            spans=spans,
            duration=lambda seconds: span_words(datetime.timedelta(seconds=seconds)),
            page=page_name,
            short=lambda text: shown(text, _LONGEST_NAME),
            sentence=lambda text: shown(text, _LONGEST_SENTENCE),
            moment=lambda text: moment(text, self.timezone),
        )

    def write(self, path: Path, template: str, /, **values: Any) -> None:
        """Render a template to a file."""
        path.write_text(self.text(template, **values), encoding="utf-8", newline="\n")

    def text(self, template: str, /, **values: Any) -> str:
        """Render a template."""
        return self._environment.get_template(template).render(**values)


def page_name(name: str) -> str:
    """Return the file name of a student's or an exercise's page, which needs no quoting in a URL."""
    return f"{safe_name(name)}.html"


def shown(text: str, limit: int = _LONGEST_TEXT) -> str:
    """Return the text on one line of at most `limit` characters, with everything invisible as an escape."""
    if len(text) <= limit and text.isprintable():
        return text
    return clean(text, limit)


def text_lines(text: str) -> list[str]:
    """Return the lines of a message, each through `shown`."""
    return [shown(line) for line in text.strip("\n").split("\n")]


def code_lines(source: bytes | str) -> list[str]:
    """Return the lines of a file or of printed output, bounded, each through `shown`."""
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    cut = len(text) > _LONGEST_CODE
    text = text[:_LONGEST_CODE].replace("\r\n", "\n").expandtabs(4)
    lines = [shown(line) for line in text.removesuffix("\n").split("\n")]
    if cut or len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], "… the rest is not shown here"]
    return lines


def missed(exercise: ExerciseResult) -> dict[tuple[str, str], float]:
    """Return the points not earned, by suite and test name; they add up to the exercise's loss."""
    return {
        (test.visibility.value, test.name): share.missed
        for test, share in zip(exercise.tests, shares(exercise), strict=True)
    }


def lost(value: float) -> str:
    """Format points that were not earned, with a sign."""
    return f"{_MINUS}{number(value)}"


def change(value: float) -> str:
    """Format the change of a total, with its sign."""
    return f"+{number(value)}" if value > 0 else number(value).replace("-", _MINUS)


def percent(share: float | None) -> str:
    """Format a share in whole percent; 0 and 100 only if exact."""
    if share is None:
        return _NOTHING
    whole = round(100 * share)
    if 0 < share < 1:
        whole = min(max(whole, 1), 99)
    return f"{whole} %"


def seconds(value: float | None) -> str:
    """Format seconds with as many digits as matter."""
    if value is None:
        return _NOTHING
    return f"{value:.0f} s" if value >= 10 else f"{value:.2f} s"


def correlation(value: float | None) -> str:
    """Format a correlation with its sign."""
    # Round first, so that a zero gets no minus.
    return _NOTHING if value is None else f"{round(value, 2) + 0.0:+.2f}".replace("-", _MINUS)


def spans(lines: tuple[tuple[int, int], ...]) -> str:
    """Format ranges of lines: 3, 7 to 9, with a dash."""
    return ", ".join(str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in lines)


def _state(kind: str, word: str) -> tuple[str, str, str]:
    return kind, _SYMBOLS[kind], word


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return shown(value)


def _asset(name: str) -> Markup:
    # Markup, since this is a file of this package and not a stranger's text.
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704


def _digest(text: str) -> str:
    """Return the digest by which a content security policy allows an inline style or script."""
    # A browser reads line ends as line feeds.
    digest = hashlib.sha256(text.replace("\r\n", "\n").encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
