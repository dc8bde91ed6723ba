"""A task: its strings and their exact answers."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from stacktrans.api.arguments import Count, Named, Range, Seed, Text, assigned, checked
from stacktrans.inference.evaluation import ranges
from stacktrans.settings.config import TaskConfig
from stacktrans.settings.task_files import load_task
from stacktrans.tasks.alphabets import UNSCORED_MARK
from stacktrans.tasks.base import Lengths, draw_pairs


class StringPair(NamedTuple):
    """A source and its target, as they are written.

    Attributes:
        source: the string to be read.
        target: the answer.
    """

    source: str
    target: str


class TaskStrings:
    """A task, as `task` gives it.

    Attributes:
        config: the settings in its file.
    """

    def __init__(self, config: TaskConfig) -> None:
        self.config = config
        self._task = config.make()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of sources."""
        return self._task.source.symbols

    @checked
    def sample(
        self,
        count: Count,
        *,
        lengths: Range | None = None,
        depth: Count | None = None,
        seed: Seed = 1,
    ) -> list[StringPair]:
        """Pairs of the task; the same as `stacktrans generate` writes.

        Where a symbol of a target can't be known and is not scored, the pair has one that is
        possible, and `answer` the mark `·`.

        Args:
            count: number of pairs.
            lengths: shortest and longest source; the task's training lengths unless given.
            depth: for a task with a grammar, the greatest; all derivations are equally likely.
            seed: random seed of the pairs.

        Raises:
            StacktransError: there are no such strings.
            UsageError: an argument is wrong.
        """
        bounds = [Lengths(*lengths)] if lengths else []
        usual = [self.config.ranges.train]
        ((range_, law),) = ranges(self.config, self._task, bounds, usual, depth)
        source, target = self._task.source, self._task.target
        return [
            StringPair(
                source.join(source.decode(pair.source)), target.join(target.decode(pair.target))
            )
            for pair in draw_pairs(self._task, range_, count, seed, law)
        ]

    @checked
    def answer(self, source: Text) -> str:
        """The exact answer to a source, with `·` for each symbol that can't be known.

        Raises:
            UnknownSymbol: a symbol is not in the task's alphabet.
            NotASource: the string is not a source of the task.
        """
        said = self._task.answer(self._task.source.split(source))
        return self._task.target.join(
            [UNSCORED_MARK if symbol is None else symbol for symbol in said]
        )

    def __repr__(self) -> str:
        return f"TaskStrings({self.config.name}: {self.config.description})"


@checked
def task(name: Named, *, settings: Mapping[str, Any] | None = None) -> TaskStrings:
    """A task.

    Args:
        name: of a task (`stacktrans list tasks`), or its YAML file.
        settings: changes to it, such as `{"parameters.symbols": 1000}`.

    Raises:
        UsageError: there is none, or a setting is wrong.
    """
    return TaskStrings(load_task(os.fspath(name), assigned(settings)))
