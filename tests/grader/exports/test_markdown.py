"""The job summary in a real Markdown parser: no text of a student's becomes markup."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from grader.exports import FORMATS
from grader.results import Outcome, Status

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged

TAGS = {"h2", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre", "p"}


class Tags(HTMLParser):
    """Every tag of a page, with its attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def page(markdown: bytes) -> Tags:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tags = Tags()
    tags.feed(parser.render(markdown.decode("utf-8")))
    return tags


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_is_markup(text: str) -> None:
    shown = page(rendered(FORMATS["markdown"], hostile_entry(text)))
    assert set(shown.tags) <= TAGS
    assert shown.attributes <= {"style"}  # the alignment of a column
    assert shown.tags.count("td") == 2 * 3
    assert shown.tags.count("table") == 1
    assert shown.tags.count("details") == 2
    if words := re.findall(r"[\w=|`*<>()!]{3,}", text.split("\n")[0]):
        assert words[0].replace("\x00", "") in shown.text


def test_the_summary_shows_failures_and_omits_the_rest() -> None:
    tests = (checked(), checked("b", Outcome.FAILED, 2), checked("c", Outcome.SKIPPED))
    untouched = exercise(
        checked(outcome=Outcome.NOT_IMPLEMENTED), name="gelu", status=Status.NOT_ATTEMPTED
    )
    shown = page(rendered(FORMATS["markdown"], entry(exercise(*tests), untouched))).text
    assert "ada: 3.75 of 30 points" in shown
    assert "It does not hold." in shown
    assert "1 more test waits for this one." in shown
    assert "The title of test_value" not in shown, "passed and untouched tests are not listed"


def test_an_unjudged_exercise_has_no_points() -> None:
    shown = page(rendered(FORMATS["markdown"], entry(exercise(checked()), unjudged()))).text
    assert "ada: not judged as a whole" in shown
    assert "0 / 15" not in shown
    assert "costs no points" in shown


def test_a_summary_stays_below_the_limit_of_github() -> None:
    tests = [checked(f"t{n}", Outcome.FAILED, message="<&" * 5000) for n in range(300)]
    written = rendered(FORMATS["markdown"], entry(exercise(*tests)))
    assert len(written) < 1024 * 1024
    assert "<&<&" in html.unescape(written.decode())
