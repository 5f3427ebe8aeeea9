# wrong: adds instead of averaging | caught by: test_example, test_widths | told: divide by the width
import numpy as np
from numpy.typing import NDArray


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.convolve(values, np.ones(width), mode="valid")
