"""Work as it goes: a live table in a terminal, plain lines elsewhere."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live


class ProgressDisplay(ABC):
    """What both kinds of display share; to be entered while the work goes on.

    Args:
        console: where to show it.
        a_second: how often the table is drawn.

    Attributes:
        live: the table; None where the console is no terminal.
    """

    def __init__(self, console: Console, a_second: float) -> None:
        self.console = console
        self.live = (
            Live(get_renderable=self._table, console=console, refresh_per_second=a_second)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        else:
            self._say(self._opening())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.live:
            self.live.stop()

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)

    @abstractmethod
    def _opening(self) -> str:
        """What is said first where there is no table."""

    @abstractmethod
    def _table(self) -> RenderableType:
        """What there is to show now."""
