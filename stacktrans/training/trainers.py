"""What trains which kind of run."""

from stacktrans.common.registry import GENERATORS
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.corpus import Corpus
from stacktrans.training.streams import StreamTrainer
from stacktrans.training.texts import LanguageTrainer
from stacktrans.training.trainer import Trainer


def learns_text(config: RunConfig) -> bool:
    """Whether it is a text that is learned."""
    return GENERATORS.load(config.task.generator) is Corpus


def trainer_for(config: RunConfig) -> type[Trainer]:
    """What trains a run of this kind."""
    if learns_text(config):
        return LanguageTrainer
    return StreamTrainer if config.training.stream else Trainer
