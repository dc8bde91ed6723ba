"""Weights in safetensors files: the same bytes for the same weights; shapes are checked first."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from stacktrans.common.checksums import check_sum
from stacktrans.common.errors import CheckpointError, abridged
from stacktrans.common.visible import visible

_DTYPES = {"F64", "F32", "F16", "BF16"}
_METADATA = "__metadata__"


def serialized(weights: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a file with some weights, by their names, and metadata in its header."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    written = safetensors.torch.save(content, dict(metadata))
    end = 8 + int.from_bytes(written[:8], "little")
    # The library writes metadata in an order that changes from process to process.
    header = json.loads(written[8:end])
    header[_METADATA] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + written[end:]


def check_shapes(path: Path, model: torch.nn.Module) -> None:
    """Compare the shapes in a file's header with those of a model; reads nothing else.

    Raises:
        CheckpointError: the file can't be read, or holds weights of another model.
    """
    expected = model.state_dict()
    with _opened(path) as file:
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        for name in sorted(expected.keys() | found.keys()):
            shape = _written(found[name].get_shape() if name in found else None)
            wanted = _written(expected[name].shape if name in expected else None)
            if shape != wanted:
                message = f"weight {visible(name)} is {shape}; the configuration asks for {wanted}"
                raise CheckpointError(f"{path}: {message}")
            if found[name].get_dtype() not in _DTYPES:
                raise CheckpointError(f"{path}: weight {name} does not hold floating-point numbers")


def load_weights(model: torch.nn.Module, path: Path) -> None:
    """Fill a model from a file.

    Raises:
        CheckpointError: the file can't be read, is damaged, or holds weights of another model.
    """
    check_shapes(path, model)
    expected = model.state_dict()
    with _opened(path) as file:
        weights = {name: file.get_tensor(name).to(like.dtype) for name, like in expected.items()}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: weight {name} holds NaN or infinite numbers")
    check_sum(path)  # last, since what is wrong with a weight says more
    model.load_state_dict(weights)


def metadata_of(path: Path) -> Mapping[str, str]:
    """The metadata of a file; raises `CheckpointError` if it can't be read."""
    with _opened(path) as file:
        return file.metadata() or {}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this is not a whole checkpoint")
    try:
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as error:
        reason = visible(str(error))
        raise CheckpointError(f"{path}: truncated or not a safetensors file ({reason})") from error


def _written(shape: Sequence[int] | None) -> str:
    if shape is None:
        return "absent"
    return "x".join(abridged([*map(str, shape)])) or "a number"
