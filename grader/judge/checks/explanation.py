"""Explain a mismatch in lines for the student.

The first line is the finding. The next lines show the worst element, the tolerance and a simple relation that
explains the difference. They show at most one element of the expected value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from grader.judge.checks.comparison import (
    EXACT,
    DifferenceKind,
    Mismatch,
    Rule,
    Tolerance,
    agreement,
    as_array,
    as_float,
    dtype_name,
    field_names,
    first_mismatch,
    is_array,
    numeric_leaves,
    type_of,
)
from grader.judge.checks.wording import (
    a_kind,
    element,
    numbers_apart,
    quoted,
    sentence,
    shape_of,
    subject,
    verb,
)
from grader.judge.text import text, uncapitalized
from grader.results import Cause
from grader.sandbox.wire.values import Opaque
from grader.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Names of a gradient; `gradient_norm(model)` and "the norm of the gradients" are not.
_GRADIENT = re.compile(
    r"\.grad\b|^(the |your |its )?((list|dict|tuple|vector) of (the )?)?(gradients?|derivative)\b",
    re.IGNORECASE,
)
_CAUSES = {
    DifferenceKind.TYPE: Cause.TYPE,
    DifferenceKind.INCOMPARABLE: Cause.TYPE,
    DifferenceKind.DTYPE: Cause.TYPE,
    DifferenceKind.KEYS: Cause.VALUES,
    DifferenceKind.FIELDS: Cause.TYPE,
    DifferenceKind.LENGTH: Cause.SHAPE,
    DifferenceKind.SHAPE: Cause.SHAPE,
    DifferenceKind.ORDER: Cause.VALUES,
    DifferenceKind.VALUES: Cause.VALUES,
}
# How long a list, tuple or dict may be that a message shows whole, and how large a tensor in it.
_LONGEST_WHOLE, _MAX_ELEMENTS = 160, 16
# The same structure with finite numbers of any value.
_ALIKE = Rule(rtol=0.0, atol=math.inf)


def cause_of(kind: DifferenceKind, what: str, value: Any = ...) -> Cause:
    """Return the cause that a mismatch of this kind indicates; gradients come after everything else."""
    if _GRADIENT.search(what):
        return Cause.GRADIENT
    return Cause.NOTHING if kind is DifferenceKind.TYPE and value is None else _CAUSES[kind]


def explain(
    mismatch: Mismatch, actual: Any, expected: Any, rule: Rule, what: str, search: bool = True
) -> list[str]:
    """Return lines about the first mismatch of two values; `search` also looks for relations.

    All entries of a short list, tuple or dict come last: another mistake may have the same first mismatch.
    """
    lines = _explain_first(mismatch, actual, expected, rule, what, search)
    return lines + _whole(actual, what) if search else lines


def _whole(actual: Any, what: str) -> list[str]:
    """Return the line with all entries of a short list, tuple or dict."""
    if not isinstance(actual, (list, tuple, Mapping)):
        return []
    shown = _literal(actual, _LONGEST_WHOLE)
    return (
        []
        if shown is None
        else [text("In full, {what} {is_} {value}.", what, verb(what, "is", "are"), shown)]
    )


def _literal(value: Any, room: int) -> str | None:
    """Return plain data in at most `room` characters; None if it is longer, or anything else."""
    if isinstance(value, (list, tuple, Mapping)) and len(value) > room:
        return None
    if isinstance(value, Mapping):
        pairs = [_joined(pair, room) for pair in value.items()]
        parts = [": ".join(pair) for pair in pairs if pair is not None]
        shown = f"{{{', '.join(parts)}}}" if len(parts) == len(pairs) else None
    elif isinstance(value, (list, tuple)):
        entries = _joined(value, room)
        shown = None if entries is None else f"[{', '.join(entries)}]"
    elif is_array(value):
        array = as_array(value)
        small = array is not None and array.size <= _MAX_ELEMENTS
        return _literal(array.tolist(), room) if array is not None and small else None
    else:
        shown = element(value) if value is None or isinstance(value, (int, float, str)) else None
    return shown if shown is not None and len(shown) <= room else None


def _joined(values: Iterable[Any], room: int) -> list[str] | None:
    """Return several values in writing; None if there is no room for them."""
    parts: list[str] = []
    for value in values:
        shown = _literal(value, room)
        if shown is None:
            return None
        parts.append(shown)
        room -= len(shown) + 2
    return parts


def _explain_first(
    mismatch: Mismatch, actual: Any, expected: Any, rule: Rule, what: str, search: bool
) -> list[str]:
    what = subject(what, mismatch.path)
    left, right = mismatch.actual, mismatch.expected
    match mismatch.kind:
        case DifferenceKind.TYPE:
            return explain_type(left, a_kind(right), what)
        case DifferenceKind.INCOMPARABLE:
            return [
                sentence("{what} is {kind}, whose contents cannot be compared.", what, a_kind(left))
            ]
        case DifferenceKind.LENGTH:
            given, wanted = counted(len(left), "entry", "entries"), len(right)
            return [
                sentence(
                    "{what} {has} {given}, expected {wanted}.",
                    what,
                    verb(what, "has", "have"),
                    given,
                    wanted,
                )
            ]
        case DifferenceKind.KEYS:
            return _explain_names(list(left), list(right), "entry", what)
        case DifferenceKind.FIELDS:
            names = field_names(left) or (), field_names(right) or ()
            return _explain_names(list(names[0]), list(names[1]), "field", what)
        case DifferenceKind.ORDER:
            return _explain_order(list(left), list(right), what)
        case DifferenceKind.SHAPE:
            return explain_shape(left, tuple(right.shape), what, right if search else None)
        case DifferenceKind.DTYPE:
            return explain_dtype(left, right.dtype, what, right if search else None)
    if isinstance(right, str):
        return _explain_text(left, right, what)
    # A relation of all entries together says more than one of the first entry.
    everywhere = _everywhere(actual, expected) if search and mismatch.path else []
    search = search and not everywhere
    return _explain_values(left, right, rule, what, search) + everywhere


# --- types, entries, text -------------------------------------------------------------------------


def explain_type(value: Any, expected: str, what: str) -> list[str]:
    """Return the line about a value of another type than the expected one, such as "a Tensor"."""
    hint = _type_hint(value, expected, what)
    if not what.endswith(","):
        what = text("{what},", what)
    if value is None:
        # None is said in words, which a hidden test shows, too: its cause tells as much.
        words = "your code returned None as {what} expected {expected}{hint}"
        return [sentence(words, what, expected, hint)]
    return [
        sentence(
            "your code returned {kind} as {what} expected {expected}{hint}",
            a_kind(value),
            what,
            expected,
            hint,
        )
    ]


def _type_hint(value: Any, expected: str, what: str) -> str:
    """Return the end of the sentence about another type: a full stop, or a likely reason and a remedy."""
    # The name of a function may contain "grad"; a gradient is named by .grad or "gradient of".
    if value is None and expected == "a Tensor" and re.search(r"\.grad\b|\bgradients? of\b", what):
        return ": does a gradient reach it?"
    # Instead of a text, another input often gives None.
    is_often_none = expected == "a string" or re.match("(the )?entry", what, re.IGNORECASE)
    if value is None and not is_often_none:
        # A field may be requested, too; and another input may give None.
        return ": is it returned on every path, or was it never set?"
    if isinstance(value, Opaque):
        return _opaque_hint(value.type_name, expected)
    if is_array(value) and expected in ("a float", "an int", "a bool"):
        one = math.prod(value.shape) == 1
        return ": call .item()." if one else text("; its shape is {shape}.", shape_of(value))
    if (a_kind(value), expected) == ("a numpy.ndarray", "a Tensor"):
        return ": torch.from_numpy converts it."
    if (a_kind(value), expected) == ("a Tensor", "a numpy.ndarray"):
        return ": .numpy() converts it."
    return "."


def _opaque_hint(type_name: str, expected: str) -> str:
    """Return a likely reason for the name of a type."""
    if type_name in ("function", "method", "builtin_function_or_method", "type"):
        return ": are the parentheses of a call missing?"
    if type_name == "generator" and expected in ("a list", "a tuple"):
        return text(": {call}(...) makes one of it.", expected.removeprefix("a "))
    return "."


def _explain_names(given: list[Any], wanted: list[Any], noun: str, what: str) -> list[str]:
    """Name the first missing and the first superfluous entry."""
    lines = []
    typed = {(type_of(key), key) for key in given}, {(type_of(key), key) for key in wanted}
    missing = [key for key in wanted if (type_of(key), key) not in typed[0]]
    extra = [key for key in given if (type_of(key), key) not in typed[1]]
    if missing:
        more = text(" and {count} more", len(missing) - 1) if len(missing) > 1 else ""
        lacks = verb(what, "lacks", "lack")
        lines.append(
            sentence(
                "{what} {lacks} the {noun} {name}{more}.",
                what,
                lacks,
                noun,
                element(missing[0]),
                more,
            )
        )
    if extra:
        are = "is" if len(extra) == 2 else "are"
        more = text(", nor {are} {count} more", are, len(extra) - 1) if len(extra) > 1 else ""
        lines.append(
            text(
                "The {noun} {name} of {what} is not expected{more}.",
                noun,
                element(extra[0]),
                what,
                more,
            )
        )
    if missing and extra and type_of(missing[0]) is not type_of(extra[0]):
        kinds = a_kind(extra[0]), a_kind(missing[0])
        lines.append(
            text("The name of that {noun} is {kind}, expected {wanted}.", noun, kinds[0], kinds[1])
        )
    return lines or [
        sentence("the {noun} names of {what} are in another order than expected.", noun, what)
    ]


def _explain_order(given: list[Any], wanted: list[Any], what: str) -> list[str]:
    pairs = zip(given, wanted, strict=True)
    left, right = next((left, right) for left, right in pairs if left != right)
    return [
        sentence("the entries of {what} are right, but in another order.", what),
        text(
            "The first one out of place is {got}, expected {wanted}.", element(left), element(right)
        ),
    ]


def _explain_text(actual: str, expected: str, what: str) -> list[str]:
    """Return the first line in which two texts differ, from a little before the first difference."""
    given, wanted = actual.split("\n"), expected.split("\n")
    pairs = zip(given, wanted, strict=False)
    row = next((i for i, (left, right) in enumerate(pairs) if left != right), None)
    if actual.casefold() == expected.casefold():
        lines = [sentence("{what} differs only in upper and lower case.", what)]
    elif actual.split() == expected.split():
        lines = [sentence("{what} differs only in white space.", what)]
    elif len(wanted) > 1:
        lines = [sentence("{what} differs from the expected text.", what)]
    else:
        lines = []
    if row is None:
        return [
            *lines,
            text("It has {given}, expected {wanted}.", counted(len(given), "line"), len(wanted)),
        ]
    left, right = given[row], wanted[row]
    column = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if column is None:  # one line begins with the other
        column = min(len(left), len(right))
    start = max(0, column - 20) if column > 60 else 0
    where = what if len(wanted) == 1 else text("line {line}", row + 1)
    dots = "…" if start else ""
    shown = quoted(dots + left[start:]), quoted(dots + right[start:])
    return [*lines, sentence("{where} is {got}, expected {wanted}.", where, shown[0], shown[1])]


# --- shapes and dtypes ----------------------------------------------------------------------------


def explain_dtype(value: Any, dtype: Any, what: str, expected: Any = None) -> list[str]:
    """Return the line about a tensor or array of another dtype, and whether its values are right."""
    has = verb(what, "has", "have")
    lines = [
        sentence("{what} {has} dtype {dtype}, expected {expected}.", what, has, value.dtype, dtype)
    ]
    left, right = as_array(value), None if expected is None else as_array(expected)
    if left is not None and right is not None:
        # The narrower of the two dtypes limits the precision of the values.
        loose = max(
            (_tolerance_of(value), _tolerance_of(expected)), key=lambda tolerance: tolerance.rtol
        )
        if agreement(left, right, loose).all():
            lines.append("Apart from the dtype the values are right.")
    return lines


def _tolerance_of(array: Any) -> Tolerance:
    return Rule().tolerance(dtype_name(array))


def explain_shape(value: Any, shape: tuple[int, ...], what: str, expected: Any = None) -> list[str]:
    """Return lines about a tensor or array of another shape, and how the two shapes are related."""
    has, given = verb(what, "has", "have"), tuple(value.shape)
    lines = [
        sentence(
            "{what} {has} shape {shape}, expected {expected}.", what, has, shape_of(value), shape
        )
    ]
    hint = _shape_hint(given, shape)
    if hint:
        lines.append(hint)
    if expected is not None and value.dtype == expected.dtype:
        left, right = as_array(value), as_array(expected)
        if left is not None and right is not None and left.size == right.size:
            lines += _other_values(left, right, _tolerance_of(expected))
    return lines


def _other_values(actual: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance) -> list[str]:
    if expected.size < 2:
        return []
    if agreement(actual.reshape(expected.shape), expected, tolerance).all():
        return ["Apart from the shape the values are right."]
    transposed = actual.ndim == 2 and actual.shape == expected.shape[::-1]
    if transposed and agreement(actual.T, expected, tolerance).all():
        return ["Apart from the shape the values are right: it is the expected value transposed."]
    return []


def _shape_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    """Return how a shape may have come about, or None if nothing simple relates the two."""
    if len(given) == len(wanted):
        return _same_length_hint(given, wanted)
    if [n for n in given if n != 1] == [n for n in wanted if n != 1]:
        few = "many" if len(given) > len(wanted) else "few"
        return text(
            "It has {wanted} of size 1 too {few}.",
            counted(abs(len(given) - len(wanted)), "dimension"),
            few,
        )
    if math.prod(given) == math.prod(wanted) and 1 in (len(given), len(wanted)):
        return "It is flattened." if len(given) == 1 else "It is not flattened."
    longer, shorter = (given, wanted) if len(given) > len(wanted) else (wanted, given)
    if len(longer) - len(shorter) == 1:
        for d in range(len(longer)):
            if longer[:d] + longer[d + 1 :] == shorter:
                if longer is given:
                    return text("A dimension of size {size} should be gone.", longer[d])
                return text("The expected dimension {d}, of size {size}, is missing.", d, longer[d])
    return None


def _same_length_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    """Return how two shapes with equally many dimensions are related, or None."""
    differing = [
        d for d, (left, right) in enumerate(zip(given, wanted, strict=True)) if left != right
    ]
    if len(given) == 2 and given == wanted[::-1]:
        return "It is the expected shape transposed."
    if sorted(given) == sorted(wanted):
        if len(differing) == 2:
            return text("Dimensions {first} and {second} are swapped.", differing[0], differing[1])
        return "These are the expected dimensions in another order."
    if len(differing) != 1:
        return None
    d = differing[0]
    for factor, words in ((2, "twice as long as"), (0.5, "half as long as")):
        if given[d] == factor * wanted[d] and wanted[d] > 2:
            return text("Dimension {d} is {words} expected.", d, words)
    if abs(given[d] - wanted[d]) == 1:
        return text(
            "Dimension {d} is one too {long}.", d, "long" if given[d] > wanted[d] else "short"
        )
    return text("Only dimension {d} differs.", d)


# --- arrays ---------------------------------------------------------------------------------------


def _explain_values(actual: Any, expected: Any, rule: Rule, what: str, search: bool) -> list[str]:
    """Return lines about two arrays of one shape, or two numbers, that differ in values."""
    if is_array(expected):
        left, right, dtype = _as_arrays(actual, expected)
        tolerance = rule.tolerance(dtype)
        if right.size > 1:
            lines = _worst_element(left, right, tolerance, dtype, what)
            lines += _allowed(tolerance)
            return lines + (_relations(left, right, dtype) if search else [])
        actual, expected = left.flat[0].item(), right.flat[0].item()
    else:
        tolerance = EXACT if not isinstance(expected, float) else rule.tolerance("float64")
    got, wanted = numbers_apart(actual, expected)
    lines = [
        sentence(
            "{what} {are} {got}, expected {wanted}.", what, verb(what, "is", "are"), got, wanted
        )
    ]
    lines += _allowed(tolerance)
    if search and isinstance(actual, float) and isinstance(expected, float):
        lines += _relations(*_as_arrays(actual, expected))
    return lines


def _allowed(tolerance: Tolerance) -> list[str]:
    if tolerance == EXACT:
        return []
    return [
        text(
            "A difference of {atol:g} + {rtol:g} · |expected| is allowed.",
            tolerance.atol,
            tolerance.rtol,
        )
    ]


def _as_arrays(actual: Any, expected: Any) -> tuple[Array, Array, str]:
    """Return two comparable values as arrays, with the dtype that decides the tolerance."""
    import numpy as np

    if is_array(expected):
        # Both have numbers to show, or else they would be incomparable.
        left, right = cast("Array", as_array(actual)), cast("Array", as_array(expected))
        return left, right, dtype_name(expected)
    return np.asarray(as_float(actual)), np.asarray(as_float(expected)), "float64"


def _worst_element(
    left: Array, right: Array, tolerance: Tolerance, dtype: str, what: str
) -> list[str]:
    """Return the number of different elements of two arrays of one shape, and the most different one."""
    import numpy as np

    wrong = ~agreement(left, right, tolerance)
    kind = "complex128" if right.dtype.kind == "c" else "float64"
    with np.errstate(all="ignore"):
        error = np.abs(left.astype(kind) - right.astype(kind))
        # NaN if either is NaN or both are infinite, which counts as the largest difference.
        error = np.where(wrong, np.where(np.isnan(error), np.inf, error), -1.0)
    place = np.unravel_index(int(np.argmax(error)), error.shape)
    index = ", ".join(str(int(i)) for i in place)
    got, wanted = numbers_apart(left[place].item(), right[place].item())
    size = text("shape {shape}, {dtype}", tuple(right.shape), dtype)
    differ = "differs" if wrong.sum() == 1 else "differ"
    lines = [
        sentence(
            "{count} of {total} elements of {what} ({size}) {differ}.",
            int(wrong.sum()),
            wrong.size,
            what,
            size,
            differ,
        )
    ]
    if right.dtype.kind == "b":
        return [
            *lines,
            text(
                "The first one is at [{index}]: got {got}, expected {wanted}.", index, got, wanted
            ),
        ]
    greatest = f"{error[place]:.4g}, " if np.isfinite(error[place]) else ""
    return [
        *lines,
        text(
            "The greatest difference is {greatest}at [{index}]: got {got}, expected {wanted}.",
            greatest,
            index,
            got,
            wanted,
        ),
    ]


def _relations(left: Array, right: Array, dtype: str) -> list[str]:
    from grader.judge.checks.relations import nonfinite, relation

    if right.size == 1:  # a single number shows everything
        words = relation(left, right, dtype)
    else:
        words = nonfinite(left, right) or relation(left, right, dtype)
    return [words] if words else []


def _everywhere(actual: Any, expected: Any) -> list[str]:
    """Return a relation that holds for all numbers of two structures together."""
    import numpy as np

    from grader.judge.checks.relations import common_factor, relation

    if first_mismatch(actual, expected, _ALIKE) is not None:
        return []
    pairs = [_as_arrays(*pair) for pair in numeric_leaves(actual, expected)]
    if len(pairs) < 2 or any(right.dtype.kind != "f" for _, right, _ in pairs):
        return []
    left = np.concatenate([left.ravel() for left, _, _ in pairs])
    right = np.concatenate([right.ravel() for _, right, _ in pairs])
    if all(one.ndim == 0 for _, one, _ in pairs):
        words = relation(left, right, "float64")
    else:
        tolerances = [Rule().tolerance(dtype) for _, _, dtype in pairs]
        words = common_factor(left, right, max(tolerances))
    return [text("Over all entries: {relation}", uncapitalized(words))] if words else []
