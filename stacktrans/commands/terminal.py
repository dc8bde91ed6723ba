"""Printing by commands: tables, JSON and data on stdout, a progress console on stderr."""

import os
import sys
from typing import TYPE_CHECKING, Any

from stacktrans.common.messages import open_closed_streams
from stacktrans.common.visible import json_text, visible

if TYPE_CHECKING:
    from rich.console import Console


def progress_console() -> "Console":
    """A console on stderr; the work continues if stderr can't be written to."""
    from stacktrans.showing.progress import VisibleConsole

    return VisibleConsole(file=sys.stderr)


def print_out(*renderables: Any, stderr: bool = False) -> None:
    """Print tables and other renderables on stdout, without line breaks unless it is a terminal.

    With `stderr`, they are printed there, since data is on stdout.
    """
    from rich.console import Group

    from stacktrans.showing.progress import VisibleConsole

    stream = sys.stderr if stderr else sys.stdout
    console = VisibleConsole(file=stream, width=None if stream.isatty() else 1_000_000)
    # Alone, a text would lose its own rule of wrapping.
    console.print(Group(*renderables), soft_wrap=not stream.isatty(), crop=False)


def print_json(value: Any) -> None:
    """Print a value on stdout as a line of JSON."""
    print(json_text(value))


def print_data(text: str, end: str = "\n", keep: str = "\t") -> None:
    """Print data on stdout: unchanged, or with unprintable characters escaped in a terminal.

    The characters of `keep` are never escaped.
    """
    print(visible(text, keep) if sys.stdout.isatty() else text, end=end)


def print_text(text: str) -> None:
    """Print data of several lines on stdout, with unprintable characters escaped in a terminal."""
    print_data(text.removesuffix("\n"), keep="\t\n")


def output_width() -> int:
    """The width of stdout in characters; 200 unless it is a terminal, or COLUMNS is set."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() or "COLUMNS" in os.environ else 200


def open_standard_streams() -> None:
    """Open closed standard streams on the null device, and set the encoding of all to UTF-8."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
