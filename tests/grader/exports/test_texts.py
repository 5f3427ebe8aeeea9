"""Text of strangers in files is bounded, stays on its line, and is nothing that a reader would run."""

from __future__ import annotations

import html

import pytest

from grader.errors import GraderError
from grader.exports.texts import (
    command_data,
    command_property,
    fitted,
    in_html,
    no_commands,
    one_line,
    shortened,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  Ada   Lovelace ", "Ada Lovelace"),
        ("two\r\nlines\tof\x0btext", "two lines of text"),
        ("a\u2028b\u2029c\u00a0d", "a b c d"),
        ("\u202egnp.exe\u202c \u200bhidden\ufeff", "gnp.exe hidden"),
        ("nul\x00byte \x1b[31m", "nul byte [31m"),
        ("\ud800", "\ufffd"),
        ("ab\u200ccd", "ab\u200ccd"),  # a joiner, as within words of Persian
        ("\u200d", "\u200d"),
        ("Zoë 王小明", "Zoë 王小明"),
        ("", ""),
    ],
)
def test_a_name_is_one_line_without_invisible_characters(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_long_text_is_cut_and_says_so() -> None:
    assert shortened("abc\nde", 6) == "abc\nde"
    assert shortened("abcdef\nghij", 10) == "abcdef\n[…]"
    assert shortened("x" * 100, 10) == "xxxxxx\n[…]"
    assert shortened("x" * 100, 2) == "\n["
    assert shortened("x", 0) == ""
    assert len(shortened("x" * 100, 11)) == 11


def test_control_characters_are_escaped_within_the_limit() -> None:
    assert shortened("a\x1b[2Jb\u202e", 20) == "a\\x1b[2Jb\\u202e"
    assert shortened("\x00" * 10, 12) == "\\x00\\x00\n[…]"


def test_no_character_starts_markup_in_html_or_markdown() -> None:
    signs = "".join(map(chr, range(33, 127)))
    escaped = in_html(signs + " é\n")
    assert html.unescape(escaped) == signs + " é\n"
    assert not set(escaped) & set("<>|`*_[]()!\"'\\~")
    assert in_html("azAZ09") == "azAZ09"


def test_a_workflow_command_has_one_message_and_its_properties() -> None:
    assert command_data("100%\r\n::x") == "100%25%0D%0A::x"
    assert command_property("a:b,c%\n") == "a%3Ab%2Cc%25%0A"


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("::error::x", ": :error::x"),
        ("a\n  ::add-mask::y", "a\n  : :add-mask::y"),
        ("##[error]x", "## [error]x"),
        ("a ##[group]x", "a ## [group]x"),
        ("a::b", "a::b"),
        (": :x", ": :x"),
    ],
)
def test_no_line_of_a_log_is_a_workflow_command(text: str, harmless: str) -> None:
    assert no_commands(text) == harmless


def test_texts_are_as_long_as_fits() -> None:
    tried: list[int] = []

    def write(limit: int) -> bytes:
        tried.append(limit)
        return b"x" * (limit + 1)

    assert len(fitted(write, 501)) == 501
    assert tried == [10_000, 1500, 500]
    assert len(fitted(write, 500)) == 151
    assert fitted(write, 1) == b"x"
    with pytest.raises(GraderError, match="does not fit into the 1,000 bytes of this format"):
        fitted(lambda limit: b"x" * 1001, 1000)
