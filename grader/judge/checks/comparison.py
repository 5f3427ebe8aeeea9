"""Find where a student's value first differs from the expected one, and by which tolerance.

The walk follows the expected value, which the suite made; nothing about the actual value is trusted. Arrays of
both kinds are compared in NumPy, with our own rules: the comparison of torch.testing imports 0.8 s of modules
on its first call. Neither torch nor NumPy is imported before one of their values appears, so a course in plain
Python pays for neither.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from grader.sandbox.wire.values import Opaque, Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Values of these types are equal under any rule if they are equal.
_SIMPLE = frozenset({type(None), bool, int, str})

# The wire limits replies; this limits values that a suite builds from replies.
_DEEPEST = 100


class Tolerance(NamedTuple):
    """Two numbers agree if |actual - expected| <= atol + rtol * |expected|."""

    rtol: float
    atol: float

    def allowed(self, expected: Any) -> Any:
        """Return the greatest error beside an expected number or array."""
        return self.atol + self.rtol * abs(expected)


# The defaults of torch.testing.assert_close, which students know and may use at home. The relative
# part is about ten roundings of the dtype (eps: 9.8e-4, 7.8e-3, 1.2e-7, 2.2e-16), but much wider in
# float64, where a formula's rounding adds up while a real mistake is still far larger; the absolute
# part takes over near zero, where cancellation leaves no relative precision. A complex number is
# as precise as its parts. Everything not named here (integers, booleans) is exact.
TOLERANCES: Mapping[str, Tolerance] = {
    "float16": Tolerance(rtol=1e-3, atol=1e-5),
    "bfloat16": Tolerance(rtol=1.6e-2, atol=1e-5),
    "float32": Tolerance(rtol=1.3e-6, atol=1e-5),
    "float64": Tolerance(rtol=1e-7, atol=1e-7),
    "complex32": Tolerance(rtol=1e-3, atol=1e-5),
    "complex64": Tolerance(rtol=1.3e-6, atol=1e-5),
    "complex128": Tolerance(rtol=1e-7, atol=1e-7),
}
EXACT = Tolerance(rtol=0.0, atol=0.0)


class Rule(NamedTuple):
    """How strictly to compare: exactly (including numbers' types), or by the tolerance of the dtype."""

    exact: bool = False
    rtol: float | None = None
    atol: float | None = None
    ordered: bool = True

    def tolerance(self, dtype: str) -> Tolerance:
        """Return the tolerance for a dtype; dtypes without a tolerance of their own are always exact."""
        default = TOLERANCES.get(dtype, EXACT)
        if self.exact or default is EXACT:
            return EXACT
        return Tolerance(
            rtol=default.rtol if self.rtol is None else self.rtol,
            atol=default.atol if self.atol is None else self.atol,
        )


class DifferenceKind(enum.Enum):
    """The kinds of differences between two values."""

    TYPE = enum.auto()
    LENGTH = enum.auto()
    KEYS = enum.auto()
    ORDER = enum.auto()
    FIELDS = enum.auto()
    SHAPE = enum.auto()
    DTYPE = enum.auto()
    VALUES = enum.auto()
    INCOMPARABLE = enum.auto()


class Position(int):
    """A place in a sequence, as distinguished from a dict's integer key."""


@dataclass(frozen=True)
class Mismatch:
    """The first place where two values differ: its path of keys, and both values there."""

    kind: DifferenceKind
    path: tuple[Any, ...]
    actual: Any
    expected: Any


def is_tensor(value: object) -> bool:
    """Return whether a value is a torch.Tensor; without torch in this process, nothing is."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(value, kind)


def is_ndarray(value: object) -> bool:
    """Return whether a value is a numpy.ndarray; without NumPy in this process, nothing is."""
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return kind is not None and isinstance(value, kind)


def is_array(value: object) -> bool:
    """Return whether a value is a tensor or a NumPy array."""
    return is_tensor(value) or is_ndarray(value)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a Python number; a bool is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def dtype_name(array: Any) -> str:
    """Return the dtype without its library: float32, int64, bool."""
    return str(array.dtype).removeprefix("torch.")


def field_names(value: object) -> tuple[str, ...] | None:
    """Return the field names of a Record or a suite's NamedTuple; None for anything else."""
    if isinstance(value, Record):
        return tuple(value.fields)
    if isinstance(value, tuple):
        return getattr(value, "_fields", None)
    return None


def as_array(value: Any) -> NDArray[Any] | None:
    """Return the numbers of a tensor or array: booleans and integers unchanged, others in double.

    None for values without plain numbers: sparse, quantized, packed or meta tensors, dates, text.
    """
    if is_ndarray(value):
        double = {"f": "float64", "c": "complex128"}.get(value.dtype.kind)
        if double is not None:
            return value.astype(double)  # type: ignore[no-any-return]  # value is Any by design
        return value if value.dtype.kind in "biu" else None
    torch = sys.modules["torch"]
    tensor = value.detach()
    try:
        if tensor.is_complex():
            tensor = tensor.resolve_conj().to(torch.complex128)
        elif tensor.is_floating_point():
            tensor = tensor.to(torch.float64)
        return tensor.resolve_neg().numpy()  # type: ignore[no-any-return]  # Any by design
    except (TypeError, RuntimeError, NotImplementedError):
        # The border to odd layouts and dtypes: torch itself decides whether it can read them.
        return None


def agreement(
    actual: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance
) -> NDArray[np.bool_]:
    """Return elementwise whether two arrays of one shape agree; NaN agrees only with NaN."""
    import numpy as np

    same = np.asarray(actual == expected)
    if expected.dtype.kind in "fc" and not same.all():
        with np.errstate(all="ignore"):
            error = np.abs(actual - expected)
            same = same | (np.isfinite(error) & (error <= tolerance.allowed(expected)))
            same = same | (np.isnan(actual) & np.isnan(expected))
    return np.asarray(same)


def first_mismatch(
    actual: Any, expected: Any, rule: Rule, path: tuple[Any, ...] = ()
) -> Mismatch | None:
    """Return the first difference in the order of the expected value, or None."""
    kind: DifferenceKind | None
    # This is true of nearly everything in a report about a call, which has hundreds of values.
    if type(actual) is type(expected) and type(actual) in _SIMPLE and actual == expected:
        return None
    actual, expected = _plain(actual), _plain(expected)
    if is_array(expected):
        kind = _compare_arrays(actual, expected, rule)
    elif len(path) > _DEEPEST:
        kind = DifferenceKind.INCOMPARABLE
    elif isinstance(expected, Mapping):
        return _compare_mappings(actual, expected, rule, path)
    elif isinstance(expected, (list, tuple, Record)):
        return _compare_sequences(actual, expected, rule, path)
    elif is_number(expected):
        kind = _compare_numbers(actual, expected, rule)
    elif isinstance(expected, Opaque):
        kind = DifferenceKind.INCOMPARABLE
    elif type(actual) is not type(expected):
        kind = DifferenceKind.TYPE
    else:
        kind = None if actual == expected else DifferenceKind.VALUES
    return None if kind is None else Mismatch(kind, path, actual, expected)


def type_of(value: Any) -> type:
    """Return the type of a value; an f-string of a suite, which is a text, counts as a string."""
    return str if isinstance(value, str) else type(value)


def _plain(value: Any) -> Any:
    """Return the value as Python's own type: numpy.float32 and the like become numbers, a text a string."""
    if isinstance(value, str):
        return str(value)
    kind = getattr(sys.modules.get("numpy"), "generic", None)
    return value.item() if kind is not None and isinstance(value, kind) else value


def _compare_arrays(actual: Any, expected: Any, rule: Rule) -> DifferenceKind | None:
    """Return how two arrays differ: in library, shape or dtype, or in a number beyond the tolerance."""
    if not (is_tensor(actual) if is_tensor(expected) else is_ndarray(actual)):
        return DifferenceKind.TYPE
    if tuple(actual.shape) != tuple(expected.shape):
        return DifferenceKind.SHAPE
    if actual.dtype != expected.dtype:
        return DifferenceKind.DTYPE
    if is_tensor(expected) and _identical(actual, expected):
        return None
    left, right = as_array(actual), as_array(expected)
    if left is None or right is None:
        return DifferenceKind.INCOMPARABLE
    agrees = agreement(left, right, rule.tolerance(dtype_name(expected)))
    return None if agrees.all() else DifferenceKind.VALUES


def _identical(actual: Any, expected: Any) -> bool:
    """Return whether two plain tensors hold the same numbers; torch is ten times as fast as NumPy here."""
    torch = sys.modules["torch"]
    if any(t.layout is not torch.strided or t.device.type != "cpu" for t in (actual, expected)):
        return False
    try:
        return not expected.is_quantized and bool(torch.equal(actual, expected))
    except NotImplementedError:  # a dtype without arithmetic
        return False


def _compare_numbers(actual: Any, expected: float, rule: Rule) -> DifferenceKind | None:
    """Return how two Python numbers differ; by an exact rule, a float does not answer an int."""
    if not is_number(actual):
        return DifferenceKind.TYPE
    if rule.exact and isinstance(expected, int) and not isinstance(actual, int):
        # An int may answer a float, as in type hints, but not the reverse.
        return DifferenceKind.TYPE
    if actual == expected:
        return None
    left, right = as_float(actual), as_float(expected)
    if math.isnan(left) or math.isnan(right):
        return None if math.isnan(left) and math.isnan(right) else DifferenceKind.VALUES
    error, allowed = abs(left - right), rule.tolerance("float64").allowed(right)
    agree = not rule.exact and error < math.inf and error <= allowed
    return None if agree else DifferenceKind.VALUES


def as_float(number: float) -> float:
    """Return the number as a double; an integer of more than 308 digits becomes infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _compare_sequences(
    actual: Any, expected: Any, rule: Rule, path: tuple[Any, ...]
) -> Mismatch | None:
    """Return the first difference of two lists, tuples or named tuples; a list may answer a tuple."""
    names = field_names(expected)
    if not isinstance(actual, (list, tuple, Record)):
        return Mismatch(DifferenceKind.TYPE, path, actual, expected)
    if names is not None and field_names(actual) != names:
        kind = DifferenceKind.TYPE if field_names(actual) is None else DifferenceKind.FIELDS
        return Mismatch(kind, path, actual, expected)
    if len(actual) != len(expected):
        return Mismatch(DifferenceKind.LENGTH, path, actual, expected)
    keys = names if names is not None else map(Position, range(len(expected)))
    for key, left, right in zip(keys, actual, expected, strict=True):
        mismatch = first_mismatch(left, right, rule, (*path, key))
        if mismatch is not None:
            return mismatch
    return None


def _compare_mappings(
    actual: Any, expected: Mapping[Any, Any], rule: Rule, path: tuple[Any, ...]
) -> Mismatch | None:
    """Return the first difference of two dicts: of their keys, then their values, then the order."""
    if not isinstance(actual, Mapping):
        return Mismatch(DifferenceKind.TYPE, path, actual, expected)
    given, wanted = _typed_keys(actual, rule), _typed_keys(expected, rule)
    if set(given) != set(wanted):
        return Mismatch(DifferenceKind.KEYS, path, actual, expected)
    for key, right in expected.items():
        mismatch = first_mismatch(actual[key], right, rule, (*path, key))
        if mismatch is not None:
            return mismatch
    if rule.exact and rule.ordered and given != wanted:
        return Mismatch(DifferenceKind.ORDER, path, actual, expected)
    return None


def _typed_keys(mapping: Mapping[Any, Any], rule: Rule) -> list[Any]:
    """Return the keys in order; for an exact rule with their types, since True == 1 == 1.0 as a key."""
    return [(type_of(key), key) for key in mapping] if rule.exact else list(mapping)


def numeric_leaves(actual: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of arrays or numbers at the same places of two similar structures."""
    if is_array(expected) or is_number(expected):
        yield actual, expected
    elif isinstance(expected, Mapping):
        for key, right in expected.items():
            yield from numeric_leaves(actual[key], right)
    elif isinstance(expected, (list, tuple, Record)):
        for left, right in zip(actual, expected, strict=True):
            yield from numeric_leaves(left, right)
