"""Checksums of the files of a checkpoint, as `sha256sum` writes and checks them."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from stacktrans.common.errors import CheckpointError

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([\w.-]+)")
_LONGEST = 1 << 16


def sums_of(contents: Mapping[str, bytes]) -> str:
    """The lines of some files, by their names: `sha256sum -c` takes them."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()
    )


def check_sum(path: Path) -> None:
    """Compare a file with the checksums beside it, if there are any.

    Raises:
        CheckpointError: it is another than was written, or has none; or they can't be read.
    """
    before = None
    while (sums := _read(path.with_name(SUMS))) is not None:
        if path.name not in sums:
            raise CheckpointError(f"{path}: no checksum in {SUMS}; the checkpoint is incomplete")
        if _sum_of(path) == sums[path.name]:
            return
        if sums == before:
            raise CheckpointError(f"{path}: damaged: its checksum is not the one in {SUMS}")
        before = sums  # once more, since a run may just have put another checkpoint there


def _sum_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error


def _read(path: Path) -> dict[str, str] | None:
    """Checksums by the names of files; None if there are none."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            lines = stream.read(_LONGEST).decode("ascii").splitlines()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: damaged: byte {error.start + 1} is not ASCII") from error
    sums = {}
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if not found:
            raise CheckpointError(f"{path}:{number}: damaged: not a line that sha256sum writes")
        sums[found[2]] = found[1]
    return sums
