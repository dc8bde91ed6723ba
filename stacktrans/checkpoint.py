"""Checkpoints: directories with a configuration, weights and, for resuming, the rest.

    config.yaml         the run's configuration
    model.safetensors   the weights
    training.pt         what else a run needs to go on (only in `last/`)

A run's directory holds two, `best/` and `last/`, and stands for its `best/`.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from stacktrans.config import FORMAT, RunConfig
from stacktrans.errors import StacktransError
from stacktrans.files import flush, replacing, write_atomically
from stacktrans.names import CONFIG as CONFIG
from stacktrans.names import WEIGHTS as WEIGHTS
from stacktrans.packaged import shipped
from stacktrans.resolution import resolve
from stacktrans.sequences import Layout
from stacktrans.settings import read_layer
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Task
from stacktrans.transducer import Transducer

TRAINING = "training.pt"


class CheckpointError(StacktransError):
    """A checkpoint can't be read or written; the message says what is wrong with it."""


def save(
    directory: Path,
    config: RunConfig,
    weights: Mapping[str, Tensor],
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint in the place of the one that was there.

    The old one stays whole until the new one is: it is moved aside and deleted
    only then, and `load` finds it where it was moved to.

    Raises:
        CheckpointError: it can't be written; what was there is still there.
    """
    directory = directory.resolve()
    new = directory.with_name(f".{directory.name}.new")
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        write_atomically(new / CONFIG, config.to_yaml())
        with replacing(new / WEIGHTS) as temporary:
            content = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
            temporary.write_bytes(safetensors.torch.save(content))
        if training is not None:
            with replacing(new / TRAINING) as temporary:
                torch.save(dict(training), temporary)
        _swap(new, directory)
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:
        shutil.rmtree(new, ignore_errors=True)
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{directory}: can't write the checkpoint: {reason}") from error


def _swap(new: Path, directory: Path) -> None:
    old = _aside(directory)
    if directory.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(directory, old)
    try:
        os.rename(new, directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(old, directory)
        raise
    flush(directory.parent)
    shutil.rmtree(old, ignore_errors=True)


def _aside(directory: Path) -> Path:
    directory = directory.resolve()
    if not directory.name:
        return directory
    return directory.with_name(f".{directory.name}.old")


@dataclass(frozen=True)
class Checkpoint:
    """A trained model and all that is needed to use it."""

    path: Path
    config: RunConfig
    task: Task
    layout: Layout
    model: Transducer


def locate(name: str | Path) -> Path:
    """The directory that holds the checkpoint which `name` stands for.

    Args:
        name: a checkpoint, a run's directory, or the name of a shipped checkpoint.

    Raises:
        CheckpointError: there is none.
    """
    given = Path(name)
    paths = [given]
    if not given.exists() and given in {Path(given.name), Path("checkpoints") / given.name}:
        paths.append(shipped("checkpoints") / given.name)
    for path in paths:
        for place in (path, path / "best", path / "last"):
            for candidate in (place, _aside(place)):
                if (candidate / WEIGHTS).is_file():
                    return candidate
    if not given.exists():
        available = [path.name for path in sorted(shipped("checkpoints").glob("*/"))]
        raise CheckpointError(
            f"{given}: there is no such checkpoint; shipped are {', '.join(available)}"
        )
    raise CheckpointError(
        f"{name}: not a stacktrans checkpoint; expected a directory with {CONFIG} and {WEIGHTS}"
    )


def load(name: str | Path, device: torch.device) -> Checkpoint:
    """Read a checkpoint and build its model.

    Raises:
        CheckpointError: it is missing, truncated, foreign, or newer than this version.
    """
    path = locate(name)
    config = read_config(path)
    task = make_task(config.task.name, config.task.generator, config.task.parameters)
    layout = task.layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    load_weights(model, path / WEIGHTS)
    return Checkpoint(path, config, task, layout, model.to(device).eval())


def read_config(directory: Path) -> RunConfig:
    """The configuration beside a checkpoint's weights; raises as `load` does."""
    path = directory / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this is not a whole checkpoint")
    layer = read_layer(path)
    found = layer.settings.get("format")
    if not isinstance(found, int):
        raise CheckpointError(f"{path}: no format number; this is not a stacktrans checkpoint")
    if found > FORMAT:
        raise CheckpointError(
            f"{path}: format {found} is newer than this stacktrans reads (up to {FORMAT}); "
            "upgrade stacktrans"
        )
    # What an older version did not have is as its recipe has it.
    return resolve(config=str(path))


def load_weights(model: torch.nn.Module, path: Path) -> None:
    """Fill a model from a safetensors file.

    Raises:
        CheckpointError: the file can't be read, or holds weights of another model.
    """
    try:
        weights = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: truncated or no safetensors file ({error})") from error
    expected = model.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        there = _shape(weights.get(name))
        wanted = _shape(expected.get(name))
        if there != wanted:
            raise CheckpointError(
                f"{path}: weight {name} is {there}; the configuration asks for {wanted}"
            )
        if not weights[name].is_floating_point() or weights[name].isnan().any():
            raise CheckpointError(f"{path}: weight {name} holds what is no number")
    model.load_state_dict(weights)


def _shape(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else "x".join(map(str, tensor.shape)) or "a number"


def load_training(directory: Path) -> dict[str, Any]:
    """What `save` was given as `training`; raises `CheckpointError` if it can't be read."""
    path = directory / TRAINING
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: missing; this run can't be resumed") from error
    except Exception as error:  # torch raises many kinds for a damaged file
        raise CheckpointError(f"{path}: truncated or damaged") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: holds no training state")
    return state


def last_of(run: Path) -> Path:
    """The directory of a run's last checkpoint; raises `CheckpointError` if it has none."""
    for candidate in (run / "last", _aside(run / "last")):
        if (candidate / TRAINING).is_file():
            return candidate
    raise CheckpointError(f"{run}: no run to resume here; expected a directory made by train")
