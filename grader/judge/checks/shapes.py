"""What another shape or dtype than the expected one means, in lines for the student."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grader.judge.checks.comparison import Rule, Tolerance, agreement, as_array, dtype_name
from grader.judge.checks.wording import sentence, shape_of, verb
from grader.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray


def explain_dtype(value: Any, dtype: Any, what: str, expected: Any = None) -> list[str]:
    """The line about a tensor or array of another dtype, and whether its values are right."""
    has = verb(what, "has", "have")
    lines = [sentence(f"{what} {has} dtype {value.dtype}, expected {dtype}.")]
    left, right = as_array(value), None if expected is None else as_array(expected)
    if left is not None and right is not None:
        # The narrower of both dtypes bounds what can be asked of the values.
        loose = max(
            (_tolerance_of(value), _tolerance_of(expected)), key=lambda tolerance: tolerance.rtol
        )
        if agreement(left, right, loose).all():
            lines.append("But for that the values are right.")
    return lines


def _tolerance_of(array: Any) -> Tolerance:
    return Rule().tolerance(dtype_name(array))


def explain_shape(value: Any, shape: tuple[int, ...], what: str, expected: Any = None) -> list[str]:
    """The lines about a tensor or array of another shape, and how the two shapes are related."""
    has, given = verb(what, "has", "have"), tuple(value.shape)
    lines = [sentence(f"{what} {has} shape {shape_of(value)}, expected {shape}.")]
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
        return ["But for that the values are right."]
    transposed = actual.ndim == 2 and actual.shape == expected.shape[::-1]
    if transposed and agreement(actual.T, expected, tolerance).all():
        return ["But for that the values are right: it is the expected value transposed."]
    return []


def _shape_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    """How a shape may have come about, None where nothing simple relates the two."""
    if len(given) == len(wanted):
        return _same_length_hint(given, wanted)
    if [n for n in given if n != 1] == [n for n in wanted if n != 1]:
        few = "many" if len(given) > len(wanted) else "few"
        return f"It has {counted(abs(len(given) - len(wanted)), 'dimension')} of size 1 too {few}."
    if math.prod(given) == math.prod(wanted) and 1 in (len(given), len(wanted)):
        return "It is flattened." if len(given) == 1 else "It is not flattened."
    longer, shorter = (given, wanted) if len(given) > len(wanted) else (wanted, given)
    if len(longer) - len(shorter) == 1:
        for d in range(len(longer)):
            if longer[:d] + longer[d + 1 :] == shorter:
                if longer is given:
                    return f"A dimension of size {longer[d]} is left that should be gone."
                return f"The expected dimension {d}, of size {longer[d]}, is missing."
    return None


def _same_length_hint(given: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    differing = [
        d for d, (left, right) in enumerate(zip(given, wanted, strict=True)) if left != right
    ]
    if len(given) == 2 and given == wanted[::-1]:
        return "It is the expected shape transposed."
    if sorted(given) == sorted(wanted):
        if len(differing) == 2:
            return f"Dimensions {differing[0]} and {differing[1]} are swapped."
        return "These are the expected dimensions in another order."
    if len(differing) != 1:
        return None
    d = differing[0]
    for factor, words in ((2, "twice as long as"), (0.5, "half as long as")):
        if given[d] == factor * wanted[d] and wanted[d] > 2:
            return f"Dimension {d} is {words} expected."
    if abs(given[d] - wanted[d]) == 1:
        return f"Dimension {d} is one too {'long' if given[d] > wanted[d] else 'short'}."
    return f"Only dimension {d} differs."
