"""Which simple relation to the expected values explains what a student's code returned.

A relation is claimed only where the data identify it. Each candidate (the expected values doubled,
transposed, ...) must equal the actual values everywhere, and the places where it differs from the
expected values must carry enough information that this is no coincidence: a few irrational numbers
do, a few ones and zeros do not.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from grader.judge.checks.comparison import EXACT, TOLERANCES, Tolerance, agreement
from grader.judge.checks.wording import element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[Any]

# Beyond this many elements a search costs more than it tells.
_MOST_ELEMENTS = 50_000
# A candidate that agrees by chance less often than once in 2 ** _ENOUGH_BITS is claimed.
_ENOUGH_BITS = 16.0


def _slack_of(tolerance: Tolerance) -> float:
    """How exactly a relation has to hold: twenty roundings wider than a right answer."""
    return min(20 * tolerance.rtol, 0.02)


def nonfinite(actual: Array, expected: Array) -> str | None:
    """How many elements are NaN or infinite where the expected ones are not."""
    import numpy as np

    if actual.dtype.kind not in "fc":
        return None
    finite = np.isfinite(expected)
    counts = {"NaN": np.isnan(actual) & finite, "infinite": np.isinf(actual) & finite}
    parts = [f"{int(at.sum())} {name}" for name, at in counts.items() if at.any()]
    total = sum(int(at.sum()) for at in counts.values())
    if total == 0:
        return None
    kinds = parts[0].split(" ")[1] if len(parts) == 1 else f"not finite ({' and '.join(parts)})"
    return f"{total} of {actual.size} elements {'is' if total == 1 else 'are'} {kinds}."


def relation(actual: Array, expected: Array, dtype: str) -> str | None:
    """A sentence about two arrays of one shape that differ, or None if nothing is recognized."""
    import numpy as np

    tolerance = TOLERANCES.get(dtype, EXACT)
    search = _Search(actual, expected, _slack_of(tolerance))
    if not search.sound:
        return None
    with np.errstate(all="ignore"):  # candidates may well overflow
        return (
            search.rounded(dtype)
            or search.constant()
            or search.elementwise()
            or search.rearranged()
            or search.partial(tolerance)
        )


def elementwise_relation(actual: Array, expected: Array, tolerance: Tolerance) -> str | None:
    """The same for relations between single elements, at any places."""
    import numpy as np

    search = _Search(actual, expected, _slack_of(tolerance))
    with np.errstate(all="ignore"):
        return search.elementwise() if search.sound else None


class _Search:
    """One pair of arrays and what was learned of it."""

    def __init__(self, actual: Array, expected: Array, slack: float) -> None:
        import numpy as np

        self._logical = expected.dtype.kind == "b"
        self.sound = (
            actual.shape == expected.shape
            and 0 < expected.size <= _MOST_ELEMENTS
            and bool(np.isfinite(actual).all() and np.isfinite(expected).all())
        )
        if expected.dtype.kind in "biu":
            # In double, so that nothing wraps around; beyond 2 ** 53 a claim is only "about".
            actual, expected = actual.astype("float64"), expected.astype("float64")
        self._actual, self._expected, self._slack = actual, expected, slack

    # --- what counts as identified ----------------------------------------------------------

    def _holds(self, candidate: Array, free: int = 0, choices: float = 0.0) -> bool:
        """Whether the actual values are this candidate, beyond coincidence.

        `free` numbers were fitted to the data and `choices` bits picked the candidate among others
        of its sort.
        """
        import numpy as np

        if not np.isfinite(candidate).all() or not self._fits(self._actual, candidate):
            return False
        moved = candidate[~self._near(candidate, self._expected)]
        return self._information(moved, free) - choices >= _ENOUGH_BITS

    def _near(self, left: Array, right: Array) -> Array:
        import numpy as np

        size = np.abs(right)
        allowed = self._slack * (size + 0.1 * size.max())
        return np.asarray(np.abs(left - right) <= allowed)

    def _fits(self, left: Array, right: Array) -> bool:
        return left.shape == right.shape and bool(self._near(left, right).all())

    def _information(self, values: Array, free: int) -> float:
        """Bits that these values carry beyond `free` ones of them."""
        import numpy as np

        distinct = np.unique(values)
        if distinct.size < 2:
            return 0.0
        # Small round numbers meet by chance; they carry what their number can tell.
        rough = _is_round(distinct)
        bits = math.log2(distinct.size) if rough.all() else self._precision()
        rough_bits = math.log2(distinct.size) * int(_is_round(values).sum())
        return rough_bits + self._precision() * int((~rough).sum()) - bits * free

    def _precision(self) -> float:
        """Bits of one number that is known up to the slack."""
        return min(14.0, -math.log2(self._slack) - 1) if self._slack else 14.0

    # --- relations --------------------------------------------------------------------------

    def rounded(self, dtype: str) -> str | None:
        """Right up to the precision of a narrower dtype."""
        import numpy as np

        actual, expected = self._actual, self._expected
        if dtype != "float64" or not np.abs(expected).max() > 0:
            return None
        size = np.abs(expected) + 0.1 * np.abs(expected).max()
        error = float((np.abs(actual - expected) / size).max())
        if error > 2e-6:
            return None
        right = f"It is right up to a relative error of about {error:.0e}"
        if np.array_equal(actual, actual.astype("float32")):
            return f"{right}, and has only the precision of float32: computed in float32?"
        return f"{right}: is a part computed in float32, or a constant rounded?"

    def constant(self) -> str | None:
        """The same number everywhere, where different ones are expected."""
        import numpy as np

        value = self._actual.flat[0]
        if self._actual.size < 2 or not (self._actual == value).all():
            return None
        if value == 0 or (self._expected.size > 2 and np.ptp(np.abs(self._expected)) > 0):
            shown = bool(value) if self._logical else value.item()
            return f"All elements are {element(shown)}."
        return None

    def elementwise(self) -> str | None:
        if self._logical:
            # One hypothesis and nothing fitted, so fewer elements are enough.
            opposite = self._expected.size >= 6 and self._fits(self._actual, 1 - self._expected)
            both = 0 < self._expected.sum() < self._expected.size
            return (
                "Every element is the opposite of what is expected." if opposite and both else None
            )
        return self._factor() or self._shift() or self._function()

    def _factor(self) -> str | None:
        import numpy as np

        greatest = int(np.argmax(np.abs(self._expected)))
        unit = self._expected.flat[greatest]
        if unit == 0:
            return None
        factor = (self._actual.flat[greatest] / unit).item()
        if factor == 0 or not self._holds(factor * self._expected, free=1):
            return None
        for value, words in ((-1.0, "the negative of"), (2.0, "twice"), (0.5, "half of")):
            if self._same(factor, value):
                return f"Every element is {words} what is expected."
        origin = self._origin(factor)
        return f"Every element is {element(factor)} times what is expected{origin}."

    def _origin(self, factor: complex) -> str:
        """Which size of the tensor a factor may come from."""
        shape, size = self._expected.shape, self._expected.size
        sizes = [(n, f"the size of dimension {d}") for d, n in enumerate(shape)]
        if len(shape) != 1:
            sizes.append((size, "the number of its elements"))
        for n, words in sizes:
            for value, known in (
                (n, f"{n} is {words}"),
                (1 / n, f"this is 1/{n}, and {n} is {words}"),
                (math.sqrt(n), f"this is the square root of {n}, {words}"),
                (1 / math.sqrt(n), f"this is 1 / the square root of {n}, {words}"),
            ):
                if n > 1 and self._same(abs(factor), value):
                    return f"; {known}"
        return ""

    def _same(self, left: complex, right: float) -> bool:
        return abs(left - right) <= max(self._slack, 1e-9) * abs(right)

    def _shift(self) -> str | None:
        import numpy as np

        shift = np.mean(self._actual - self._expected)
        candidate = self._expected + shift
        spread = np.abs(self._expected - self._expected.flat[0]).max()
        # A shift that drowns the expected values would fit anything.
        if not spread > 100 * self._slack * np.abs(candidate).max():
            return None
        if not self._holds(candidate, free=1):
            return None
        direction = "greater" if np.real(shift) > 0 else "less"
        amount = shift.item() if np.iscomplexobj(shift) else abs(shift.item())
        return f"Every element is {element(amount)} {direction} than what is expected."

    def _function(self) -> str | None:
        import numpy as np

        e = self._expected
        functions: list[tuple[Callable[[], Array], str]] = [
            (lambda: e * e, "the square of"),
            (lambda: np.sqrt(e), "the square root of"),
            (lambda: 1 / e, "the reciprocal of"),
            (lambda: np.exp(e), "the exponential of"),
            (lambda: np.log(e), "the logarithm of"),
            (lambda: np.abs(e), "the absolute value of"),
            (lambda: 1 - e, "1 minus"),
            (lambda: np.conj(e), "the complex conjugate of"),
        ]
        for function, words in functions:
            candidate = function()
            if candidate.dtype == self._actual.dtype and self._holds(candidate, choices=3):
                return f"Every element is {words} what is expected."
        return None

    def rearranged(self) -> str | None:
        """The right elements at other places."""
        for candidate, choices, words in self._rearrangements():
            if self._holds(candidate, choices=choices):
                return f"These are the expected values, {words}."
        return None

    def _rearrangements(self) -> Iterator[tuple[Array, float, str]]:
        import numpy as np

        e = self._expected
        for order in _other_orders(e.ndim):
            yield e.transpose(order), math.log2(math.factorial(e.ndim)), order_words(order)
        for d, n in enumerate(e.shape):
            where = "" if e.ndim == 1 else f" along dimension {d}"
            if n > 1:
                yield np.flip(e, d), 2, f"reversed{where}"
            for k in itertools.islice(self._rolls(d, n), 8):
                steps = k if k <= n // 2 else k - n
                places = f"{steps} place{'s' if abs(steps) > 1 else ''}"
                yield np.roll(e, k, d), 2 + math.log2(n), f"rolled by {places}{where}"
        yield from self._sorted()

    def _rolls(self, d: int, n: int) -> Iterator[int]:
        """The shifts along dimension d that bring the right slice to the front."""
        import numpy as np

        if not 2 < n <= 512:  # of two, a roll is a reversal
            return
        front = np.take(self._actual, 0, d)
        for k in range(1, n):
            if self._fits(front, np.take(self._expected, n - k, d)):
                yield k

    def _sorted(self) -> Iterator[tuple[Array, float, str]]:
        """The candidates that hold the rows, or all elements, in the order of the actual ones."""
        import numpy as np

        a, e = self._actual, self._expected
        if np.iscomplexobj(e) or e.size < 2:
            return
        if e.ndim > 1 and e.shape[0] > 1:
            # Rows are distinguished by their projection on a direction that no data are made for.
            direction = np.sin(np.arange(1, e[0].size + 1) * math.e)
            rows = _reordered(a.reshape(len(a), -1) @ direction, e.reshape(len(e), -1) @ direction)
            yield e[rows], _log2_factorial(len(e)), "with the rows in another order"
        order = _reordered(a.ravel(), e.ravel())
        mixed = e.ravel()[order].reshape(e.shape)
        yield mixed, _log2_factorial(e.size), "in another order"

    def partial(self, tolerance: Tolerance) -> str | None:
        """Right except for one slice: the first or last place or one half of a dimension."""
        wrong = ~agreement(self._actual, self._expected, tolerance)
        if wrong.size < 4:
            return None
        for d, n in enumerate(wrong.shape):
            around = "" if wrong.ndim == 1 else f" of dimension {d}"
            for part, words in _parts(n):
                inside = wrong[(slice(None),) * d + (part,)]
                # A few scattered errors may fall into one slice by chance: it has to be full.
                if inside.sum() == wrong.sum() and inside.mean() > 0.8:
                    return f"Only {words}{around} {'are' if 'half' not in words else 'is'} wrong."
        return None


def _is_round(values: Array) -> Array:
    import numpy as np

    eighths = values * 8
    return np.asarray((eighths == np.round(eighths)) & (np.abs(values) < 1000))


def _parts(n: int) -> Iterator[tuple[slice, str]]:
    if n > 2:
        yield slice(0, 1), "the elements at the first place"
        yield slice(n - 1, n), "the elements at the last place"
    if n >= 4 and n % 2 == 0:
        yield slice(0, n // 2), "the first half"
        yield slice(n // 2, n), "the second half"


def _other_orders(dimensions: int) -> Iterator[tuple[int, ...]]:
    """Orders of the dimensions: all of them for a few, else only the reverse."""
    if dimensions > 4:
        yield tuple(reversed(range(dimensions)))
        return
    orders = itertools.permutations(range(dimensions))
    yield from itertools.islice(orders, 1, None)  # the first one leaves all as it is


def order_words(order: tuple[int, ...]) -> str:
    """How a student calls an order of the dimensions."""
    moved = [d for d, source in enumerate(order) if d != source]
    if len(order) == 2:
        return "transposed"
    if len(moved) == 2:
        return f"with dimensions {moved[0]} and {moved[1]} swapped"
    return f"with the dimensions in the order {order}"


def _reordered(actual: Array, expected: Array) -> Array:
    """The positions in `expected` that follow the order of the values of `actual`."""
    import numpy as np

    ranks = np.argsort(np.argsort(actual, kind="stable"), kind="stable")
    return np.asarray(np.argsort(expected, kind="stable")[ranks])


def _log2_factorial(n: int) -> float:
    return math.lgamma(n + 1) / math.log(2)
