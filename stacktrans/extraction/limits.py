"""The time limit of an extraction, and the exceptions `OutOfTime` and `CannotExtract`."""

from __future__ import annotations

import time

from stacktrans.common.errors import StacktransError

GRACE = 3.0
"""The seconds after the time limit for building a hypothesis and testing it."""


class CannotExtract(StacktransError):
    """No machine could be extracted from a model; the message gives the reason."""


class OutOfTime(CannotExtract):
    """The time limit is reached."""


class Deadline:
    """A time limit for learning.

    Args:
        seconds: from now.
        limit: the seconds of the whole time limit of which this one is a part, for messages.
    """

    def __init__(self, seconds: float, limit: float | None = None) -> None:
        self.seconds, self._begun = seconds, time.monotonic()
        self._limit = seconds if limit is None else limit

    @property
    def taken(self) -> float:
        """The seconds that have passed."""
        return time.monotonic() - self._begun

    def over(self, grace: float = 0) -> bool:
        """Whether the time limit and `grace` further seconds have passed."""
        return self.taken > self.seconds + grace

    def part(self, share: float) -> Deadline:
        """A deadline after a share of the time limit from now on, but no later than this one."""
        return Deadline(min(share * self.seconds, self.seconds - self.taken), self._limit)

    def check(self, grace: float = 0) -> None:
        """Raise `OutOfTime` if the time limit and `grace` further seconds have passed."""
        if self.over(grace):
            raise OutOfTime(f"no machine found within {self._limit:g} s")
