"""What changes while a start goes well: strings grow longer, then the learning rate falls."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from stacktrans.settings.config import CurriculumConfig, TrainingConfig
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
        self._loss, self._rate = training.settle_loss or 0.0, training.settle_rate

    def settle(self, start: "Start") -> None:
        """Have it fall if it is time."""
        running = start.losses.running
        if not self.settled and running is not None and running < self._loss:
            self.settled = True
            start.multiply_rate(self._rate)
