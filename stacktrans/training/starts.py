"""When a start is given up and the next begins."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from stacktrans.settings.config import RunConfig
from stacktrans.training.state import Count, Number, Part, Truth, check_value

if TYPE_CHECKING:
    from stacktrans.training.start import Start


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
        self._restart_after, self._restart_loss = training.restart_after, training.restart_loss
        self._give_up_after, self._workers = training.give_up_after, config.workers
        self._most = training.stream.starts if training.stream else None
        self._judged_after = training.stream.judged_after if training.stream else 0
        self.attempt, self.judged = attempt, []

    @property
    def more_wanted(self) -> bool:
        """Whether starts come after this one even if it comes to its end."""
        return self._most is not None and self.attempt < self._most

    @property
    def _limit(self) -> int | None:
        return self._restart_after or self._give_up_after

    @property
    def another_allowed(self) -> bool:
        """Whether another may begin if this one fails."""
        return self._limit is not None if self._most is None else self.more_wanted

    def failure(self, start: "Start") -> str | None:
        """Why a start is to be given up after a batch, if it is."""
        low = (start.losses.running or 0.0) <= self._restart_loss
        if start.step == self._restart_after and not low and not start.curriculum.begun:
            return "the run has not taken off"
        return "the start has not ended the run" if start.step == self._give_up_after else None

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
