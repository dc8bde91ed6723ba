"""How every compiled function here is compiled: without Python objects, cached, without the GIL."""

import contextlib
import functools
import getpass
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from stacktrans.common.messages import complain
from stacktrans.kernels.code_cache import CodeCache, state_directory

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])
# A compiled function is typed as the function it was, not as what numba makes of it.
_njit: Any = numba.njit
_config: Any = numba.config


def _cache_directory() -> Path | None:
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
    """The user's own place for what can be made again.

    Raises:
        RuntimeError: there is no home.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(_config.CACHE_DIR or Path(home) / "stacktrans")


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


_DIRECTORY = _cache_directory()

# Without what lets Python or C call it, which would take a tenth of the time to compile.
_INNER = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# No fast-math licence is given that lets the compiler assume there is no NaN: a diverged run
# would then show finite numbers.
_EXACT = {"contract"}
_REORDERED = {"contract", "reassoc", "nsz"}


def compiled(function: Function) -> Function:
    """Compile what only compiled code calls."""
    wrapped: Function = _njit(function, fastmath=_EXACT, **_INNER)
    return wrapped


def inlined(function: Function) -> Function:
    """As `compiled`, written out in whatever calls it.

    Where a function takes a dozen arrays, counting the references to them takes longer than the
    call.
    """
    wrapped: Function = _njit(function, fastmath=_EXACT, inline="always", **_INNER)
    return wrapped


def compiled_sum(function: Function) -> Function:
    """As `compiled`, for sums over an array: their terms may be added in any order."""
    wrapped: Function = _njit(function, fastmath=_REORDERED, **_INNER)
    return wrapped


def compiled_entry(function: Function) -> Function:
    """Compile what Python calls, at the first call; kept on disk with all that it calls."""
    wrapped: Any = _njit(function, nogil=True, error_model="numpy", fastmath=_EXACT)
    wrapped._cache = CodeCache(function, _DIRECTORY, _say_that_it_compiles)
    typed: Function = wrapped
    return typed


@functools.cache
def _say_that_it_compiles() -> None:
    complain("compiling for this machine, once (some seconds)")
