"""A place for a file that one process at a time makes."""

import contextlib
import os
from pathlib import Path
from typing import IO

from stacktrans.common.files import locked


class PlaceLock:
    """A lock on a place, in a file beside it that is there as long as somebody has the lock.

    Where there can be none, as in a directory that can't be written to, everybody has it.

    Args:
        place: of the file that is made.
    """

    def __init__(self, place: Path) -> None:
        self._path = place.with_suffix(".lock")
        self._stream: IO[bytes] | None = None

    def wait(self, patience: float) -> None:
        """Wait for it, but no more than so many seconds: who has it may have been stopped."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            stream = self._opened(os.O_CREAT)
            if locked(stream, patience):
                self._stream = stream
            else:
                stream.close()

    def release(self) -> None:
        """Let the next one have it."""
        if self._stream:
            # Who waits for the file that is removed finds what was made when it is closed.
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._stream.close()
            self._stream = None

    @property
    def is_taken(self) -> bool:
        """Whether somebody else has it."""
        try:
            with self._opened() as stream:
                return not locked(stream)
        except OSError:
            return False

    def _opened(self, more: int = 0) -> IO[bytes]:
        # Readable, too: a pipe that is only written to would keep us waiting for its reader.
        return os.fdopen(os.open(self._path, os.O_RDWR | more, 0o600), "r+b", buffering=0)
