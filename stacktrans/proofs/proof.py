"""The prover: bisimulations by abstraction refinement, or else induction; and counterexamples.

Theorem. If `prove` returns a `Bisimulation`, then for every source x of the task, the machine and
the task's reference automaton give the same output at every scored position. If it returns an
`InductionOverCounts`, the machine gives the expected output at every scored position of every
sequence of the task's pattern, in any number of sequences that follow one another.

The proof is about the machine, run as `automata.execution` runs it. It is no proof about the
floating-point network that the machine was extracted from.

Proof of the first part. The reachable situations of the product of both automata are an inductive
invariant, and no step from one has a wrong output; a situation relates a state of the reference to
a state of the machine, up to an abstraction of their memories (Hopcroft and Karp 1971, "A linear
algorithm for testing equivalence of finite automata", without memories). It assumes that

1. machine and task have the same alphabets and layout: checked by `prove`;
2. the reference automaton has the task's sources and answers: `reference_of`, written by hand or
   computed from a grammar, and compared with the task in tests;
3. two symbols of a class represent all of it: checked by `symbol_classes`;
4. the product takes every step that both automata can take: `Product.steps`, and a buffered
   machine has steps enough to answer: checked by `BufferedProduct.after`;
5. every abstraction contains the contents that memories really have: checked by
   `Abstraction.step`, which raises `Refuted` otherwise, and by `AlignedQueues`, which raises
   `Restart`;
6. all situations were expanded: checked by `Explorer.explore`.

Proof of the second part, by induction over the counts. It assumes that

7. the lengths of runs are sums of counts: checked by `segments_of`;
8. a cycle repeats as long as it is followed: checked by `SymbolicStack.growth`;
9. case splits cover all counts: `at_least` and `floor_divided`;
10. all contents that a sequence can leave behind were followed: checked by `InductionProver.prove`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from stacktrans.automata.machine import Machine
from stacktrans.proofs import abstractions, induction
from stacktrans.proofs.induction import InductionOverCounts
from stacktrans.proofs.product import Product, Unproved, product_of
from stacktrans.proofs.reachability import Explorer
from stacktrans.proofs.references import (
    QUEUE,
    REPRESENTATIVES,
    STACK,
    Reference,
    reference_of,
    symbol_classes,
)
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.streams import Counting

MAX_CANDIDATES = 5
"""Maximum number of spurious counterexamples before an abstraction is refined."""
MAX_TRIED = 10_000
"""Maximum number of sources that are tried in order to shorten a counterexample."""
_DIFFERENT = "the machine's alphabets or layout differ from those of the task"


class Invariant(StrEnum):
    """Invariants of a memory of the machine in all situations, from strongest to weakest."""

    UNREAD = "unread"
    """No rule depends on it."""
    BOUNDED = "bounded"
    """It holds few cells."""
    REPLACED = "only replaced"
    """Pops only replace the cell that is read."""
    ALIGNED = "aligned"
    """It is used in step with the reference's memory, its top at the end where that is pushed."""
    REVERSED = "reversed"
    """It is used in step with the reference's memory, its bottom where that is pushed."""
    ARBITRARY = "arbitrary"
    """Nothing is assumed: a pop may uncover any cell that was ever pushed, or nothing."""


_TOPS = {Invariant.ALIGNED: abstractions.BACK, Invariant.REVERSED: abstractions.FRONT}
_DOMAINS: dict[Invariant, Callable[[int, Sequence[int]], abstractions.Abstraction]] = {
    Invariant.BOUNDED: abstractions.Bounded,
    Invariant.REPLACED: abstractions.OnlyReplaced,
    Invariant.ARBITRARY: abstractions.Arbitrary,
}


@dataclass(frozen=True)
class Bisimulation:
    """A proof by a product construction with an inductive invariant.

    Attributes:
        reference: the reference automaton of the task.
        invariants: the invariant of each memory of the machine.
        symbol_classes: the source symbols, by their numbers, in classes.
        situations: number of situations of the inductive invariant.
        relation: states of the reference and of the machine that occur together.
        blocks: cells that memories which are used in step push together.
    """

    reference: Reference
    invariants: tuple[Invariant, ...]
    symbol_classes: tuple[tuple[int, ...], ...]
    situations: int
    relation: frozenset[tuple[Hashable, int]]
    blocks: frozenset[abstractions.Block]


Proof = Bisimulation | InductionOverCounts


@dataclass(frozen=True)
class Counterexample:
    """A source that the machine answers wrongly.

    Attributes:
        source: the numbers of its symbols.
        in_stream: whether these are several sequences of a stream, of which the last goes wrong.
    """

    source: tuple[int, ...]
    in_stream: bool = False


def prove(machine: Machine, task: Task) -> Proof | Counterexample:
    """Decide whether a machine answers every source of a task correctly.

    Args:
        machine: as it is run by `stacktrans.automata.execution`.
        task: the task.

    Raises:
        Unproved: there is neither a proof nor a counterexample.
    """
    required = task.source.symbols, task.target.symbols, task.layout
    fits = (machine.source, machine.target, machine.layout) == required
    if type(task) is Counting:
        if not fits or machine.buffers:
            raise Unproved(_DIFFERENT)
        return _by_induction(machine, task)
    reference = reference_of(task)
    if reference is None:
        raise Unproved("the task has no reference automaton")
    if not fits:
        raise Unproved(_DIFFERENT)
    if machine.layout.backwards:
        raise Unproved("machines that read sources backwards are not supported")
    if machine.memories.moves:
        raise Unproved("lists are supported only for tasks that count symbols")
    classes = tuple(symbol_classes(machine, reference))
    product = product_of(machine, reference, representatives(classes))
    is_wrong = partial(_is_wrong, machine, task)
    memories = [reference.memory or STACK] * len(machine.stack_symbols)
    return BisimulationProver(product, classes, is_wrong, memories).prove()


def representatives(classes: Iterable[Sequence[int]]) -> frozenset[int]:
    """The symbols that are explored of some classes."""
    return frozenset(symbol for symbols in classes for symbol in symbols[:REPRESENTATIVES])


def _by_induction(machine: Machine, task: Counting) -> InductionOverCounts | Counterexample:
    """Follow all sequences of a pattern, and run the machine on those that seem wrong."""
    segments = induction.segments_of(task)
    try:
        return induction.InductionProver(machine, segments).prove()
    except induction.WrongOutput as wrong:
        *before, counts = wrong.sequences
    sequences = (induction.sequence(segments, each) for each in (*before, counts))
    steps = [*itertools.chain.from_iterable(sequences)]
    if not induction.is_wrong(machine, steps):
        raise Unproved("the abstraction of what sequences leave in memories is too coarse")
    if before:
        return Counterexample(tuple(symbol for symbol, _ in steps), in_stream=True)
    counts = induction.shortest_wrong(machine, segments, counts)
    steps = induction.sequence(segments, counts)
    # The prompt of a sequence ends with the first symbol from which on outputs are scored.
    scored = next(index for index, (_, expected) in enumerate(steps) if expected is not None)
    return Counterexample(tuple(symbol for symbol, _ in steps[: scored + 1]))


class BisimulationProver:
    """A search for a bisimulation by abstraction refinement.

    Each memory has the strongest invariant that was not refuted. The idea is that of Clarke,
    Grumberg, Jha, Lu and Veith 2000, "Counterexample-guided abstraction refinement".

    Args:
        product: of a machine and a reference automaton.
        classes: the source symbols, by their numbers, in classes.
        is_wrong: whether the machine, run by the decoder, answers a source wrongly.
        memories: what each memory of the machine is used as if it is aligned, `STACK` or `QUEUE`.
    """

    def __init__(
        self,
        product: Product,
        classes: Iterable[tuple[int, ...]],
        is_wrong: Callable[[Sequence[int]], bool],
        memories: Sequence[str],
    ) -> None:
        self._product, self._classes, self._is_wrong = product, tuple(classes), is_wrong
        self._machine, self._reference = product.machine, product.reference
        self._memories = [self._reference.memory or STACK, *memories]
        self._not_last = set[tuple[abstractions.Block, int]]()
        # The sides of each memory that some rule reads.
        self._reads: list[list[int]] = [[] for _ in self._machine.stack_symbols]
        for end in self._machine.relevant_reads:
            self._reads[end // 2].append(end % 2)

    def prove(self) -> Bisimulation | Counterexample:
        """See the function `prove`."""
        invariants = [Invariant.BOUNDED if sides else Invariant.UNREAD for sides in self._reads]
        while True:
            try:
                result = self._explore(invariants)
            except abstractions.Restart:
                continue
            except abstractions.Refuted as refuted:
                self._weaken(invariants, refuted)
                continue
            if result is not None:
                return result
            self._align(invariants)

    def _explore(self, invariants: Sequence[Invariant]) -> Bisimulation | Counterexample | None:
        """The result under invariants; None if all counterexamples that they give are spurious."""
        # By the memories that they are used as: the tops of aligned parts.
        tops: dict[str, dict[int, int]] = {QUEUE: {}, STACK: {}}
        tops[self._memories[0]][0] = abstractions.BACK
        domains = dict[int, abstractions.Abstraction]()
        for part, invariant in enumerate(invariants, start=1):
            if invariant in _TOPS:
                tops[self._memories[part]][part] = _TOPS[invariant]
            elif invariant in _DOMAINS:
                domains[part] = _DOMAINS[invariant](part, self._reads[part - 1])
        queues = abstractions.AlignedQueues(tops[QUEUE], len(self._memories), self._not_last)
        stacks = abstractions.AlignedStacks(tops[STACK], len(self._memories))
        tapes = dict.fromkeys(tops[QUEUE], queues) | dict.fromkeys(tops[STACK], stacks)
        explorer = Explorer(self._product, domains | tapes)
        source = None
        for prefix in itertools.islice(explorer.explore(), MAX_CANDIDATES):
            source = self._reference.completed(prefix)
            if self._is_wrong(source):
                return Counterexample(self._shortest(source))
        if source is not None:  # spurious, as all before it
            return None
        return Bisimulation(
            self._reference,
            tuple(invariants),
            self._classes,
            len(explorer.situations),
            frozenset(explorer.relation),
            frozenset(queues.pushed | stacks.pushed),
        )

    def _weaken(self, invariants: list[Invariant], refuted: abstractions.Refuted) -> None:
        """Weaken the invariant of a memory that does not satisfy it; raises `Unproved`."""
        number = refuted.part - 1
        if refuted.part == 0:  # the reference's: then a memory is not used in step with it
            on_tape = (index for index, invariant in enumerate(invariants) if invariant in _TOPS)
            number = next(on_tape, number)
            if number < 0:
                raise Unproved(f"the memory of the reference automaton {refuted.why}")
        if invariants[number] == Invariant.ARBITRARY:
            raise Unproved(f"{self._machine.memories.names[number]} {refuted.why}")
        ladder = [*Invariant]
        invariants[number] = ladder[ladder.index(invariants[number]) + 1]

    def _align(self, invariants: list[Invariant]) -> None:
        """Align one more memory with the reference's, after a spurious counterexample.

        Raises:
            Unproved: no memory is left whose contents could be related to the reference's.
        """
        for number, invariant in enumerate(invariants):
            if invariant in (Invariant.BOUNDED, Invariant.REPLACED):
                invariants[number] = Invariant.ALIGNED
                return
        raise Unproved("the abstraction of its memories is too coarse")

    def _shortest(self, wrong: Sequence[int]) -> tuple[int, ...]:
        """The shortest wrong source among `MAX_TRIED` shorter ones, or else the given one."""
        symbols = sorted(representatives(self._classes))
        shorter = (
            source
            for length in range(self._machine.layout.shortest_source, len(wrong))
            for source in itertools.product(symbols, repeat=length)
        )
        return next(filter(self._is_wrong, itertools.islice(shorter, MAX_TRIED)), tuple(wrong))


def _is_wrong(machine: Machine, task: Task, source: Sequence[int]) -> bool:
    """Whether a machine, run by the decoder, answers a source otherwise than the task."""
    try:
        target = task.answer([machine.source[symbol] for symbol in source])
    except NotASource:
        return False
    answer = machine.run(source, len(target))
    written = [machine.target[symbol] if symbol >= 0 else "" for symbol in answer.target]
    if answer.failed or len(written) != len(target) or not answer.ended:
        return True
    return any(right not in (None, wrote) for right, wrote in zip(target, written, strict=True))
