"""The directory of a run, and how a run is stopped."""

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.files import check_place
from stacktrans.common.messages import complain
from stacktrans.model.checkpoint import CheckpointError, last_of, unfinished
from stacktrans.training.records import METRICS

if TYPE_CHECKING:
    from stacktrans.training.trainer import Trainer


def check_free(directory: Path) -> None:
    """Raise `UsageError` if something is in a run's directory to be, or it can't be made.

    The remains of a run that was killed before it was saved for the first time do not count.
    """
    check_place(directory)
    if not directory.exists() or _is_free(directory):
        return
    hint = ""
    with contextlib.suppress(CheckpointError):
        last_of(directory)
        hint = ", or --resume it"
    raise UsageError(f"--out {directory}: something is there; choose another{hint}")


def last_saved(directory: Path) -> Path:
    """The last checkpoint of a run to resume; raises `CheckpointError` if it has none."""
    try:
        return last_of(directory)
    except CheckpointError as error:
        if _is_free(directory):
            said = f"nothing has been saved yet; begin it with --out {directory}"
            raise CheckpointError(f"{directory}: no run to resume here; {said}") from error
        raise


def _is_free(directory: Path) -> bool:
    return directory.is_dir() and all(map(_is_left, directory.iterdir()))


def _is_left(path: Path) -> bool:
    return path.name == unfinished("last") or (path.name == METRICS and not path.stat().st_size)


def claim(out: Path | None, name: str) -> Path:
    """Make a directory that no other run has, even one that starts at the same moment.

    That is `out`, or else one in checkpoints/, called `name` with a number if there is one already.
    """
    if out is not None:
        check_free(out)
        out.mkdir(parents=True, exist_ok=True)
        return out
    path, numbers = Path("checkpoints") / name, itertools.count(2)
    while True:
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            path = path.with_name(f"{name}-{next(numbers)}")
        else:
            return path


class Place:
    """A run's directory as it was when it was opened, wherever it is moved since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY)

    def close(self) -> None:
        """Forget where it was."""
        os.close(self._descriptor)

    @contextlib.contextmanager
    def staying(self) -> Iterator[None]:
        """Raise `StacktransError` if the directory is not where it was, before or after."""
        self._check()
        try:
            yield
        finally:
            self._check()

    def _check(self) -> None:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self.path)):
                return
        where = "it is gone"
        with contextlib.suppress(OSError):  # not every system can tell
            now = os.readlink(f"/proc/self/fd/{self._descriptor}")
            if os.path.isdir(now):
                where = f"it is {now} now, which train --resume continues"
        raise StacktransError(f"{self.path}: the run's directory was moved or removed; {where}")


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
