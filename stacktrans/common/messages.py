"""Printing on stderr, standard streams that are closed or broken, and interrupts by Ctrl-C."""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

from stacktrans.common.visible import visible

INTERRUPTED = 130
"""Exit code of a command that was interrupted."""


def print_message(*messages: str) -> None:
    """Print messages on stderr, one on each line, unless stderr can't be written.

    Unprintable characters are escaped, line ends too, so that no name can look like a message.
    """
    text = "\n".join(map(visible, messages))
    if sys.stderr:  # None where it is closed
        print(f"stacktrans: {text}", file=OptionalStream(sys.stderr), flush=True)


def open_closed_streams() -> None:
    """Open each closed standard stream on the null device.

    Child processes inherit the descriptors. If one is closed, the next file that a child opens gets
    its number, and output of libraries ends up in that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free descriptor is the missing one.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def discard_output(stream: TextIO) -> None:
    """Discard all further output to a stream."""
    # Otherwise the interpreter fails again when it flushes the stream at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class OptionalStream:
    """A stream whose output is discarded once it can't be written.

    The work continues if the reader of a pipe exits, the disk is full or the terminal is closed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError:
            discard_output(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            discard_output(self._stream)


def handle_interrupts() -> None:
    """Make Ctrl-C end the process during imports; elsewhere it raises `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise it is ignored
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # In imports, pydantic would turn the exception into another one, and torch would abort.
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
