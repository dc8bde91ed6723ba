"""Directories that are written whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from stacktrans.common.errors import CheckpointError
from stacktrans.common.files import flush, write_flushed


def write_whole(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write a directory of files in the place of the one that was there.

    The old one stays whole until the new one is: it is moved aside and deleted only then.

    Raises:
        CheckpointError: it can't be written; what was there is still there.
    """
    new = directory.with_name(unfinished(directory.name))
    path = directory
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for name, content in contents.items():
            path = directory / name
            write_flushed(new / name, content)
        path = directory
        flush(new)
        _swap(new, directory)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        reason = error.strerror or error
        raise CheckpointError(f"{path}: can't write the checkpoint: {reason}") from error


def unfinished(name: str) -> str:
    """The name of a checkpoint while it is written."""
    return f".{name}.new"


def _swap(new: Path, directory: Path) -> None:
    old = aside(directory)
    if directory.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(directory, old)
    try:
        os.rename(new, directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(old, directory)
        raise
    flush(directory.parent)
    shutil.rmtree(old, ignore_errors=True)


def aside(directory: Path) -> Path:
    """Where the old directory is moved to."""
    directory = directory.resolve()
    return directory.with_name(f".{directory.name}.old") if directory.name else directory
