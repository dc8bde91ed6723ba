"""Training, development and test sets, drawn once (hao2018, section 5)."""

import functools
from collections.abc import Sequence

from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.evaluation import score
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import ExamplesConfig, RunConfig
from stacktrans.tasks.base import Lengths, Task
from stacktrans.tasks.layouts import Batch, Ids, Pair
from stacktrans.training.records import Accuracy, Record, Summary
from stacktrans.training.source import Moment
from stacktrans.training.strings import InBatches


class Examples(InBatches):
    """Goes through a training set again and again, in another order in each epoch.

    Args:
        config: of the run.
        task: what draws them.
        sizes: how many there are of each.

    Attributes:
        train: to train on.
        development: to measure after each epoch.
        epoch: batches in an epoch; the last may be smaller.
    """

    def __init__(self, config: RunConfig, task: Task, sizes: ExamplesConfig) -> None:
        def drawn(which: int, lengths: Lengths, count: int) -> list[Pair]:
            rng = generator(config.seed, Purpose.EXAMPLES, which)
            return task.sample(rng, lengths, count, config.task.law_of(lengths))

        super().__init__(config, task)
        ranges = config.task.ranges
        self.train = drawn(0, ranges.train, sizes.train)
        self.development = drawn(1, ranges.train, sizes.development)
        # Only when it is needed: long strings take their time.
        self._drawn_test = functools.partial(drawn, 2, ranges.test, sizes.test)
        self.epoch = -(-sizes.train // config.training.batch_size)
        self._seed, self._batch_size = config.seed, config.training.batch_size
        self._ordered: tuple[int, int] | None = None

    @functools.cached_property
    def test(self) -> list[Pair]:
        """What is measured at the end."""
        return self._drawn_test()

    def batch(self, moment: Moment) -> Batch:
        return self.layout.batch(self.chosen(moment))

    def chosen(self, moment: Moment) -> list[Pair]:
        """The examples of a moment's batch."""
        epoch, place = divmod(moment.step, self.epoch)
        first = place * self._batch_size
        order = self._order(moment.attempt, epoch)[first : first + self._batch_size]
        return [self.train[index] for index in order]

    def _order(self, attempt: int, epoch: int) -> Ids:
        if self._ordered != (attempt, epoch):
            rng = generator(self._seed, Purpose.EXAMPLES, 3, attempt, epoch)
            self._ordered, self._last_order = (attempt, epoch), rng.permutation(len(self.train))
        return self._last_order

    def due(self, step: int) -> tuple[bool, bool]:
        ended = step % self.epoch == 0
        return ended, ended

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        record.development = self._score(model, self.development)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        sets = (self.train, self.test, self.development)
        found = (self._score(model, pairs) for pairs in sets)
        summary.train, summary.test, summary.development = found

    def _score(self, model: Transducer, pairs: Sequence[Pair]) -> Accuracy:
        return Accuracy.of(score(model, self.layout, pairs))
