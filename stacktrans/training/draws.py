"""What a training run draws: strings, and the noise of its batches."""

import math

import torch
from torch import Tensor

from stacktrans.common.randomness import Purpose, generator
from stacktrans.model.controllers import Disturbance, undisturbed
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLength, Task
from stacktrans.tasks.layouts import Batch, Layout, Pair, Stream

Moment = tuple[int, int]
"""An attempt, from 1, and how many of its batches are done."""


class Draws:
    """Draws for a run, by its seed and by the moment alone.

    So an attempt's strings depend neither on how long those before it took, nor on whether the run
    was interrupted.

    Args:
        config: of the run.
        task: what its strings are of.
    """

    def __init__(self, config: RunConfig, task: Task) -> None:
        self.config = config
        self.task = task

    def check(self) -> None:
        """Raise `NoSuchLength` if there are no strings to train or to test on."""
        ranges = self.config.task.ranges
        for lengths in (ranges.train, ranges.test):
            self.strings(Purpose.VALIDATION, (1, 0), lengths, 1)

    def strings(
        self, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *further: int
    ) -> list[Pair]:
        """So many strings; `further` numbers tell draws of one purpose and moment apart."""
        training = purpose is Purpose.TRAINING
        law = (training and self.config.training.length_law) or self._law(lengths)
        rng = generator(self.config.seed, purpose, *moment, *further)
        return self.task.sample(rng, lengths, count, law)

    def _law(self, lengths: Lengths) -> LengthLaw:
        """Of a range, which may be the part of the training lengths that is trained on so far."""
        own = self.config.task.ranges
        return self.config.task.law_of(lengths if lengths == own.test else own.train)

    def shortest(self, share: float) -> Lengths:
        """The shortest training lengths, as many as a share of them."""
        shortest, longest = self.config.task.ranges.train
        return Lengths(shortest, shortest + math.ceil(share * (longest - shortest)))

    def first_share(self, attempt: int) -> float:
        """The share of the training lengths to begin with, which some source must have."""
        curriculum = self.config.training.curriculum
        share = curriculum.share if curriculum else 1.0
        while curriculum and share < 1:
            try:
                self.strings(Purpose.TRAINING, (attempt, 0), self.shortest(share), 1)
            except NoSuchLength:
                share = min(1.0, share * curriculum.growth)
            else:
                break
        return share

    def batch(self, layout: Layout, moment: Moment, share: float) -> Batch:
        """A batch to train on, of the share of the training lengths that it is time for."""
        training, lengths = self.config.training, self.shortest(share)
        size = training.batch_size
        if not isinstance(layout, Stream):
            return layout.batch(self.strings(Purpose.TRAINING, moment, lengths, size))
        pairs = self.strings(Purpose.TRAINING, moment, lengths, size * training.sequences)
        streams = [pairs[row::size] for row in range(size)]
        return layout.joined(streams, training.loss_over == "all")

    def disturbance(self, moment: Moment) -> Disturbance:
        """The noise of one batch."""
        deviation = self.config.training.gate_noise
        if not deviation:
            return undisturbed
        rng = generator(self.config.seed, Purpose.NOISE, *moment)
        source = torch.Generator().manual_seed(int(rng.integers(2**62)))

        def disturb(sums: Tensor) -> Tensor:
            # Drawn on the CPU, so that it is the same on every accelerator.
            noise = torch.randn(sums.shape, generator=source, dtype=sums.dtype)
            return sums + deviation * noise.to(sums.device)

        return disturb
