"""One example for every paper: input ids, target ids and a mask of scored positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Pair(NamedTuple):
    """A source and its target, as indices into the task's source and target symbols."""

    source: Ids
    target: Ids


@dataclass(frozen=True, slots=True)
class Batch:
    """B examples, padded on the right to T steps.

    Attributes:
        inputs: [B, T] ids of what the model reads.
        targets: [B, T] ids of what it should say; 0 where nothing is scored.
        mask: [B, T] True at the scored positions.
        lengths: [B] steps of each before the padding.
    """

    inputs: Ids
    targets: Ids
    mask: npt.NDArray[np.bool_]
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class JointSequence:
    """The layout `<s> a1 .. ak ||| b1 .. bl </s>` (grefenstette2015, section 4.1).

    Source and target symbols have ids, and so embeddings, of their own. The
    model reads all but `</s>` and is scored on b1 .. bl and `</s>`.

    Attributes:
        source_size: number of source symbols.
        target_size: number of target symbols.
    """

    source_size: int
    target_size: int

    begin = 0
    separator = 1
    first_source = 2

    @property
    def first_target(self) -> int:
        """The input id of target symbol 0."""
        return self.first_source + self.source_size

    @property
    def inputs(self) -> int:
        """Number of input ids."""
        return self.first_target + self.target_size

    @property
    def end(self) -> int:
        """The output id of `</s>`; the others are the target symbols."""
        return self.target_size

    @property
    def outputs(self) -> int:
        """Number of output ids."""
        return self.target_size + 1

    def prefix(self, source: Ids) -> Ids:
        """What is read before the first answer: `<s> a1 .. ak |||`."""
        return np.concatenate([[self.begin], source + self.first_source, [self.separator]])

    def steps(self, pair: Pair) -> int:
        """How many steps the model takes over a pair."""
        return len(pair.source) + len(pair.target) + 2

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        """Lay pairs out side by side."""
        lengths = [self.steps(pair) for pair in pairs]
        shape = (len(pairs), max(lengths))
        inputs = np.zeros(shape, dtype=np.int64)
        targets = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.bool_)
        for row, pair in enumerate(pairs):
            start, stop = len(pair.source) + 1, lengths[row]
            inputs[row, : start + 1] = self.prefix(pair.source)
            inputs[row, start + 1 : stop] = pair.target + self.first_target
            targets[row, start : stop - 1] = pair.target
            targets[row, stop - 1] = self.end
            mask[row, start:stop] = True
        return Batch(inputs, targets, mask, lengths)
