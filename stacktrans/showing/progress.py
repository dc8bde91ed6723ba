"""Work as it goes: rows and a live line in a terminal, plain lines elsewhere."""

import contextlib
import os
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live

from stacktrans.common.visible import visible

SECONDS_BETWEEN = 2.0
"""Between two times that what is live is written again."""


def can_redraw(console: Console) -> bool:
    """Whether what was written to a console can be written over."""
    # FORCE_COLOR makes every file a terminal to the console; a terminal without a kind is none.
    kind = os.environ.get("TERM", "")
    return console.file.isatty() and bool(kind) and not console.is_dumb_terminal


class ProgressDisplay(ABC):
    """What all kinds of display share; to be entered while the work goes on.

    A display that can't be written to is no reason to lose the work.

    Args:
        console: where to show it.
        transient: whether what is live vanishes at the end.

    Attributes:
        live: what is written over again and again; None where that can't be.
    """

    def __init__(self, console: Console, transient: bool) -> None:
        self.console = console
        self.live = (
            Live(get_renderable=self._now, console=console, auto_refresh=False, transient=transient)
            if can_redraw(console)
            else None
        )
        self._written = -SECONDS_BETWEEN

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._open()
            if self.live:
                self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._close()
            if self.live:
                self.live.stop()

    def _say(self, text: str) -> None:
        """Write a line that stays; below what is live, no word or number of it is cut."""
        with contextlib.suppress(OSError):
            self.console.print(visible(text), soft_wrap=not self.live, highlight=False)

    def _print(self, *lines: RenderableType) -> None:
        """Write lines that stay, above what is live."""
        self._refresh(at_once=True)  # or else what was live before would be written once more
        with contextlib.suppress(OSError):
            self.console.print(Group(*lines))

    def _refresh(self, at_once: bool = False) -> None:
        """Write again what is live; unless at once is asked for, not if that was done just now."""
        now = time.monotonic()
        if self.live and (at_once or now - self._written >= SECONDS_BETWEEN):
            self._written = now
            with contextlib.suppress(OSError):
                self.live.refresh()

    @abstractmethod
    def _open(self) -> None:
        """Say what is said first."""

    @abstractmethod
    def _close(self) -> None:
        """Say what is said last."""

    @abstractmethod
    def _now(self) -> RenderableType:
        """What is live."""
