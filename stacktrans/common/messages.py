"""Messages on stderr, which may be closed, full or no longer read, and the end by Ctrl-C."""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

from stacktrans.common.visible import visible

INTERRUPTED = 130
"""Exit code of a command that was interrupted."""


def print_message(*problems: str) -> None:
    """Print problems on stderr, one a line, if it can be written.

    What can't be seen is escaped, line ends too: a name can't look like a message.
    """
    message = "\n".join(map(visible, problems))
    if sys.stderr:  # None where it is closed
        print(f"stacktrans: {message}", file=OptionalStream(sys.stderr), flush=True)


def open_closed_streams() -> None:
    """Open each standard stream that is closed on the null device.

    Child processes inherit the descriptors. Where one is closed, the next file that the child opens
    takes its number, and what libraries print ends up there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free number, so the one that is missing.
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def discard_output(stream: TextIO) -> None:
    """Discard everything that is still written."""
    # Otherwise the interpreter fails again when it flushes what is left at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class OptionalStream:
    """A stream that takes whatever is written, even when it can no longer be written.

    A reader may leave, a disk be full, a terminal be closed: the work continues without them.
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
