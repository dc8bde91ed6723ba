"""What is said of many runs in a few numbers."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from stacktrans.randomness import Purpose, generator

RESAMPLES = 2000
"""Of a bootstrap."""


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
