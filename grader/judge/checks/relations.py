"""Find the simple relation to the expected values that explains a student's values.

A relation is claimed only if the data identify it: the values in a narrower dtype, one constant, the values
times one factor, or transposed. A candidate must equal the actual values everywhere, and the places where it
differs from the expected values must carry enough information to exclude coincidence: a few irrational numbers
do, a few ones and zeros do not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grader.judge.checks.comparison import EXACT, TOLERANCES, Tolerance
from grader.judge.checks.wording import element
from grader.judge.text import text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Beyond this many elements, a search costs more than it tells.
_MAX_ELEMENTS = 50_000
# A candidate is claimed if it agrees by chance less often than once in 2 ** _ENOUGH_BITS.
_ENOUGH_BITS = 16.0


def _slack_of(tolerance: Tolerance) -> float:
    """Return how exactly a relation must hold: twenty roundings wider than a right answer."""
    return min(20 * tolerance.rtol, 0.02)


def nonfinite(actual: Array, expected: Array) -> str | None:
    """Count elements that are NaN or infinite where the expected ones are not."""
    import numpy as np

    if actual.dtype.kind not in "fc":
        return None
    finite = np.isfinite(expected)
    places = {"NaN": np.isnan(actual), "infinite": np.isinf(actual)}
    counts = {kind: int((there & finite).sum()) for kind, there in places.items()}
    found = [kind for kind, count in counts.items() if count]
    if not found:
        return None
    total = sum(counts.values())
    kinds = found[0]
    if len(found) > 1:
        kinds = text("not finite ({parts})", " and ".join(f"{counts[k]} {k}" for k in found))
    are = "is" if total == 1 else "are"
    return text("{count} of {all} elements {are} {kinds}.", total, actual.size, are, kinds)


def relation(actual: Array, expected: Array, dtype: str) -> str | None:
    """Return a sentence about two arrays of one shape that differ, or None if nothing is recognized."""
    import numpy as np

    search = _Search(actual, expected, _slack_of(TOLERANCES.get(dtype, EXACT)))
    if not search.sound:
        return None
    with np.errstate(all="ignore"):  # candidates may well overflow
        return search.rounded(dtype) or search.constant() or search.factor() or search.transposed()


def common_factor(actual: Array, expected: Array, tolerance: Tolerance) -> str | None:
    """Return a sentence about one factor between single elements, at any places."""
    import numpy as np

    search = _Search(actual, expected, _slack_of(tolerance))
    with np.errstate(all="ignore"):
        return search.factor() if search.sound else None


class _Search:
    """One pair of arrays, and relations between them."""

    def __init__(self, actual: Array, expected: Array, slack: float) -> None:
        import numpy as np

        self._logical = expected.dtype.kind == "b"
        self.sound = (
            actual.shape == expected.shape
            and 0 < expected.size <= _MAX_ELEMENTS
            and bool(np.isfinite(actual).all() and np.isfinite(expected).all())
        )
        if expected.dtype.kind in "biu":
            # In double, so that nothing wraps around; beyond 2 ** 53 a claim is only "about".
            actual, expected = actual.astype("float64"), expected.astype("float64")
        self._actual, self._expected, self._slack = actual, expected, slack

    # --- the criterion ------------------------------------------------------------------------

    def _holds(self, candidate: Array, free: int = 0, choices: float = 0.0) -> bool:
        """Return whether the actual values are this candidate, beyond coincidence.

        `free` numbers were fitted to the data, and `choices` bits selected the candidate among others of its
        kind.
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
        """Return the bits that these values carry beyond `free` ones of them."""
        import numpy as np

        distinct = np.unique(values)
        if distinct.size < 2:
            return 0.0
        # Small round numbers agree by chance; only their count carries information.
        rough = _is_round(distinct)
        bits = math.log2(distinct.size) if rough.all() else self._precision()
        rough_bits = math.log2(distinct.size) * int(_is_round(values).sum())
        return rough_bits + self._precision() * int((~rough).sum()) - bits * free

    def _precision(self) -> float:
        """Return the bits of one number that is known up to the slack."""
        return min(14.0, -math.log2(self._slack) - 1) if self._slack else 14.0

    # --- relations --------------------------------------------------------------------------

    def rounded(self, dtype: str) -> str | None:
        """Return a sentence if the values are right up to the precision of a narrower dtype."""
        import numpy as np

        actual, expected = self._actual, self._expected
        if dtype != "float64" or not np.abs(expected).max() > 0:
            return None
        size = np.abs(expected) + 0.1 * np.abs(expected).max()
        error = float((np.abs(actual - expected) / size).max())
        if error > 2e-6:
            return None
        right = text("It is right up to a relative error of about {error:.0e}", error)
        if np.array_equal(actual, actual.astype("float32")):
            return text(
                "{right}, and has only the precision of float32: computed in float32?", right
            )
        return text("{right}: is a part computed in float32, or a constant rounded?", right)

    def constant(self) -> str | None:
        """Return a sentence if all elements are one number, although different ones are expected."""
        import numpy as np

        value = self._actual.flat[0]
        if self._actual.size < 2 or not (self._actual == value).all():
            return None
        if value == 0 or (self._expected.size > 2 and np.ptp(np.abs(self._expected)) > 0):
            shown = bool(value) if self._logical else value.item()
            return text("All elements are {shown}.", element(shown))
        return None

    def factor(self) -> str | None:
        """Return a sentence if all elements have one factor, fitted to the greatest expected element."""
        import numpy as np

        greatest = int(np.argmax(np.abs(self._expected)))
        unit = self._expected.flat[greatest]
        if unit == 0 or self._logical:
            return None
        factor = (self._actual.flat[greatest] / unit).item()
        if factor == 0 or not self._holds(factor * self._expected, free=1):
            return None
        for value, words in ((-1.0, "the negative of"), (2.0, "twice"), (0.5, "half of")):
            if self._same(factor, value):
                return text("Every element is {words} the expected value.", words)
        origin = self._origin(factor)
        return text(
            "Every element is {factor} times the expected value{origin}.", element(factor), origin
        )

    def _origin(self, factor: complex) -> str:
        """Return the size of the tensor that a factor may come from."""
        shape, size = self._expected.shape, self._expected.size
        sizes = [(n, text("the size of dimension {d}", d)) for d, n in enumerate(shape)]
        if len(shape) != 1:
            sizes.append((size, "the number of its elements"))
        for n, words in sizes:
            for value, known in (
                (n, text("{n} is {words}", n, words)),
                (1 / n, text("this is 1/{n}, and {n} is {words}", n, words)),
                (math.sqrt(n), text("this is the square root of {n}, {words}", n, words)),
                (1 / math.sqrt(n), text("this is 1 / the square root of {n}, {words}", n, words)),
            ):
                if n > 1 and self._same(abs(factor), value):
                    return text("; {known}", known)
        return ""

    def _same(self, left: complex, right: float) -> bool:
        return abs(left - right) <= max(self._slack, 1e-9) * abs(right)

    def transposed(self) -> str | None:
        """Return a sentence if the elements are right, with rows for columns."""
        if self._expected.ndim == 2 and self._holds(self._expected.T, choices=1):
            return "These are the expected values, transposed."
        return None


def _is_round(values: Array) -> Array:
    import numpy as np

    eighths = values * 8
    return np.asarray((eighths == np.round(eighths)) & (np.abs(values) < 1000))
