"""Where compiled code is kept between runs."""

import contextlib
import functools
import getpass
import hashlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

_KEPT = 4
"""How many directories of other states of the sources are kept."""


@functools.cache
def cache_directory() -> Path | None:
    """Where compiled code is kept between runs: a directory for each state of all its sources.

    None if there is no place for it.
    """
    sources = hashlib.sha256()
    package = Path(__file__).parent.parent
    for folder in ("kernels", "memory"):
        for path in sorted((package / folder).rglob("*.py")):
            sources.update(path.read_bytes())
    state = sources.hexdigest()[:16]
    for root in (_at_home, _without_home):
        with contextlib.suppress(OSError, RuntimeError):
            return state_directory(root(), state)
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
    directory.mkdir(parents=True, exist_ok=True)
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


def has_code(name: str) -> bool:
    """Whether there is compiled code of a function, `module.function`, for some types."""
    directory = cache_directory()
    return directory is not None and any(directory.glob(f"{name}-*.nbc"))
