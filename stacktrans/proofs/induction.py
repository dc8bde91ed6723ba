"""Induction over the counts of patterns such as a^n b^n, by accelerated runs on symbolic stacks.

The machine reads a sequence whose counts are variables, any numbers from 1 on. Its stacks hold runs
of equal stack symbols, whose lengths are linear expressions of the variables. If a cycle of steps
returns to the same state and only changes the length of the run on top, it is repeated as long as
that run is long enough and symbols are left: all repetitions are taken in one step, an acceleration
(Finkel and Leroux 2002, "How to compose Presburger-accelerations"). A comparison that depends on
the values of variables splits them into cases, each of which is followed by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stacktrans.automata.execution import Configuration
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import START
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.symbolic_stacks import (
    CaseSplit,
    CellRun,
    IgnoredStack,
    LinearExpression,
    Runs,
    Substitution,
    SymbolicStack,
    at_least,
    floor_divided,
    variable,
)
from stacktrans.tasks.alphabets import FAILED
from stacktrans.tasks.streams import Counting

LONGEST_CYCLE = 6
"""Maximum number of steps of a cycle."""
MAX_STEPS = 10_000
"""Maximum number of steps of a proof."""
MAX_STARTS = 50
"""Maximum number of different contents of memories that sequences begin with."""
WIDEN_FROM = 5
"""Runs of at least this length that a sequence leaves behind are widened to any such length."""
MAX_TRIED = 2_000
"""Maximum number of sequences that are tried in order to shorten a counterexample."""
Step = tuple[int, int | None]
"""A symbol, and the output that is expected for it; None where nothing is scored."""
Counts = tuple[int, ...]


class Segment(NamedTuple):
    """A run of one symbol in a sequence.

    Attributes:
        symbol: its number.
        length: in terms of the counts, which are variables by their numbers.
        inner: the expected output for all of its symbols but the last; None where nothing is
            scored.
        last: the expected output for the last symbol.
    """

    symbol: int
    length: LinearExpression
    inner: int | None
    last: int | None

    def length_with(self, counts: Sequence[LinearExpression]) -> LinearExpression:
        """The length with values for the counts."""
        return self.length.substitute(dict(enumerate(counts)))


def segments_of(task: Counting) -> list[Segment]:
    """The segments of a pattern's sequences; raises `Unproved` if a length is not linear."""
    names = [block.introduces for block in task.runs if block.introduces]
    known = 1 + max(index for index, block in enumerate(task.runs) if block.introduces)
    segments = []
    for index, block in enumerate(task.runs):
        length = LinearExpression()
        for term in block.terms:
            factor = math.prod(part for part in term if isinstance(part, int))
            counts = [names.index(part) for part in term if isinstance(part, str)]
            if len(counts) > 1:
                raise Unproved("lengths are supported only if they are sums of counts")
            length += variable(counts[0]) * factor if counts else factor
        outputs = (index, (index + 1) % len(task.runs)) if index >= known else (None, None)
        segments.append(Segment(index, length, *outputs))
    return segments


class SymbolicConfiguration(NamedTuple):
    """A configuration of a machine in a sequence with symbolic counts.

    Attributes:
        counts: of the sequence.
        segment: the number of the segment that is read.
        left: number of its symbols that are not yet read.
        state: of the machine.
        stacks: the contents of each stack.
    """

    counts: tuple[LinearExpression, ...]
    segment: int
    left: LinearExpression
    state: int
    stacks: tuple[Runs, ...]

    def substitute(self, values: Substitution) -> SymbolicConfiguration:
        """The configuration with values for variables."""
        return self._replace(
            counts=tuple(count.substitute(values) for count in self.counts),
            left=self.left.substitute(values),
            stacks=tuple(
                tuple(CellRun(symbol, length.substitute(values)) for symbol, length in runs)
                for runs in self.stacks
            ),
        )

    @property
    def smallest_counts(self) -> Counts:
        """The counts where all variables are 1."""
        return tuple(count.at_ones for count in self.counts)


class WrongOutput(Exception):
    """An output is wrong on a symbolic path, as far as memory contents are known.

    Args:
        sequences: the counts of the sequences that were read, the wrong one last.
    """

    def __init__(self, sequences: Sequence[Counts]) -> None:
        self.sequences = sequences


@dataclass
class InductionOverCounts:
    """A proof by induction over the counts of a pattern, and its size.

    Attributes:
        cases: number of cases that the counts of sequences were split into.
        steps: number of steps of the machine.
        cycles: number of cycles that were accelerated.
        initial_contents: number of different memory contents that sequences begin with.
    """

    cases: int = 0
    steps: int = 0
    cycles: int = 0
    initial_contents: int = 1


class InductionProver:
    """A prover by induction over the counts of sequences, any number of which follow one another.

    Args:
        machine: the machine.
        segments: of a sequence.

    Raises:
        Unproved: the machine uses the bottom of a memory.
    """

    def __init__(self, machine: Machine, segments: Sequence[Segment]) -> None:
        self._machine, self._segments = machine, segments
        memories = machine.memories
        self._relevant = memories.rows_behind(machine.relevant_reads)
        operations = (*memories.pops, *memories.pushes, *memories.moves)
        used = (*machine.relevant_reads, *(end for _, *ends in operations for end in ends))
        if any(end % 2 and end // 2 in self._relevant for end in used):
            raise Unproved("the machine works at the bottom of a memory")
        self._proof = InductionOverCounts()

    def prove(self) -> InductionOverCounts:
        """Follow all sequences, from all contents that others leave behind.

        Raises:
            WrongOutput: an output is wrong.
            Unproved: a limit is exceeded.
        """
        first = self._start(START, ((),) * len(self._machine.stack_symbols))
        before: dict[SymbolicConfiguration, tuple[Counts, ...]] = {first: ()}
        starts = [first]
        for start in starts:  # which grows
            for counts, following in self._sequences_from(start, before[start]):
                if following not in before:
                    before[following] = (*before[start], counts)
                    starts.append(following)
            if len(before) > MAX_STARTS:
                raise Unproved("sequences leave too many different things behind in memories")
            self._proof.initial_contents = len(before)
        return self._proof

    def _start(self, state: int, stacks: tuple[Runs, ...]) -> SymbolicConfiguration:
        """A configuration before a sequence."""
        numbers = {number for segment in self._segments for number, _ in segment.length.terms}
        counts = tuple(map(variable, sorted(numbers)))
        left = self._segments[0].length_with(counts)
        return SymbolicConfiguration(counts, 0, left, state, stacks)

    def _sequences_from(
        self, start: SymbolicConfiguration, before: tuple[Counts, ...]
    ) -> Iterator[tuple[Counts, SymbolicConfiguration]]:
        """The cases of sequences from a start, each with counts and the start of the next."""
        configs = [start]
        while configs:
            config = configs.pop()
            try:
                if config.segment == len(self._segments):
                    yield config.smallest_counts, self._widened(config)
                    self._proof.cases += 1
                    continue
                accelerated = self._accelerated(config) if config.left.terms else None
                configs.append(accelerated or self._step(config, before))
            except CaseSplit as split:
                # The smallest counts first, so that counterexamples are short.
                configs += [config.substitute(case) for case in reversed(split.cases)]
            if self._proof.steps > MAX_STEPS:
                raise Unproved("the machine does not do the same again and again in long runs")

    def _widened(self, config: SymbolicConfiguration) -> SymbolicConfiguration:
        """The start of the next sequence, where the lengths of long runs are new variables."""
        numbers = itertools.count(len(config.counts))

        def widened(run: CellRun) -> CellRun:
            if not at_least(run.length, WIDEN_FROM):
                return run
            return CellRun(run.stack_symbol, variable(next(numbers)) + (WIDEN_FROM - 1))

        return self._start(config.state, tuple(tuple(map(widened, runs)) for runs in config.stacks))

    def _run(self, config: SymbolicConfiguration) -> Configuration:
        stacks = [
            (SymbolicStack if number in self._relevant else IgnoredStack)(runs)
            for number, runs in enumerate(config.stacks)
        ]
        return Configuration(self._machine, stacks, config.state)

    def _output(self, run: Configuration, segment: Segment) -> int:
        self._proof.steps += 1
        return run.step(segment.symbol)

    def _step(
        self, config: SymbolicConfiguration, before: tuple[Counts, ...]
    ) -> SymbolicConfiguration:
        """The configuration after one symbol; raises `CaseSplit` and `WrongOutput`."""
        segment, is_last = self._segments[config.segment], not at_least(config.left, 2)
        run, expected = self._run(config), segment.last if is_last else segment.inner
        if not _is_right(self._output(run, segment), expected):
            raise WrongOutput((*before, config.smallest_counts))
        stacks = tuple(stack.runs for stack in run.contents)
        config = config._replace(left=config.left - 1, state=run.state, stacks=stacks)
        if not is_last:
            return config
        following = self._segments[config.segment + 1 : config.segment + 2]
        left = following[0].length_with(config.counts) if following else LinearExpression()
        return config._replace(segment=config.segment + 1, left=left)

    def _accelerated(self, config: SymbolicConfiguration) -> SymbolicConfiguration | None:
        """The configuration after all repetitions of a cycle; None if there is no cycle."""
        segment, run = self._segments[config.segment], self._run(config)
        for length in range(1, LONGEST_CYCLE + 1):
            try:
                enough = at_least(config.left, length + 1)
                right = enough and _is_right(self._output(run, segment), segment.inner)
            except CaseSplit:
                return None
            if not right:
                return None
            unchanged = run.state == config.state
            if unchanged and all(stack.growth is not None for stack in run.contents):
                return self._repeated(config, length, run.contents)
        return None

    def _repeated(
        self, config: SymbolicConfiguration, length: int, stacks: Sequence[SymbolicStack]
    ) -> SymbolicConfiguration:
        """The configuration after as many repetitions of a cycle as possible.

        At least one symbol of the segment is left.

        Args:
            config: at the beginning of the cycle.
            length: of the cycle.
            stacks: after the cycle.
        """
        times = floor_divided(config.left - 1, length)
        for stack in stacks:
            if (growth := stack.growth or 0) < 0:
                most = floor_divided(stack.before[-1].length - stack.reached, -growth) + 1
                times = times if at_least(most - times, 0) else most
        self._proof.cycles += 1
        return config._replace(
            left=config.left - times * length,
            stacks=tuple(stack.repeated(times) for stack in stacks),
        )


def sequence(segments: Sequence[Segment], counts: Counts) -> list[Step]:
    """The symbols of a sequence, with the expected outputs."""
    steps: list[Step] = []
    for segment in segments:
        length = segment.length_with([*map(LinearExpression, counts)]).constant
        steps += [(segment.symbol, segment.inner)] * (length - 1)
        steps.append((segment.symbol, segment.last))
    return steps


def _is_right(output: int, expected: int | None) -> bool:
    return output != FAILED and expected in (None, output)


def is_wrong(machine: Machine, steps: Sequence[Step]) -> bool:
    """Whether a machine, run with concrete memories, gives a wrong output."""
    run = Configuration(machine)
    return not all(_is_right(run.step(symbol), expected) for symbol, expected in steps)


def shortest_wrong(machine: Machine, segments: Sequence[Segment], counts: Counts) -> Counts:
    """The counts of the shortest wrong sequence among `MAX_TRIED`, or else the given ones."""
    smaller = (
        tuple(end - start for start, end in itertools.pairwise((0, *cuts, total)))
        for total in range(len(counts), sum(counts))
        for cuts in itertools.combinations(range(1, total), len(counts) - 1)
    )
    tried = itertools.islice(smaller, MAX_TRIED)
    return next((of for of in tried if is_wrong(machine, sequence(segments, of))), counts)
