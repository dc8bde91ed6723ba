"""What is in files, and in what comes only once: standard input and other open pipes."""

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stacktrans.common.errors import UsageError
from stacktrans.common.incoming import BYTE_ORDER_MARK
from stacktrans.common.messages import complain
from stacktrans.common.reading import STDIN, check_size, is_open_already, name_of, read_bytes

PACKED = ".gz"
"""What the name of a file ends with that is packed by gzip."""
PACKED_BEGINS = b"\x1f\x8b"
"""What the content of such a file begins with, and no text in UTF-8."""

MOST_CONTENT = 1 << 30
"""The most bytes that are read of a file, packed or not."""

_copies: Mapping[Path, Path] = {}
"""Files that are read instead of what came only once."""
_held: dict[tuple[Path, Any], bytes] = {}
"""What has come from streams."""


def comes_once(path: Path) -> bool:
    """Whether what is there comes to this process alone, and perhaps only once."""
    return path == STDIN or is_open_already(path)


def read_copies(copies: Mapping[Path, Path]) -> None:
    """Have this process read copies of what came only once, unless it came to this process.

    Args:
        copies: unpacked, by what they are copies of.
    """
    global _copies
    _copies = {path: copy for path, copy in copies.items() if (path, _state(path)) not in _held}


def read_lines(path: str | os.PathLike[str]) -> list[bytes]:
    """The lines of a file or of standard input without `\\n`; raises `UsageError`."""
    return read_content(path).split(b"\n")


def read_content(path: str | os.PathLike[str]) -> bytes:
    """What is in a file or in standard input, unpacked.

    Raises:
        UsageError: it can't be read, is not whole, or has more than `MOST_CONTENT` bytes.
    """
    path = Path(path)
    if path in _copies:
        return read_bytes(_copies[path])
    content = _only_once(path) if comes_once(path) else read_bytes(path, MOST_CONTENT)
    if path.suffix == PACKED or content.startswith(PACKED_BEGINS):
        name = name_of(path)
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MOST_CONTENT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{name}: not a whole file of gzip ({error})") from error
        check_size(name, content, MOST_CONTENT)
    return content.removeprefix(BYTE_ORDER_MARK)


def changed(path: Path) -> object:
    """Changes when what is read there does."""
    return _copies.get(path) or _state(path)


def _state(path: Path) -> Any:
    """Changes when a file does; of streams, when there is another."""
    if path == STDIN:
        return sys.stdin and sys.stdin.buffer
    try:
        state = os.stat(path)
    except (OSError, ValueError):  # which will be said when it is read
        return None
    as_it_is = (state.st_size, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else ()
    return state.st_dev, state.st_ino, *as_it_is


def _only_once(path: Path) -> bytes:
    """What comes from a stream, which is kept, since it may be asked for again."""
    stream = _state(path)
    if stream is None and path == STDIN:
        raise UsageError(f"{name_of(path)}: closed; expected pairs or lines from there")
    if (path, stream) not in _held:
        for other in [other for other in _held if other[0] == path]:
            del _held[other]
        if path == STDIN and sys.stdin.isatty():  # as where a run that was fed by a pipe is resumed
            complain("waiting for pairs or lines from the terminal; end them with Ctrl-D")
        read = stream.read(MOST_CONTENT + 1) if path == STDIN else read_bytes(path, MOST_CONTENT)
        check_size(name_of(path), read, MOST_CONTENT)
        _held[path, stream] = read
    return _held[path, stream]
