"""When weights are better than others, and when an attempt has learned what it can."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import Protocol

from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.training_config import (
    DevelopmentConfig,
    SolvedConfig,
    StopConfig,
    StreamConfig,
    TrainingConfig,
)
from stacktrans.training.records import Record, merit
from stacktrans.training.state import Count, Merit, StatefulPart, Weights, check_value


class Learner(Protocol):
    """What a rule may change of an attempt."""

    model: Transducer

    @property
    def rate(self) -> float:
        """The learning rate."""

    def multiply_rate(self, factor: float) -> None:
        """Change the learning rate."""


class StoppingRule(StatefulPart, ABC):
    """What ends an attempt by its records."""

    name = "stopping"

    @property
    def compares_next(self) -> bool:
        """Whether the next measurement compares the attempt with those before."""
        return False

    def merit(self, record: Record) -> list[float]:
        """How good weights are, the more the better; empty where it was not measured."""
        return [*merit(record).values()]

    @abstractmethod
    def judge(self, record: Record, merit: list[float], attempt: Learner) -> str | None:
        """Note a record and its merit; return the key of `RULES` that ends the attempt, if any."""


class Solved(StoppingRule):
    """Ends an attempt when the task is solved in so many measurements in a row, or never."""

    in_a_row: Count = 0

    def __init__(self, training: TrainingConfig) -> None:
        self._solved = training.stop.solved if training.stop else None

    def judge(self, record: Record, merit: list[float], attempt: Learner) -> str | None:
        if self._solved is None:
            return None
        also = record.train if self._solved.ranges == "both" else record.test
        right = all(part and part.coarse >= self._solved.accuracy for part in (record.test, also))
        self.in_a_row = self.in_a_row + 1 if right else 0
        return "solved" if self.in_a_row >= self._solved.times else None


class Patience(StoppingRule):
    """Ends an attempt when for so many records nothing has become better, or at its last epoch.

    The training perplexity is to become better; with sets of examples, the accuracy on
    the development set, which is measured once an epoch.

    Attributes:
        best: the merit of the best record; empty before there is one.
        since: number of records since then.
        count: number of all records.
    """

    best: Merit
    since: Count = 0
    count: Count = 0

    def __init__(self, training: TrainingConfig, patience: int) -> None:
        self._patience, self.best = patience, []
        self._epochs = training.examples.epochs if training.examples else None

    def merit(self, record: Record) -> list[float]:
        if self._epochs is None:
            return [-record.loss, *super().merit(record)]
        return [record.development.symbols, *super().merit(record)] if record.development else []

    def judge(self, record: Record, merit: list[float], attempt: Learner) -> str | None:
        own = merit[:1]
        self.since += 1
        self.count += 1
        if own > self.best or (self._epochs is None and own == self.best):
            self.best, self.since = own, 0
        if self.since >= self._patience:
            return "development" if self._epochs else "converged"
        return "epochs" if self._epochs and self.count >= self._epochs else None


class Development(StoppingRule):
    """Ends an attempt when the development set is right so often in a row, or no better; or never.

    Attributes:
        best: the best accuracy, coarse and fine; empty before there is one.
        since: number of measurements since then.
        in_a_row: number of the last ones in which the task was solved.
    """

    best: Merit
    since: Count = 0
    in_a_row: Count = 0

    def __init__(self, stop: StopConfig | None) -> None:
        self._ends, self._solved = stop is not None, (stop and stop.solved) or SolvedConfig()
        given, usual = stop and stop.development, DevelopmentConfig.PATIENCE
        self._patience = given.patience if given else usual
        self.best = []

    def judge(self, record: Record, merit: list[float], attempt: Learner) -> str | None:
        assert record.development  # as there is a merit
        reached = [record.development.coarse, record.development.fine]
        self.since += 1
        if reached > self.best:
            self.best, self.since = reached, 0
        self.in_a_row = self.in_a_row + 1 if reached[0] >= self._solved.accuracy else 0
        if not self._ends:
            return None
        if self.in_a_row >= self._solved.times:
            return "solved"
        return "development" if self.since >= self._patience else None


class Falling(StoppingRule):
    """Returns to the best weights with a lower rate after each epoch in which nothing is gained.

    It ends an attempt when the rate is too low, or after so many epochs, or when it is worse than
    those before (joulin2015, section 4).

    Attributes:
        epochs: number of those done.
        best: the merit of the best weights; empty before there are any.
        kept: these weights.
    """

    epochs: Count = 0
    best: Merit
    kept: Weights

    def __init__(
        self, stream: StreamConfig, is_worse: Callable[[float], bool], weights: Weights
    ) -> None:
        self._stream, self._is_worse = stream, is_worse
        self.best, self.kept = list[float](), deepcopy(weights)

    @property
    def compares_next(self) -> bool:
        return self.epochs + 1 == self._stream.JUDGED_AFTER

    def merit(self, record: Record) -> list[float]:
        return [] if record.validation is None else [-record.validation, *super().merit(record)]

    def judge(self, record: Record, merit: list[float], attempt: Learner) -> str | None:
        if (own := merit[:1]) > self.best:
            self.best, self.kept = own, deepcopy(attempt.model.state_dict())
        else:
            attempt.model.load_state_dict(self.kept)
            attempt.multiply_rate(self._stream.RATE_DECAY)
        compared, self.epochs = self.compares_next, self.epochs + 1
        worse = compared and self._is_worse(-self.best[0])
        over = attempt.rate < self._stream.LEAST_RATE or self.epochs >= self._stream.epochs
        return "attempts" if over or worse else None

    def check_state(self) -> None:
        check_value("stopping.epochs", self.epochs, self.epochs <= self._stream.epochs)


def rule_of(config: RunConfig, is_worse: Callable[[float], bool], weights: Weights) -> StoppingRule:
    """What ends an attempt of a run.

    Args:
        config: of the run.
        is_worse: whether a validation loss is worse than those of the attempts before.
        weights: that the attempt has begun with.
    """
    training = config.training
    if training.stream:
        return Falling(training.stream, is_worse, weights)
    stop = training.stop
    if config.has_pair_files and not (stop and stop.converged):
        return Development(stop)
    patient = stop and (stop.converged or stop.development)
    return Patience(training, patient.patience) if patient else Solved(training)
