"""How compiled functions are compiled: without Python objects or the GIL; and kept on disk.

Numba has a cache of its own, which believes what it reads: of a damaged file it makes an error
in every command, or machine code that ends the process. Here what is not whole, or of another
machine, counts as not being there. Every file begins with a checksum of the rest, which says what
it was made of, and is put in its place whole. As there is a file for each function and the types
that it is called with, processes that write at the same time have nothing to agree on.
"""

import contextlib
import functools
import getpass
import hashlib
import os
import pickle
import platform
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from stacktrans.common.messages import complain

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])
# A compiled function is typed as the function it was, not as what numba makes of it.
_njit: Any = numba.njit
_config: Any = numba.config
_CHECKSUM = hashlib.sha256
_KEPT = 4
"""How many directories of other states of the sources are kept."""


def _cache_directory() -> Path | None:
    """Where compiled code is kept between runs: a directory for each state of all its sources.

    None if there is no place for it.
    """
    sources = _CHECKSUM()
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


class CodeCache:
    """Compiled code of one function, as numba's dispatcher asks for it.

    Args:
        function: what is compiled.
        directory: where its code is kept; None for nowhere.
        on_miss: called before the function is compiled.
    """

    def __init__(
        self, function: Callable[..., Any], directory: Path | None, on_miss: Callable[[], None]
    ) -> None:
        self._function, self._directory, self._on_miss = function, directory, on_miss

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled function for a signature; None if it has to be compiled."""
        target_context.refresh()
        what = self._what(signature, target_context.codegen())
        content = self._directory and _content(self._path(self._directory, what), what)
        if not content:
            self._on_miss()
            return None
        return CompileResult._rebuild(target_context, *content)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled function, if it can be kept."""
        # Such code holds addresses of this process.
        if self._directory is None or compiled.library.has_dynamic_globals:
            return
        what = self._what(signature, compiled.codegen)
        code = dumps((what, compiled._reduce()))
        with contextlib.suppress(OSError):
            _put(self._path(self._directory, what), _CHECKSUM(code).digest() + code)

    def _what(self, signature: Any, codegen: Any) -> str:
        """All that code depends on, but for the functions that it calls."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        # What is done with a NamedTuple is up to who made it, who may be somebody else.
        types = [each.instance_class for each in signature if hasattr(each, "instance_class")]
        makers = [sys.modules[each.__module__].__file__ or "" for each in types]
        sources = [*map(_source_checksum, (self._function.__code__.co_filename, *makers))]
        versions = numba.__version__, platform.python_implementation(), platform.python_version()
        return repr((name, sources, signature, codegen.magic_tuple(), versions))

    def _path(self, directory: Path, what: str) -> Path:
        function = self._function
        key = _CHECKSUM(what.encode()).hexdigest()[:16]
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}-{key}.nbc"
        return directory / name


@functools.cache
def _source_checksum(source: str) -> str:
    with contextlib.suppress(OSError):
        return _CHECKSUM(Path(source).read_bytes()).hexdigest()
    return ""


def _content(path: Path, what: str) -> Any:
    """What a file holds; None if it is not whole, or holds something else."""
    try:
        # Something else than a file might keep its reader waiting.
        whole = path.read_bytes() if path.is_file() else b""
    except OSError:
        return None
    size = _CHECKSUM().digest_size
    checksum, code = whole[:size], whole[size:]
    if _CHECKSUM(code).digest() != checksum:
        return None
    made_of, content = pickle.loads(code)
    return content if made_of == what else None


def _put(path: Path, content: bytes) -> None:
    """Have a file with this content in the place of whatever is there, or raise `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(".tmp", dir=path.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


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
