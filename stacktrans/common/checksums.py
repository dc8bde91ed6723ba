"""Checksums of the files of a checkpoint, as `sha256sum` writes and checks them."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from stacktrans.common.errors import CheckpointError

SUMS = "SHA256SUMS"
_LINE = re.compile(rb"([0-9a-f]{64}) [ *]([\w.-]+)")
_LONGEST = 1 << 16


def sums_of(contents: Mapping[str, bytes]) -> str:
    """The lines of some files, by their names: `sha256sum -c` takes them."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()
    )


def check_sum(path: Path) -> None:
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
