"""Checkpoints that are changed on purpose."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from stacktrans.common.files import CONFIG, SUMS, WEIGHTS, checksum_lines


def reseal(directory: Path) -> None:
    """Have the checksums be those of the files as they are now."""
    files = [path for path in sorted(directory.iterdir()) if path.is_file() and path.name != SUMS]
    (directory / SUMS).write_text(checksum_lines({path.name: path.read_bytes() for path in files}))


def change_config(directory: Path, old: str, new: str) -> None:
    """Replace a part of a checkpoint's configuration."""
    path = directory / CONFIG
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    reseal(directory)


def change_weights(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Replace a checkpoint's weights."""
    save_file(dict(weights), directory / WEIGHTS)
    reseal(directory)
