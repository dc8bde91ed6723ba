"""What a run is trained on, and whether it can be."""

import torch

from stacktrans.common.registry import GENERATORS
from stacktrans.memory import make_memory
from stacktrans.model.transducer import kind_of
from stacktrans.settings.config import RunConfig
from stacktrans.tasks import make_task
from stacktrans.tasks.corpus import Corpus
from stacktrans.training.examples import Examples
from stacktrans.training.room import check_room
from stacktrans.training.source import Source
from stacktrans.training.streams import Streams
from stacktrans.training.strings import Strings
from stacktrans.training.texts import Texts


def learns_text(config: RunConfig) -> bool:
    """Whether it is a text that is learned."""
    return GENERATORS.load(config.task.generator) is Corpus


def source_of(config: RunConfig) -> Source:
    """What a run is trained on; raises `StacktransError` if it can't be had."""
    task = make_task(config.task.name, config.task.generator, config.task.parameters)
    stream, examples = config.training.stream, config.training.examples
    if isinstance(task, Corpus):
        return Texts(config, task)
    if stream:
        return Streams(config, stream, task)
    return Examples(config, task, examples) if examples else Strings(config, task)


def prepared(config: RunConfig, device: torch.device) -> Source:
    """What a run is trained on, before anything is made or written.

    Raises:
        NoSuchLength: there are no strings to train or to test on.
        UsageError: there is no such kernel, or no room.
    """
    source = source_of(config)
    model, weight = config.model, torch.empty(0, device=device)
    kind_of(model, make_memory(model), weight, model.kernel)
    check_room(config, source.layout)
    source.check()
    return source
