"""Files of a run: names, atomic writes of files and directories, checksums, checks and locks."""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from stacktrans.common.errors import CheckpointError, UsageError
from stacktrans.common.reading import STDIN, is_stream
from stacktrans.common.registry import plugin_files
from stacktrans.common.visible import listed

CONFIG = "config.yaml"
"""The file with the configuration of a run or checkpoint."""
WEIGHTS = "model.safetensors"
"""The file with the weights of a checkpoint."""
MACHINE = "machine.json"
"""The file with the machine of a checkpoint."""
RACE = "race.json"
"""The file in the directory of a run with the state of the race that the run won."""
CANDIDATES = "race"
"""The folder, in the directory of a race, with the runs of the candidates until it is over."""

END_SECONDS = 5.0
"""Worker processes end within this many seconds after their parent."""
SUMS = "SHA256SUMS"
_LINE = re.compile(rb"([0-9a-f]{64}) [ *]([\w.-]+)")
_LONGEST = 1 << 16
_LONGEST_PREFIX = 50


def numbered_names(name: str) -> Iterator[str]:
    """A name, then the name with a number from 2 on."""
    yield name
    yield from (f"{name}-{number}" for number in itertools.count(2))


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder has a file of weights or of a machine."""
    return any(os.path.isfile(folder / name) for name in (WEIGHTS, MACHINE))


def is_race(folder: Path) -> bool:
    """Whether a folder is the directory of an unfinished race."""
    return (folder / RACE).is_file() and (folder / CANDIDATES).is_dir()


def flush(path: Path) -> None:
    """Flush a file or directory to disk, so that changes survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_flushed(path: Path, content: bytes) -> None:
    """Write a file and flush it to disk."""
    path.write_bytes(content)
    flush(path)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file atomically: to a temporary file, which then replaces it.

    Links are followed, and devices and pipes are written to directly.

    Raises:
        OSError: the file can't be written; the error names `path`.
    """
    content = content.encode() if isinstance(content, str) else content
    try:
        # The path of an open pipe, such as /dev/fd/63, is lost if it is resolved.
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(real_path(path), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, content: bytes) -> None:
    # Shortened, since the length of a name is limited.
    temporary = path.with_name(f".{path.name[:_LONGEST_PREFIX]}.{os.getpid()}")
    try:
        write_flushed(temporary, content)
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
        _flush_names(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _flush_names(directory: Path) -> None:
    """Flush the names of files in a directory to disk, if it can be opened for reading."""
    with contextlib.suppress(OSError):
        flush(directory)


def check_file_path(path: Path, *suffixes: str) -> None:
    """Raise `UsageError` if a path can't become a file, or lacks one of the suffixes, if given."""
    if "\0" in str(path):
        raise UsageError(f"{str(path)!r}: not a file name")
    if suffixes and path.suffix.lower() not in suffixes:
        raise UsageError(f"{path}: expected a file that ends in {listed(suffixes, 'or')}")
    if path.is_dir():
        raise UsageError(f"{path}: Is a directory; expected a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: no folder {path.parent}")


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path] = ()) -> None:
    """Raise `UsageError` if files can't be written, or would replace each other or an input.

    The files of plugins are inputs, too.
    """
    read = [Path("/dev/stdin") if path == STDIN else path for path in inputs]
    read += map(Path, plugin_files())
    existing, seen = [path for path in read if os.path.exists(path)], set[Path]()
    for path in outputs:
        check_file_path(path)
        if os.path.exists(path):
            if not path.is_file():  # a device or a pipe
                continue
            if is_stream(path) or str(path) in ("/dev/stdout", "/dev/stderr"):
                problem = "open already; expected the name of a file, which is replaced"
                raise UsageError(f"{path}: {problem}")
            if any(path.samefile(each) for each in existing):
                raise UsageError(f"{path}: would replace a file that is read")
        if real_path(path) in seen:
            raise UsageError(f"{path}: given for two files that are written")
        seen.add(real_path(path))


def real_path(path: Path) -> Path:
    """The absolute path without symbolic links, as far as they lead to something."""
    # Path.resolve raises an error for a loop of links.
    return Path(os.path.realpath(path))


def check_directory_path(directory: Path) -> None:
    """Raise `UsageError` if a path can't become a directory, since it or a parent is a file."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise UsageError(f"{directory}: {existing} is not a directory")


def remove_temporary_files(path: Path) -> None:
    """Remove temporary files of a file, left by processes that were killed."""
    for temporary in path.parent.glob(f".{path.name}.[0-9]*"):
        temporary.unlink(missing_ok=True)


def try_lock(stream: IO[Any], seconds: float = END_SECONDS) -> bool:
    """Lock a file until it is closed; return whether that succeeded within some seconds."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return True
    ends = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends:
                return False
            time.sleep(0.1)
        except OSError:  # a file system without locks
            return True
        else:
            return True


def checksum_lines(contents: Mapping[str, bytes]) -> str:
    """The checksums of files, given by name, in the format of `sha256sum`."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()
    )


def verify_checksum(path: Path) -> None:
    """Compare a file with the checksums in its folder, if there are any.

    Raises:
        CheckpointError: the file is damaged, has no checksum, or can't be read.
    """
    before = None
    try:
        while (sums := _read_checksums(path.with_name(SUMS))) is not None:
            if path.name not in sums:
                message = f"no checksum in {SUMS}; the checkpoint is incomplete"
                raise CheckpointError(f"{path}: {message}")
            with path.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() == sums[path.name]:
                    return
            if sums == before:
                raise CheckpointError(f"{path}: damaged: its checksum is not the one in {SUMS}")
            before = sums  # once more, since a run may have replaced the checkpoint meanwhile
    except OSError as error:
        raise CheckpointError(f"{error.filename}: {error.strerror}") from error


def _read_checksums(path: Path) -> dict[str, str] | None:
    """Read checksums by the names of files; None if there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        lines = stream.read(_LONGEST).splitlines()
    sums = {}
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if not match:
            raise CheckpointError(f"{path}:{number}: damaged: not a line that sha256sum writes")
        sums[match[2].decode()] = match[1].decode()
    return sums


def replace_directory(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write a directory of files, and replace an old one with it.

    The old directory is moved aside only when the new one is complete, and then deleted.

    Raises:
        CheckpointError: the directory can't be written; the old one is kept.
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
    """The temporary name of a checkpoint while it is written."""
    return f".{name}.new"


def _swap(new: Path, directory: Path) -> None:
    old = backup_path(directory)
    if directory.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(directory, old)
    try:
        os.rename(new, directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(old, directory)
        raise
    _flush_names(directory.parent)
    shutil.rmtree(old, ignore_errors=True)


def backup_path(directory: Path) -> Path:
    """The path that an old directory is moved to while it is replaced."""
    directory = real_path(directory)
    return directory.with_name(f".{directory.name}.old") if directory.name else directory
