"""Checkpoints: directories with a configuration, weights and, for resuming, the rest.

    config.yaml         the run's configuration, whole
    model.safetensors   the weights
    training.pt         what else a run needs to be resumed (only in `last/`)
    SHA256SUMS          checksums of these, which are checked when they are read
    README.md           a model card (once the run has ended)

A run's directory holds two, `best/` and `last/`, and stands for its `best/`. Checkpoints of format
1 have no checksums.
"""

import contextlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from stacktrans.common.checksums import SUMS, check_sum, sums_of
from stacktrans.common.errors import CheckpointError as CheckpointError
from stacktrans.common.errors import UsageError, abridged
from stacktrans.common.files import CONFIG as CONFIG
from stacktrans.common.files import WEIGHTS as WEIGHTS
from stacktrans.common.files import flush, write_flushed
from stacktrans.common.registry import REGISTRIES
from stacktrans.common.visible import visible
from stacktrans.model.transducer import Transducer, without_numbers
from stacktrans.settings.config import FORMAT, RunConfig
from stacktrans.settings.layers import read_layer
from stacktrans.settings.packaged import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Task
from stacktrans.tasks.layouts import Layout

TRAINING = "training.pt"
CARD = "README.md"
ORIGINS = "origins"
"""The key, in the metadata of weights, of the plugins that the model is made with."""
_DTYPES = {"F64", "F32", "F16", "BF16"}
_METADATA = "__metadata__"


def save(
    directory: Path,
    config: RunConfig,
    weights: Mapping[str, Tensor],
    training: Mapping[str, Any] | None = None,
    *,
    accuracy: Mapping[str, Any] | None = None,
    card: str | None = None,
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

    Raises:
        CheckpointError: it can't be written; what was there is still there.
    """
    contents = {
        CONFIG: config.to_yaml().encode(),
        WEIGHTS: serialized(weights, _metadata(config, accuracy)),
    }
    if training is not None:
        # Not into a file: of a full disk torch does not tell.
        buffer = io.BytesIO()
        torch.save(dict(training), buffer)
        contents[TRAINING] = buffer.getvalue()
    contents[SUMS] = sums_of(contents).encode()
    if card is not None:
        contents[CARD] = card.encode()
    _write(directory.resolve(), contents)


def _metadata(config: RunConfig, accuracy: Mapping[str, Any] | None) -> dict[str, str]:
    said = {"task": config.task.name, "version": config.version, "configuration": config.identity()}
    if accuracy:
        said["accuracy"] = json.dumps(accuracy)
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


def _write(directory: Path, contents: Mapping[str, bytes]) -> None:
    new = directory.with_name(unfinished(directory.name))
    path = directory
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for name, content in contents.items():
            path = directory / name
            write_flushed(new / name, content)
        path = directory
        flush(new)
        _swap(new, directory)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        reason = error.strerror or error
        raise CheckpointError(f"{path}: can't write the checkpoint: {reason}") from error


def unfinished(name: str) -> str:
    """The name of a checkpoint while it is written."""
    return f".{name}.new"


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
    return directory.with_name(f".{directory.name}.old") if directory.name else directory


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
        raise CheckpointError(f"{given}: no such checkpoint; shipped are {', '.join(available)}")
    raise CheckpointError(
        f"{name}: not a stacktrans checkpoint; expected a directory with {CONFIG} and {WEIGHTS}"
    )


def load(name: str | Path, device: torch.device) -> Checkpoint:
    """Read a checkpoint and build its model.

    Raises:
        CheckpointError: it is missing, damaged, foreign, or newer than this version.
    """
    path = locate(name)
    config, task = _read(path)
    layout = task.layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    load_weights(model, path / WEIGHTS)
    return Checkpoint(path, config, task, layout, model.to(device).eval())


def read_config(directory: Path) -> RunConfig:
    """A checkpoint's configuration, which fits its weights; raises as `load` does."""
    return _read(directory)[0]


def _read(directory: Path) -> tuple[RunConfig, Task]:
    _check_whole(directory)
    path = directory / WEIGHTS
    _check_origins(path)
    config = resolve(config=str(directory / CONFIG))
    task = config.make_task()
    # Before the model is made, which may be too large to be made at all.
    try:
        model = without_numbers(config.model, task.layout.inputs, task.layout.outputs)
    except UsageError as error:
        message = f"weights are not what the configuration asks for: {error}"
        raise CheckpointError(f"{path}: {message}") from error
    check_shapes(path, model)
    return config, task


def _check_origins(path: Path) -> None:
    """Raise `UsageError` if weights are of a model with parts that are not known here."""
    try:
        origins = json.loads(metadata_of(path).get(ORIGINS, "{}"))
        named = [
            (*each, kind) for kind in REGISTRIES for each in origins.get(kind.kind, {}).items()
        ]
    except (AttributeError, TypeError, ValueError):  # of other metadata than `save` writes
        return
    for name, origin, registry in named:
        if name not in registry:
            state = "loaded" if origin.startswith("plugin ") else "installed"
            part = f"{registry.kind} {name}"
            raise UsageError(f"{path}: {part} is from {origin}, which is not {state}")


def _check_whole(directory: Path) -> None:
    """Raise `CheckpointError` unless there is a configuration, undamaged, that can be read."""
    path = directory / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{path}: missing; this is not a whole checkpoint")
    try:
        found = read_layer(path).settings.get("format")
    except UsageError:
        check_sum(path)
        raise
    if type(found) is not int:
        check_sum(path)
        raise CheckpointError(f"{path}: no format number; this is not a stacktrans checkpoint")
    if found > FORMAT:
        raise CheckpointError(
            f"{path}: format {found} is newer than this stacktrans reads (up to {FORMAT}); "
            "upgrade stacktrans"
        )
    if found > 1 and not (directory / SUMS).is_file():
        raise CheckpointError(f"{directory / SUMS}: missing; this is not a whole checkpoint")
    check_sum(path)


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
    check_sum(path)
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: holds no training state")
    return state


def last_of(run: Path) -> Path:
    """The directory of a run's last checkpoint; raises `CheckpointError` if it has none."""
    for candidate in (run / "last", _aside(run / "last")):
        if (candidate / TRAINING).is_file():
            return candidate
    raise CheckpointError(f"{run}: no run to resume here; expected a directory made by train")


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


def check_shapes(path: Path, model: nn.Module) -> None:
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


def load_weights(model: nn.Module, path: Path) -> None:
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
