"""Random number generators, each from a seed, a purpose and indices.

A resumed run therefore draws the same numbers as an uninterrupted one.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """The purpose of random numbers; each purpose has a separate stream."""

    TRAINING = 0
    VALIDATION = 1
    WEIGHTS = 2
    EVALUATION = 3
    GENERATION = 4
    SAMPLE = 5
    SUMMARY = 6
    NOISE = 7
    EXAMPLES = 8
    RESAMPLING = 9
    SPLIT = 10
    VERIFICATION = 11
    PERMUTATION = 12


def generator(seed: int, purpose: Purpose, *indices: int) -> np.random.Generator:
    """The generator for one draw, such as the n-th training batch of a seed."""
    return np.random.default_rng([seed, int(purpose), *indices])
