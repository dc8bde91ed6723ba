"""Names and shapes of weights; safetensors files, with metadata, written, checked and read."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors

from stacktrans.common.errors import CheckpointError, UsageError, abridged, shown
from stacktrans.common.files import verify_checksum
from stacktrans.common.reading import parse_json
from stacktrans.common.registry import CONTROLLERS, REGISTRIES, LazyModule
from stacktrans.common.visible import visible
from stacktrans.decoding.model import Numbers
from stacktrans.memory import Memory, make_memory
from stacktrans.model.units import Units
from stacktrans.settings.model_config import BUFFER_SIGNALS, ModelConfig
from stacktrans.settings.values import MAX_SINGLE, MIN_SINGLE

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from stacktrans.settings.config import RunConfig
else:
    torch = LazyModule("torch")

Shapes = dict[str, tuple[int, ...]]
_DTYPES = {"F64", "F32", "F16", "BF16"}
_METADATA = "__metadata__"
ORIGINS = "origins"
"""The metadata key of the plugins that define the model."""
SHARPNESS = "sharpness"
"""The metadata key of `Transducer.sharpness`."""


def signal_names(memory: Memory[Any], config: ModelConfig) -> tuple[str, ...]:
    """The names of the signals of a memory, then of those of the buffers of a model."""
    return (*memory.signal_names, *(BUFFER_SIGNALS if config.buffers else ()))


def operation_sizes(
    memory: Memory[Any], hidden_size: int, config: ModelConfig
) -> dict[str, tuple[int, int]]:
    """Input and output sizes of the linear maps to all signals and to the vectors pushed.

    Raises:
        UsageError: the memory pushes vectors, but has no signals.
    """
    if memory.pushes and not memory.signal_names:
        raise UsageError(f"memory {memory.name}: pushes vectors; expected signal_names")
    signals = len(signal_names(memory, config))
    pushed = memory.pushes * config.memory_size
    maps = {"operation.signals": (hidden_size, signals), "operation.values": (hidden_size, pushed)}
    return {name: sizes for name, sizes in maps.items() if signals and sizes[1]}


def linear_sizes(config: ModelConfig, inputs: int, outputs: int) -> dict[str, tuple[int, int]]:
    """Input and output sizes of all linear maps but the controller's, by their names.

    Args:
        config: of the model.
        inputs: number of input ids.
        outputs: number of output ids.
    """
    memory = make_memory(config)
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    one_hot = config.embedding_size == "one-hot"
    embedding_size = inputs if one_hot else int(config.embedding_size)
    size = units.hidden_size_for(config, embedding_size, memory.reads * config.memory_size)
    output_size = config.output_size if memory.reads else None
    return {
        **({} if one_hot else {"embedding": (inputs, embedding_size)}),
        **operation_sizes(memory, size, config),
        **({"output.0": (size, output_size)} if output_size else {}),
        "classifier": (output_size or size, outputs),
    }


def has_known_shapes(config: ModelConfig) -> bool:
    """Whether `weight_shapes` knows the weights of a model: those of built-in units."""
    return config.controller.name in CONTROLLERS.builtin and not config.encoder_decoder


def weight_shapes(config: ModelConfig, inputs: int, outputs: int) -> Shapes:
    """The shapes of all weights of a transducer with built-in units, by their names.

    As in torch, the output size of a linear map comes first. The arguments are those of
    `linear_sizes`.
    """
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    maps = linear_sizes(config, inputs, outputs)
    embedding = maps.pop("embedding", None)
    shapes: Shapes = {"embedding.weight": embedding} if embedding else {}
    for name, (size_in, size_out) in maps.items():
        shapes[f"{name}.weight"] = (size_out, size_in)
        if config.controller.biases:
            shapes[f"{name}.bias"] = (size_out,)
    if not units.has_units:
        return shapes
    _, embedding_size = embedding or (inputs, inputs)
    below_size = make_memory(config).reads * config.memory_size
    for number in range(config.units.layers):
        for name, shape in units.shapes(config, embedding_size, below_size).items():
            shapes[f"controller.layers.{number}.{name}"] = shape
        below_size = config.units.hidden_size
    return shapes


def shapes_of(model: nn.Module) -> Shapes:
    """The shapes of the weights of a torch module, by their names."""
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def metadata_for(
    config: RunConfig, accuracy: Mapping[str, Any] | None, sharpness: float
) -> dict[str, str]:
    """The metadata of weights: task, version, configuration, accuracy, sharpness and plugins."""
    entries = {
        "task": config.task.name,
        "version": config.version,
        "configuration": config.identity(),
    }
    if accuracy:
        entries["accuracy"] = json.dumps(accuracy)
    if sharpness != 1:
        entries[SHARPNESS] = json.dumps(sharpness)
    model = config.model
    names = (model.memory.name, model.controller.name, config.task.generator)
    origins = {
        registry.kind: {name: origin}
        for registry, name in zip(REGISTRIES, names, strict=True)
        if (origin := registry.origin(name))
    }
    if origins:
        entries[ORIGINS] = json.dumps(origins)
    return entries


def serialize(weights: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a safetensors file with named weights, and metadata in its header."""
    from safetensors.torch import save  # imports torch

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    content = save(tensors, dict(metadata))
    end = 8 + int.from_bytes(content[:8], "little")
    # The library writes metadata in an order that changes from process to process.
    header = json.loads(content[8:end])
    header[_METADATA] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


def check_shapes(path: Path, expected: Shapes) -> None:
    """Compare the shapes in a file's header with those of a model, without reading weights.

    Raises:
        CheckpointError: the file can't be read, or contains weights of another model.
    """
    with _opened(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        for name in sorted(expected.keys() | slices.keys()):
            shape = _shape_text(slices[name].get_shape() if name in slices else None)
            wanted = _shape_text(expected.get(name))
            if shape != wanted:
                message = f"weight {visible(name)} is {shape}; the configuration requires {wanted}"
                raise CheckpointError(f"{path}: {message}")
            if slices[name].get_dtype() not in _DTYPES:
                raise CheckpointError(f"{path}: weight {name} has no floating-point numbers")


def set_weights(model: nn.Module, weights: Mapping[str, Numbers]) -> None:
    """Set all weights of a torch module, by their names."""
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})


def load_weights(path: Path, expected: Shapes) -> dict[str, Numbers]:
    """The weights in a file as float32.

    Raises:
        CheckpointError: the file can't be read, is damaged, or contains weights of another model.
    """
    check_shapes(path, expected)
    with _opened(path) as file:
        weights = {name: _numbers(path, file, name) for name in expected}
    for name, weight in weights.items():
        if not np.isfinite(weight).all():
            raise CheckpointError(f"{path}: weight {name} has NaN or infinite numbers")
    verify_checksum(path)  # last, since other errors say more
    return weights


def _numbers(path: Path, file: Any, name: str) -> Numbers:
    """A weight of an open file, as float32."""
    if file.get_slice(name).get_dtype() != "BF16":
        with np.errstate(all="ignore"):
            numbers: Numbers = file.get_tensor(name).astype(np.float32)
        return numbers
    with safetensors.safe_open(path, "pt") as torch_file:  # numpy has no bfloat16
        widened: Numbers = torch_file.get_tensor(name).float().numpy()
    return widened


def _metadata_of(path: Path) -> Mapping[str, str]:
    """The metadata of a file; raises `CheckpointError` if it can't be read."""
    with _opened(path) as file:
        return file.metadata() or {}


def sharpness_of(path: Path) -> float:
    """The sharpness in the metadata of weights; raises `CheckpointError` if it can't be one."""
    text = _metadata_of(path).get(SHARPNESS, "1")
    try:
        sharpness = float(text)
    except (TypeError, ValueError):
        sharpness = math.nan
    if not MIN_SINGLE <= sharpness <= MAX_SINGLE:
        expected = f"expected a number from {MIN_SINGLE} to {MAX_SINGLE}"
        raise CheckpointError(f"{path}: {SHARPNESS} is {shown(text)}; {expected}")
    return sharpness


def check_origins(path: Path) -> None:
    """Raise `UsageError` if the model of some weights needs plugins that are not loaded."""
    try:
        origins = parse_json(_metadata_of(path).get(ORIGINS, "{}"))
        named = [
            (name, str(origin), kind)
            for kind in REGISTRIES
            for name, origin in origins.get(kind.kind, {}).items()
        ]
    except (AttributeError, TypeError, ValueError):  # of other metadata than `save` writes
        return
    for name, origin, registry in named:
        if name not in registry:
            state = "loaded" if origin.startswith("plugin ") else "installed"
            part = f"{registry.kind} {visible(name)}"
            raise UsageError(f"{path}: {part} is from {visible(origin)}, which is not {state}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; the checkpoint is incomplete")
    try:
        with safetensors.safe_open(path, "np") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as error:
        reason = visible(str(error))
        raise CheckpointError(f"{path}: truncated or not a safetensors file ({reason})") from error


def _shape_text(shape: Sequence[int] | None) -> str:
    """A shape as errors name it, such as 3x4."""
    if shape is None:
        return "absent"
    return "x".join(abridged([*map(str, shape)])) or "a number"
