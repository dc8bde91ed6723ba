"""Statistics of many strings or runs."""

from collections.abc import Sequence
from math import sqrt
from statistics import median

import numpy as np

from stacktrans.common.randomness import Purpose, generator

RESAMPLES = 2000
"""Of a bootstrap."""


def confidence_interval(accuracy: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share measured on `count` strings.

    For fine accuracy it errs on the wide side: no quantity between 0 and 1
    varies more than a coin with the same mean.
    """
    z = 1.959964
    centre = (accuracy + z * z / (2 * count)) / (1 + z * z / count)
    spread = accuracy * (1 - accuracy) / count + z * z / (4 * count * count)
    half = z * sqrt(spread) / (1 + z * z / count)
    # Rounding must not leave out the accuracy itself, least of all 0 and 1.
    return min(accuracy, max(0.0, centre - half)), max(accuracy, min(1.0, centre + half))


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Least, median and greatest."""
    return min(values), median(values), max(values)


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95% interval of the mean: percentiles of the means of resampled values.

    It is the same for the same values.
    """
    rng = generator(0, Purpose.RESAMPLING)
    drawn = rng.choice(np.asarray(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
