"""What a machine is: rules over symbols, kinds of what memories hold, and states.

A step depends on its places: the symbol that is read (place 0), the kind that is read from each end
of a memory (the next places), and the state (the last). All of these, and outputs, are things in
series: a series is a thing for each of some letters, or a single one without a letter. So a rule
can say what is done with all letters alike: what is pushed is the kind of the letter that is read.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

from stacktrans.common.ends import Ends
from stacktrans.tasks.layout import Layout

EMPTY = 0
"""The kind that is read from an empty memory."""
CONSTANT = -1
"""The place of what does not depend on any."""


class Series(NamedTuple):
    """Some things that are alike but for a letter.

    Attributes:
        name: what they are called.
        letters: the number of the letter of each; None for a single thing without a letter.
    """

    name: str
    letters: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """How many there are."""
        return 1 if self.letters is None else len(self.letters)


@dataclass(frozen=True)
class Things:
    """All symbols, outputs, states, or kinds of a memory, numbered series by series."""

    series: tuple[Series, ...]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.each)

    @functools.cached_property
    def each(self) -> list[tuple[int, int | None]]:
        """The series and the letter of each."""
        return [
            (number, letter)
            for number, series in enumerate(self.series)
            for letter in (series.letters if series.letters is not None else (None,))
        ]

    @functools.cached_property
    def numbers(self) -> dict[tuple[int, int | None], int]:
        """The number of each, by its series and its letter."""
        return {each: number for number, each in enumerate(self.each)}


class Term(NamedTuple):
    """Which thing: of a series, the one with the letter of what stands in a place.

    Attributes:
        place: of what has the letter; `CONSTANT` for a thing that is always the same.
        thing: the series, or the number of that thing.
    """

    place: int
    thing: int


class Rule(NamedTuple):
    """What is done in some steps.

    Attributes:
        when: for each place, the things that may stand there; None for any.
        equal: pairs of places, and whether what stands there has the same letter.
        signals: of the memories and buffers, 0 or 1.
        output: what is said; None where nobody asks.
        pushed: what each push pushes; None where nothing is pushed.
        after: the next state.
    """

    when: tuple[frozenset[int] | None, ...]
    equal: tuple[tuple[int, int, bool], ...]
    signals: tuple[int, ...]
    output: Term | None
    pushed: tuple[Term | None, ...]
    after: Term


class Buffers(NamedTuple):
    """An input buffer that is read from, and an output buffer that is written to.

    Attributes:
        steps_per_symbol: steps for each symbol of the input.
        extra_steps: further steps.
        output_skip: how many of the outputs that are written are dropped.
    """

    steps_per_symbol: int
    extra_steps: int
    output_skip: int


@dataclass(frozen=True)
class Machine:
    """A finite control over memories.

    Attributes:
        task: the name of its task.
        source: the symbols of sources.
        target: the symbols of targets.
        words: whether strings of sources, and of targets, are words separated by spaces.
        letters: what things can have in common.
        symbols: what can be read.
        outputs: what can be said.
        kinds: of each memory, what it can hold; the first is what is read when it is empty.
        states: the states; the first is the one before the first step.
        memories: the ends of its memories; each row of cells counts as a memory.
        buffers: None without.
        layout: how sources are read, and answers output.
        rules: the first that fits holds.
    """

    task: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    words: tuple[bool, bool]
    letters: tuple[str, ...]
    symbols: Things
    outputs: Things
    kinds: tuple[Things, ...]
    states: Things
    memories: Ends
    buffers: Buffers | None
    layout: Layout
    rules: tuple[Rule, ...]

    @functools.cached_property
    def places(self) -> list[Things]:
        """What can stand in each place."""
        kinds = [self.kinds[end // 2] for end in self.memories.reads]
        return [self.symbols, *kinds, self.states]

    @property
    def start(self) -> int:
        """The state before the first step."""
        return 0

    @property
    def nothing(self) -> int:
        """The symbol that is read after the last of an input buffer."""
        return self.symbols.size - 1
