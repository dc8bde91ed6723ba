"""The directory of a run, and how a run is stopped."""

import contextlib
import itertools
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stacktrans.errors import UsageError
from stacktrans.terminal import complain

if TYPE_CHECKING:
    from stacktrans.training import Trainer


def check_free(directory: Path) -> None:
    """Raise `UsageError` if something is in a run's directory to be."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"--out {directory}: something is there; choose another, or --resume it")


def claim(out: Path | None, name: str) -> Path:
    """Make a directory that no other run has, even one that starts at the same moment.

    Args:
        out: the directory; None for one in checkpoints/.
        name: what that one is called, with a number if there is one already.
    """
    if out is not None:
        check_free(out)
        out.mkdir(parents=True, exist_ok=True)
        return out
    for number in itertools.count(1):
        path = Path("checkpoints") / (name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError("numbers do not end")


@contextlib.contextmanager
def stopping(trainer: "Trainer") -> Iterator[None]:
    """Ask the trainer to stop on the first Ctrl-C or SIGTERM; end at once on the second."""

    def ask(number: int, frame: object) -> None:
        if trainer.stop_requested:
            raise KeyboardInterrupt
        trainer.stop_requested = number
        complain("stopping after this batch; once more to end at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
