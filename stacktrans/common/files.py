"""Files of a run: names, writing them whole or not at all, checksums, and locks."""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from stacktrans.common.errors import CheckpointError, UsageError

CONFIG = "config.yaml"
"""The file with the configuration of a run, or of a checkpoint."""
WEIGHTS = "model.safetensors"
"""The file with the weights of a checkpoint."""
MACHINE = "machine.json"
"""The file of a checkpoint that is a machine."""
RACE = "race.json"
"""What a run's directory says of the race that the run has come from."""
CANDIDATES = "race"
"""Where in it the runs are that take part, until the race is over."""

END_SECONDS = 5.0
"""Within so many seconds of the process that they work for, others have ended, too."""
SUMS = "SHA256SUMS"
_LINE = re.compile(rb"([0-9a-f]{64}) [ *]([\w.-]+)")
_LONGEST = 1 << 16


def numbered(name: str) -> Iterator[str]:
    """A name, and then the same with a number, from 2 on."""
    yield name
    yield from (f"{name}-{number}" for number in itertools.count(2))


def is_checkpoint(folder: Path) -> bool:
    """Whether there are weights in a folder, or a machine."""
    return any(os.path.isfile(folder / name) for name in (WEIGHTS, MACHINE))


def is_race(folder: Path) -> bool:
    """Whether a folder is that of a race that is not over."""
    return (folder / RACE).is_file() and (folder / CANDIDATES).is_dir()


def flush(path: Path) -> None:
    """Have what was written to a file, or done to a directory, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_flushed(path: Path, content: bytes) -> None:
    """Write a file so that it survives a loss of power."""
    path.write_bytes(content)
    flush(path)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, through a temporary neighbour.

    Links are followed, and what is not a regular file (a device, a pipe) is written to as it is.

    Raises:
        OSError: it can't be written; the error names `path`.
    """
    content = content.encode() if isinstance(content, str) else content
    try:
        # The name of an open pipe, as of /dev/fd/63, leads to no file when it is resolved.
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(path.resolve(), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_flushed(temporary, content)
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def check_file_path(path: Path, *suffixes: str) -> None:
    """Raise `UsageError` if a file can't be there: a folder is, or its own folder is missing.

    Its name has to end in one of the suffixes, if any are given.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise UsageError(f"{path}: expected a file that ends in {', '.join(suffixes)}")
    if path.is_dir():
        raise UsageError(f"{path}: Is a directory; expected a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: no folder {path.parent}")


def check_directory_path(directory: Path) -> None:
    """Raise `UsageError` if a directory can't be made: a file is there, or above it."""
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"{directory}: {there} is not a directory")


def remove_temporary_files(path: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote a file."""
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)


def locked(stream: IO[Any]) -> bool:
    """Whether a file could be had, within `END_SECONDS`, for this process alone until closed."""
    try:
        import fcntl
    except ImportError:  # not on every system
        return True
    ends = time.monotonic() + END_SECONDS
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends:
                return False
            time.sleep(0.1)
        except OSError:  # not on every file system
            return True
        else:
            return True


def checksum_lines(contents: Mapping[str, bytes]) -> str:
    """The lines of some files, by their names: `sha256sum -c` takes them."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()
    )


def verify_checksum(path: Path) -> None:
    """Compare a file with the checksums beside it, if there are any.

    Raises:
        CheckpointError: the file was changed, has no checksum, or can't be read.
    """
    before = None
    try:
        while (sums := _read(path.with_name(SUMS))) is not None:
            if path.name not in sums:
                message = f"no checksum in {SUMS}; the checkpoint is incomplete"
                raise CheckpointError(f"{path}: {message}")
            with path.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() == sums[path.name]:
                    return
            if sums == before:
                raise CheckpointError(f"{path}: damaged: its checksum is not the one in {SUMS}")
            before = sums  # once more, since a run may just have put another checkpoint there
    except OSError as error:
        raise CheckpointError(f"{error.filename}: {error.strerror}") from error


def _read(path: Path) -> dict[str, str] | None:
    """Checksums by the names of files; None if there are none."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        lines = stream.read(_LONGEST).splitlines()
    sums = {}
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if not found:
            raise CheckpointError(f"{path}:{number}: damaged: not a line that sha256sum writes")
        sums[found[2].decode()] = found[1].decode()
    return sums


def write_whole(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write a directory of files in the place of the one that was there.

    The old one stays whole until the new one is: it is moved aside and deleted only then.

    Raises:
        CheckpointError: it can't be written; what was there is still there.
    """
    new = directory.with_name(temporary_name(directory.name))
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


def temporary_name(name: str) -> str:
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
