"""Directories of runs and races: check, create, lock, guard against moves, find the last save."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from stacktrans.common.errors import CheckpointError, StacktransError, UsageError
from stacktrans.common.files import (
    CANDIDATES,
    RACE,
    check_directory_path,
    is_race,
    numbered_names,
    temporary_name,
    try_lock,
)
from stacktrans.common.visible import shell_text
from stacktrans.model.checkpoint_files import last_checkpoint
from stacktrans.settings.command import resume_command
from stacktrans.training.records import METRICS


def check_free(directory: Path) -> None:
    """Raise `UsageError` if the directory of a new run is in use, or can't be made.

    The remains of a run that was killed before it was saved for the first time do not count.
    """
    check_directory_path(directory)
    if not directory.exists() or _is_free(directory):
        return
    hint = ", or resume the run" if has_last(directory) or is_race(directory) else ""
    raise UsageError(f"{directory}: already exists; choose another directory{hint}")


def check_resumable(directory: Path) -> None:
    """Raise `CheckpointError` if a run has no last checkpoint from which it can be resumed."""
    if _is_free(directory):
        hint = "nothing has been saved yet; start it again, in this directory"
        raise CheckpointError(f"{directory}: no run to resume here; {hint}")
    last_checkpoint(directory)


def has_last(directory: Path) -> bool:
    """Whether a run has a last checkpoint."""
    with suppress(CheckpointError):
        last_checkpoint(directory)
        return True
    return False


def _is_free(directory: Path) -> bool:
    # Including what a race writes before it begins.
    unsaved = {temporary_name("last"), temporary_name(CANDIDATES), RACE}
    return directory.is_dir() and all(
        path.name in unsaved
        or path.name.startswith(f".{RACE}.")
        or (path.name == METRICS and not path.stat().st_size)
        for path in directory.iterdir()
    )


def create_run_directory(out: Path | None, name: str) -> Path:
    """Make the directory of a run: `out`, or else one in checkpoints/.

    The latter is called `name`, with a number if that is taken, even by a run that starts at the
    same moment. Two runs that start at the same moment may both get the same `out`.
    """
    if out is not None:
        check_free(out)
        out.mkdir(parents=True, exist_ok=True)
        return out
    folder = Path("checkpoints")
    folder.mkdir(exist_ok=True)
    for path in (folder / numbered_name for numbered_name in numbered_names(name)):
        with suppress(FileExistsError):
            path.mkdir()
            break
    return path


@contextmanager
def watched(directory: Path) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Watch a directory.

    Yields a function that makes context managers for writing into it, which raise `StacktransError`
    if it was moved or removed before or meanwhile.
    """

    @contextmanager
    def in_place() -> Iterator[None]:
        _check_in_place(directory, descriptor)
        try:
            yield
        finally:
            _check_in_place(directory, descriptor)

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield in_place
    finally:
        os.close(descriptor)


def _check_in_place(directory: Path, descriptor: int) -> None:
    with suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(directory)):
            return
    change = "moved or removed"
    with suppress(OSError):  # not every system can tell
        now = os.readlink(f"/proc/self/fd/{descriptor}")
        resume = shell_text(resume_command(now))
        change = f"moved; resume it with: {resume}" if os.path.isdir(now) else "removed"
    raise StacktransError(f"{directory}: the run's directory was {change}")


def lock(stream: IO[Any], directory: Path) -> None:
    """Lock a run's directory by a file in it; raises `StacktransError` if another has it locked."""
    if not try_lock(stream):
        raise StacktransError(f"{directory}: another process is training here")
