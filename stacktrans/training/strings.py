"""Strings that are drawn: in batches, new ones in each, and others to measure by."""

import math
from abc import abstractmethod

import torch

from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.evaluation import Scores, score
from stacktrans.model.controllers import GateNoise
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.base import Lengths, NoSuchLength, Task
from stacktrans.tasks.layouts import Batch, Pair, Stream
from stacktrans.training.records import Accuracy, Record, Summary
from stacktrans.training.source import Moment, Ran, Source

FIRST_LOOK = 100
"""Validation begins with this many strings, and goes on only while the task may be solved."""


class Draws:
    """Draws strings for a run, by its seed and by the moment alone.

    So a start's strings depend neither on how long those before it took, nor on whether the run
    was interrupted.

    Args:
        config: of the run.
        task: what its strings are of.
    """

    def __init__(self, config: RunConfig, task: Task) -> None:
        training = config.training
        self.ranges, self.layout = config.task.ranges, task.layout
        self._task, self._seed, self._curriculum = task, config.seed, training.curriculum
        self._training_law = training.length_law
        # Of a part of the training lengths, it is that of them all.
        self._law = config.task.law_of(self.ranges.train)
        self._test_law = config.task.law_of(self.ranges.test)
        self._count, self._solved = training.measure.strings, training.solved.accuracy
        # Those of training lengths are few where they do not decide.
        few = training.solved.ranges == "test"
        self._train_count = min(FIRST_LOOK, self._count) if few else self._count

    def check(self) -> None:
        """Raise `NoSuchLength` if there are no strings to train or to test on."""
        for lengths in (self.ranges.train, self.ranges.test):
            self.strings(Purpose.VALIDATION, Moment(1, 0), lengths, 1)

    def strings(
        self, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *further: int
    ) -> list[Pair]:
        """So many strings; `further` numbers tell draws of one purpose and moment apart."""
        law = self._test_law if lengths == self.ranges.test else self._law
        if purpose is Purpose.TRAINING:
            law = self._training_law or law
        rng = generator(self._seed, purpose, moment.attempt, moment.step, *further)
        return self._task.sample(rng, lengths, count, law)

    def validation(self, moment: Moment) -> list[Pair]:
        """Validation strings of both ranges."""
        ranges = (self.ranges.train, self.ranges.test)
        drawn = (self.strings(Purpose.VALIDATION, moment, each, self._count) for each in ranges)
        return [pair for pairs in drawn for pair in pairs]

    def measure(
        self, model: Transducer, purpose: Purpose, moment: Moment
    ) -> tuple[Accuracy, Accuracy]:
        """Accuracy on training lengths and on lengths of the test range."""
        ranges = self.ranges
        train = self._measure(model, purpose, moment, ranges.train, self._train_count)
        return train, self._measure(model, purpose, moment, ranges.test, self._count)

    def _measure(
        self, model: Transducer, purpose: Purpose, moment: Moment, lengths: Lengths, count: int
    ) -> Accuracy:
        """Accuracy on `count` strings; validation stops once too many are wrong."""
        allowed = count
        if purpose is Purpose.VALIDATION:
            allowed -= math.ceil(count * self._solved)
        scores: Scores | None = None
        while scores is None or (scores.count < count and scores.wrong <= allowed):
            done = scores.count if scores else 0
            size = min(max(FIRST_LOOK, 2 * done), count - done)
            found = score(model, self.layout, self.strings(purpose, moment, lengths, size, done))
            scores = scores + found if scores else found
        return Accuracy.of(scores)

    def shortest(self, share: float) -> Lengths:
        """The shortest training lengths, as many as a share of them."""
        shortest, longest = self.ranges.train
        return Lengths(shortest, shortest + math.ceil(share * (longest - shortest)))

    def first_share(self, attempt: int) -> float:
        """The share of the training lengths to begin with, which some source must have."""
        curriculum = self._curriculum
        share = curriculum.share if curriculum else 1.0
        while curriculum and share < 1:
            try:
                self.strings(Purpose.TRAINING, Moment(attempt, 0), self.shortest(share), 1)
            except NoSuchLength:
                share = min(1.0, share * curriculum.growth)
            else:
                break
        return share


class InBatches(Source):
    """What gives whole strings, from short to long if they are to lengthen."""

    def __init__(self, config: RunConfig, task: Task) -> None:
        super().__init__(config.task, task.layout)
        self.draws = Draws(config, task)

    def check(self) -> None:
        self.draws.check()

    def begin(self, model: Transducer) -> None:
        """Nothing: each batch stands for itself."""

    @abstractmethod
    def batch(self, moment: Moment) -> Batch:
        """The batch of a moment."""

    def unroll(self, model: Transducer, moment: Moment, noise: GateNoise) -> Ran:
        batch = self.batch(moment)
        inputs = torch.from_numpy(batch.inputs).to(model.classifier.weight.device)
        return batch, model.unroll(inputs, batch.lengths, noise)

    def first_share(self, attempt: int) -> float:
        return self.draws.first_share(attempt)

    def lengths(self, share: float) -> Lengths:
        return self.draws.shortest(share)

    def validation(self, moment: Moment) -> list[Pair]:
        return self.draws.validation(moment)


class Strings(InBatches):
    """Draws new strings for each batch, and others to measure by."""

    def __init__(self, config: RunConfig, task: Task) -> None:
        super().__init__(config, task)
        training = config.training
        self._size, self._sequences = training.batch_size, training.sequences
        self._measures = training.measure

    def batch(self, moment: Moment) -> Batch:
        rows = self._sequences if isinstance(self.layout, Stream) else 1
        lengths, count = self.lengths(moment.share), self._size * rows
        pairs = self.draws.strings(Purpose.TRAINING, moment, lengths, count)
        streams = [pairs[row :: self._size] for row in range(self._size)]
        return self.layout.joined(streams, False)

    def due(self, step: int) -> tuple[bool, bool]:
        measured = step % self._measures.accuracy_every == 0
        return measured, measured or step % self._measures.loss_every == 0

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        limit, loss = self._measures.accuracy_loss, moment.loss
        if limit is None or (loss is not None and loss < limit):
            record.train, record.test = self.draws.measure(model, Purpose.VALIDATION, moment)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train, summary.test = self.draws.measure(model, Purpose.SUMMARY, moment)
