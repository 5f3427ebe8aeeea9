"""The checks of suites: the values they accept, their messages, and no other exceptions."""

from __future__ import annotations

import math
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from grader.findings import without_values
from grader.judge.checks import (
    assert_close,
    assert_equal,
    assert_tensor,
    comparison,
    entry,
    must_raise,
)
from grader.judge.checks.assertions import compare_named
from grader.judge.checks.comparison import Rule
from grader.judge.outcomes import (
    CheckFailed,
    Forbidden,
    Frame,
    SandboxDied,
    TimedOut,
    student_error,
)
from grader.sandbox.wire.values import Opaque, Record

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSE = Rule()
DTYPES = (
    *(torch.bool, torch.uint8, torch.uint64, torch.int8, torch.int64, torch.float16),
    *(torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
)


def message_of(check: Callable[..., object], *args: Any, **options: Any) -> str:
    """Return the message of a check that must fail."""
    with pytest.raises(CheckFailed) as caught:
        check(*args, **options)
    text = str(caught.value)
    assert 0 < len(text) <= 1500
    assert not [c for c in text if c != "\n" and unicodedata.category(c)[0] == "C"]
    return text


def verdict_of(check: Callable[..., object], *args: Any, **options: Any) -> str | None:
    """Return the message of a check, or None if it passes. Any other exception fails the test."""
    try:
        check(*args, **options)
    except CheckFailed as failure:
        return str(failure)
    return None


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


# --- accepted values ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_is_close_to_itself(dtype: torch.dtype) -> None:
    x = torch.arange(6).reshape(2, 3).to(dtype)
    assert_close(x, x.clone())
    assert_equal(x, x.clone())
    assert_tensor(x, shape=(2, 3), dtype=dtype)


@pytest.mark.parametrize(
    "dtype", [d for d in DTYPES if d.is_floating_point or d.is_complex], ids=str
)
def test_the_tolerance_matches_torch_testing(dtype: torch.dtype) -> None:
    expected = torch.full((3,), 100.0, dtype=dtype)
    # Deviations in units of rounding, on both sides of the tolerance wherever it lies.
    step = torch.finfo(dtype).eps * 100
    for factor in (0.0, 0.5, 1.0, 2.0, 8.0, 16.0, 64.0, 1e4, 1e9):
        actual = expected + step * factor
        theirs = True
        try:
            torch.testing.assert_close(actual, expected)
        except AssertionError:
            theirs = False
        assert theirs == (verdict_of(assert_close, actual, expected) is None), factor


def test_nan_and_infinity_agree_only_with_themselves() -> None:
    odd = torch.tensor([math.nan, math.inf, -math.inf, 0.0])
    assert_close(odd, odd.clone())
    assert_close(math.nan, math.nan)
    for place in range(4):
        other = odd.clone()
        other[place] = 1.0
        message_of(assert_close, odd, other)
        message_of(assert_close, other, odd)
    message_of(assert_close, math.inf, 1.0)
    message_of(assert_close, 1.0, math.inf)


def test_structures_are_compared_by_kind() -> None:
    x = randn(2)
    assert_close([x, 1.0], (x, 1.0))
    assert_close((x, 1), [x, 1.0])
    assert_close({"a": x, "b": 2.0}, {"b": 2.0, "a": x})
    assert_close(Record("Batch", {"x": x, "n": 3}), (x, 3))
    assert_close(np.arange(3.0), np.arange(3.0))
    assert_equal({"a": [1, None, "x"], "b": True}, {"a": [1, None, "x"], "b": True})
    assert_equal([0], [0.0])
    assert_close(randn(0, 3), randn(0, 3))


def test_tolerances_can_be_given() -> None:
    assert_close(1.05, 1.0, rtol=0.1)
    assert_close(torch.tensor([1.05]), torch.tensor([1.0]), atol=0.1)
    message_of(assert_close, torch.tensor([1.0 + 1e-6]), torch.tensor([1.0]), rtol=0.0, atol=0.0)


def test_integers_are_compared_exactly_at_any_size() -> None:
    assert_close(torch.tensor([2**62]), torch.tensor([2**62]))
    message_of(assert_close, torch.tensor([2**62 + 1]), torch.tensor([2**62]))
    message_of(assert_equal, 10**400 + 1, 10**400)
    message_of(assert_close, 10**5000, 1.0)
    message_of(assert_close, -(10**5000), 1)


# --- messages -------------------------------------------------------------------------------------


def test_a_hidden_test_says_that_none_was_returned() -> None:
    with pytest.raises(CheckFailed) as failure:
        assert_close(None, torch.zeros(2))
    told = without_values(failure.value.finding)
    assert told.sentence == "Your code returned None as …, expected …"


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (
            None,
            torch.zeros(2),
            "returned None as the output, expected a Tensor: is it returned on every path",
        ),
        (torch.tensor(0.5), 0.5, "returned a Tensor as the output, expected a float: call .item()"),
        (torch.zeros(3), 0.5, "its shape is (3,)"),
        (0.5, torch.tensor(0.5), "returned a float as the output, expected a Tensor"),
        (np.zeros(2), torch.zeros(2), "returned a numpy.ndarray as the output, expected a Tensor"),
        (torch.zeros(2), np.zeros(2), "returned a Tensor as the output, expected a numpy.ndarray"),
        (True, 1.0, "returned a bool as the output, expected a float"),
        ("1.0", 1.0, "returned a string as the output, expected a float"),
        ([1.0], 1.0, "returned a list as the output, expected a float"),
        (1.0, [1.0], "returned a float as the output, expected a list"),
        (Opaque("function"), 1.0, "parentheses"),
        (Opaque("generator"), [1.0], "list(...)"),
        (Record("Pair", {"a": 1}), 1.0, "a NamedTuple Pair"),
        ([1.0, 2.0], [1.0], "has 2 entries, expected 1"),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, 'lacks the entry "b"'),
        ({"a": 1.0, "c": 0}, {"a": 1.0}, 'The entry "c" of the output is not expected'),
        ({"1": 1.0}, {1: 1.0}, "is a string, expected an int"),
        (
            {"a": [0, 1.5]},
            {"a": [0, 1.0]},
            'Entry 1 (counted from 0) of the entry "a" of the output is 1.5',
        ),
    ],
)
def test_a_wrong_type_is_explained(actual: object, expected: object, words: str) -> None:
    assert words in message_of(assert_close, actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (1, True, "returned an int as the output, expected a bool"),
        (1.0, 1, "returned a float as the output, expected an int"),
        ("Exploding", "exploding", "upper and lower case"),
        ("a  b", "a b", "white space"),
        ("a\nb\nc", "a\nx\nc", 'Line 2 is "b", expected "x"'),
        ("a\nb\nc", "a\nb", "It has 3 lines, expected 2"),
        ("x" * 500 + "a", "x" * 500 + "b", 'xa", expected'),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, "another order"),
        (b"\x00ab", b"ab", "\\x00ab"),
        ([1, 2, 4], [1, 2, 3], "Entry 2 (counted from 0) of the output is 4, expected 3."),
        ([[1, 2]], [[1, 3]], "Entry 1 of entry 0 (counted from 0) of the output is 2, expected 3."),
    ],
)
def test_unequal_data_are_explained(actual: object, expected: object, words: str) -> None:
    assert words in message_of(assert_equal, actual, expected)


def test_field_names_of_a_record_count() -> None:
    x = randn(2)
    expected = Record("R", {"a": x, "b": x})
    assert 'lacks the field "b"' in message_of(assert_close, Record("R", {"a": x}), expected)
    assert "another order" in message_of(assert_close, Record("R", {"b": x, "a": x}), expected)
    assert "expected a NamedTuple R" in message_of(assert_close, (x, x), expected)


@pytest.mark.parametrize(
    ("given_shape", "expected", "words"),
    [
        ((4, 3), (3, 4), "transposed"),
        ((2, 4, 3), (2, 3, 4), "Dimensions 1 and 2 are swapped"),
        ((4, 2, 3), (2, 3, 4), "in another order"),
        ((3, 4, 1), (3, 4), "1 dimension of size 1 too many"),
        ((3, 4), (1, 3, 4, 1), "2 dimensions of size 1 too few"),
        ((12,), (3, 4), "flattened"),
        ((3, 4), (12,), "not flattened"),
        ((3, 8), (3, 4), "Dimension 1 is twice as long"),
        ((3, 4), (3, 8), "Dimension 1 is half as long"),
        ((9, 4), (10, 4), "Dimension 0 is one too short"),
        ((9, 4), (5, 4), "Only dimension 0 differs"),
        ((3,), (3, 4), "dimension 1, of size 4, is missing"),
        ((3, 4), (3,), "A dimension of size 4 should be gone."),
        ((3, 4), (), "expected ()"),
        ((1,) * 12, (3, 4), "of 12 dimensions"),
    ],
)
def test_a_wrong_shape_is_explained(
    given_shape: tuple[int, ...], expected: tuple[int, ...], words: str
) -> None:
    text = message_of(assert_close, randn(*given_shape), randn(*expected, seed=1))
    assert words in text
    assert text == message_of(assert_tensor, randn(*given_shape), shape=expected)


def test_right_values_in_another_shape_or_dtype_are_recognized() -> None:
    x = randn(3, 4)
    assert "the values are right: it is the expected value tr" in message_of(assert_close, x.T, x)
    assert "the values are right" in message_of(assert_close, x.reshape(12), x)
    assert "the values are right" in message_of(assert_close, x.double(), x)
    assert "the values are right" not in message_of(assert_close, x.double() + 1, x)
    assert "dtype torch.float64, expected torch.float32" in message_of(
        assert_tensor, x.double(), dtype=torch.float32
    )


def test_only_the_worst_element_is_shown() -> None:
    expected = randn(3, 4)
    actual = expected.clone()
    actual[1, 2] += 1
    actual[2, 3] += 2
    text = message_of(assert_close, actual, expected, what="the gradients of x")
    assert text.startswith("2 of 12 elements of the gradients of x (shape (3, 4), float32) differ.")
    assert "at [2, 3]: got " in text
    assert text.count("expected ") == 1
    assert "1e-05 + 1.3e-06" in text


RELATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "twice the expected value": lambda e: 2 * e,
    "half of": lambda e: e / 2,
    "the negative of": lambda e: -e,
    "0.37 times the expected value.": lambda e: 0.37 * e,
    "20 is the number of its elements": lambda e: 20 * e,
    "this is 1/20, and 20 is the number of its elements": lambda e: e / 20,
    "this is 1/4, and 4 is the size of dimension 0": lambda e: e / 4,
    "square root of 5, the size of dimension 1": lambda e: e * 5**0.5,
    "transposed": lambda e: e[:, :4].T.contiguous(),
    "All elements are 0.": torch.zeros_like,
    "All elements are 7.": lambda e: torch.full_like(e, 7),
    "2 of 20 elements are NaN": lambda e: torch.where(
        torch.arange(20).reshape(4, 5) < 2, math.nan, e
    ),
    "1 of 20 elements is infinite": lambda e: torch.where(
        torch.arange(20).reshape(4, 5) < 1, math.inf, e
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("words", RELATIONS)
def test_a_relation_is_recognized(words: str, dtype: torch.dtype) -> None:
    for seed in range(5):
        expected = randn(4, 5, dtype=dtype, seed=seed)
        if words == "transposed":
            expected = expected[:, :4].contiguous()
        assert words in message_of(assert_close, RELATIONS[words](expected), expected)


def test_arithmetic_in_float32_is_recognized() -> None:
    expected = randn(8, dtype=torch.float64) * 100
    cubed = (expected.float() ** 3).double()
    assert "float32: computed in" in message_of(assert_close, cubed, expected**3)
    assert "a constant rounded?" in message_of(assert_close, expected * (1 + 5e-7), expected)
    assert "computed in float32" in message_of(assert_close, 1.0 + 5e-7, 1.0)


def test_a_named_tuple_is_accepted_as_a_tuple() -> None:
    report = {"value": Record("Score", {"loss": 1.5, "accuracy": 0.75})}
    assert entry(report, "value", kind=(list, tuple), count=2) == (1.5, 0.75)
    assert entry(report, "value", 1) == entry(report, "value", "accuracy") == 0.75
    with pytest.raises(CheckFailed):
        entry(report, "value", kind=list)
    with pytest.raises(CheckFailed):
        entry(report, "value", kind=tuple, count=3)
    with pytest.raises(CheckFailed):
        entry(report, "value", 2)


def test_relations_over_all_entries() -> None:
    expected = {"a": randn(3), "b": randn(2, seed=1)}
    doubled = {key: 2 * value for key, value in expected.items()}
    assert "Over all entries: every element is twice" in message_of(assert_close, doubled, expected)
    half = {"a": expected["a"], "b": 2 * expected["b"]}
    assert "Over all" not in message_of(assert_close, half, expected)


def test_masks_and_indices() -> None:
    mask = torch.arange(12).reshape(3, 4) % 3 == 0
    assert "All elements are True." in message_of(assert_close, mask | True, mask)
    indices = torch.arange(10) + 1
    assert "twice" in message_of(assert_close, 2 * indices, indices)


QUIET = ("Every element", "These are", "All elements", "It is right")


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 5), max_size=3), st.sampled_from(DTYPES))
def test_no_relation_is_claimed_between_random_values(
    seed: int, shape: list[int], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    if dtype.is_floating_point or dtype.is_complex:
        values = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2)]
    else:
        values = [torch.randint(0, 2, shape, generator=generator).to(dtype) for _ in range(2)]
        if size < 20 and (dtype == torch.bool or size < 3):
            return  # with so few bits, a relation often holds by chance
    text = verdict_of(assert_close, *values) or ""
    claims = [line for line in text.splitlines() if line.startswith(QUIET)]
    truths = ("All elements are",)  # these describe the result, not its cause
    assert not [line for line in claims if not line.startswith(truths)], text


def test_few_or_degenerate_values_identify_nothing() -> None:
    for actual, expected in (
        (torch.tensor([2.0]), torch.tensor([1.0])),
        (torch.tensor([1.3, 2.6]), torch.tensor([0.65, 1.3])),
        (torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])),
        (torch.tensor([5.3, 5.3, 5.3]), torch.tensor([5.1, 5.1, 5.1])),
    ):
        text = message_of(assert_close, actual, expected)
        assert not [line for line in text.splitlines() if line.startswith(QUIET)]


# --- mistakes -------------------------------------------------------------------------------------


def named(actual: Any, expected: Any, mistakes: dict[str, Any], rule: Rule = CLOSE) -> str:
    """Return the message of a comparison that knows these mistakes."""
    return message_of(compare_named, actual, expected, rule, "the output", lambda: mistakes)


def test_a_known_mistake_is_named_first() -> None:
    x = randn(3, 4)
    mistakes = {"Not this.": x.sum(0) + 1, "You summed the wrong dimension.": x.sum(1)}
    first, *rest = named(x.sum(1), x.sum(0), mistakes).splitlines()
    assert first == "You summed the wrong dimension."
    assert rest[0] == "The output has shape (3,), expected (4,)."


def test_a_mistake_has_to_explain_every_entry() -> None:
    xs = [randn(3, seed=seed) for seed in range(3)]
    twice = [2 * x for x in xs]
    mistakes = {"You doubled it.": twice}
    assert named(twice, xs, mistakes).startswith("You doubled it.\n")
    assert "You doubled it." not in named([*twice[:2], xs[2]], xs, mistakes)
    text = named([xs[0], *twice[1:]], xs, mistakes)
    assert "entry 1 (counted from 0) of the output" in text


def test_a_mistake_that_gives_the_right_value_is_ignored() -> None:
    x = randn(3)
    assert "Wrong." not in named(x + 1e-4, x, {"Wrong.": x + 1e-7}, Rule(atol=1e-5))
    text = named(2, 1, {"Right.": 1, "Off by one.": 2}, Rule(exact=True))
    assert text.startswith("Off by one.\n")


def test_mistakes_of_another_structure_do_not_match() -> None:
    x = randn(3)
    mistakes = {"a": None, "b": "text", "c": [x], "d": {"x": x}, "e": Opaque("x"), "f": 1.0}
    assert named(2 * x, x, mistakes)[1:2] != "\n"
    assert named(None, x, {"None.": None}).startswith("None.\n")


def test_mistakes_are_computed_only_on_failure() -> None:
    def broken() -> dict[str, Any]:
        raise ZeroDivisionError

    compare_named(1.0, 1.0, Rule(), "the output", broken)
    with pytest.raises(ZeroDivisionError):
        compare_named(1.0, 2.0, Rule(), "the output", broken)


@pytest.mark.parametrize(
    ("actual", "expected", "shown"),
    [
        ([1, 4, 12], (12, 4, 1), "In full, the output is [1, 4, 12]."),
        ([1.5, 2.0], [1.5], "In full, the output is [1.5, 2]."),
        ({"a": [True, None]}, {"a": [True, False]}, 'In full, the output is {"a": [True, None]}.'),
        (
            [randn(2) * 0, {"b": "c"}],
            [randn(2), {}],
            'In full, the output is [[0, 0], {"b": "c"}].',
        ),
    ],
)
def test_a_short_list_is_shown_in_full(actual: Any, expected: Any, shown: str) -> None:
    assert message_of(assert_close, actual, expected).splitlines()[-1] == shown


@pytest.mark.parametrize(
    "actual", [[1] * 100, ["x" * 90] * 2, [Opaque("x")], [randn(5, 5)], [[[1j]]]]
)
def test_a_long_or_odd_list_is_not_shown_in_full(actual: Any) -> None:
    assert "In full" not in message_of(assert_close, actual, [0])


def test_long_texts_are_cut() -> None:
    text = message_of(assert_equal, "é\u202e\x1b[31m\ud800" * 10_000, "right")
    assert "\\u202e\\x1b[31m\\ud800" in text
    message_of(assert_equal, {"k" * 10_000: 1}, {"right": 1})
    message_of(assert_equal, 1, 2, what="w" * 5_000)
    message_of(assert_close, Opaque("t" * 2_000), 1.0)


# --- exceptions -----------------------------------------------------------------------------------


def raising(kind: str, text: str, name: str | None = None) -> None:
    raise student_error(name or kind, (kind, "Exception"), text, ())


@pytest.mark.parametrize(
    "text",
    [
        "steps must be 2",
        "bad `Steps`",
        "steps=1",
        "need steps, at least two",
        "num_steps",
        "NSteps < 1",
        "steps_per_epoch is 0",
        "maxSteps is 1",
    ],
)
def test_the_wanted_exception_passes(text: str) -> None:
    with must_raise(ValueError, mentions="steps", call="f(steps=1)"):
        raising("ValueError", text)
    with must_raise(ValueError, mentions="shape or steps"):
        raising("ValueError", text)
    with must_raise(ValueError):
        raising("ValueError", "", "MyError")


def test_a_name_within_an_identifier_counts() -> None:
    for text in ("checkpoint without scheduler_state_dict", "no LRScheduler", "Schedulers differ"):
        with must_raise(ValueError, mentions="scheduler"):
            raising("ValueError", text)
    with must_raise(ValueError, mentions="lr_min"):
        raising("ValueError", "LR_MIN_")


@pytest.mark.parametrize("text", ["checks", "ask", "ks", ""])
def test_a_letter_within_a_word_does_not_count(text: str) -> None:
    def check() -> None:
        with must_raise(ValueError, mentions="k"):
            raising("ValueError", text)

    assert "should raise a ValueError that names k." in message_of(check)


def test_the_message_says_what_the_call_did_instead() -> None:
    def check(*raised: str) -> None:
        with must_raise(ValueError, mentions="steps", call="f(steps=1)"):
            if raised:
                raising(*raised)

    wanted = ", but should raise a ValueError that names steps."
    assert message_of(check) == "f(steps=1) returned normally" + wanted
    assert message_of(check, "TypeError", "oh") == "f(steps=1) raised TypeError: oh" + wanted
    assert 'the message "missteps"' in message_of(check, "ValueError", "missteps")
    assert "with no message" in message_of(check, "ValueError", "")
    message_of(check, "KeyError", "\x1b" * 10_000)


def test_other_exceptions_pass_through() -> None:
    forbidden = Forbidden("x", Frame(1, "f"))
    for other in (TimedOut("x"), SandboxDied("x"), forbidden, CheckFailed("x"), OSError("x")):
        with pytest.raises(type(other)) as caught, must_raise(ValueError):
            raise other
        assert caught.value is other
    for kind in (ValueError, RuntimeError):
        with pytest.raises(NotImplementedError), must_raise(kind):
            raising("NotImplementedError", "f: write it")
    with must_raise(NotImplementedError):
        raising("NotImplementedError", "f: write it")


# --- arbitrary data -------------------------------------------------------------------------------


def tensors(shape: tuple[int, ...]) -> st.SearchStrategy[Tensor]:
    def build(dtype: torch.dtype, fill: float, seed: int) -> Tensor:
        values = randn(*shape, seed=seed) * 3
        if dtype.is_floating_point or dtype.is_complex:
            values = torch.where(values > 2, fill, values)
        return values.abs().to(dtype) if dtype == torch.uint64 else values.to(dtype)

    fills = st.sampled_from([math.nan, math.inf, 0.0, 1e30])
    return st.builds(build, st.sampled_from(DTYPES), fills, st.integers(0, 3))


SHAPES = st.sampled_from(
    [(), (1,), (3,), (0,), (3, 4), (4, 3), (2, 0, 3), (12,), (1,) * 16, (2, 2, 2)]
)
ARRAYS = SHAPES.flatmap(tensors)
KEYS = st.one_of(st.text(max_size=3), st.integers(-2, 2), st.booleans(), st.floats(width=16))
LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.builds(lambda: -(10**5000))),
    *(st.floats(), st.text(max_size=20), st.binary(max_size=5), st.builds(Opaque, st.text())),
    ARRAYS,
    ARRAYS.filter(lambda x: x.dtype != torch.bfloat16).map(lambda x: x.numpy()),
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.builds(Record, st.text(max_size=5), st.dictionaries(st.text(max_size=3), inner)),
    ),
    max_leaves=6,
)


LARGE = torch.tensor([1e308, 1e307, -1e308], dtype=torch.float64)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.thorough
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(PLAIN, PLAIN, PLAIN)
@example(nested(400), nested(400), nested(400))
@example(torch.zeros(3).to_sparse(), torch.zeros(3).to_sparse(), None)
@example(torch.zeros(3, device="meta"), torch.zeros(3, device="meta"), None)
@example(np.array(["a"]), np.array(["a"]), None)
@example(randn(2).requires_grad_(), randn(2), randn(2).requires_grad_())
@example(
    torch.full((3,), 1e308, dtype=torch.float64),
    torch.full((3,), -1e308, dtype=torch.float64),
    None,
)
def test_any_data_gives_a_verdict_and_no_other_exception(
    actual: Any, expected: Any, other: Any
) -> None:
    checks: tuple[Callable[[], object], ...] = (
        lambda: compare_named(actual, expected, Rule(), "the output", lambda: {"No.": other}),
        lambda: assert_close([actual, expected], [expected, actual]),
        lambda: assert_equal(actual, expected),
        lambda: assert_tensor(actual, shape=(3, 4), dtype=torch.float32),
    )
    for check in checks:
        text = verdict_of(check)
        assert text is None or 0 < len(text) <= 1500
        (text or "").encode()  # no lone surrogates


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(SHAPES.flatmap(lambda shape: st.tuples(tensors(shape), tensors(shape))))
def test_equal_shapes_give_a_verdict_and_no_other_exception(pair: tuple[Tensor, Tensor]) -> None:
    for left, right in (
        pair,
        [abs_(x).to(torch.float16) for x in pair],
        [x > 1 for x in map(abs_, pair)],
    ):
        assert verdict_of(assert_close, left, right) != ""


def abs_(x: Tensor) -> Tensor:
    return x.to(torch.complex64).abs()


def test_no_relation_is_searched_in_large_values() -> None:
    large = randn(50_001)
    assert "Every element" not in message_of(assert_close, 2 * large, large)
    assert "Every element is twice" in message_of(assert_close, 2 * large[:-1], large[:-1])


def test_messages_about_large_values_are_short() -> None:
    zeros = torch.zeros(220, 220)
    tall = zeros.clone()
    tall[-1, -1] = 1
    message_of(assert_close, zeros, tall)
    message_of(assert_close, randn(220, 220), randn(220, 220, seed=1))
    message_of(assert_equal, "x" * 200_000, "y" * 200_000)
    message_of(assert_equal, dict.fromkeys(range(10_000)), dict.fromkeys(range(1, 10_001)))


def test_equal_values_are_compared_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def counted(left: Any, right: Any, tolerance: comparison.Tolerance) -> Any:
        compared.append(right.size)
        return agreement(left, right, tolerance)

    agreement = comparison.agreement
    monkeypatch.setattr(comparison, "agreement", counted)
    x = randn(3, 4)
    assert_close(x, x + 1e-7)
    assert compared == [12]
    assert_close(x, x.clone())
    assert compared == [12], "identical values are not compared"


def test_plain_data_needs_neither_torch_nor_numpy() -> None:
    program = """
import sys
from grader.judge.checks import assert_close, assert_equal
assert_close({"a": [1.0, 2]}, {"a": [1.0, 2.0]})
assert_equal(["x", None], ["x", None])
try:
    assert_equal([1, "a"], [1, "b"])
except AssertionError:
    pass
assert not {"torch", "numpy"} & set(sys.modules)
"""
    # The program is a constant of this test.
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
