"""Checkpoints as directories of files: written, located, read and checked.

    config.yaml         the run's complete configuration
    model.safetensors   the weights
    training.pt         the rest of the state from which a run is resumed (only in `last/`)
    machine.json        in place of weights, the rules of an extracted machine
    SHA256SUMS          checksums of these, which are verified when they are read
    README.md           a model card (once the run has ended)

A run's directory has two, `best/` and `last/`, and its name stands for its `best/`.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import (
    CheckpointError,
    NoSuchCheckpoint,
    UsageError,
    did_you_mean,
    is_out_of_memory,
    shown,
)
from stacktrans.common.files import (
    CONFIG,
    MACHINE,
    SUMS,
    WEIGHTS,
    backup_path,
    checksum_lines,
    is_checkpoint,
    is_race,
    real_path,
    replace_directory,
    verify_checksum,
)
from stacktrans.common.registry import LazyModule
from stacktrans.common.visible import shell_text
from stacktrans.model.weights import (
    Shapes,
    check_origins,
    check_shapes,
    has_known_shapes,
    metadata_for,
    serialize,
    shapes_of,
    weight_shapes,
)
from stacktrans.settings.config import FORMAT, RunConfig
from stacktrans.settings.layers import read_layer
from stacktrans.settings.locations import shipped
from stacktrans.settings.model_config import ModelConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Layout

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.automata.machine import Machine
else:
    torch = LazyModule("torch")

TRAINING = "training.pt"
_CARD = "README.md"
NO_WEIGHTS = "a machine has no weights to be trained or changed"


def save(
    directory: Path,
    config: RunConfig,
    weights: Mapping[str, Tensor],
    training: Mapping[str, Any] | None = None,
    *,
    accuracy: Mapping[str, Any] | None = None,
    card: str | None = None,
    sharpness: float = 1.0,
) -> None:
    """Write a checkpoint, replacing an older one.

    The older one is moved aside, where `load` finds it, and deleted once the new one is complete.

    Args:
        directory: where to write.
        config: of the run.
        weights: by their names.
        training: the rest of the state from which the run is resumed.
        accuracy: of the weights, if known, for the header of their file.
        card: the model card, in Markdown.
        sharpness: of the model.

    Raises:
        CheckpointError: it can't be written; the older one is kept.
    """
    contents = {
        CONFIG: config.to_yaml().encode(),
        WEIGHTS: serialize(weights, metadata_for(config, accuracy, sharpness)),
    }
    if training is not None:
        # Not to a file: torch does not report a full disk.
        buffer = io.BytesIO()
        torch.save(dict(training), buffer)
        contents[TRAINING] = buffer.getvalue()
    _write(directory, contents, card)


def save_machine(directory: Path, config: RunConfig, machine: Machine, card: str) -> None:
    """Write the checkpoint of a machine; raises `CheckpointError` if it can't be written."""
    from stacktrans.automata.machine_file import machine_json  # rarely needed

    contents = {CONFIG: config.to_yaml().encode(), MACHINE: machine_json(machine).encode()}
    _write(directory, contents, card)


def _write(directory: Path, contents: dict[str, bytes], card: str | None) -> None:
    """Write files to a directory, with their checksums and a model card."""
    contents[SUMS] = checksum_lines(contents).encode()
    if card is not None:
        contents[_CARD] = card.encode()
    replace_directory(real_path(directory), contents)


def locate(name: str | Path) -> Path:
    """The directory of the checkpoint of a name.

    Args:
        name: a checkpoint, a run's directory, or the name of a shipped checkpoint.

    Raises:
        NoSuchCheckpoint: there is nothing of this name.
        CheckpointError: what is there is no checkpoint.
    """
    given = Path(name)
    if not str(name):  # an unset variable of a shell
        raise NoSuchCheckpoint("the name of a checkpoint is empty")
    try:
        os.stat(given)
    except FileNotFoundError:
        pass
    except ValueError as error:  # a name with a NUL
        raise NoSuchCheckpoint(f"{shown(str(name))}: not the name of a checkpoint") from error
    except OSError as error:
        raise NoSuchCheckpoint(f"{shown(str(name))}: {error.strerror}") from error
    paths = [given]
    if not given.exists() and given in {Path(given.name), Path("checkpoints") / given.name}:
        paths.append(shipped("checkpoints") / given.name)
    for path in paths:
        for directory in (path, path / "best", path / "last"):
            for candidate in (directory, backup_path(directory)):
                if is_checkpoint(candidate):
                    return candidate
    if not given.exists():
        trained = Path("checkpoints") / given
        if trained.is_dir():
            suggestion = shell_text([str(trained)])
            raise NoSuchCheckpoint(f"{given}: no such checkpoint; did you mean {suggestion}?")
        available = [path.name for path in sorted(shipped("checkpoints").glob("*/"))]
        hint = did_you_mean(given.name, available) or f"; shipped are {', '.join(available)}"
        raise NoSuchCheckpoint(f"{given}: no such checkpoint{hint}")
    if is_race(given):
        from stacktrans.settings.command import resume_command

        resume = shell_text(resume_command(given))
        raise CheckpointError(f"{name}: an unfinished race of strategies; resume it with: {resume}")
    raise CheckpointError(
        f"{name}: not a stacktrans checkpoint; expected a directory with {CONFIG} and "
        f"{WEIGHTS} or {MACHINE}"
    )


def last_checkpoint(run: Path) -> Path:
    """The directory of a run's last checkpoint; raises `CheckpointError` if it has none."""
    for candidate in (run / "last", backup_path(run / "last")):
        if (candidate / TRAINING).is_file():
            return candidate
    raise CheckpointError(f"{run}: no run to resume here; expected a directory made by train")


def read_config(directory: Path) -> RunConfig:
    """A checkpoint's configuration, which fits its weights; raises `CheckpointError`."""
    return read(directory)[0]


def read(directory: Path) -> tuple[RunConfig, Task, Shapes]:
    """A network's configuration, its task, and the shapes of its weights, as their file has them.

    Raises `CheckpointError` if the checkpoint is damaged, or is a machine.
    """
    check_complete(directory)
    path = directory / WEIGHTS
    if (directory / MACHINE).is_file():
        raise CheckpointError(f"{directory}: {NO_WEIGHTS}")
    check_origins(path)
    config = resolve(config=str(directory / CONFIG))
    task = config.make_task()
    # Shapes are checked first: a wrong configuration may be of a model too large for any machine.
    try:
        shapes = _shapes(config.model, task.layout)
    except UsageError as error:
        message = f"not the weights that the configuration requires: {error}"
        raise CheckpointError(f"{path}: {message}") from error
    check_shapes(path, shapes)
    return config, task, shapes


def _shapes(config: ModelConfig, layout: Layout) -> Shapes:
    """The shapes of the weights of a model; raises `UsageError` if it is too large to count."""
    if has_known_shapes(config):
        return weight_shapes(config, layout.inputs, layout.outputs)
    from stacktrans.model.transducer import meta_transducer  # imports torch

    return shapes_of(meta_transducer(config, layout.inputs, layout.outputs))


def check_complete(directory: Path) -> None:
    """Raise `CheckpointError` unless there is an undamaged configuration of this format."""
    path = directory / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; the checkpoint is incomplete")
    try:
        format_number = read_layer(path).settings.get("format")
    except UsageError:
        verify_checksum(path)
        raise
    if type(format_number) is not int:
        verify_checksum(path)
        raise CheckpointError(f"{path}: no format number; this is not a stacktrans checkpoint")
    if format_number != FORMAT:
        message = f"format {format_number}; this stacktrans reads format {FORMAT}"
        raise CheckpointError(f"{path}: {message}")
    if not (directory / SUMS).is_file():
        raise CheckpointError(f"{directory / SUMS}: missing; the checkpoint is incomplete")
    verify_checksum(path)


def load_training(directory: Path) -> dict[str, Any]:
    """The training state in a checkpoint; raises `CheckpointError` if it can't be read."""
    path = directory / TRAINING
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this run can't be resumed")
    check_complete(directory)
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > path.stat().st_size:
                raise ValueError("compressed, which torch never does")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for a damaged file
        if is_out_of_memory(error):
            raise
        raise CheckpointError(f"{path}: truncated or damaged") from error
    verify_checksum(path)
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: has no training state")
    return state
