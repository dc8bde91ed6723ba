"""Ctrl-C, where a command does not handle it by itself."""

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""Exit code of a command that was interrupted."""


def handle_interrupts() -> None:
    """Have Ctrl-C end an import at once; elsewhere it raises `KeyboardInterrupt`, as usual."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # or else it is ignored
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # In an import, pydantic turns the exception into another one, and torch aborts.
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
