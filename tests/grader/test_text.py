"""Text for display: articles, lines without terminal codes, and suggestions of names."""

from __future__ import annotations

import pytest

from grader.text import clean_lines, nearest, with_article


@pytest.mark.parametrize(
    "words",
    [
        "a tensor",
        "an int64 tensor",
        "a uint8 tensor",
        "a UserWarning",
        "an UnpicklingError",
        "an SGD",
        "an MLP",
        "a GRU",
        "a NoneType",
        "an ndarray",
        "an OrderedDict",
        'an "object"',
    ],
)
def test_an_article_follows_the_sound(words: str) -> None:
    assert with_article(words.partition(" ")[2]) == words


def test_colors_are_removed_and_other_codes_escaped() -> None:
    colored = "\x1b[1mdo those steps\x1b[0m only\x1b[2J\n\x1b[38;5;9mred"
    assert clean_lines(colored, 200) == "do those steps only\\x1b[2J\nred"


def test_only_the_nearest_names_of_a_long_list_are_shown() -> None:
    names = [letter * 3 for letter in "abcdefghijklmnopqrstu"]
    assert nearest("zzz", names[:20]) == f"There are: {', '.join(names[:20])}."
    shown = nearest("u-long-name-with-t", names)
    assert shown.startswith("There are: ") and shown.endswith(" and 16 more.")
    assert "ttt" in shown and "uuu" in shown and "bbb" not in shown
