"""Average neighbors in an array."""

import numpy as np
from numpy.typing import NDArray


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The mean of every `width` neighbors: (n,) -> (n - width + 1,)."""
    # TODO: average.
    raise NotImplementedError("running_mean: average the neighbors")
