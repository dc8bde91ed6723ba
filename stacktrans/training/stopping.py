"""Stopping rules: early stopping, and learning-rate decay that returns to the best weights."""

import math
from abc import ABC, abstractmethod
from copy import deepcopy
from typing import TYPE_CHECKING

from stacktrans.settings.config import RunConfig
from stacktrans.settings.training_config import DevelopmentConfig, SolvedConfig, StreamConfig
from stacktrans.training.records import MAX_EXCEPTION_SHARE, Record, ranking_measures
from stacktrans.training.stateful import RankingKey, SavedCount, StatefulPart, Weights

if TYPE_CHECKING:
    from stacktrans.training.attempt import Attempt

UNCHANGED, NO_BETTER = 5, 20
"""Consecutive measurements after which the pairs that are still wrong count as exceptions: with the
same number of right development pairs; or without a new best in right pairs or symbols."""


class StoppingRule(StatefulPart, ABC):
    """A rule that ends an attempt by its records."""

    name = "stopping"

    @property
    def compares_next(self) -> bool:
        """Whether the next measurement compares the attempt with those before."""
        return False

    @abstractmethod
    def ranking_key(self, record: Record) -> list[float]:
        """Quantities that weights are compared by, the greater the better; empty if unmeasured."""

    @abstractmethod
    def judge(self, record: Record, attempt: "Attempt") -> str | None:
        """Take account of a measured record; return the key of `OUTCOMES` that ends the attempt."""


class EarlyStopping(StoppingRule):
    """Ends an attempt that solves the task, stops improving, or reaches its last epoch.

    It monitors the training loss, or accuracy on the development set: symbol accuracy after each
    epoch or, for pairs in files, coarse and fine accuracy.

    Attributes:
        best: the best value of the monitored quantity; empty before there is one.
        since: measurements since then.
        count: measurements in all.
        in_a_row: number of the last ones in which the task was solved.
        unchanged: number of the last ones whose coarse accuracy was the best so far, but no better.
    """

    best: RankingKey
    since: SavedCount = 0
    count: SavedCount = 0
    in_a_row: SavedCount = 0
    unchanged: SavedCount = 0

    def __init__(self, config: RunConfig) -> None:
        stop, examples = config.training.stop, config.training.examples
        self.best = []
        self._solved = stop.solved if stop else None
        patient = stop and (stop.converged or stop.development)
        self._patience = patient.patience if patient else math.inf
        self._epochs = examples.epochs if examples else math.inf
        self._loss = bool(stop and stop.converged)
        self._files = config.has_pair_files and not self._loss
        # Not for soft models, which may learn exceptions one by one, nor for recognizers, whose
        # errors are kinds of strings that they cannot tell apart yet.
        labels = config.task.parameters.get("labels")
        self._exceptions = bool(stop) and self._files and config.training.discrete and not labels
        if self._files and stop:  # either rule includes the other
            self._solved = stop.solved or SolvedConfig()
            self._patience = patient.patience if patient else DevelopmentConfig.PATIENCE

    def ranking_key(self, record: Record) -> list[float]:
        first = [] if self._files else self._monitored(record)
        return [*first, *ranking_measures(record).values()]

    def _monitored(self, record: Record) -> list[float]:
        """The value of the monitored quantity, the greater the better; empty if there is none."""
        if self._loss:
            return [-record.loss]
        if not record.development:
            return []
        accuracy = record.development
        return [accuracy.coarse, accuracy.fine] if self._files else [accuracy.symbols]

    def judge(self, record: Record, attempt: "Attempt") -> str | None:
        self.count += 1
        self.since += 1
        value = self._monitored(record)
        self.unchanged = self.unchanged + 1 if value[:1] == self.best[:1] else 0
        if value > self.best:
            self.best, self.since = value, 0
        if self._solved:
            self.in_a_row = self.in_a_row + 1 if self._is_solved(record, self._solved) else 0
            if self.in_a_row >= self._solved.times:
                return "solved"
        stays = self.unchanged >= UNCHANGED or self.since >= NO_BETTER
        few_wrong = self._exceptions and value[0] < 1 and self.best[0] >= 1 - MAX_EXCEPTION_SHARE
        if few_wrong and stays:
            return "exceptions"
        if self.since >= self._patience:
            return "converged" if self._loss else "development"
        return "epochs" if self.count >= self._epochs else None

    def _is_solved(self, record: Record, solved: SolvedConfig) -> bool:
        strings = [record.development] if self._files else [record.test]
        if solved.ranges == "both" and not self._files:
            strings.append(record.train)
        return all(each and each.coarse >= solved.accuracy for each in strings)


class RateDecay(StoppingRule):
    """Returns to the best weights with a lower learning rate after an epoch without improvement.

    Ends an attempt when the rate is too low, after the last epoch, or when its validation loss is
    worse than that of the attempts before (joulin2015, section 4).

    Attributes:
        epochs: number of epochs done.
        best: validation loss of the best weights, negated; empty before there are any.
        kept: the best weights.
    """

    epochs: SavedCount = 0
    best: RankingKey
    kept: Weights

    def __init__(self, stream: StreamConfig, weights: Weights) -> None:
        self._stream = stream
        self.best, self.kept = list[float](), deepcopy(weights)

    @property
    def compares_next(self) -> bool:
        return self.epochs + 1 == self._stream.JUDGED_AFTER

    def ranking_key(self, record: Record) -> list[float]:
        if record.validation is None:
            return []
        return [-record.validation, *ranking_measures(record).values()]

    def judge(self, record: Record, attempt: "Attempt") -> str | None:
        if (value := self.ranking_key(record)[:1]) > self.best:
            self.best, self.kept = value, deepcopy(attempt.average.state_dict())
        else:
            for model in (attempt.model, attempt.average):
                model.load_state_dict(self.kept)
            attempt.multiply_rate(self._stream.RATE_DECAY)
        compared, self.epochs = self.compares_next, self.epochs + 1
        worse = compared and attempt.attempts.add_validation(-self.best[0])
        over = attempt.rate < self._stream.MIN_RATE or self.epochs >= self._stream.epochs
        return "attempts" if over or worse else None
