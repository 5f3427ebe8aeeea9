"""The decorator of a test, and the comparison of an answer with the course's solution.

A test with the parameters `code` and `draw` is a generator that runs twice: `code` is first the student's
code, then the solution, each in its own sandbox, and `draw` gives both the same random inputs. The yielded
cases are compared one by one:

    @promise("GatedLinearUnit.forward", points=12, hint="Only the second half is squashed.")
    def test_forward(code: Student, draw: Draw) -> Cases:
        \"\"\"The value half is multiplied by the sigmoid of the gate half.\"\"\"
        layer = draw.fill(code.module("GatedLinearUnit", 6, 5))
        yield "the output", layer(draw.normal(4, 6, grad="x"))

A case is its name in messages and a value: tensors, numbers, strings, None, or lists, tuples and dicts of them.
Types, shapes and dtypes are compared, numbers by the tolerance of their dtype, and the gradients with respect
to the leaves of `draw`. A list may answer a tuple, and the keys of a dict may be in any order. Other rules are
written around the value: `exactly`, `within`, `unordered`, `any_dtype`,
`any_gradients`. An exception that both must raise is a case, too: `raises`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from grader.judge.checks.assertions import compare, not_refused, raising
from grader.judge.checks.comparison import (
    DifferenceKind,
    Rule,
    dtype_name,
    first_mismatch,
    is_tensor,
)
from grader.judge.checks.draw import Draw
from grader.judge.checks.explanation import cause_of, explain
from grader.judge.checks.laws.numerics import not_finite
from grader.judge.checks.wording import failed, sentence
from grader.judge.outcomes import CheckFailed
from grader.judge.student import Student
from grader.judge.text import text
from grader.results import Cause
from grader.sandbox.wire.values import Record

if TYPE_CHECKING:
    from torch import Tensor

Cases = Iterator[tuple[str, Any]]
Body = Callable[[Student, Draw], Cases]
_Test = TypeVar("_Test", bound=Callable[..., Any])


def promise(
    place: str,
    *,
    points: float = 1,
    hint: str = "",
    after: str | Sequence[str] = (),
    word: str = "",
    unproven: str = "",
) -> Callable[[_Test], Callable[[Student], None]]:
    """Make a function a test of a promise in the stub; its arguments are literals, never run.

        @promise("scale", hint="Multiply x by the factor.")
        def test_values(code, draw):
            \"""Each entry is multiplied by the factor.\"""
            yield "scale(x, 3.0)", code.function("scale")(draw.normal(4, 6, grad="x"), 3.0)

    The test runs on the student's code and on the solution, and each yielded case is compared. A test that
    yields nothing, and has the parameter `student`, makes its own assertions.

    Args:
        place: the function or method of the student's file to look at, as "Class.method".
        points: its weight within the exercise.
        hint: the next step, for a student whose code breaks the promise.
        after: earlier tests in the file that must pass before this one runs.
        word: the sandbox's statement that the test believes, if no value shows it.
        unproven: why no wrong answer fails it (see `grade verify`).
    """

    # `grader.course.suite` reads them from the source.
    del place, points, hint, after, word, unproven

    def decorate(test: _Test) -> Callable[[Student], None]:
        if not inspect.isgeneratorfunction(test):
            return test

        @functools.wraps(test)
        def compared(student: Student) -> None:
            _compare(student, test)

        # pytest reads the parameters, and would otherwise find the test's.
        del compared.__wrapped__
        compared.body = test  # type: ignore[attr-defined]  # for `body_of`
        return compared

    return decorate


def body_of(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function itself, from the suite."""
    return getattr(test, "body", test)


# --- rules of single cases ---------------------------------------------------------------------------


class Loose(msgspec.Struct, frozen=True):
    """A value that is compared by a rule of its own."""

    value: Any
    rule: Rule = Rule()
    unordered: bool = False
    any_dtype: bool = False
    any_gradients: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """The action of a call that must raise `error`; empty if it raised it and named `mentions`."""

    did: str
    error: str
    mentions: str | None


def _loose(value: Any, **changes: Any) -> Loose:
    loose = value if isinstance(value, Loose) else Loose(value)
    return msgspec.structs.replace(loose, **changes)


def exactly(value: Any) -> Loose:
    """Compare exactly.

        yield "the counts", exactly(code.function("counts")(text))

    Numbers must be equal to the last bit, a float does not answer an int, and dicts must have their keys in the
    same order.
    """
    return _loose(value, rule=Rule(exact=True))


def within(value: Any, *, rtol: float | None = None, atol: float | None = None) -> Loose:
    """Compare with other tolerances than the dtype's.

        yield "the estimate", within(code.function("estimate")(x), rtol=1e-3)

    A tolerance that is None is the dtype's.
    """
    return _loose(value, rule=Rule(rtol=rtol, atol=atol))


def unordered(value: Any) -> Loose:
    """Compare a list or tuple of plain data in any order."""
    return _loose(value, unordered=True)


def any_dtype(value: Any) -> Loose:
    """Compare tensors without their dtypes, as numbers of the solution's dtype."""
    return _loose(value, any_dtype=True)


def any_gradients(value: Any) -> Loose:
    """Compare values without their gradients."""
    return _loose(value, any_gradients=True)


def raises(
    error: type[Exception],
    mentions: str | None,
    call: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> Refusal:
    """Call, and yield that both raise `error` with a message that names the argument `mentions`.

        yield "GatedLinearUnit(7)", raises(ValueError, "in_features", code.module, "GatedLinearUnit", 7)

    If `mentions` has several words, as "eps or epsilon", either will do. See `must_raise` for how a message
    names one.
    """
    with raising(error, mentions) as done:
        call(*args, **kwargs)
    return Refusal(done.did, error.__name__, mentions)


# --- the solution's results --------------------------------------------------------------------------


class Case(msgspec.Struct, frozen=True):
    """A case of a test from one side, without graphs, so that it can be kept."""

    what: str
    value: Any
    gradients: dict[str, Any]


class Outcomes(msgspec.Struct, frozen=True):
    """All cases of a test from the solution, and the parameters of the layers that were filled."""

    cases: tuple[Case, ...]
    shapes: tuple[dict[str, tuple[int, ...]], ...]


def outcomes_of(body: Body, code: Student, seed: int) -> Outcomes:
    """Run a test on the solution.

    Raises the solution's exceptions, and CheckFailed if a call does not raise the error of its `raises`.
    """
    draw = Draw(seed)
    cases = []
    for number, (what, value) in enumerate(_pairs(body(code, draw))):
        loose = _loose(value)
        gradients = {}
        if not loose.any_gradients:
            gradients = _gradients(loose.value, draw.leaves, seed + number)
        if isinstance(loose.value, Refusal) and loose.value.did:
            raise CheckFailed(text("{what} {did}", what, loose.value.did))
        # A copy: the test may change a yielded value in place, such as the parameters of a layer.
        cases.append(Case(what, _plain(loose.value, copied=True), gradients))
    return Outcomes(tuple(cases), tuple(draw.shapes))


def _pairs(cases: Cases) -> Cases:
    """Yield what a test yields; raises TypeError if it is not a name with a value."""
    for case in cases:
        if not (isinstance(case, tuple) and len(case) == 2 and isinstance(case[0], str)):
            raise TypeError(
                'a test yields pairs of a name and a value: `yield "the output", value`'
            )
        yield case


def _compare(student: Student, body: Body) -> None:
    """Run a test on the student's code, and compare each case with the solution's."""
    seed = student.draw_seed

    def filled(number: int) -> dict[str, tuple[int, ...]] | None:
        shapes = student.solved(body).shapes
        return shapes[number] if number < len(shapes) else None

    draw, number = Draw(seed, filled), 0
    for what, value in _pairs(body(student, draw)):
        wanted = student.solved(body).cases
        # The answer's values may have led the test another way.
        if number >= len(wanted) or what != wanted[number].what:
            raise CheckFailed(_OTHER_CASES, Cause.TYPE)
        _check(_loose(value), wanted[number], draw.leaves, seed + number)
        number += 1
    if number < len(student.solved(body).cases):
        raise CheckFailed(_OTHER_CASES, Cause.TYPE)


_OTHER_CASES = "Your code does not give the number of results that the exercise promises."


def _check(given: Loose, wanted: Case, leaves: dict[str, Tensor], seed: int) -> None:
    """Compare a case of the answer with the solution's."""
    value, what = given.value, wanted.what
    if isinstance(wanted.value, Refusal):
        if value.did:
            raise not_refused(what, value.did, value.error, value.mentions)
        return
    actual, expected = _plain(value), wanted.value
    if given.any_dtype:
        actual = _as(actual, expected)
    if given.unordered:
        actual = _in_order_of(actual, expected)
    rule = _TIGHT if given.rule == Rule() and _is_double(expected) else given.rule
    _check_tensor(actual, expected, rule, what)
    compare(actual, expected, rule, what)
    _check_gradients(value, wanted, leaves, seed)


def _check_gradients(value: Any, wanted: Case, leaves: dict[str, Tensor], seed: int) -> None:
    """Compare the gradients of a value with respect to the leaves of the test."""
    if not wanted.gradients:
        return
    if not any(tensor.requires_grad for tensor in _tensors(value)):
        raise failed(
            sentence(
                "{what} does not require a gradient: something cuts the graph (detach, .data, "
                "torch.no_grad(), torch.tensor(...), NumPy).",
                wanted.what,
            )
        )
    own = {name: leaves[name] for name in wanted.gradients if name in leaves}
    given = _gradients(value, own, seed)
    for name, right in wanted.gradients.items():
        if right is None:
            if given.get(name) is not None and given[name].any():
                words = "A gradient reaches {name}, which no gradient should reach: detach it."
                raise failed(words, name)
            continue
        if given.get(name) is None or (right.any() and not given[name].any()):
            cut = "something cuts it off (detach, .data, torch.no_grad(), a new tensor of its values)."
            raise failed("No gradient reaches {name}: {cut}", name, cut)
        what = text("the gradient of {name} for {what}", name, wanted.what)
        rule = _rule_of_gradient(right)
        if first_mismatch(given[name], right, rule) is None:
            continue
        _check_tensor(given[name], right, rule, what)
        ones = _gradients(value, {name: own[name]}, None)[name]
        told = ""
        if ones is not None and first_mismatch(ones, given[name], rule) is None:
            told = "The gradient ignores the incoming gradient (grad_output)."
        compare(given[name], right, rule, what, told=told)


def _gradients(value: Any, leaves: dict[str, Tensor], seed: int | None) -> dict[str, Any]:
    """Return the gradients of a value's tensors by the leaves, for a random incoming one (None: ones)."""
    tensors = [tensor for tensor in _tensors(value) if tensor.requires_grad and tensor.numel()]
    wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    if not tensors or not wanted:
        return {}
    import torch

    total: Any = 0.0
    for place, tensor in enumerate(tensors):
        upstream = torch.ones_like(tensor)
        if seed is not None:
            generator = torch.Generator().manual_seed(seed + place)
            drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            upstream = drawn.to(tensor.dtype)
        total = total + (tensor * upstream).sum()
    found = torch.autograd.grad(total, [*wanted.values()], allow_unused=True, retain_graph=True)
    gradients = zip(wanted, found, strict=True)
    return {name: None if found is None else found.detach() for name, found in gradients}


# Both sides compute in float64, and differ only by rounding: 1e-16 each. Values rounded to float32 on the way
# are off by 1e-8.
_TIGHT = Rule(rtol=1e-9, atol=1e-9)
# A gradient is a sum, whose terms may be as large as its largest entry and cancel.
_OF_LARGEST = {"float64": 1e-12, "float32": 1e-6}


def _is_double(value: Any) -> bool:
    return is_tensor(value) and dtype_name(value) == "float64"


def _rule_of_gradient(right: Tensor) -> Rule:
    rule = _TIGHT if _is_double(right) else Rule()
    tolerance, part = rule.tolerance(dtype_name(right)), _OF_LARGEST.get(dtype_name(right), 0.0)
    if not part or not right.numel() or not right.isfinite().all():
        return rule
    return Rule(rtol=tolerance.rtol, atol=max(tolerance.atol, part * float(right.abs().max())))


def _check_tensor(actual: Any, expected: Any, rule: Rule, what: str) -> None:
    """Raise CheckFailed for a tensor that overflowed, or whose values were rounded on the way."""
    if not is_tensor(actual) or not is_tensor(expected):
        return
    import torch

    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return
    if not expected.is_floating_point() or first_mismatch(actual, expected, rule) is None:
        return
    if expected.isfinite().all() and not actual.isfinite().all():
        raise _not_finite(actual.detach(), expected, rule, what)
    if expected.dtype is not torch.float64:
        return
    largest = float(expected.abs().max()) if expected.isfinite().all() else 0.0
    if not torch.allclose(actual, expected, rtol=1e-5, atol=1e-6 * largest):
        return
    line = text(
        "In float64 {what} is right only to the precision of float32: something on the way is rounded "
        "to float32 (.float(), a dtype written out, a rounded constant). Compute in the dtype of x.",
        what,
    )
    # A difference larger than a few roundings may be another mistake.
    is_rounding = torch.allclose(actual, expected, rtol=5e-7, atol=5e-7 * largest)
    raise CheckFailed(sentence(line), Cause.LAW if is_rounding else Cause.VALUES)


def _not_finite(actual: Tensor, expected: Tensor, rule: Rule, what: str) -> CheckFailed:
    """Return the failure of a tensor with NaN or inf, with their places and the other values.

    So a known mistake is recognized only if it has NaN or inf at the same places, and the same other values.
    """
    import torch

    line, bad = not_finite(actual, what), ~actual.isfinite()
    if bad.all():
        return failed(line)
    places = bad.nonzero().tolist()
    first, last = (", ".join(map(str, place)) for place in (places[0], places[-1]))
    where = text("It is at [{place}].", first)
    if len(places) > 1:
        where = text("The first one is at [{first}], the last one at [{last}].", first, last)
    rest = torch.where(bad, expected, actual)
    others = [text("The others are right.")]
    if (mismatch := first_mismatch(rest, expected, rule)) is not None:
        # The first line would count the elements above, too.
        lines = explain(mismatch, rest, expected, rule, what, search=False)
        others = [text("Others differ, too."), *lines[1:]]
    return CheckFailed([line, where, *others], cause_of(DifferenceKind.VALUES, what))


# --- values -----------------------------------------------------------------------------------------


def _tensors(value: Any) -> Iterator[Tensor]:
    if is_tensor(value):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple, Record)):
        for item in value:
            yield from _tensors(item)


def _plain(value: Any, *, copied: bool = False) -> Any:
    """Return the value without graphs, or a copy of it."""
    plain = functools.partial(_plain, copied=copied)
    if is_tensor(value):
        return value.detach().clone() if copied else value.detach()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, Record):
        return Record(value.type_name, {name: plain(v) for name, v in value.fields.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(plain, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return value


def _as(value: Any, like: Any) -> Any:
    """Return the value with each tensor in the dtype of the one in the same place."""
    if is_tensor(value) and is_tensor(like):
        return value.to(like.dtype)
    if isinstance(value, dict) and isinstance(like, dict):
        return {name: _as(item, like.get(name)) for name, item in value.items()}
    lists = isinstance(value, (list, tuple)) and isinstance(like, (list, tuple))
    if lists and len(value) == len(like):
        return [_as(*pair) for pair in zip(value, like, strict=True)]
    return value


def _in_order_of(value: Any, like: Any) -> Any:
    """Return the entries of a list in the order of another one, as far as they are equal."""
    if not isinstance(value, (list, tuple)) or not isinstance(like, (list, tuple)):
        return value
    left, ordered = list(value), []
    for wanted in like:
        for place, each in enumerate(left):
            if first_mismatch(each, wanted, Rule()) is None:
                ordered.append(left.pop(place))
                break
    return value if left and len(value) == len(like) and not ordered else [*ordered, *left]
