"""An unsegmented stream, cut into pieces for truncated backpropagation (joulin2015, section 4)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.settings.config import RunConfig, StreamConfig
from stacktrans.tasks.base import Lengths, Task
from stacktrans.tasks.layouts import Batch, Mask, Pair, Stream


class Piece(NamedTuple):
    """T steps of B streams, or fewer at the end of all.

    Attributes:
        batch: what is read and scored; where a stream has ended nothing is scored.
        new: [B] which streams begin anew with it.
    """

    batch: Batch
    new: Mask


class Epochs:
    """What a run on a stream is trained on, epoch after epoch.

    Args:
        config: of the run.
        stream: how it is cut.
        task: what draws the sequences.

    Attributes:
        layout: of the stream.
    """

    def __init__(self, config: RunConfig, stream: StreamConfig, task: Task) -> None:
        self._config, self._stream, self._task = config, stream, task
        layout = task.layout
        if not isinstance(layout, Stream):
            raise UsageError(f"training.stream: task {config.task.name} is no stream")
        if stream.sequences is None:
            raise UsageError("training.stream.sequences: null is for a text; expected a number")
        shortest, first = config.task.ranges.train.shortest, stream.first_longest
        if first is not None and first < shortest:
            raise UsageError(
                f"training.stream.first_longest: {first} is under the shortest training length, "
                f"{shortest}"
            )
        self._sequences = stream.sequences
        self.layout = layout

    def epoch(self, attempt: int, number: int) -> list[Piece]:
        """The pieces of the n-th epoch of an attempt, from 0."""
        rng = generator(self._config.seed, Purpose.TRAINING, attempt, number)
        law = self._config.task.law_of(self._config.task.ranges.train)
        pairs = self._task.sample(rng, self.lengths(number), self._sequences, law)
        count = self._config.training.batch_size
        streams = [pairs[row::count] for row in range(count)]
        return list(self._pieces(streams))

    def lengths(self, number: int) -> Lengths:
        """The lengths of the n-th epoch: the longest grows by one an epoch."""
        shortest, longest = self._config.task.ranges.train
        first = self._stream.first_longest
        return Lengths(shortest, longest if first is None else min(longest, first + number))

    def _pieces(self, streams: Sequence[Sequence[Pair]]) -> Iterator[Piece]:
        every = self._stream.empty_after or max(map(len, streams))
        for first in range(0, max(map(len, streams)), every):
            parts = [stream[first : first + every] for stream in streams]
            everything = self._config.training.loss_over == "all"
            yield from self._cut(self.layout.joined(parts, everything))

    def _cut(self, batch: Batch) -> Iterator[Piece]:
        """The pieces of streams that begin anew."""
        steps = self._stream.steps
        count, longest = batch.inputs.shape
        for begin in range(0, longest, steps):
            part = np.s_[:, begin : begin + steps]
            inputs = batch.inputs[part]
            lengths = [inputs.shape[1]] * count
            cut = Batch(inputs, batch.targets[part], batch.mask[part], lengths)
            yield Piece(cut, np.full(count, begin == 0))
