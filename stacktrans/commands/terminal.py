"""The terminal: data and tables go to stdout, progress to stderr."""

import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

from stacktrans.common.messages import OptionalStream, open_closed_streams
from stacktrans.common.visible import json_text, visible

if TYPE_CHECKING:
    from rich.console import Console


def progress_console() -> "Console":
    """A console on stderr; the work continues if it can't be written to."""
    from stacktrans.showing.progress import VisibleConsole

    return VisibleConsole(file=cast(TextIO, OptionalStream(sys.stderr)))


def print_out(*renderables: Any, beside: bool = False) -> None:
    """Print tables and the like on stdout, in whole lines where it is not a terminal.

    They are printed on stderr if they stand `beside` data on stdout.
    """
    from stacktrans.showing.progress import VisibleConsole

    stream = cast(TextIO, OptionalStream(sys.stderr)) if beside else sys.stdout
    console = VisibleConsole(file=stream, width=None if stream.isatty() else 1_000_000)
    for renderable in renderables:
        console.print(renderable, soft_wrap=not stream.isatty())


def print_json(value: Any) -> None:
    """Print a value on stdout as JSON in one line."""
    print(json_text(value))


def print_data(text: str, end: str = "\n", keep: str = "\t") -> None:
    """Print data on stdout: unchanged, but in a terminal with what can't be seen escaped.

    The characters of `keep` are printed as they are there, too.
    """
    print(visible(text, keep) if sys.stdout.isatty() else text, end=end)


def print_text(text: str) -> None:
    """Print data of several lines on stdout, each as `print_data` does."""
    print_data(text.removesuffix("\n"), keep="\t\n")


def output_width() -> int:
    """The width of stdout in characters; 200 where it is not a terminal."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() else 200


def open_standard_streams() -> None:
    """Open the standard streams that are closed, and have all of them in UTF-8."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
