"""Consoles for tables and progress, to which nothing is written that can't be seen."""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from stacktrans.common.visible import visible


class VisibleConsole(Console):
    """A console that escapes what it is given to write, but for its own line ends.

    Where NO_COLOR is set, it writes without colours and without bold letters.

    Args:
        options: of any console.
    """

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = {"color_system": None} if os.environ.get("NO_COLOR") else {}
        super().__init__(highlight=False, markup=False, emoji=False, **plain, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:  # of the console's own
                yield segment
            else:
                yield segment._replace(text=visible(segment.text, keep="\n"))
