"""How long may be learned: asked in all loops that can take long."""

from __future__ import annotations

import math
import time

from stacktrans.extraction.network import CannotExtract

GRACE = 3.0
"""How many more seconds may be spent on making rules of what was learned, and on comparing."""


class OutOfTime(CannotExtract):
    """There is no time left for what was begun."""


class Deadline:
    """When nothing more is to be learned.

    Args:
        seconds: after how many, from now.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds, self._begun = seconds, time.monotonic()

    @property
    def taken(self) -> float:
        """How many seconds it has taken so far."""
        return time.monotonic() - self._begun

    @property
    def over(self) -> bool:
        """Whether there is no time left to learn."""
        return self.passed_by(0)

    def passed_by(self, grace: float) -> bool:
        """Whether it was more than so many seconds ago."""
        return self.taken > self.seconds + grace

    def check(self, grace: float = 0) -> None:
        """Raise `OutOfTime` if it was more than so many seconds ago."""
        if self.passed_by(grace):
            raise OutOfTime(
                f"no machine found within {self.seconds:g} s; with more time there may be one"
            )


UNLIMITED = Deadline()
"""Is never over."""
