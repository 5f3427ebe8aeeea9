"""Differences of cumulative sums."""

import numpy as np
from numpy.typing import NDArray


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means
