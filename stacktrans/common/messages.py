"""What is said on stderr, even when nobody reads it any more."""

import contextlib
import io
import os
import sys
from typing import TextIO

from stacktrans.common.visible import visible


def complain(*problems: str) -> None:
    """Say on stderr what went wrong, each in a line; if nobody listens, nobody is told.

    What can't be seen of names, paths and the like is escaped, line ends too: a name can't say
    more than a name.
    """
    message = "\n".join(map(visible, problems))
    print(f"stacktrans: {message}", file=Dispensable(sys.stderr), flush=True)


def silence(stream: TextIO) -> None:
    """Let everything that is still written vanish."""
    # Otherwise the interpreter fails again when it flushes what is left at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Dispensable(io.TextIOBase):
    """A stream that takes whatever is written, even when it can't be written any more.

    A reader may leave, a disk be full, a terminal be closed: the work goes on without them.

    Args:
        stream: where it goes as long as it can.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

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
