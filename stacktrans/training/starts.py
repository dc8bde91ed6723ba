"""How starts go: strings lengthen, the learning rate falls, or the next start begins."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from stacktrans.settings.config import CurriculumConfig, RunConfig, TrainingConfig
from stacktrans.training.state import Count, Number, Part, Truth, check_value

if TYPE_CHECKING:
    from stacktrans.training.start import Start

RUNNING_DECAY = 0.95
"""Decay of the running mean of the loss by which a start is judged."""


class Losses(Part):
    """The losses of a start's batches, nats a symbol.

    Attributes:
        step: how many there were.
        running: their running mean; None before there is one.
        total: the sum of those since the last record.
        count: how many these are.
    """

    name = "losses"
    step: Count = 0
    running: Number | None = None
    total: Number = 0.0
    count: Count = 0

    def note(self, loss: float) -> None:
        """Note the loss of a batch."""
        self.step += 1
        self.total += loss
        self.count += 1
        if self.running is None:
            self.running = loss
        self.running += (1 - RUNNING_DECAY) * (loss - self.running)

    def taken(self) -> float:
        """The mean since the last record, for the next."""
        mean = self.total / self.count
        self.total, self.count = 0.0, 0
        return mean

    def forget(self) -> None:
        """Forget all of them, but how many there were."""
        self.running, self.total, self.count = None, 0.0, 0

    def check_state(self) -> None:
        check_value("losses.count", self.count, self.count <= self.step)


class Curriculum(Part):
    """Has the strings of a start grow longer.

    Args:
        settings: how; None for strings of all lengths from the first batch on.
        first: the share of the training lengths, from the shortest on, to begin with.

    Attributes:
        share: that is trained on.
    """

    name = "curriculum"
    share: Annotated[Number, Field(gt=0, le=1)]

    def __init__(self, settings: CurriculumConfig | None, first: float) -> None:
        self._settings, self._first, self.share = settings, first, first

    @property
    def begun(self) -> bool:
        """Whether strings have grown longer."""
        return self.share != self._first

    def lengthen(self, losses: Losses) -> None:
        """Train on longer strings if those so far are learned well enough."""
        settings = self._settings
        if settings and losses.running is not None and losses.running < settings.loss:
            self.share = min(1.0, self.share * settings.growth)
            losses.running = None

    def check_state(self) -> None:
        check_value("curriculum.share", self.share, self.share >= self._first)


class Settling(Part):
    """Has the learning rate of a start fall, once, when its running loss is low."""

    name = "settling"
    settled: Truth = False

    def __init__(self, training: TrainingConfig) -> None:
        self._settle = training.settle

    def settle(self, start: "Start") -> None:
        """Have it fall if it is time."""
        running = start.losses.running
        if self.settled or running is None or self._settle is None:
            return
        if running < self._settle.loss:
            self.settled = True
            start.multiply_rate(self._settle.rate)


class Starts(Part):
    """The starts of a run: one after another until one takes off, or as many as asked for.

    Args:
        config: of the run.
        attempt: which to begin with, from 1.

    Attributes:
        attempt: which it is.
        began: the batches of those before.
        failed: whether it has come to its end, so that the next begins.
        judged: the loss of each that was compared with those before.
    """

    name = "starts"
    attempt: Annotated[Count, Field(ge=1)]
    began: Count = 0
    failed: Truth = False
    judged: list[Number]

    def __init__(self, config: RunConfig, attempt: int = 1) -> None:
        training = config.training
        self._restart, self._workers = training.restart, config.workers
        self._most = training.stream.starts if training.stream else None
        self._judged_after = training.stream.JUDGED_AFTER if training.stream else 0
        self.attempt, self.judged = attempt, []

    @property
    def more_wanted(self) -> bool:
        """Whether starts come after this one even if it comes to its end."""
        return self._most is not None and self.attempt < self._most

    @property
    def _limit(self) -> int | None:
        return (self._restart.after or self._restart.give_up_after) if self._restart else None

    @property
    def another_allowed(self) -> bool:
        """Whether another may begin if this one fails."""
        return self._limit is not None if self._most is None else self.more_wanted

    def failure(self, start: "Start") -> str | None:
        """Why a start is to be given up after a batch, if it is."""
        if self._restart is None:
            return None
        low = (start.losses.running or 0.0) <= self._restart.loss
        if start.step == self._restart.after and not low and not start.curriculum.begun:
            return "the run has not taken off"
        over = start.step == self._restart.give_up_after
        return "the start has not ended the run" if over else None

    def needed(self, step: int) -> range:
        """The next starts that may be needed after so many batches, as many as others can train."""
        first = self.attempt + 1
        after = first + self._workers - 1
        if self._most is not None:  # they are all needed, as far as they don't depend on this one
            after = min(after, self._most + 1) if self._judged_after > 1 else first
        elif self._limit is None or (step >= self._limit and not self.failed):
            after = first
        return range(first, after)

    def compared_after(self, epochs: int) -> bool:
        """Whether a start is compared with those before when it has done so many epochs."""
        return epochs == self._judged_after

    def worse_than_before(self, epochs: int, loss: float) -> bool:
        """Whether a start, with this loss after so many epochs, is worse than the mean so far."""
        if not self.compared_after(epochs):
            return False
        self.judged = [*self.judged, loss]
        return loss > sum(self.judged) / len(self.judged)

    def begin_next(self, step: int) -> None:
        """Go to the next start, after so many batches of the run."""
        self.attempt, self.began, self.failed = self.attempt + 1, step, False

    def check_state(self) -> None:
        allowed = self._most is None or self.attempt <= self._most
        check_value("starts.attempt", self.attempt, allowed)
        check_value("starts.judged", self.judged, len(self.judged) <= self.attempt)
