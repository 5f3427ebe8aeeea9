"""Checks that compare or read values. Each returns, or raises CheckFailed with a message for the student."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from grader.judge.checks.comparison import (
    DifferenceKind,
    Rule,
    field_names,
    first_mismatch,
    is_tensor,
)
from grader.judge.checks.explanation import (
    cause_of,
    explain,
    explain_dtype,
    explain_shape,
    explain_type,
)
from grader.judge.checks.wording import quoted, sentence
from grader.judge.outcomes import CheckFailed, StudentError
from grader.judge.text import text
from grader.results import Cause
from grader.sandbox.wire.values import Record
from grader.text import clean, with_article

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor


def assert_close(
    actual: Any,
    expected: Any,
    *,
    what: str = "the output",
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Check type, shape, dtype and values, by the tolerance of the expected value's dtype.

        assert_close(student.function("mean")(x), x.mean(), what="the mean")

    Args:
        actual: the student's value.
        expected: a Tensor, an array, a number, or a list, tuple or dict of these. A list may answer a tuple,
            and an int a float.
        what: the name of the value in messages.
        rtol: the relative tolerance, if it is not the dtype's (`comparison.TOLERANCES`).
        atol: the absolute tolerance, likewise. Arrays of integers or booleans are always compared exactly.

    Raises CheckFailed if they differ.
    """
    compare(actual, expected, Rule(rtol=rtol, atol=atol), what)


def assert_equal(
    actual: Any,
    expected: Any,
    *,
    what: str = "the output",
    ordered: bool = True,
) -> None:
    """Check that plain data are equal: types and values exactly, dicts with the order of keys.

        assert_equal(student.function("counts")("a b a"), {"a": 2, "b": 1}, ordered=False)

    With `ordered=False`, the keys may be in any order. Raises CheckFailed if they differ.
    """
    compare(actual, expected, Rule(exact=True, ordered=ordered), what)


def compare(actual: Any, expected: Any, rule: Rule, what: str, *, told: str = "") -> None:
    """Compare by a rule; raise CheckFailed, with `told` first if it names the mistake."""
    mismatch = first_mismatch(actual, expected, rule)
    if mismatch is None:
        return
    # A named mistake needs no guess beside it.
    lines = explain(mismatch, actual, expected, rule, what, search=not told)
    if not told:
        raise CheckFailed(lines, cause_of(mismatch.kind, what, mismatch.actual))
    raise CheckFailed([told, *lines])


def compare_named(
    actual: Any, expected: Any, rule: Rule, what: str, mistakes: Callable[[], Mapping[str, Any]]
) -> None:
    """Compare by a rule; raise CheckFailed, with the sentence of a mistake that a law knows first.

    If the check fails, `mistakes` computes the value of each mistake, by its sentence. A mistake is named
    if it explains the whole value, and the right answer would not look the same.
    """
    if first_mismatch(actual, expected, rule) is None:
        return
    for told, value in mistakes().items():
        is_seen = first_mismatch(value, expected, rule) is not None
        if is_seen and first_mismatch(actual, value, rule) is None:
            compare(actual, expected, rule, what, told=told)
    compare(actual, expected, rule, what)


def assert_tensor(
    value: Any,
    *,
    shape: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
    what: str = "the output",
) -> Tensor:
    """Check that a value is a tensor with this shape and dtype (None: any), and return it.

        weight = assert_tensor(entry(report, "weight"), shape=(5, 6), dtype=torch.float32)

    Raises CheckFailed if it is not.
    """
    if not is_tensor(value):
        raise CheckFailed(
            explain_type(value, "a Tensor", what),
            cause_of(DifferenceKind.TYPE, what, value),
        )
    if shape is not None and tuple(value.shape) != tuple(shape):
        raise CheckFailed(
            explain_shape(value, tuple(shape), what), cause_of(DifferenceKind.SHAPE, what)
        )
    if dtype is not None and value.dtype != dtype:
        raise CheckFailed(explain_dtype(value, dtype, what), cause_of(DifferenceKind.DTYPE, what))
    return value  # type: ignore[no-any-return]  # a Tensor, as just checked


@contextmanager
def must_raise(
    error: type[Exception], *, mentions: str | None = None, call: str = "the call"
) -> Iterator[None]:
    """Check that the student's code raises `error` with the word `mentions` in its message.

        with must_raise(ValueError, mentions="steps", call="exponential_lrs(steps=1)"):
            student.function("exponential_lrs")(steps=1)

    Either word of `mentions="shape or other"` will do. Case does not matter, and a word within an identifier
    counts: "scheduler_state_dict is missing" names `scheduler`.

    Only an exception of the student's code counts. An unwritten part (NotImplementedError), a time-out, a crash
    and the use of a forbidden function pass through unchanged. Raises CheckFailed if nothing is raised, another
    exception, or one without the word.
    """
    with raising(error, mentions) as done:
        yield
    if done.did:
        raise not_refused(call, done.did, error.__name__, mentions)


class Done:
    """The action of a call that should have raised; empty if it raised the right error."""

    did = ""


@contextmanager
def raising(error: type[Exception], mentions: str | None) -> Iterator[Done]:
    """Report the action of student code that should raise `error`; see `must_raise`."""
    done = Done()
    try:
        yield done
    except StudentError as raised:
        # Even if a RuntimeError is expected, since NotImplementedError inherits from it.
        if isinstance(raised, NotImplementedError) and error is not NotImplementedError:
            raise
        done.did = _misfit(raised, error, mentions) or ""
    else:
        done.did = "returned normally"


def not_refused(call: str, did: str, error: str, mentions: str | None) -> CheckFailed:
    """Return the failure of a call that did something other than raise `error`."""
    # The stub says which exception, and which word it contains.
    naming = "" if mentions is None else f" that names {mentions}"
    wanted = text(f"{{call}} {{did}}, but should raise {with_article(error)}{naming}.", call, did)
    # A wrong reaction to bad arguments explains no other mistake.
    return CheckFailed(sentence(wanted), Cause.VALUES)


def _misfit(raised: StudentError, error: type[Exception], mentions: str | None) -> str | None:
    """Return how an exception differs from the expected one; None if it does not."""
    if not isinstance(raised, error):
        return text("raised {error}", clean(str(raised), 200).rstrip("."))
    if mentions is None or any(_names(raised.text, word) for word in mentions.split(" or ")):
        return None
    said = text("the message {message}", quoted(raised.text, 200)) if raised.text else "no message"
    return text("raised {type} with {said}", clean(raised.type_name), said)


def _names(text: str, word: str) -> bool:
    """Return whether `text` contains `word`, as a word, as a plural or within an identifier.

    `num_steps`, `steps_`, `LRScheduler` and `schedulers` name `steps` and `scheduler`; `checks` does not name
    `k`.
    """
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    plural = "s?" if len(word) > 2 else ""
    pattern = rf"(?<![^\W_]){re.escape(word)}{plural}(?![^\W_])"
    return any(re.search(pattern, form, re.IGNORECASE) for form in (text, parts))


# --- reading a probe's report, where everything is checked -----------------------------------------

UNREADABLE = "Your code gave an answer that cannot be read."


def entry(
    report: Any,
    *path: str | int,
    kind: type | tuple[type, ...] = object,
    count: int | None = None,
    names: Sequence[str] = (),
    told: str = UNREADABLE,
    place: str = "",
    **default: Any,
) -> Any:
    """Return an entry of a report by a probe or the student's code; `path` leads to it, key by key.

        losses = entry(student.run("train"), "history", "losses", kind=list, count=3)

    Args:
        report: the value returned.
        path: keys of dicts, fields of named tuples, or positions in lists, for which `names` may be given.
        kind: the required type. For tuple, a named tuple is accepted.
        count: the required number of entries.
        names: names of the positions in a list.
        told: the sentence of the failure.
        place: the function to look at, if it is not the subject of the test.
        default: returned if the entry is missing.

    Raises CheckFailed if the entry is missing or unfit.
    """
    value, missing = report, False
    for key in path:
        value, missing = _step(value, key, names)
        if missing:
            break
    if missing and default:
        return default["default"]
    if isinstance(value, Record) and tuple in (kind if isinstance(kind, tuple) else (kind,)):
        value = tuple(value)
    of_count = count is None or (isinstance(value, (list, tuple, dict)) and len(value) == count)
    if missing or not isinstance(value, kind) or not of_count:
        cause = Cause.TYPE if told == UNREADABLE else Cause.MISTAKE
        raise CheckFailed(told, cause, place)
    return value


def fields(report: Any, *names: str, told: str = UNREADABLE) -> list[Any]:
    """Return these entries of a report, in this order.

        before, after = fields(student.run("train"), "before", "after")

    Raises CheckFailed with the sentence `told` if one is missing.
    """
    return [entry(report, name, told=told) for name in names]


def _step(value: Any, key: str | int, names: Sequence[str]) -> tuple[Any, bool]:
    """Return the entry of a value under one key, and whether it is missing."""
    # Nearly always a dict, for which Python need not check whether it is a Mapping.
    if type(value) is dict or isinstance(value, Mapping):
        return (value[key], False) if key in value else (None, True)
    if isinstance(value, Record) and key in (field_names(value) or ()):
        return value.fields[str(key)], False
    if isinstance(value, Record) and isinstance(key, int):
        value = tuple(value)
    if isinstance(value, (list, tuple)):
        if key in names and len(value) == len(names):
            key = names.index(str(key))
        if isinstance(key, int) and -len(value) <= key < len(value):
            return value[key], False
    return None, True
