"""The cache of compiled code on disk: directories, checksums, and a message while compiling.

numba caches code by itself, but does not notice when a callee in another file has changed, and may
end the process when a cached file is damaged. Therefore each function has a directory for each
combination of argument types, below one for the state of all sources, with checksums of its files.
"""

import contextlib
import functools
import getpass
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO, cast

from llvmlite import binding

from stacktrans.common.files import SUMS, write_atomically
from stacktrans.common.messages import OptionalStream, print_message

_PACKAGE = "stacktrans"
_KEPT = 4
"""The number of directories kept for other states of the sources."""


class CodeDirectory:
    """The directory with the code of a function for some argument types.

    Args:
        path: the directory; None if no directory can be written to.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    @classmethod
    def of(cls, function: Callable[..., Any], types: tuple[type, ...]) -> "CodeDirectory":
        """The directory for a function and the types of its arguments, from any package."""
        key = hashlib.sha256()
        each: Any
        for each in (function, *types):
            key.update(f"{each.__module__}.{each.__qualname__}\n".encode())
            file = getattr(sys.modules.get(each.__module__), "__file__", None)
            if file and each.__module__.partition(".")[0] != _PACKAGE:
                key.update(_source(Path(file)))
        root = cache_directory()
        return cls(root and root / f"{function.__name__}-{key.hexdigest()[:16]}")

    @functools.cached_property
    def has_code(self) -> bool:
        """Whether there is undamaged code; damaged code is removed."""
        if not self.path or not os.path.lexists(self.path / SUMS):
            return False
        try:
            checksums = _sums(self.path)
            kept = (self.path / SUMS).read_text().splitlines()
            # Files that were added since have no checksum, and are accepted.
            if not kept or not set(kept) <= set(checksums):
                raise ValueError("it was changed")
        except (OSError, ValueError) as error:
            self.discard(error)
            return False
        return True

    def write_checksums(self) -> None:
        """Write the checksums of the compiled files, if there are none yet."""
        try:
            if self.path and not self.has_code:
                write_atomically(self.path / SUMS, "\n".join(_sums(self.path)))
        except OSError as error:
            self.discard(error)

    def discard(self, error: Exception) -> None:
        """Warn that code cannot be cached or used, and why; then remove it."""
        print_message(f"can't use the compiled code in {self.path}: {error}")
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def as_cache(self) -> Iterator[bool]:
        """Let numba cache functions declared within a `with` block here; yields whether it can."""
        import numba  # slow: imported only when something is compiled

        config: Any = numba.config
        before = config.CACHE_DIR
        try:
            if self.path:
                self.path.mkdir(mode=0o700, exist_ok=True)
                config.CACHE_DIR = str(self.path)
            yield self.path is not None
        finally:
            config.CACHE_DIR = before


def _sums(directory: Path) -> list[str]:
    """Checksums of the files with code; raises `OSError` for anything but files and folders."""
    checksums = []
    for path in sorted(directory.rglob("*")):
        # Meanwhile another process may have given a file its final name.
        if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
            raise OSError(f"{path} is not a file")
        if path.suffix == ".nbc":
            checksum = hashlib.sha256(path.read_bytes()).hexdigest()
            checksums.append(f"{checksum}  {path.relative_to(directory)}")
    return checksums


def _source(path: Path) -> bytes:
    """The content and, as numba uses it too, the modification time of a source file."""
    try:
        return path.read_bytes() + str(path.stat().st_mtime_ns).encode()
    except OSError:  # within an archive
        return b""


@functools.cache
def cache_directory() -> Path | None:
    """The directory for the current state of all sources, for this processor.

    None if no directory can be written to.
    """
    state = hashlib.sha256(f"{version('numba')} {sys.version} {os.name}".encode())
    state.update(binding.get_host_cpu_name().encode())
    state.update(binding.get_host_cpu_features().flatten().encode())
    package = Path(__file__).parent.parent
    for pattern in ("kernels/*.py", "memory/**/*.py", "common/ends.py"):
        for path in sorted(package.glob(pattern)):
            state.update(_source(path))
    for root in (_at_home, _without_home):
        with contextlib.suppress(OSError, RuntimeError):
            return state_directory(root(), state.hexdigest()[:16])
    return None


def _at_home() -> Path:
    """The user's cache directory; raises `RuntimeError` if there is no home directory."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "stacktrans")


def _without_home() -> Path:
    """A temporary directory of this user, which nobody else can write to, since its code is run.

    Raises:
        OSError: none can be made.
    """
    shared = Path(tempfile.gettempdir()) / f"stacktrans-{getattr(os, 'getuid', getpass.getuser)()}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        status = shared.lstat()
    except OSError:
        return Path(tempfile.mkdtemp())
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    private = mine and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022
    return shared if private else Path(tempfile.mkdtemp())


def state_directory(root: Path, state: str) -> Path:
    """The directory for a state of the sources; directories long unused are removed.

    Args:
        root: the folder with a directory for each state, and perhaps other files.
        state: 16 hexadecimal digits.

    Raises:
        OSError: it can't be made or written to.
    """
    directory = root / state
    is_new = not directory.exists()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(f"{directory} can't be written to")
    os.utime(directory)
    if is_new:
        _remove_old(root, directory)
    return directory


def _remove_old(root: Path, current: Path) -> None:
    with contextlib.suppress(OSError):
        states = (path for path in root.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name))
        others = [path for path in states if path.is_dir() and path != current]
        for path in sorted(others, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            shutil.rmtree(path, ignore_errors=True)


@functools.cache
def announce() -> None:
    """Print a message that code is compiled, once."""
    print_message("compiling for this processor, once (10 to 15 seconds)")


def count() -> int:
    """The number of functions whose code is compiled or being compiled, by any process."""
    directory = cache_directory()
    with contextlib.suppress(OSError):  # it may have been removed
        return len(os.listdir(directory)) if directory else 0
    return 0


def announced() -> contextlib.AbstractContextManager[object]:
    """Print a message that code is compiled; the context shows a spinner on a terminal.

    Workers leave the terminal to the process that started them.
    """
    from stacktrans.common.processes import is_worker  # slow to import, as is rich below

    if is_worker() or not sys.stderr:
        return contextlib.nullcontext()
    from rich.console import Console

    announce()
    stream = cast(TextIO, OptionalStream(sys.stderr))
    return Console(file=stream, force_jupyter=False).status("")
