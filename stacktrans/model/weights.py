"""The file of a checkpoint's weights: written with metadata, checked, and read without torch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors

from stacktrans.common.errors import CheckpointError, abridged
from stacktrans.common.files import verify_checksum
from stacktrans.common.registry import CONTROLLERS, LazyModule
from stacktrans.common.visible import visible
from stacktrans.decoding.model import Numbers
from stacktrans.memory import Memory, make_memory
from stacktrans.model.units import Units
from stacktrans.settings.model_config import BUFFER_SIGNALS, ModelConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
else:
    torch = LazyModule("torch")

Shapes = dict[str, tuple[int, ...]]
_DTYPES = {"F64", "F32", "F16", "BF16"}
_METADATA = "__metadata__"


def operation_maps(
    memory: Memory[Any], hidden_size: int, config: ModelConfig
) -> dict[str, tuple[int, int]]:
    """The sizes of the maps to signals, those of buffers included, and to the vectors pushed."""
    signals = len(memory.signal_names) + (len(BUFFER_SIGNALS) if config.buffers else 0)
    pushed = memory.pushes * config.memory_size
    maps = {"operation.signals": (hidden_size, signals), "operation.values": (hidden_size, pushed)}
    return {name: sizes for name, sizes in maps.items() if signals and sizes[1]}


def linear_maps(config: ModelConfig, inputs: int, outputs: int) -> dict[str, tuple[int, int]]:
    """The sizes of what goes into and comes out of each linear map but the controller's, by name.

    Args:
        config: the shape of the model.
        inputs: number of input ids.
        outputs: number of output ids.
    """
    memory = make_memory(config)
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    one_hot = config.embedding_size == "one-hot"
    embedded = inputs if one_hot else int(config.embedding_size)
    size = units.size_in(config, embedded, memory.reads * config.memory_size)
    shown = config.output_size if memory.reads else None
    return {
        **({} if one_hot else {"embedding": (inputs, embedded)}),
        **operation_maps(memory, size, config),
        **({"output.0": (size, shown)} if shown else {}),
        "classifier": (shown or size, outputs),
    }


def weight_shapes(config: ModelConfig, inputs: int, outputs: int) -> Shapes:
    """The shapes of the weights of a transducer, by their names; of a controller of this package.

    Arguments are as for `linear_maps`.
    """
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    found: Shapes = {}
    for name, (given, made) in linear_maps(config, inputs, outputs).items():
        if name == "embedding":
            found[f"{name}.weight"] = (given, made)
            continue
        found[f"{name}.weight"] = (made, given)
        if config.controller.biases:
            found[f"{name}.bias"] = (made,)
    if not units.units:
        return found
    embedded = found.get("embedding.weight", (inputs, inputs))[1]
    below = make_memory(config).reads * config.memory_size
    for number in range(config.units.layers):
        for name, shape in units.shapes(config, embedded, below).items():
            found[f"controller.layers.{number}.{name}"] = shape
        below = config.units.hidden_size
    return found


def shapes_of(model: nn.Module) -> Shapes:
    """The shapes of the weights of a torch module, by their names."""
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def serialized(weights: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a file with some weights, by their names, and metadata in its header."""
    from safetensors.torch import save as saved  # waits for torch

    content = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    written = saved(content, dict(metadata))
    end = 8 + int.from_bytes(written[:8], "little")
    # The library writes metadata in an order that changes from process to process.
    header = json.loads(written[8:end])
    header[_METADATA] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + written[end:]


def check_shapes(path: Path, expected: Shapes) -> None:
    """Compare the shapes in a file's header with those of a model; reads nothing else.

    Raises:
        CheckpointError: the file can't be read, or holds weights of another model.
    """
    with _opened(path) as file:
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        for name in sorted(expected.keys() | found.keys()):
            shape = _written(found[name].get_shape() if name in found else None)
            wanted = _written(expected.get(name))
            if shape != wanted:
                message = f"weight {visible(name)} is {shape}; the configuration asks for {wanted}"
                raise CheckpointError(f"{path}: {message}")
            if found[name].get_dtype() not in _DTYPES:
                raise CheckpointError(f"{path}: weight {name} does not hold floating-point numbers")


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model from a file.

    Raises:
        CheckpointError: the file can't be read, is damaged, or holds weights of another model.
    """
    weights = read_weights(path, shapes_of(model))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})


def read_weights(path: Path, expected: Shapes) -> dict[str, Numbers]:
    """The weights in a file, as numbers of 32 bits; raises as `load_weights` does."""
    check_shapes(path, expected)
    with _opened(path) as file:
        weights = {name: _numbers(path, file, name) for name in expected}
    for name, weight in weights.items():
        if not np.isfinite(weight).all():
            raise CheckpointError(f"{path}: weight {name} holds NaN or infinite numbers")
    verify_checksum(path)  # last, since what is wrong with a weight says more
    return weights


def _numbers(path: Path, file: Any, name: str) -> Numbers:
    """A weight of an open file."""
    if file.get_slice(name).get_dtype() != "BF16":
        with np.errstate(all="ignore"):
            numbers: Numbers = file.get_tensor(name).astype(np.float32)
        return numbers
    with safetensors.safe_open(path, "pt") as known:  # numpy has no such numbers
        wide: Numbers = known.get_tensor(name).float().numpy()
    return wide


def metadata_of(path: Path) -> Mapping[str, str]:
    """The metadata of a file; raises `CheckpointError` if it can't be read."""
    with _opened(path) as file:
        return file.metadata() or {}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this is not a whole checkpoint")
    try:
        with safetensors.safe_open(path, "np") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as error:
        reason = visible(str(error))
        raise CheckpointError(f"{path}: truncated or not a safetensors file ({reason})") from error


def _written(shape: Sequence[int] | None) -> str:
    if shape is None:
        return "absent"
    return "x".join(abridged([*map(str, shape)])) or "a number"
