"""Consoles that escape unprintable characters, their HTML, and the base of live displays."""

import io
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment

from stacktrans.common.visible import visible

SECONDS_BETWEEN = 2.0
"""Least number of seconds between two refreshes of the live part."""
HTML_WIDTH = 240
"""Width of a notebook in characters."""
_HTML = '<pre style="line-height: normal; overflow-x: auto; white-space: pre">{code}</pre>'


class VisibleConsole(Console):
    """A console that escapes all unprintable characters except its own line ends.

    If NO_COLOR is set, it writes without colors and bold letters.
    """

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
        super().__init__(highlight=False, markup=False, emoji=False, **plain, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = visible(segment.text, keep="\n")
            # Control codes are the console's own.
            yield segment if segment.control else segment._replace(text=text)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def as_html(*renderables: RenderableType) -> str:
    """Tables and text as self-contained HTML, without markup from the text."""
    # In a notebook, a console also displays what is printed, which would then be there twice.
    console = VisibleConsole(
        file=io.StringIO(), record=True, width=HTML_WIDTH, force_terminal=True, force_jupyter=False
    )
    for renderable in renderables:
        console.print(renderable)
    return console.export_html(inline_styles=True, code_format=_HTML)


class ProgressDisplay(ABC):
    """A progress display: permanent lines, and a live part below them.

    Its console writes to an `OptionalStream`: the work continues if that can no longer be written.

    Args:
        console: the console.
        first_lines: lines that are written at the beginning.
        transient: whether the live part disappears at the end; one that stays is refreshed all
            the time.

    Attributes:
        live: the live part, which is overwritten; None where the console can't overwrite.
    """

    def __init__(
        self, console: Console, first_lines: Iterable[str], transient: bool = True
    ) -> None:
        self.console, self._first_lines = console, [*first_lines]
        live = Live(
            get_renderable=self._now,
            console=console,
            auto_refresh=not transient,
            refresh_per_second=1 / SECONDS_BETWEEN,
            transient=transient,
        )
        # FORCE_COLOR makes every file a terminal to the console; one without a kind can't go back.
        has_kind = bool(os.environ.get("TERM")) and not console.is_dumb_terminal
        self.live = live if console.file.isatty() and has_kind else None
        self._written = -SECONDS_BETWEEN

    def __enter__(self) -> Self:
        for line in self._first_lines:
            self._write(line)
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def _write(self, text: str) -> None:
        """Write a permanent line, uncut unless there is a live part."""
        self.console.print(visible(text), soft_wrap=not self.live, highlight=False)

    def _print(self, *lines: RenderableType) -> None:
        """Print permanent lines above the live part."""
        self._refresh(at_once=True)  # or the old live part would be printed once more
        self.console.print(Group(*lines))

    def _refresh(self, at_once: bool = False) -> None:
        """Refresh the live part; not if that was done just now, unless `at_once`."""
        now = time.monotonic()
        if self.live and (at_once or now - self._written >= SECONDS_BETWEEN):
            self._written = now
            self.live.refresh()

    @abstractmethod
    def _now(self) -> RenderableType:
        """The live part."""
