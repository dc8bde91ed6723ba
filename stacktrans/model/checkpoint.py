"""Checkpoints: directories of weights or a machine, saved, located, and loaded as predictors.

    config.yaml         the run's complete configuration
    model.safetensors   the weights
    training.pt         the rest of the state from which a run is resumed (only in `last/`)
    machine.json        in place of weights, the rules of an extracted machine
    SHA256SUMS          checksums of these, which are verified when they are read
    README.md           a model card (once the run has ended)

A run's directory has two, `best/` and `last/`, and its name stands for its `best/`.
"""

from __future__ import annotations

import functools
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import CheckpointError as CheckpointError
from stacktrans.common.errors import (
    NoSuchCheckpoint,
    UsageError,
    did_you_mean,
    is_out_of_memory,
    shown,
)
from stacktrans.common.files import CONFIG as CONFIG
from stacktrans.common.files import (
    MACHINE,
    SUMS,
    backup_path,
    checksum_lines,
    is_checkpoint,
    is_race,
    real_path,
    replace_directory,
    verify_checksum,
)
from stacktrans.common.files import WEIGHTS as WEIGHTS
from stacktrans.common.registry import LazyModule
from stacktrans.common.visible import counted, shell_text
from stacktrans.decoding.ensemble import Ensemble
from stacktrans.decoding.model import Discretizable, Numbers, Predictor
from stacktrans.memory import Memory, make_memory
from stacktrans.model.description import machine_line, model_line
from stacktrans.model.devices import check_device, find_device
from stacktrans.model.weights import (
    Shapes,
    check_origins,
    check_shapes,
    has_known_shapes,
    load_weights,
    metadata_for,
    serialize,
    set_weights,
    shapes_of,
    sharpness_of,
    signal_names,
    weight_shapes,
)
from stacktrans.settings.config import FORMAT, RunConfig
from stacktrans.settings.layers import read_layer
from stacktrans.settings.locations import shipped
from stacktrans.settings.model_config import ModelConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Task, check_alphabets
from stacktrans.tasks.layout import Layout

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.automata.machine import Machine
    from stacktrans.model.numpy_backend import NumpyModel
    from stacktrans.model.transducer import Transducer
else:
    torch = LazyModule("torch")


TRAINING = "training.pt"
CARD = "README.md"
_NO_WEIGHTS = "a machine has no weights to be trained or changed"


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
        contents[CARD] = card.encode()
    replace_directory(real_path(directory), contents)


@dataclass(frozen=True)
class Checkpoint:
    """A trained model, an extracted machine, or an ensemble, with its task and configuration.

    Attributes:
        path: its directory.
        config: of its run.
        task: its task.
        layout: of the task.
        weights: by their names; empty for a machine.
        device: where the model is run: auto, cpu, cuda, ...; auto is the processor if there is
            compiled code for the model.
        hard: whether signals of a network are rounded to 0 or 1.
        threads: the number of batches that are run at the same time.
        machine: the machine; None for a model with weights.
        sharpness: see `Transducer.sharpness`.
        members: the models of an ensemble, whose other attributes are those of the first; empty for
            a single model.
    """

    path: Path
    config: RunConfig
    task: Task
    layout: Layout
    weights: Mapping[str, Numbers] = field(repr=False)
    device: str = "auto"
    hard: bool = False
    threads: int = 1
    machine: Machine | None = None
    sharpness: float = 1.0
    members: Sequence[Checkpoint] = ()

    @functools.cached_property
    def memory(self) -> Memory[Any]:
        """The model's memory."""
        return make_memory(self.config.model)

    @property
    def description(self) -> str:
        """The network, the machine, or the number of models of an ensemble, in one line."""
        if self.members:
            return f"{self.config.task.name}: ensemble of {counted(len(self.members), 'model')}"
        return machine_line(self.machine) if self.machine else model_line(self.config)

    @property
    def signal_names(self) -> tuple[str, ...]:
        """Names of the signals of memory and buffers."""
        return signal_names(self.memory, self.config.model)

    @property
    def machine_attributes(self) -> dict[str, Any]:
        """The attributes of a `Machine` of this model that its configuration determines.

        The memories are None if they can't be those of a machine.
        """
        from stacktrans.automata.rules import Buffers  # rarely needed

        task, buffers = self.task, self.config.model.buffers
        ends = None if self.memory.capacity else self.memory.ends
        return {
            "task": self.config.task.name,
            "source": task.source.symbols,
            "target": task.target.symbols,
            "words": (task.source.words, task.target.words),
            "memories": ends and ends._replace(signal_names=self.signal_names),
            "buffers": buffers and Buffers(**buffers.model_dump()),
            "layout": self.layout,
        }

    @functools.cached_property
    def model(self) -> Transducer:
        """The model as a torch module.

        Raises:
            CheckpointError: the checkpoint is a machine or an ensemble.
        """
        if self.machine or self.members:
            why = "an ensemble has several networks" if self.members else _NO_WEIGHTS
            raise CheckpointError(f"{self.path}: {why}")
        from stacktrans.model.transducer import Transducer  # imports torch

        model = Transducer(self.config.model, self.layout.inputs, self.layout.outputs)
        set_weights(model, self.weights)
        model.hard = self.hard
        model.sharpness = self.sharpness
        # A model for which there is compiled code stays where that runs.
        device = "cpu" if self.device == "auto" and self._compiled else self.device
        return model.to(find_device(device)).eval()

    @property
    def current_weights(self) -> Mapping[str, Numbers]:
        """The weights of the module, which may have changed; without one, those that were read."""
        if "model" not in vars(self):
            return self.weights
        from stacktrans.model.torch_backend import as_numbers  # imports torch

        return {name: as_numbers(weight) for name, weight in self.model.state_dict().items()}

    @property
    def predictor(self) -> Discretizable:
        """A predictor of the model, or of an ensemble's models, with the current weights."""
        if self.members:
            return Ensemble([member.predictor for member in self.members])
        return self.tracing_predictor

    @property
    def tracing_predictor(self) -> Predictor:
        """A predictor that shows the contents of its memory after each step.

        Raises:
            UsageError: the checkpoint is an ensemble.
        """
        if self.members:
            raise UsageError("an ensemble has no trace; its models have one each")
        if self.machine:
            from stacktrans.model.machine_backend import MachineModel  # rarely needed

            return MachineModel(self.config.model, self.machine)
        if "model" not in vars(self) and self._compiled:
            return self._compiled
        from stacktrans.model.torch_backend import predictor_of  # imports torch

        return predictor_of(self.model)

    @functools.cached_property
    def _compiled(self) -> NumpyModel | None:
        """The weights that were read in the numpy backend; None if torch has to run them."""
        from stacktrans.model.numpy_backend import from_weights  # not needed by all commands

        model = self.config.model
        if model.kernel == "torch" or self.device not in ("auto", "cpu"):
            return None
        return from_weights(model, self.weights, self.layout.inputs, self.hard, self.threads)


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


def load(
    name: str | Path, device: str | torch.device = "cpu", hard: bool = False, threads: int = 1
) -> Checkpoint:
    """Read a checkpoint; arguments are the attributes of `Checkpoint`.

    Raises:
        CheckpointError: it is missing, damaged, foreign, or of another format.
        UsageError: the device is not available.
    """
    check_device(str(device))
    path = locate(name)
    if (path / MACHINE).is_file():
        return _load_machine(path)
    config, task, shapes = _read(path)
    weights = load_weights(path / WEIGHTS, shapes)
    sharpness = sharpness_of(path / WEIGHTS)
    return Checkpoint(
        path, config, task, task.layout, weights, str(device), hard, threads, sharpness=sharpness
    )


def ensemble_of(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Several models as one, whose probability of each output is the mean of theirs.

    Raises:
        UsageError: there are none, one has buffers, or their alphabets or layouts differ.
    """
    if not checkpoints:
        raise UsageError("an ensemble needs at least one model")
    first = checkpoints[0]
    for each in checkpoints:
        if each.config.model.buffers:
            raise UsageError(f"{each.path}: a model with buffers cannot be part of an ensemble")
        check_alphabets(first.task, each.task, str(each.path))
        if each.layout != first.layout:  # as with backwards, or padded pairs
            raise UsageError(f"{each.path}: the layout is not that of {first.path}")
    hard = all(each.hard for each in checkpoints)
    return replace(first, weights={}, machine=None, hard=hard, members=checkpoints)


def _load_machine(path: Path) -> Checkpoint:
    """Read the checkpoint of a machine; raises `CheckpointError`."""
    from stacktrans.automata.machine_file import check_symbols, read_machine  # rarely needed

    machine = read_machine(path / MACHINE)
    _check_complete(path)
    config = resolve(config=str(path / CONFIG))
    task = config.make_task()
    checkpoint = Checkpoint(path, config, task, task.layout, {}, machine=machine)
    for name, required in checkpoint.machine_attributes.items():
        given = getattr(machine, name)
        if given != required:
            key, given, required = _first_difference(name, given, required)
            difference = f"{shown(given)}, but {CONFIG} requires {shown(required)}"
            raise CheckpointError(f"{path / MACHINE}: {key} is {difference}")
    try:
        check_symbols(machine)
    except ValueError as error:
        raise CheckpointError(f"{path / MACHINE}: not a machine: {error}") from error
    return replace(checkpoint, machine=replace(machine, layout=task.layout))


def _first_difference(key: str, given: Any, required: Any) -> tuple[str, Any, Any]:
    """The path of the first part in which two unequal values differ, and the part in both."""
    parts, others = _named_parts(given), _named_parts(required)
    if parts.keys() == others.keys():
        for name, part in parts.items():
            if part != others[name]:
                return _first_difference(f"{key}.{name}", part, others[name])
    return key, given, required


def _named_parts(value: Any) -> dict[Any, Any]:
    """The fields of a layout or the items of a tuple, by names or indices; none of others."""
    if is_dataclass(value):
        return vars(value)
    if isinstance(value, tuple):
        return dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    return {}


def read_config(directory: Path) -> RunConfig:
    """A checkpoint's configuration, which fits its weights; raises `CheckpointError`."""
    return _read(directory)[0]


def _read(directory: Path) -> tuple[RunConfig, Task, Shapes]:
    _check_complete(directory)
    path = directory / WEIGHTS
    if (directory / MACHINE).is_file():
        raise CheckpointError(f"{directory}: {_NO_WEIGHTS}")
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


def _check_complete(directory: Path) -> None:
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
    _check_complete(directory)
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


def last_checkpoint(run: Path) -> Path:
    """The directory of a run's last checkpoint; raises `CheckpointError` if it has none."""
    for candidate in (run / "last", backup_path(run / "last")):
        if (candidate / TRAINING).is_file():
            return candidate
    raise CheckpointError(f"{run}: no run to resume here; expected a directory made by train")
