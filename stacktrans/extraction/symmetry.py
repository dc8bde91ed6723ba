"""Interchangeable symbols, a few of which stand for all while a machine is learned.

A rule is about families of symbols. Where permuting the symbols of a source permutes those of its
answer, the rules for strings of a few symbols are those for all strings, and there are far fewer
combinations of inputs and stack symbols to observe.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stacktrans.automata.rules import SymbolTable
from stacktrans.common.visible import listed
from stacktrans.decoding.model import Model
from stacktrans.extraction.queries import Query, answers_of, query_of, random_queries
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import LARGE_ALPHABET, Ids
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.permutation import SymbolClass, interchangeable_classes

REPRESENTATIVES = 4
"""The symbols of a class that stand for all of them."""
EXAMPLES = 1000
"""The answers from which classes are inferred."""


@dataclass(frozen=True)
class Symmetry:
    """Classes of interchangeable symbols, the first of which stand for all.

    Attributes:
        checkpoint: of the model.
        classes: of each class, the ids of its symbols in sources; none if no symbols are
            interchangeable.
    """

    checkpoint: Checkpoint
    classes: Sequence[Ids] = ()

    @property
    def description(self) -> str:
        """Which symbols stand for how many, in words."""
        decode = self.checkpoint.task.source.decode
        parts = (
            f"{listed(decode(ids[:REPRESENTATIVES]))} stand for {len(ids)} interchangeable symbols"
            for ids in self.classes
        )
        return "; ".join(parts)

    @functools.cached_property
    def shift(self) -> Ids:
        """[symbols] of each representative, the next one of its class; of others, themselves."""
        images = np.arange(len(self.checkpoint.task.source))
        for ids in self.classes:
            images[ids[:REPRESENTATIVES]] = np.roll(ids[:REPRESENTATIVES], -1)
        return images

    @functools.cached_property
    def input_shift(self) -> Ids:
        """[inputs + 1] the same for inputs, and for no input, which is the last."""
        task, layout, shift = self.checkpoint.task, self.checkpoint.layout, self.shift
        images = np.arange(layout.inputs + 1)
        images[layout.first_source :][: len(shift)] = layout.first_source + shift
        if (first := layout.first_target) is not None:
            moved = np.flatnonzero(shift != np.arange(len(shift)))
            written = {symbol: number for number, symbol in enumerate(task.target.symbols)}
            sources = task.source.decode(moved), task.source.decode(shift[moved])
            for one, other in zip(*sources, strict=True):
                if one in written and other in written:
                    images[first + written[one]] = first + written[other]
        return images

    def reduced(self, queries: Sequence[Query]) -> list[Query]:
        """The queries with representatives in place of all symbols of a class, without repetition.

        They are the given ones if there are no classes.
        """
        images = np.arange(len(self.checkpoint.task.source))
        for ids in self.classes:
            images[ids] = ids[np.arange(len(ids)) % REPRESENTATIVES]
        return self._answerable(queries, [images[query.ids] for query in queries])

    def orbits(self, queries: Sequence[Query]) -> list[Query]:
        """Queries of representatives, and those that repeated shifts make of them."""
        strings = [query.ids for query in queries]
        orbits = [*strings]
        for _ in range(REPRESENTATIVES - 1):
            strings = [self.shift[ids] for ids in strings]
            orbits += strings
        return self._answerable(queries, orbits)

    def _answerable(self, queries: Sequence[Query], strings: Sequence[Ids]) -> list[Query]:
        """Queries of different strings, or the given ones if there are no classes.

        Those to which the task defines no answer are left out, but not those of pairs in files.
        """
        if not self.classes:
            return [*queries]
        task, distinct = self.checkpoint.task, {ids.tobytes(): ids for ids in strings}.values()
        if task.file_parameters:  # which give no answers to other sources
            return [Query(ids, None) for ids in distinct]
        pairs = (task.exact_pair(task.source.decode(ids)) for ids in distinct)
        return [query_of(self.checkpoint, [pair]) for pair in pairs if pair]

    def orbit_of(self, table: SymbolTable) -> Ids:
        """[entries] the orbit of each: interchangeable symbols of a family are one."""
        numbers = np.arange(table.size)
        for family, ids in itertools.product(range(len(table.families)), self.classes):
            own = (table.family_of == family) & np.isin(table.symbol_of, ids)
            numbers[own] = numbers[own][:1]
        return numbers

    def completed(self, symbols: Iterable[int]) -> list[int]:
        """Symbols in order, with all of those whose representatives are among them."""
        completed = {*symbols}
        for ids in self.classes:
            if completed.issuperset(ids[:REPRESENTATIVES].tolist()):
                completed.update(ids.tolist())
        return sorted(completed)


def symmetry_of(checkpoint: Checkpoint, hard: Model) -> Symmetry:
    """The symmetry of a model, inferred from the answers of the hard model to random strings."""
    layout, alphabet = checkpoint.layout, checkpoint.task.source
    if layout.consecutive or len(alphabet) <= LARGE_ALPHABET:
        return Symmetry(checkpoint)
    lengths = checkpoint.config.task.ranges.train
    queries = random_queries(checkpoint, lengths, EXAMPLES, seed=1)
    answers = answers_of(layout, hard, queries)
    pairs = [
        Pair(query.ids, np.array(answer[:-1], np.int64))
        for query, answer in zip(queries, answers, strict=True)
        if answer
    ]
    known = len(alphabet) if alphabet.unknown is None else alphabet.unknown
    classes = interchangeable_classes(pairs, known)
    large = (each for each in classes if len(each.sources) > LARGE_ALPHABET)
    return Symmetry(checkpoint, [each.sources for each in large if _are_written(checkpoint, each)])


def _are_written(checkpoint: Checkpoint, symbols: SymbolClass) -> bool:
    """Whether each symbol of a class is written as itself, or not at all."""
    task = checkpoint.task
    sources = task.source.decode(symbols.sources)
    return all(task.target.decode(targets) == sources for targets in symbols.targets.T)
