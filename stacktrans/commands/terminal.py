"""The terminal: messages, tables and progress, even when nobody reads them any more."""

import os
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

from stacktrans.common.messages import Dispensable, silence
from stacktrans.common.visible import json_text, visible

if TYPE_CHECKING:
    from rich.console import Console


def silence_stdout() -> None:
    """Let everything that is still printed vanish."""
    silence(sys.stdout)


def progress_console() -> "Console":
    """A console on stderr, without which the work goes on."""
    from stacktrans.showing.progress import VisibleConsole

    return VisibleConsole(file=cast(TextIO, Dispensable(sys.stderr)))


def print_out(*renderables: Any) -> None:
    """Print tables and the like on stdout, whole lines even when it is no terminal."""
    from stacktrans.showing.progress import VisibleConsole

    class Output(VisibleConsole):
        """A console whose reader may leave, which ends the command as for all others."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Output(width=None if sys.stdout.isatty() else _UNLIMITED)
    for renderable in renderables:
        console.print(renderable, soft_wrap=not sys.stdout.isatty())


def print_json(value: Any) -> None:
    """Print a value on stdout as JSON in one line, which nothing in it can part or disguise."""
    print(json_text(value))


def print_data(text: str, end: str = "\n") -> None:
    """Print data on stdout: as they are, but in a terminal what can't be seen of them escaped."""
    print(visible(text, keep="\t") if sys.stdout.isatty() else text, end=end)


_UNLIMITED = 1_000_000
"""Characters across a file or a pipe."""


def output_width() -> int:
    """Characters across what is printed on stdout; many where it is no terminal."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() else 200


def open_standard_streams() -> None:
    """Have all three streams, and in UTF-8, as everything that is read and written here is."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        elif descriptor and hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
