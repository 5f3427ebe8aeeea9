"""Texts keep words and values apart: of a hidden test, students read only the words."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import grader
from grader.findings import first_line, message_of, without_values
from grader.judge.checks import assert_close, assert_equal, laws
from grader.judge.outcomes import CheckFailed, Forbidden, Frame, TimedOut, student_error
from grader.judge.suite_run import meaning_of
from grader.judge.text import TEXT, Text, finding, join, telling, text, with_words_of
from grader.results import Finding

SUITE = '''\
"""A suite."""

SECRET = "blue moon"
MODES = {"training": 1}


def told(name, answer, mode):
    yield f"{name} is not learnable: its requires_grad is {answer!r}."
    yield f"The answer is {answer:.2f}."
    yield "in the middle of a batch"
    what = "the gradient of the loss"
    yield f"{name}.weight"
    yield f"a width of {answer:{mode}}"
'''


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "test_glu.py"
    path.write_text(SUITE, encoding="utf-8")
    return path


def plain(found: Finding | None, suite: Path) -> str:
    """Return what a student reads who must not see the values."""
    assert found is not None
    return message_of(without_values(with_words_of(found, suite)))


# --- texts --------------------------------------------------------------------------------------------


def test_a_text_is_the_full_string_and_keeps_its_words() -> None:
    what = text("the mask for {count} keys", 5)
    made = text("{what} has shape {shape}, expected {shape_}; {{}} {what}", what, (3, 4), (4, 3))
    assert made == "the mask for 5 keys has shape (3, 4), expected (4, 3); {} the mask for 5 keys"
    assert isinstance(made, Text)
    assert made.words == (
        "the mask for {count} keys has shape {shape}, expected {shape_}; {{}} the mask for {count} keys"
    )
    assert made.values == {"count": "5", "shape": "(3, 4)", "shape_": "(4, 3)"}


def test_values_of_one_name_are_kept_apart() -> None:
    made = join(" and ", (text("row {i}", 1), text("row {i}", 2), text("row {i}", 1)))
    assert made == "row 1 and row 2 and row 1"
    assert isinstance(made, Text)
    assert made.words == "row {i} and row {i_2} and row {i}"


def test_a_text_has_as_many_values_as_names() -> None:
    with pytest.raises(TypeError, match="2 values for the 1 names"):
        text("{name} is not learnable", 1, 2)


def test_f_strings_of_a_suite_are_texts() -> None:
    """The strings are the same. One that is not a sentence, or has a computed format, stays a plain string."""
    plain_python: dict[str, Any] = {}
    told: dict[str, Any] = {TEXT: text}
    exec(SUITE, plain_python)
    exec(compile(telling(SUITE.encode()), "suite", "exec"), told)
    made = list(told["told"]("weight", 2.5, 6))
    assert made == list(plain_python["told"]("weight", 2.5, 6))
    assert [isinstance(each, Text) for each in made] == [True, True, False, False, False]
    assert made[0].words == "{name} is not learnable: its requires_grad is {answer}."
    assert made[1].values == {"answer": "2.50"}


# --- sentences without values -------------------------------------------------------------------------


def test_values_that_occur_in_a_source_are_words(suite: Path) -> None:
    """Several words must be in the suite. One word may be in the checks, but not as a value got or expected."""
    for value, read in (
        ("in the middle of a batch", True),
        ("blue moon", True),
        ("midnight", False),
    ):
        shown = plain(finding([text("The sum of all entries {when} is zero.", value)]), suite)
        assert (value in shown) == read
    for words in ("The entries of x are {word}.", "One is transposed, expected {word}."):
        shown = plain(finding([text(words, "transposed")]), suite)
        assert shown == ("The entries of x are transposed." if "entries" in words else "")


def test_a_sentence_of_values_only_is_hidden(suite: Path) -> None:
    for words in ("The output is {got}, expected {wanted}.", "{a} {b}", "{a} is {b} or {c}"):
        values = ("2.1", "3.2", "4.3")[: words.count("{")]
        assert plain(finding([text(words, *values)]), suite) == ""
    assert plain(finding(["something that no source says: 4.25"]), suite) == ""
    assert plain(finding([]), suite) == ""


def failing(check: Callable[..., object], *arguments: Any, **keywords: Any) -> Finding:
    with pytest.raises(CheckFailed) as caught:
        check(*arguments, **keywords)
    return caught.value.finding


def test_findings_of_the_checks_show_no_values(suite: Path) -> None:
    import torch

    x = torch.randn(4, 4)
    x[0, 1] = 3.25
    found = [
        failing(assert_close, x.T, x, what="the gradient of the loss"),
        failing(assert_close, x + 1, x, what="the gradient of the loss"),
        failing(assert_equal, ["3.25"], ["relu"], what="the list of names"),
        failing(assert_equal, {"3.25": 1}, {"relu": 1}, what="the dict of counts"),
        failing(laws.check_finite, x / 0, what="the output of the layer"),
    ]
    for each in found:
        assert "3.25" not in plain(each, suite)
        assert "relu" not in plain(each, suite)
    assert plain(found[0], suite) == (
        "… of … elements of the gradient of the loss (shape …, float32) differ.\n"
        "These are the expected values, transposed."
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            student_error("IndexError", ("IndexError",), "index 7 of 3.25", ()),
            "Your code raised an IndexError.",
        ),
        (
            student_error("RecursionError", ("RecursionError",), "3.25", ()),
            (
                "Your code raised a RecursionError. It recursed deeper than Python's limit, 1,000 calls "
                "unless the file changes it: use a loop, or end the recursion earlier."
            ),
        ),
        # A type defined by the student may be named after the input.
        (student_error("X_3_25", ("ValueError",), "3.25", ()), "Your code raised a ValueError."),
        (student_error("X_3_25", ("Y_3_25",), "3.25", ()), "Your code raised an exception."),
        (
            student_error("NotImplementedError", ("NotImplementedError",), "3.25", ()),
            "This part is still to be written.",
        ),
        (TimedOut("No answer to glu(3.25)."), "Your code took too long."),
        (
            Forbidden("3.25", Frame(3, "f")),
            "Your code uses something that this exercise does not allow.",
        ),
        (AssertionError(), ""),
        (CheckFailed("It is 3.25."), ""),
    ],
)
def test_other_failures_are_described_without_values(
    suite: Path, error: Exception, message: str
) -> None:
    assert plain(meaning_of(error).finding, suite) == message


# --- nothing takes a message apart --------------------------------------------------------------------

_PARSING = {
    "split",
    "partition",
    "rpartition",
    "splitlines",
    "startswith",
    "endswith",
    "find",
    "index",
}
_PARSING |= {"removeprefix", "removesuffix", "search", "match", "fullmatch", "sub", "findall"}


def test_nothing_takes_a_message_apart() -> None:
    """A message is composed where it is shown. Decisions depend on the finding."""
    root = Path(grader.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                read = [node.func.value, *node.args]
                messages = [each for each in read if _is_message(each)]
                if messages and node.func.attr in _PARSING:
                    found.append(f"{path.relative_to(root)}:{node.lineno}")
    assert not found


def _is_message(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="message"):
            return True
        case ast.Call(func=ast.Name(id="message_of" | "first_line")):
            return True
    return False


def test_a_finding_says_its_sentence_first() -> None:
    found = finding([text("It is {got}.", 3), "Divide it."])
    assert first_line(found) == "It is 3."
    assert message_of(found) == "It is 3.\nDivide it."


def test_an_f_string_is_compared_as_a_string() -> None:
    label = text("{name} begins", "part")
    assert_equal(["part begins"], [label])
    assert_equal({"part begins": 1}, {label: 1})
    assert_equal([label], ["part begins"])


def test_a_sentence_with_a_lone_brace_is_refused_when_read() -> None:
    """A result edited by hand gives an error that names the place, instead of a traceback later."""
    for sentence in ("{what is it?", "} is it"):
        raw = msgspec.json.encode({"sentence": sentence, "cause": "values"})
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(raw, type=Finding)
