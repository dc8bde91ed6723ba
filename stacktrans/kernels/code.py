"""The directory of compiled code, and the message while code is compiled for the first time.

numba keeps code itself. It notices neither that a function changed in another file than the one
that was asked for, nor that a file is damaged: it may end the process then. So each function has a
directory of its own for the types that it is called with, under one for the state of all sources,
and checksums of the files in it.
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
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llvmlite import binding

from stacktrans.common.files import SUMS, write_atomically
from stacktrans.common.messages import OptionalStream, print_message

_PACKAGE = "stacktrans"
_KEPT = 4
"""How many directories of other states of the sources are kept."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class CodeDirectory:
    """Where the code of a function for some types of arguments is.

    Args:
        path: the directory; None if code can't be kept anywhere.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    @classmethod
    def of(cls, function: Callable[..., Any], kinds: tuple[type, ...]) -> "CodeDirectory":
        """For a function of this package or another, with types of its own or foreign ones."""
        key = hashlib.sha256()
        each: Any
        for each in (function, *kinds):
            key.update(f"{each.__module__}.{each.__qualname__}\n".encode())
            file = getattr(sys.modules.get(each.__module__), "__file__", None)
            if file and each.__module__.partition(".")[0] != _PACKAGE:
                key.update(_source(Path(file)))
        root = cache_directory()
        return cls(root and root / f"{function.__name__}-{key.hexdigest()[:16]}")

    @functools.cached_property
    def has_code(self) -> bool:
        """Whether there is code, which is whole; what is damaged is removed."""
        if not self.path or not os.path.lexists(self.path / SUMS):
            return False
        try:
            found = _sums(self.path)
            kept = (self.path / SUMS).read_text().splitlines()
            # What was added since is not known, and may be there.
            if not kept or not set(kept) <= set(found):
                raise ValueError("it was changed")
        except (OSError, ValueError) as error:
            self.give_up(error)
            return False
        return True

    def complete(self) -> None:
        """Write the checksums of what was compiled, if there are none yet."""
        try:
            if self.path and not self.has_code:
                write_atomically(self.path / SUMS, "\n".join(_sums(self.path)))
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Say why code is not kept, or was not used; then it is removed."""
        print_message(f"can't use the compiled code in {self.path}: {error}")
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def as_cache(self) -> Iterator[bool]:
        """Have numba use it for functions that are marked meanwhile; false if it can't be used."""
        import numba  # waits until something is compiled

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
    """Checksums of the files with code; raises `OSError` if there is anything but files."""
    found = []
    for path in sorted(directory.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise OSError(f"{path} is not a file")
        if path.suffix == ".nbc":
            checksum = hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(f"{checksum}  {path.relative_to(directory)}")
    return found


def _source(path: Path) -> bytes:
    """What tells a state of a source file from others; as numba, by when it was written, too."""
    try:
        return path.read_bytes() + str(path.stat().st_mtime_ns).encode()
    except OSError:  # within an archive
        return b""


@functools.cache
def cache_directory() -> Path | None:
    """Where compiled code is kept: a directory for each state of all sources, on each processor.

    None if there is no place for it.
    """
    state = hashlib.sha256(f"{version('numba')} {sys.version} {os.name}".encode())
    state.update(binding.get_host_cpu_name().encode())
    state.update(binding.get_host_cpu_features().flatten().encode())
    for folder in ("kernels", "memory"):
        for path in sorted((Path(__file__).parent.parent / folder).rglob("*.py")):
            state.update(_source(path))
    for root in (_at_home, _without_home):
        with contextlib.suppress(OSError, RuntimeError):
            return state_directory(root(), state.hexdigest()[:16])
    return None


def _at_home() -> Path:
    """The user's own place for what can be made again; raises `RuntimeError` without a home."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "stacktrans")


def _without_home() -> Path:
    """A place that keeps compiled code as long as the machine runs, if nobody else can write there.

    What is read from it is run.

    Raises:
        OSError: there is none.
    """
    shared = Path(tempfile.gettempdir()) / f"stacktrans-{getattr(os, 'getuid', getpass.getuser)()}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        found = shared.lstat()
    except OSError:
        return Path(tempfile.mkdtemp())
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    private = mine and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    return shared if private else Path(tempfile.mkdtemp())


def state_directory(root: Path, state: str) -> Path:
    """The directory for the code of a state of the sources; those long unused are removed.

    Args:
        root: where there is one for each state, and perhaps other things.
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
def _announce() -> None:
    print_message("compiling for this machine, once (some seconds)")


@contextlib.contextmanager
def announced() -> Iterator[None]:
    """Say that something is compiled; on a terminal, with a sign of life meanwhile."""
    _announce()
    if not (sys.stderr and sys.stderr.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    done = threading.Event()
    spinner = threading.Thread(target=_spin, args=(done,), daemon=True)
    spinner.start()
    try:
        yield
    finally:
        done.set()
        spinner.join()


def _spin(done: threading.Event) -> None:
    stream, frame = OptionalStream(sys.stderr), 0
    while not done.wait(0.1):
        print(f"\r{_FRAMES[frame % len(_FRAMES)]}", end="", file=stream, flush=True)
        frame += 1
    print("\r \r", end="", file=stream, flush=True)
