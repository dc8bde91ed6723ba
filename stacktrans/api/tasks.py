"""`task` and `TaskStrings`: a task in Python, which draws pairs of strings and answers sources."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from stacktrans.api.arguments import Count, NameOrPath, Range, Seed, Text, assignments_of, checked
from stacktrans.settings.config import TaskConfig
from stacktrans.settings.task_files import load_task
from stacktrans.tasks.alphabets import UNSCORED_MARK
from stacktrans.tasks.base import draw_pairs
from stacktrans.tasks.lengths import Lengths


class StringPair(NamedTuple):
    """A source and its target, as strings.

    Attributes:
        source: the input.
        target: the right answer.
    """

    source: str
    target: str


class TaskStrings:
    """A task as a sampler of string pairs and a solver; `task` returns it.

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
        """Draw pairs of the task, the same as `stacktrans generate` writes.

        For an unpredictable symbol of a target, which is not scored, a pair has one of the possible
        symbols, and `answer` returns the mark `·`.

        Args:
            count: number of pairs.
            lengths: shortest and longest source; by default, the training lengths of the task.
            depth: for a task with a grammar, the maximum depth of derivations, all equally likely.
            seed: random seed of the pairs.

        Raises:
            StacktransError: there are no such strings.
            UsageError: an argument is wrong.
        """
        bounds, training = lengths and Lengths(*lengths), self.config.ranges.train
        range_, law = self.config.range_of(self._task, bounds, depth, training)
        source, target = self._task.source, self._task.target
        return [
            StringPair(
                source.join(source.decode(pair.source)), target.join(target.decode(pair.target))
            )
            for pair in draw_pairs(self._task, range_, count, seed, law)
        ]

    @checked
    def answer(self, source: Text) -> str:
        """The exact answer to a source, with `·` for each unpredictable symbol.

        Raises:
            UnknownSymbol: a symbol is not in the task's alphabet.
            NotASource: the string is not a source of the task, or too long to be answered.
        """
        answer = self._task.answer(self._task.source.split(source))
        return self._task.target.join(
            [UNSCORED_MARK if symbol is None else symbol for symbol in answer]
        )

    def __repr__(self) -> str:
        return f"TaskStrings({self.config.name}: {self.config.description})"


@checked
def task(name: NameOrPath, *, settings: Mapping[str, Any] | None = None) -> TaskStrings:
    """Load a task.

    Args:
        name: of a task (`stacktrans list tasks`), or its YAML file.
        settings: changes to it, such as `{"parameters.symbols": 1000}`.

    Raises:
        UsageError: it does not exist, or a setting is wrong.
    """
    return TaskStrings(load_task(os.fspath(name), assignments_of(settings)))
