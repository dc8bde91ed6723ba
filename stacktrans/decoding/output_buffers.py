"""The output buffers of buffered models, from which answers are read (hao2018, section 3.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from stacktrans.decoding.model import Buffers, Numbers
from stacktrans.tasks.alphabets import Ids, Mask

NO_POSITION = -1
"""The position of an output that is not part of an answer."""


class OutputBuffers:
    """The output buffers of B strings, in which each symbol is a weighted sum of logits.

    Args:
        buffers: of the model that writes.
        lengths: [B] the number of symbols of each answer.
        dtype: of strengths and logits.
    """

    def __init__(self, buffers: Buffers, lengths: Ids, dtype: np.dtype[Any]) -> None:
        self._skip, self._lengths = buffers.output_skip, lengths
        self._shape = len(lengths), int(lengths.max())
        # All symbols of a string, then those of the next; rows of as many as the longest has.
        self._sums: Numbers = np.zeros((0, 0), dtype)
        self._starts = np.arange(len(lengths)) * self._shape[1]
        # Strengths are added up in double precision, as torch does it.
        self._totals = np.zeros(len(lengths))
        self._written = np.zeros(len(lengths), dtype)

    @property
    def full(self) -> Mask:
        """[n] whether all symbols of each selected string are written."""
        full: Mask = self._written >= self._lengths
        return full

    def select(self, items: Ids) -> None:
        """From now on, write only to some of the selected strings, by their indices."""
        self._mark_overflow()
        self._starts, self._lengths = self._starts[items], self._lengths[items]
        self._totals, self._written = self._totals[items], self._written[items]

    def write(self, strengths: Numbers, logits: Numbers) -> Ids:
        """Write logits with strengths.

        Args:
            strengths: [n] from 0 to 1, of the strings selected.
            logits: [n, outputs].

        Returns:
            [n] the position of the first symbol that each is part of; `NO_POSITION` for none.
        """
        if not len(self._sums):
            self._sums = np.zeros((np.prod(self._shape), logits.shape[1]), self._sums.dtype)
        before, lengths = self._written, self._lengths
        self._totals += strengths
        after = self._written = np.maximum(self._totals.astype(before.dtype) - self._skip, 0)
        whole = np.floor(before)
        positions = np.fmin(whole, lengths).astype(np.int64)
        weights = np.minimum(after - whole, 1) - (before - whole)
        for offset, weight in enumerate((weights, after - whole - 1)):
            (rows,) = ((weight > 0) & (positions + offset < lengths)).nonzero()
            if len(rows):
                symbols = (self._starts + positions + offset).take(rows)
                added = weight.take(rows)[:, None] * logits.take(rows, axis=0)
                self._sums[symbols] = self._sums.take(symbols, axis=0) + added
        return np.where((weights > 0) & (positions < lengths), positions, NO_POSITION)

    def read(self) -> Numbers:
        """[B, symbols, outputs] the logits of all symbols; NaN where strengths overflow."""
        self._mark_overflow()
        return self._sums.reshape(*self._shape, self._sums.shape[1])

    def _mark_overflow(self) -> None:
        for start in self._starts[np.isnan(self._totals)]:
            self._sums[start : start + self._shape[1]] = np.nan
