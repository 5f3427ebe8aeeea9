"""Messages of findings: complete for staff, without values for students who must not see them."""

from __future__ import annotations

import pytest

from grader.findings import (
    LONGEST_MESSAGE,
    details_of,
    escaped,
    filled,
    first_line,
    message_of,
    without_values,
)
from grader.results import Cause, Finding


def finding(sentence: str, *details: str, plain: tuple[str, ...] = (), **values: str) -> Finding:
    return Finding(sentence, details, values, Cause.VALUES, plain)


def shown(found: Finding) -> list[str]:
    return message_of(without_values(found)).split("\n")


def test_the_whole_message_has_every_value_in_its_place() -> None:
    found = finding("The output is {out}.", "Expected {want}, not {out}.", out="2", want="3")
    assert message_of(found) == "The output is 2.\nExpected 3, not 2."
    assert first_line(found) == "The output is 2."
    assert details_of(found) == ("Expected 3, not 2.",)


def test_no_finding_gives_an_empty_message() -> None:
    assert (first_line(None), details_of(None)) == ("", ())


def test_a_message_is_escaped_and_limited() -> None:
    assert message_of(finding("It is {out}.", out="\x1b]0;")) == "It is \\x1b]0;."
    assert len(message_of(finding("{out}", out="x" * 9000))) == LONGEST_MESSAGE


def test_braces_in_words_are_not_placeholders() -> None:
    assert filled(escaped("a {b} {{c}}"), {"b": "1"}) == "a {b} {{c}}"
    assert filled("{b} and {c}", {"b": "{d}"}) == "{d} and …"
    with pytest.raises(ValueError, match="encountered in format string"):
        finding("a lone {")


def test_without_values_each_becomes_an_ellipsis() -> None:
    found = finding("The output of the layer is {out}.", out="2")
    assert shown(found) == ["The output of the layer is …."]
    assert without_values(found).cause is Cause.VALUES
    assert without_values(found).values == {}


def test_values_in_a_row_are_one_ellipsis() -> None:
    found = finding("The shape of the output is ({a}, {b}, {c}).", a="1", b="2", c="3")
    assert shown(found) == ["The shape of the output is (…)."]


def test_a_call_without_its_values_is_one_ellipsis() -> None:
    found = finding("{a}({b}, {c}) raised {d} after the first step.", a="f", b="1", c="2", d="it")
    assert shown(found) == ["… raised … after the first step."]


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("It is {a}.", ""),  # too few words besides the value
        ("The sum is {a}.", "The sum is …."),
        ("the {a} of {b} is {c}", ""),  # too few words for its values
        ("The output is {a}, expected {b}.", ""),
    ],
)
def test_a_sentence_with_too_few_words_is_left_out(sentence: str, left: str) -> None:
    assert shown(finding(sentence, a="1", b="2", c="3")) == [left]


def test_only_two_details_without_values_are_shown() -> None:
    found = finding(
        "The output is wrong here.",
        "The gradient there is {a}.",
        "The rows are swapped.",
        "The sign is wrong.",
        "The mean is missing.",
        a="1",
    )
    assert shown(found) == [
        "The output is wrong here.",
        "The rows are swapped.",
        "The sign is wrong.",
    ]


def test_the_authors_own_words_replace_the_others() -> None:
    found = finding("It is {a}.", "And {a}.", plain=("The {sum} is wrong.", "", "Look."), a="1")
    assert shown(found) == ["The {sum} is wrong.", "Look."]
    assert without_values(found).plain == found.plain
