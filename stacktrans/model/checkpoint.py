"""Checkpoints in use: a trained network, an extracted machine or an ensemble, as a predictor."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import CheckpointError, UsageError, shown
from stacktrans.common.files import CONFIG, MACHINE, WEIGHTS
from stacktrans.common.visible import counted
from stacktrans.decoding.ensemble import Ensemble
from stacktrans.decoding.model import Discretizable, Numbers, Predictor
from stacktrans.memory import Memory, make_memory
from stacktrans.model.checkpoint_files import NO_WEIGHTS, check_complete, locate, read
from stacktrans.model.description import machine_line, model_line
from stacktrans.model.devices import check_device, find_device
from stacktrans.model.weights import load_weights, set_weights, sharpness_of, signal_names
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Task, check_alphabets
from stacktrans.tasks.layout import Layout

if TYPE_CHECKING:
    import torch

    from stacktrans.automata.machine import Machine
    from stacktrans.model.numpy_backend import NumpyModel
    from stacktrans.model.transducer import Transducer


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
            why = "an ensemble has several networks" if self.members else NO_WEIGHTS
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
    config, task, shapes = read(path)
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
    check_complete(path)
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
