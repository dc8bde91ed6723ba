"""Make the data source of a run by its settings, and check that training fits into memory."""

import math
import os
from pathlib import Path

import torch

from stacktrans.common.errors import UsageError
from stacktrans.memory import make_memory
from stacktrans.model.transducer import Transducer, compiled_architecture, meta_transducer
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.base import Task
from stacktrans.tasks.corpus import Corpus
from stacktrans.tasks.layout import Layout
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.sets import load_sets, save_sets
from stacktrans.training.file_pairs import FilePairs
from stacktrans.training.sources import DataSource, Examples
from stacktrans.training.streams import Streams, Texts

_BYTES = 4
_COPIES = 3
"""Copies of the weights: themselves, their gradients, and their moving average."""


def make_source(config: RunConfig, device: torch.device, data: Path | None = None) -> DataSource:
    """Make the source of a run, and check that it can be trained from.

    Args:
        config: configuration of the run.
        device: where to compute.
        data: a folder that `save_pairs` has written; None to read the files.

    Raises:
        NoSuchLength: there are no strings to train or to test on.
        UsageError: the kernel is unknown, there is not enough memory, or a setting does not fit
            the task.
    """
    task = config.make_task()
    stream, examples = config.training.stream, config.training.examples
    source: DataSource
    if isinstance(task, Corpus):
        source = Texts(config, task)
    elif isinstance(task, Pairs):
        if config.training.data:
            raise UsageError("training.data: not for pairs in files; expected null")
        if data:
            task.data = load_sets(data, task.request, task.known or {})
        source = FilePairs(config, task)
    elif stream:
        source = Streams(config, task, stream)
    else:
        source = Examples(config, task, examples) if examples else DataSource(config, task)
    model, weight = config.model, torch.empty(0, device=device)
    compiled_architecture(model, make_memory(model), weight)
    check_room(config, source.layout)
    source.check()
    return source


def save_pairs(task: Task, folder: Path) -> Path | None:
    """Save pairs in files, which may have come from a pipe, for other processes, once.

    Returns:
        The folder, as `make_source` takes it; None for a task without files of pairs.
    """
    if not isinstance(task, Pairs):
        return None
    if not folder.is_dir():
        save_sets(task.data, folder)
    return folder


def check_room(config: RunConfig, layout: Layout) -> None:
    """Raise `UsageError` if a run surely needs more memory than this machine has."""
    available, training = _main_memory_bytes(), config.training
    model = meta_transducer(config.model, layout.inputs, layout.outputs)
    weights = _BYTES * _COPIES * count_weights(model)
    # At least gates, states and outputs of a batch are kept.
    rows = sum((len(layer.gates) + 1) * layer.hidden_size for layer in model.controller.all_layers)
    stream = training.stream
    least_steps = stream.steps if stream else config.task.ranges.train.shortest
    steps = training.batch_symbols or training.batch_strings * least_steps
    whole = weights + _BYTES * steps * (rows + layout.outputs)
    size = training.batch_size if training.batch_symbols else f"{training.batch_size} strings"
    parts = {"model: its weights": weights, f"training.batch_size: {size} at once": whole}
    for part, needed in parts.items():
        if needed > available:
            has = f"this machine has {available / 2**30:,.1f}"
            raise UsageError(f"{part} need at least {needed / 2**30:,.1f} GiB; {has}")


def count_weights(model: Transducer) -> int:
    """Count the numbers that a model consists of, including those that are not learned."""
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _main_memory_bytes() -> float:
    """The machine's memory; infinite where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf
