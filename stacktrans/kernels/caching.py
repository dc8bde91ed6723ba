"""Compiled code, kept on disk.

Numba has a cache of its own, which believes what it reads: of a damaged file it makes an error
in every command, or machine code that ends the process. Here what is not whole, or of another
machine, counts as not being there. Every file begins with a checksum of the rest, which says what
it was made of, and is put in its place whole. There is a file for each function and the types that
it is called with. Who makes one locks its place, so that others wait instead of making it, too.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from stacktrans.kernels.locking import PlaceLock

_CHECKSUM = hashlib.sha256
_PATIENCE = 120.0
"""Seconds to wait for another process to compile; one that takes longer may have been stopped."""


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
        self._lock: PlaceLock | None = None

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled function for a signature; None if it has to be compiled.

        Others that have to compile it then wait for `save_overload`, or for `give_up`.
        """
        target_context.refresh()
        what = self._what(signature, target_context.codegen())
        place = self._place(what)
        content = place and _content(place, what)
        if not content:
            self._on_miss()
            content = place and self._content_from_others(place, what)
        return CompileResult._rebuild(target_context, *content) if content else None

    def _content_from_others(self, place: Path, what: str) -> Any:
        """What a place holds once nobody else is about to fill it."""
        self._lock = PlaceLock(place)
        self._lock.wait(_PATIENCE)
        content = _content(place, what)
        if content:
            self.give_up()
        return content

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled function, if it can be kept."""
        what = self._what(signature, compiled.codegen)
        place = self._place(what)
        # Code with globals that change holds addresses of this process.
        if place and not compiled.library.has_dynamic_globals:
            code = dumps((what, compiled._reduce()))
            with contextlib.suppress(OSError):
                _put(place, _CHECKSUM(code).digest() + code)
        self.give_up()

    def give_up(self) -> None:
        """Let others compile what this process was to, if it did not."""
        if self._lock:
            self._lock.release()

    def has(self, signature: Any, target_context: Any) -> bool:
        """Whether there is compiled code for a signature, or at least a file."""
        place = self._place(self._what(signature, target_context.codegen()))
        return place is not None and place.is_file()

    def is_left_to_others(self, signature: Any, target_context: Any) -> bool:
        """Whether another process is compiling the function for a signature."""
        place = self._place(self._what(signature, target_context.codegen()))
        return place is not None and PlaceLock(place).is_taken

    def _what(self, signature: Any, codegen: Any) -> str:
        """All that code depends on, but for the functions that it calls."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        # What is done with a NamedTuple is up to who made it, who may be somebody else.
        types = [each.instance_class for each in signature if hasattr(each, "instance_class")]
        makers = [sys.modules[each.__module__].__file__ or "" for each in types]
        sources = [*map(_source_checksum, (self._function.__code__.co_filename, *makers))]
        versions = numba.__version__, platform.python_implementation(), platform.python_version()
        return repr((name, sources, signature, codegen.magic_tuple(), versions))

    def _place(self, what: str) -> Path | None:
        """The file for it; None if there is no directory."""
        function = self._function
        key = _CHECKSUM(what.encode()).hexdigest()[:16]
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}-{key}.nbc"
        return self._directory and self._directory / name


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
