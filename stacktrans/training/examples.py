"""Training, development and test sets, drawn once (hao2018, section 5)."""

import functools

from stacktrans.common.randomness import Purpose, generator
from stacktrans.settings.config import ExamplesConfig, RunConfig
from stacktrans.tasks.base import Lengths, Task
from stacktrans.tasks.layouts import Ids, Pair


class Examples:
    """The examples of a run that draws them once.

    Args:
        config: of the run.
        sizes: how many there are.
        task: what draws them.

    Attributes:
        train: to train on.
        development: to measure after each epoch.
        epoch: batches in an epoch; the last may be smaller.
    """

    def __init__(self, config: RunConfig, sizes: ExamplesConfig, task: Task) -> None:
        def drawn(which: int, lengths: Lengths, count: int) -> list[Pair]:
            rng = generator(config.seed, Purpose.EXAMPLES, which)
            return task.sample(rng, lengths, count, config.task.law_of(lengths))

        lengths = config.task.ranges
        self.train = drawn(0, lengths.train, sizes.train)
        self.development = drawn(1, lengths.train, sizes.development)
        # Only when it is needed: long strings take their time.
        self._drawn_test = functools.partial(drawn, 2, lengths.test, sizes.test)
        self.epoch = -(-sizes.train // config.training.batch_size)
        self._seed, self._batch_size = config.seed, config.training.batch_size
        self._ordered: tuple[int, int] | None = None

    @functools.cached_property
    def test(self) -> list[Pair]:
        """What is measured at the end."""
        return self._drawn_test()

    def batch(self, attempt: int, step: int) -> list[Pair]:
        """The n-th batch of an attempt, from 0; in each epoch the order is another."""
        epoch, place = divmod(step, self.epoch)
        first = place * self._batch_size
        chosen = self._order(attempt, epoch)[first : first + self._batch_size]
        return [self.train[index] for index in chosen]

    def _order(self, attempt: int, epoch: int) -> Ids:
        if self._ordered != (attempt, epoch):
            rng = generator(self._seed, Purpose.EXAMPLES, 3, attempt, epoch)
            self._ordered, self._last_order = (attempt, epoch), rng.permutation(len(self.train))
        return self._last_order
