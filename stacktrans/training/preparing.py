"""The source that a run is trained on, and whether the run can be carried out on this machine."""

import math
import os

import torch

from stacktrans.common.errors import UsageError
from stacktrans.memory import make_memory
from stacktrans.model.transducer import Transducer, compiled_kind, without_numbers
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.corpus import Corpus
from stacktrans.tasks.layouts import Layout
from stacktrans.tasks.pairs import Pairs
from stacktrans.training.pairs import Files
from stacktrans.training.sources import Examples, Source, Strings
from stacktrans.training.streams import Streams, Texts

_BYTES = 4
_COPIES = 3
"""Of the weights: themselves, their gradients, and their mean."""


def prepared(config: RunConfig, device: torch.device) -> Source:
    """What a run is trained on, before anything is made or written.

    Raises:
        NoSuchLength: there are no strings to train or to test on.
        UsageError: the kernel is unknown, there is no room, or a setting does not fit the task.
    """
    task = config.make_task()
    stream, examples = config.training.stream, config.training.examples
    source: Source
    if isinstance(task, Corpus):
        source = Texts(config, task)
    elif isinstance(task, Pairs):
        if config.training.data:
            raise UsageError("training.data: not for pairs in files; expected null")
        source = Files(config, task)
    elif stream:
        source = Streams(config, task, stream)
    else:
        source = Examples(config, task, examples) if examples else Strings(config, task)
    model, weight = config.model, torch.empty(0, device=device)
    compiled_kind(model, make_memory(model), weight, model.kernel)
    check_room(config, source.layout)
    source.check()
    return source


def check_room(config: RunConfig, layout: Layout) -> None:
    """Raise `UsageError` if a run surely needs more memory than this machine has."""
    there = _bytes_of_machine()
    model = without_numbers(config.model, layout.inputs, layout.outputs)
    weights = _BYTES * _COPIES * count_weights(model)
    if weights > there:
        raise UsageError(f"model: its weights {_refusal(weights, there)}")
    # Of a batch at least gates, states and outputs are kept.
    rows = sum((len(layer.gates) + 1) * layer.hidden_size for layer in model.controller.all_layers)
    training = config.training
    steps = training.batch_symbols or training.batch_strings * _steps(config)
    needed = weights + _BYTES * steps * (rows + layout.outputs)
    if needed > there:
        size = training.batch_size if training.batch_symbols else f"{training.batch_size} strings"
        raise UsageError(f"training.batch_size: {size} at once {_refusal(needed, there)}")


def count_weights(model: Transducer) -> int:
    """How many numbers a model holds, those that are not learned included."""
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _steps(config: RunConfig) -> int:
    """At least how many steps a sequence of a batch has on average."""
    training = config.training
    if training.stream:
        return training.stream.steps
    shortest, longest = config.task.ranges.train
    law = training.length_law or config.task.length_law
    return shortest if law or training.curriculum else (shortest + longest) // 2


def _bytes_of_machine() -> float:
    """The machine's memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _refusal(needed: float, there: float) -> str:
    return f"need at least {needed / 2**30:,.1f} GiB; this machine has {there / 2**30:,.1f}"
