"""Checkpoints: directories with a configuration, weights and, for resuming, the rest.

    config.yaml         the run's configuration, whole
    model.safetensors   the weights
    training.pt         what else a run needs to be resumed (only in `last/`)
    machine.json        instead of weights, the rules of a machine that was extracted
    SHA256SUMS          checksums of these, which are checked when they are read
    README.md           a model card (once the run has ended)

A run's directory holds two, `best/` and `last/`, and stands for its `best/`. Checkpoints of format
1 have no checksums.
"""

from __future__ import annotations

import functools
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import CheckpointError as CheckpointError
from stacktrans.common.errors import UsageError, shown
from stacktrans.common.files import CONFIG as CONFIG
from stacktrans.common.files import (
    MACHINE,
    SUMS,
    backup_path,
    checksum_lines,
    is_checkpoint,
    is_race,
    verify_checksum,
    write_whole,
)
from stacktrans.common.files import WEIGHTS as WEIGHTS
from stacktrans.common.reading import parsed_json
from stacktrans.common.registry import CONTROLLERS, REGISTRIES, LazyModule, resume_command
from stacktrans.common.visible import shell_text
from stacktrans.decoding.model import Numbers, Predictor
from stacktrans.memory import Memory, make_memory
from stacktrans.model.devices import check_device, find_device
from stacktrans.model.weights import (
    Shapes,
    check_shapes,
    metadata_of,
    read_weights,
    serialized,
    shapes_of,
    weight_shapes,
)
from stacktrans.settings.config import FORMAT, RunConfig
from stacktrans.settings.layers import read_layer
from stacktrans.settings.model_config import BUFFER_SIGNALS, ModelConfig
from stacktrans.settings.packaged import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Layout

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.automata.machine import Machine
    from stacktrans.model.transducer import Transducer
else:
    torch = LazyModule("torch")


TRAINING = "training.pt"
CARD = "README.md"
_NO_WEIGHTS = "a machine has no weights to be trained or changed"

ORIGINS = "origins"
"""The key, of the plugins that the model is made with."""
SHARPNESS = "sharpness"
"""The key there of the factor by which signals were made nearer to 0 or 1."""


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
    """Write a checkpoint in the place of the one that was there.

    The old one stays whole until the new one is: it is moved aside and deleted
    only then, and `load` finds it where it was moved to.

    Args:
        directory: where.
        config: of the run.
        weights: by their names.
        training: what else is needed to resume the run.
        accuracy: of the weights, if known, for the header of their file.
        card: the model card, in Markdown.
        sharpness: of the model.

    Raises:
        CheckpointError: it can't be written; what was there is still there.
    """
    contents = {
        CONFIG: config.to_yaml().encode(),
        WEIGHTS: serialized(weights, metadata(config, accuracy, sharpness)),
    }
    if training is not None:
        # Not into a file: of a full disk torch does not tell.
        buffer = io.BytesIO()
        torch.save(dict(training), buffer)
        contents[TRAINING] = buffer.getvalue()
    contents[SUMS] = checksum_lines(contents).encode()
    if card is not None:
        contents[CARD] = card.encode()
    write_whole(directory.resolve(), contents)


@dataclass(frozen=True)
class Checkpoint:
    """A trained model and all that is needed to use it.

    Attributes:
        path: where it is.
        config: of its run.
        task: its task.
        layout: of the task.
        weights: by their names.
        device: where the model is run: auto, cpu, cuda, ...; where there is compiled code for it,
            auto is the processor.
        hard: whether signals are made 0 or 1.
        threads: how many parts of a batch are run at the same time.
        machine: what it is instead of a model with weights; None if it is one.
        sharpness: the factor by which its signals were made nearer to 0 or 1.
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

    @functools.cached_property
    def memory(self) -> Memory[Any]:
        """The model's memory."""
        return make_memory(self.config.model)

    @property
    def signal_names(self) -> tuple[str, ...]:
        """Names of the model's signals."""
        of_buffers = BUFFER_SIGNALS if self.config.model.buffers else ()
        return (*self.memory.signal_names, *of_buffers)

    @property
    def machine_attributes(self) -> dict[str, Any]:
        """The attributes of a `Machine` of this model that its configuration determines."""
        from stacktrans.model.machine_backend import buffers_of, memories_of  # of few checkpoints

        task = self.task
        return {
            "task": self.config.task.name,
            "source": task.source.symbols,
            "target": task.target.symbols,
            "words": (task.source.words, task.target.words),
            "memories": memories_of(self.memory, self.signal_names),
            "buffers": buffers_of(self.config.model),
            "layout": self.layout,
        }

    @functools.cached_property
    def model(self) -> Transducer:
        """The model as a torch module.

        Raises:
            CheckpointError: it is a machine.
        """
        if self.machine:
            raise CheckpointError(f"{self.path}: {_NO_WEIGHTS}")
        from stacktrans.model.transducer import Transducer  # waits for torch

        model = Transducer(self.config.model, self.layout.inputs, self.layout.outputs)
        model.load_state_dict({name: torch.from_numpy(each) for name, each in self.weights.items()})
        model.hard = self.hard
        model.sharpness = self.sharpness
        return model.to(find_device(self.device)).eval()

    @property
    def current_weights(self) -> Mapping[str, Numbers]:
        """The weights that it has now, if somebody has the module and has changed it."""
        if "model" not in vars(self):
            return self.weights
        return {name: each.detach().cpu().numpy() for name, each in self.model.state_dict().items()}

    @property
    def predictor(self) -> Predictor:
        """What runs the model; with the weights that it has now, if somebody has the module."""
        if self.machine:
            from stacktrans.model.machine_backend import MachineModel  # of few checkpoints

            return MachineModel(self.config.model, self.machine)
        return self._of_module() if "model" in vars(self) else self._of_weights

    def _of_module(self) -> Predictor:
        from stacktrans.model.torch_backend import predictor_of  # waits for torch

        return predictor_of(self.model)

    @functools.cached_property
    def _of_weights(self) -> Predictor:
        from stacktrans.model.numpy_backend import from_weights  # which not every command needs

        model, wanted = self.config.model, self.config.model.kernel
        known = model.controller.name in CONTROLLERS.builtin
        if known and self.device in ("auto", "cpu") and wanted != "torch":
            found = from_weights(model, self.weights, self.layout.inputs, self.hard, self.threads)
            if found:
                return found
        return self._of_module()

    @property
    def tracing_predictor(self) -> Predictor:
        """A predictor that shows the contents of its memory after each step."""
        predictor = self.predictor
        if self.machine:
            return predictor
        from stacktrans.model.numpy_backend import NumpyModel  # which not every command needs

        if isinstance(predictor, NumpyModel) and not predictor.shows_memory:
            from stacktrans.model.torch_backend import TorchModel  # waits for torch

            return TorchModel(self.model, self.hard)
        return predictor


def locate(name: str | Path) -> Path:
    """The directory that holds the checkpoint which `name` stands for.

    Args:
        name: a checkpoint, a run's directory, or the name of a shipped checkpoint.

    Raises:
        CheckpointError: there is none.
    """
    given = Path(name)
    try:
        os.stat(given)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # too long a name, or one with a NUL
        raise CheckpointError(f"{shown(str(name))}: not the name of a checkpoint") from error
    paths = [given]
    if not given.exists() and given in {Path(given.name), Path("checkpoints") / given.name}:
        paths.append(shipped("checkpoints") / given.name)
    for path in paths:
        for place in (path, path / "best", path / "last"):
            for candidate in (place, backup_path(place)):
                if is_checkpoint(candidate):
                    return candidate
    if not given.exists():
        own = Path("checkpoints") / given
        if own.is_dir():
            raise CheckpointError(
                f"{given}: no such checkpoint; did you mean {shell_text([str(own)])}?"
            )
        available = [path.name for path in sorted(shipped("checkpoints").glob("*/"))]
        raise CheckpointError(f"{given}: no such checkpoint; shipped are {', '.join(available)}")
    if is_race(given):
        resume = shell_text(resume_command(given))
        raise CheckpointError(
            f"{name}: a race of strategies that is not over; resume it with: {resume}"
        )
    raise CheckpointError(
        f"{name}: not a stacktrans checkpoint; expected a directory with {CONFIG} and {WEIGHTS}"
    )


def load(
    name: str | Path, device: str | torch.device = "cpu", hard: bool = False, threads: int = 1
) -> Checkpoint:
    """Read a checkpoint; arguments are those of `Checkpoint`.

    Raises:
        CheckpointError: it is missing, damaged, foreign, or newer than this version.
        UsageError: the device can't be used here.
    """
    check_device(str(device))
    path = locate(name)
    if (path / MACHINE).is_file():
        return _load_machine(path, threads)
    config, task, shapes = _read(path)
    weights = read_weights(path / WEIGHTS, shapes)
    sharpness = sharpness_of(path / WEIGHTS)
    return Checkpoint(
        path, config, task, task.layout, weights, str(device), hard, threads, sharpness=sharpness
    )


def _load_machine(path: Path, threads: int) -> Checkpoint:
    """Read a checkpoint that is a machine; raises as `load` does."""
    from stacktrans.automata.machine import read_machine  # of few checkpoints

    machine = read_machine(path / MACHINE)
    _check_whole(path)
    config = resolve(config=str(path / CONFIG))
    task = config.make_task()
    layout = task.layout
    found = Checkpoint(path, config, task, layout, {}, hard=True, threads=threads, machine=machine)
    facts = {key: (getattr(machine, key), fact) for key, fact in found.machine_attributes.items()}
    for name, (own, expected) in facts.items():
        if own != expected:
            key, own, expected = _first_difference(name, own, expected)
            raise CheckpointError(
                f"{path / MACHINE}: {key} is {shown(own)}, but {CONFIG} requires {shown(expected)}"
            )
    return found


def _first_difference(key: str, own: Any, expected: Any) -> tuple[str, Any, Any]:
    """The first part in which two unequal values differ, by its path, and what it is in both."""
    parts, others = _named_parts(own), _named_parts(expected)
    if parts.keys() == others.keys():
        for name, part in parts.items():
            if part != others[name]:
                return _first_difference(f"{key}.{name}", part, others[name])
    return key, own, expected


def _named_parts(value: Any) -> dict[Any, Any]:
    """The parts of a tuple or a layout, by their names or numbers; none of other values."""
    if is_dataclass(value):
        return vars(value)
    if isinstance(value, tuple):
        return dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    return {}


def save_machine(directory: Path, config: RunConfig, machine: Machine, card: str) -> None:
    """Write a checkpoint that is a machine; raises `CheckpointError` as `save` does."""
    contents = {CONFIG: config.to_yaml().encode(), MACHINE: machine.to_json().encode()}
    contents[SUMS] = checksum_lines(contents).encode()
    contents[CARD] = card.encode()
    write_whole(directory.resolve(), contents)


def read_config(directory: Path) -> RunConfig:
    """A checkpoint's configuration, which fits its weights; raises as `load` does."""
    return _read(directory)[0]


def _read(directory: Path) -> tuple[RunConfig, Task, Shapes]:
    _check_whole(directory)
    path = directory / WEIGHTS
    if (directory / MACHINE).is_file():
        raise CheckpointError(f"{directory}: {_NO_WEIGHTS}")
    check_origins(path)
    config = resolve(config=str(directory / CONFIG))
    task = config.make_task()
    # Before the model is made, which may be too large to be made at all.
    try:
        shapes = _shapes(config.model, task.layout)
    except UsageError as error:
        message = f"weights are not what the configuration asks for: {error}"
        raise CheckpointError(f"{path}: {message}") from error
    check_shapes(path, shapes)
    return config, task, shapes


def _shapes(config: ModelConfig, layout: Layout) -> Shapes:
    """The shapes of the weights of a model; raises `UsageError` if they are beyond counting."""
    if config.controller.name in CONTROLLERS.builtin:
        return weight_shapes(config, layout.inputs, layout.outputs)
    from stacktrans.model.transducer import meta_transducer  # waits for torch

    return shapes_of(meta_transducer(config, layout.inputs, layout.outputs))


def _check_whole(directory: Path) -> None:
    """Raise `CheckpointError` unless there is a configuration, undamaged, that can be read."""
    path = directory / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this is not a whole checkpoint")
    try:
        found = read_layer(path).settings.get("format")
    except UsageError:
        verify_checksum(path)
        raise
    if type(found) is not int:
        verify_checksum(path)
        raise CheckpointError(f"{path}: no format number; this is not a stacktrans checkpoint")
    if found != FORMAT:
        raise CheckpointError(f"{path}: format {found}; this stacktrans reads format {FORMAT}")
    if not (directory / SUMS).is_file():
        raise CheckpointError(f"{directory / SUMS}: missing; this is not a whole checkpoint")
    verify_checksum(path)


def load_training(directory: Path) -> dict[str, Any]:
    """What `save` was given as `training`; raises `CheckpointError` if it can't be read."""
    path = directory / TRAINING
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this run can't be resumed")
    _check_whole(directory)
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > path.stat().st_size:
                raise ValueError("compressed, which torch never does")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise CheckpointError(f"{path}: truncated or damaged") from error
    verify_checksum(path)
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: holds no training state")
    return state


def last_checkpoint(run: Path) -> Path:
    """The directory of a run's last checkpoint; raises `CheckpointError` if it has none."""
    for candidate in (run / "last", backup_path(run / "last")):
        if (candidate / TRAINING).is_file():
            return candidate
    raise CheckpointError(f"{run}: no run to resume here; expected a directory made by train")


def metadata(
    config: RunConfig, accuracy: Mapping[str, Any] | None, sharpness: float
) -> dict[str, str]:
    """What is said of weights: their task, version, configuration and accuracy, and plugins."""
    said = {"task": config.task.name, "version": config.version, "configuration": config.identity()}
    if accuracy:
        said["accuracy"] = json.dumps(accuracy)
    if sharpness != 1:
        said[SHARPNESS] = json.dumps(sharpness)
    model = config.model
    names = (model.memory.name, model.controller.name, config.task.generator)
    origins = {
        registry.kind: {name: origin}
        for registry, name in zip(REGISTRIES, names, strict=True)
        if (origin := registry.origin(name))
    }
    if origins:
        said[ORIGINS] = json.dumps(origins)
    return said


def sharpness_of(path: Path) -> float:
    """How sharp the signals of weights are; raises `CheckpointError` for what can't be."""
    written = metadata_of(path).get(SHARPNESS, "1")
    try:
        sharpness = float(written)
    except (TypeError, ValueError):
        sharpness = math.nan
    if not 0 < sharpness < math.inf:
        raise CheckpointError(f"{path}: {SHARPNESS} is {shown(written)}; expected more than 0")
    return sharpness


def check_origins(path: Path) -> None:
    """Raise `UsageError` if weights are of a model with parts that are not known here."""
    try:
        origins = parsed_json(metadata_of(path).get(ORIGINS, "{}"))
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
            part = f"{registry.kind} {name}"
            raise UsageError(f"{path}: {part} is from {origin}, which is not {state}")
