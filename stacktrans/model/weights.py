"""Weights in files: the same bytes for the same weights; sizes are compared before they are read.

The files are those of safetensors: the length of a header in 8 bytes, the header in JSON, which
says of every tensor what it is and where it lies, and the data of the tensors one after another.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from stacktrans.common.checksums import check_sum
from stacktrans.common.errors import CheckpointError

LONGEST_HEADER = 1 << 20
"""Bytes of a header; that of the most layers there can be has a tenth of it."""
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_METADATA = "__metadata__"


def serialized(weights: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a file with some weights.

    Args:
        weights: by their names.
        metadata: what else is said in the header.
    """
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    written = safetensors.torch.save(content, dict(metadata))
    end = 8 + int.from_bytes(written[:8], "little")
    # The library writes metadata in an order that changes from process to process.
    header = json.loads(written[8:end])
    header[_METADATA] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + written[end:]


def check_shapes(path: Path, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Compare a file's header with the shapes that its tensors should have; reads nothing else.

    Raises:
        CheckpointError: the file can't be read, or holds weights of another model.
    """
    header, size = _header(path)
    for name in sorted(expected.keys() | header.keys()):
        there = _shape(header[name].get("shape") if name in header else None)
        wanted = _shape(expected.get(name))
        if there != wanted:
            shown = name if name.isprintable() else ascii(name)
            raise CheckpointError(
                f"{path}: weight {shown} is {there}; the configuration asks for {wanted}"
            )
        if str(header[name].get("dtype")) not in _BYTES:
            raise CheckpointError(f"{path}: weight {name} holds what is no number")
    _check_places(path, header, size)


def load_weights(model: torch.nn.Module, path: Path) -> None:
    """Fill a model from a file.

    Raises:
        CheckpointError: the file can't be read, is damaged, or holds weights of another model.
    """
    expected = model.state_dict()
    check_shapes(path, {name: tuple(tensor.shape) for name, tensor in expected.items()})
    try:
        weights = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise _no_weights(path, error) from error
    for name, tensor in expected.items():
        weights[name] = weights[name].to(tensor.dtype)
        if weights[name].isnan().any():
            raise CheckpointError(f"{path}: weight {name} holds what is no number")
        if weights[name].isinf().any():
            raise CheckpointError(f"{path}: weight {name} holds infinite numbers")
    check_sum(path)  # last, since what is wrong with a weight says more
    model.load_state_dict(weights)


Header = dict[str, dict[str, Any]]


def said_of(path: Path) -> Mapping[str, Any]:
    """What `serialized` was given as `metadata`.

    Raises:
        CheckpointError: the file can't be read.
    """
    return _whole_header(path)[0].get(_METADATA, {})


def _header(path: Path) -> tuple[Header, int]:
    """What a file says of its tensors, and how many bytes of data it has."""
    header, size = _whole_header(path)
    return {name: tensor for name, tensor in header.items() if name != _METADATA}, size


def _whole_header(path: Path) -> tuple[Header, int]:
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this is not a whole checkpoint")
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size - 8
            length = int.from_bytes(stream.read(8), "little")
            if size < 0 or length > size:
                raise ValueError("the file is shorter than its header")
            if length > LONGEST_HEADER:
                raise ValueError(f"the header has {length} bytes")
            header = json.loads(stream.read(length), object_pairs_hook=_without_repetition)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _no_weights(path, error) from error
    if not isinstance(header, dict) or not all(isinstance(each, dict) for each in header.values()):
        raise _no_weights(path, "the header does not describe tensors")
    return header, size - length


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _check_places(path: Path, header: Header, size: int) -> None:
    """Raise `CheckpointError` unless tensors lie one after another and fill the data."""
    end = 0
    for name, place in sorted(_places(path, header).items(), key=lambda item: item[1]):
        length = math.prod(header[name]["shape"]) * _BYTES[header[name]["dtype"]]
        if place != (end, end + length):
            raise _no_weights(path, f"weight {name} does not lie where it should")
        end += length
    if end != size:
        raise _no_weights(path, f"there are {size} bytes of weights; expected {end}")


def _places(path: Path, header: Header) -> dict[str, tuple[int, int]]:
    """First byte of each tensor, and the one after its last."""
    places = {}
    for name, tensor in header.items():
        place = tensor.get("data_offsets")
        if not isinstance(place, list) or len(place) != 2 or not _are_sizes(place):
            raise _no_weights(path, f"weight {name} has no place")
        places[name] = (place[0], place[1])
    return places


def _are_sizes(found: Iterable[Any]) -> bool:
    return all(type(size) is int and size >= 0 for size in found)


def _no_weights(path: Path, reason: object) -> CheckpointError:
    return CheckpointError(f"{path}: truncated or no safetensors file ({reason})")


def _shape(shape: Any) -> str:
    if shape is None:
        return "absent"
    if not isinstance(shape, list | tuple) or not _are_sizes(shape):
        return "without a shape"
    shown = "x".join(map(str, shape)) or "a number"
    return shown if len(shown) < 100 else f"of {len(shape)} dimensions"
