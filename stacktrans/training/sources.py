"""What a run trains on, and how it measures its model: drawn strings, or fixed sets."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.scores import Scores, score
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.controllers import Noise
from stacktrans.model.definition import Unrolled
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig, TaskLengths
from stacktrans.settings.training_config import ExamplesConfig
from stacktrans.settings.values import Loss
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.base import Task
from stacktrans.tasks.encoding import Batch, encode_batch
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths, NoSuchLaw, NoSuchLength
from stacktrans.training.initial_weights import Initializer
from stacktrans.training.records import Accuracy, Record, Summary
from stacktrans.training.stateful import StatefulPart

FIRST_STRINGS = 100
"""Strings that are scored first: validation continues only while the task may be solved."""
COUNTED_SYMBOLS = 10_000
"""Symbols that symbol frequencies are estimated from."""
COUNTED_BATCHES = 100
"""Largest number of batches that these symbols are taken from."""
SYMBOLS_FOR_ALL = 2000
"""A batch has at least one symbol for each that the model knows, up to this many: a symbol that
occurs in few batches is hardly learned."""
MUCH_LONGER = 10
"""Factor on the longest training length: a discrete model counts as a solution only if it is also
right on strings about this much longer, on which small errors of a controller's state add up."""
SHORTEST_SHARE = 0.1
"""Share of the training lengths, from the shortest on, on which a discrete model is tested
separately before it counts as a solution: short strings are rare among strings of all lengths."""
GENERALIZATION_STRINGS = 1000
"""Number of strings of each kind in these tests: a hundred would pass models that are wrong on one
string in a hundred."""

UnrolledBatch = tuple[Batch, Unrolled]
"""A batch, and the result of running a model over it."""


class Moment(NamedTuple):
    """A point in a run, at which data are drawn.

    Attributes:
        attempt: number of the attempt, from 1.
        step: number of batches of the attempt so far.
        share: share of the training lengths, from the shortest on, that is trained on.
        loss: running mean of recent losses, in nats per symbol; None before there is one.
    """

    attempt: int
    step: int
    share: float = 1.0
    loss: float | None = None


class DataSource(StatefulPart):
    """The data that a run is trained on and measured by: newly drawn strings, or other data.

    Batches depend only on the run's seed and the moment, so that a run that is interrupted and
    resumed has the same ones. All else that a source has to remember is its state.

    Attributes:
        config: configuration of the run, completed with what the source found out about the task.
        notes: remarks on the data, to be shown before the run begins.
        threads: threads that measure a model after training, when other runs may have ended.
        initialize: gives a model its initial weights, if the run starts from a checkpoint; None
            for newly drawn ones.
    """

    name = "source"

    def __init__(self, config: RunConfig, task: Task) -> None:
        self.config, self.task, self.layout = config, task, task.layout
        self.notes: Sequence[str] = ()
        self.threads = config.workers
        self.initialize: Initializer | None = None
        self._sequences = config.training.sequences if self.layout.consecutive else 1
        self._rows = functools.cache(self._rows_of)

    @cached_property
    def ranges(self) -> TaskLengths:
        """The lengths of the strings; raises `UsageError` if none are drawn."""
        return self.config.task.ranges

    def check(self) -> None:
        """Raise `StacktransError` if there is nothing to train on or to measure by."""
        for lengths in (self.ranges.train, self.ranges.test):
            self.strings(Purpose.VALIDATION, Moment(1, 0), lengths, 1)

    def strings(
        self, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *key: int
    ) -> list[Pair]:
        """Draw `count` strings; the key distinguishes draws of one purpose and moment."""
        rng = generator(self.config.seed, purpose, moment.attempt, moment.step, *key)
        return self.task.sample(rng, lengths, count, self._law(purpose, lengths))

    def _law(self, purpose: Purpose, lengths: Lengths) -> LengthDistribution:
        """The distribution of lengths; part of the training lengths has that of all of them."""
        task, training = self.config.task, self.config.training
        if purpose is Purpose.TRAINING:
            return training.length_law or task.training_law
        return task.law_of(lengths if lengths == self.ranges.test else self.ranges.train)

    def begin(self, model: Transducer) -> None:
        """Go to the first batch of an attempt; its newly drawn model may be changed."""

    def batch(self, moment: Moment) -> Batch:
        """The training batch of a moment."""
        lengths = self._shortest(moment.share)
        rows = self._rows(lengths)
        pairs = self.strings(Purpose.TRAINING, moment, lengths, rows * self._sequences)
        return encode_batch(self.layout, [pairs[row::rows] for row in range(rows)])

    def _rows_of(self, lengths: Lengths) -> int:
        """The number of rows of a batch of strings of these lengths."""
        training = self.config.training
        if not training.batch_symbols:
            return training.batch_strings
        symbols = max(training.batch_symbols, min(self.layout.inputs, SYMBOLS_FOR_ALL))
        drawn = self.strings(Purpose.TRAINING, Moment(1, 0), lengths, FIRST_STRINGS)
        mean = sum(pair.length for pair in drawn) / len(drawn)
        # The mean is 0 if all of them are empty.
        return max(1, round(symbols / max(mean, 1) / self._sequences))

    def unroll(self, model: Transducer, moment: Moment, noise: Noise) -> UnrolledBatch:
        """Run a model, with some noise, over the batch of a moment, which follows the last."""
        batch = self.batch(moment)
        inputs = torch.from_numpy(batch.inputs).to(model.classifier.weight.device)
        return batch, model.unroll(inputs, batch.lengths, noise)

    def due(self, step: int) -> tuple[bool, bool]:
        """Whether, after `step` batches, weights are measured and saved, and whether recorded."""
        measures = self.config.training.measure
        measured = step % measures.accuracy_every == 0
        return measured, measured or step % measures.loss_every == 0

    @property
    def resumable(self) -> bool:
        """Whether the present state, if it is saved, determines the next batch."""
        return True

    def first_share(self, attempt: int) -> float:
        """The share of the training lengths to begin with, large enough that it has strings."""
        curriculum = self.config.training.curriculum
        share = curriculum.share if curriculum else 1.0
        while curriculum and share < 1 and not self._has_enough(self._shortest(share), attempt):
            share = min(1.0, share * curriculum.growth)
        return share

    def _has_enough(self, lengths: Lengths, attempt: int) -> bool:
        """Whether there are enough strings of some lengths to begin with."""
        with suppress(NoSuchLength):
            return bool(self.strings(Purpose.TRAINING, Moment(attempt, 0), lengths, 1))
        return False

    def first_batches(self) -> Iterator[Batch]:
        """The training batches of the first attempt, or of its first epoch again and again."""
        return (self.batch(Moment(1, step)) for step in itertools.count())

    @cached_property
    def _unigram_loss(self) -> float:
        """Nats a symbol of predicting symbols by their frequencies in the first batches."""
        counts = np.zeros(self.layout.outputs)
        for batch in itertools.islice(self.first_batches(), COUNTED_BATCHES):
            counts += np.bincount(batch.targets[batch.mask], minlength=len(counts))
            if counts.sum() >= COUNTED_SYMBOLS:
                break
        shares = counts[counts > 0] / counts.sum()
        return float(-(shares * np.log(shares)).sum())

    def in_nats(self, loss: Loss) -> float:
        """Convert a loss, which may be a share of that of guessing, to nats per symbol."""
        if isinstance(loss, str):
            return float(loss.removesuffix("%")) / 100 * self._unigram_loss
        return loss

    def lengths(self, share: float) -> Lengths | None:
        """The lengths in a record, if there are any."""
        return self._shortest(share)

    def _shortest(self, share: float) -> Lengths:
        shortest, longest = self.ranges.train
        return Lengths(shortest, shortest + math.ceil(share * (longest - shortest)))

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        """Fill in the measurements of a model."""
        limit, loss = self.config.training.measure.accuracy_loss, moment.loss
        if limit is None or (loss is not None and loss < self.in_nats(limit)):
            record.train, record.test = self.accuracies(model, Purpose.VALIDATION, moment)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        """Fill in the measurements of the weights that a run has kept."""
        summary.train, summary.test = self.accuracies(model, Purpose.SUMMARY, moment)

    def contradictions(self, checkpoint: Checkpoint) -> list[dict[str, str]]:
        """The pairs in files that contradict a model, as in `Summary.contradictions`."""
        return []

    def test_accuracy(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        """Accuracy on as many test strings as in the summary, or on fewer."""
        count = self.config.training.measure.strings
        count = min(count, most or count)
        return self._accuracy(model, Purpose.SUMMARY, moment, self.ranges.test, count)

    def validation(self, moment: Moment) -> list[Pair]:
        """Strings of both ranges that show whether rounding or pruning does harm."""
        ranges, count = (self.ranges.train, self.ranges.test), self.config.training.measure.strings
        drawn = (self.strings(Purpose.VALIDATION, moment, lengths, count) for lengths in ranges)
        return [pair for pairs in drawn for pair in pairs]

    def accuracies(
        self, model: Transducer, purpose: Purpose, moment: Moment
    ) -> tuple[Accuracy, Accuracy]:
        """Accuracy on training lengths and on lengths of the test range."""
        count, solved = self.config.training.measure.strings, self.config.training.solved
        # Fewer strings of training lengths are enough where they do not decide.
        train_count = min(FIRST_STRINGS, count) if solved.ranges == "test" else count
        train = self._accuracy(model, purpose, moment, self.ranges.train, train_count)
        return train, self._accuracy(model, purpose, moment, self.ranges.test, count)

    def generalization(self, model: Transducer, moment: Moment) -> float:
        """Coarse accuracy on the shortest strings or on much longer ones, whichever is lower.

        Lengths that cannot be drawn do not count.
        """
        longest, lowest = self.ranges.train.longest, 1.0
        much_longer = Lengths((MUCH_LONGER - 1) * longest, MUCH_LONGER * longest)
        for lengths in (self._shortest(SHORTEST_SHARE), much_longer):
            with suppress(NoSuchLength, NoSuchLaw):
                pairs = self.strings(Purpose.VALIDATION, moment, lengths, GENERALIZATION_STRINGS)
                lowest = min(lowest, self.score(model, pairs).coarse_accuracy)
        return lowest

    def score(self, model: Transducer, pairs: Sequence[Pair]) -> Scores:
        """The scores of a model on pairs; in files, an answer may be any target of its source."""
        return score(predictor_of(model), self.layout, pairs)

    def _accuracy_on(self, model: Transducer, pairs: Sequence[Pair]) -> Accuracy:
        return Accuracy.of(self.score(model, pairs))

    def _accuracy(
        self, model: Transducer, purpose: Purpose, moment: Moment, lengths: Lengths, count: int
    ) -> Accuracy:
        """Accuracy on `count` strings; validation stops once too many are wrong."""
        allowed = count
        if purpose is Purpose.VALIDATION:
            allowed -= math.ceil(count * self.config.training.solved.accuracy)
        first = self.strings(purpose, moment, lengths, min(FIRST_STRINGS, count), 0)
        scores = self.score(model, first)
        while scores.count < count and scores.wrong <= allowed:
            size = min(max(FIRST_STRINGS, 2 * scores.count), count - scores.count)
            more = self.strings(purpose, moment, lengths, size, scores.count)
            scores += self.score(model, more)
        return Accuracy.of(scores)


class Examples(DataSource):
    """A source of fixed training, development and test sets; training is reordered in each epoch.

    See hao2018, section 5. An epoch has `epoch` batches, the last of which may be smaller.
    """

    def __init__(self, config: RunConfig, task: Task, sizes: ExamplesConfig) -> None:
        super().__init__(config, task)
        law = self._law(Purpose.TRAINING, self.ranges.train)
        self.train = self._drawn(0, self.ranges.train, sizes.train, law)
        self.development = self._drawn(1, self.ranges.train, sizes.development, law)
        self._test_size = sizes.test
        self.epoch = -(-sizes.train // config.training.batch_strings)
        self._order = functools.lru_cache(maxsize=1)(self._order_of)

    def _drawn(self, key: int, lengths: Lengths, count: int, law: LengthDistribution) -> list[Pair]:
        rng = generator(self.config.seed, Purpose.EXAMPLES, key)
        return self.task.sample(rng, lengths, count, law)

    @cached_property
    def test(self) -> list[Pair]:
        """Test pairs, drawn only when they are needed, since long strings take time."""
        law = self.config.task.law_of(self.ranges.test)
        return self._drawn(2, self.ranges.test, self._test_size, law)

    def first_share(self, attempt: int) -> float:
        return 1.0  # whatever the curriculum: the set is trained on as a whole

    def batch(self, moment: Moment) -> Batch:
        return encode_batch(self.layout, [[pair] for pair in self.chosen(moment)])

    def chosen(self, moment: Moment) -> list[Pair]:
        """The examples of a moment's batch."""
        epoch, index = divmod(moment.step, self.epoch)
        size = self.config.training.batch_strings
        order = self._order(moment.attempt, epoch)[index * size : (index + 1) * size]
        return [self.train[example] for example in order]

    def _order_of(self, attempt: int, epoch: int) -> Ids:
        rng = generator(self.config.seed, Purpose.EXAMPLES, 3, attempt, epoch)
        return rng.permutation(len(self.train))

    def due(self, step: int) -> tuple[bool, bool]:
        ended = step % self.epoch == 0
        return ended, ended

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        record.development = self._accuracy_on(model, self.development)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train = self._accuracy_on(model, self.train)
        summary.development = self._accuracy_on(model, self.development)
        summary.test = self.test_accuracy(model, moment)

    def test_accuracy(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        return self._accuracy_on(model, self.test[:most])
