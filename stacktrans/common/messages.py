"""Messages on stderr, which may be closed, full or no longer read."""

import contextlib
import os
import sys
from typing import Any, TextIO

from stacktrans.common.visible import visible


def complain(*problems: str) -> None:
    """Print problems on stderr, one a line, if it can be written.

    What can't be seen is escaped, line ends too: a name can't look like a message.
    """
    message = "\n".join(map(visible, problems))
    print(f"stacktrans: {message}", file=Dispensable(sys.stderr), flush=True)


def silence(stream: TextIO) -> None:
    """Discard everything that is still written."""
    # Otherwise the interpreter fails again when it flushes what is left at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Dispensable:
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
            silence(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            silence(self._stream)
