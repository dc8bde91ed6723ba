"""Proofs that two machines give the same answers: by renaming, by their task, or by their product.

Theorem. If `prove_equivalent` returns an `Equivalence`, then for every source of the task but the
empty one, whatever its length, both machines give the same answer, that is the same outputs at all
scored positions and the same end; or neither has one.

The proof is about the machines, run as `automata.execution` runs them. It is one of

1. a bisimulation up to names: both do the same at all observations, if states, stack symbols and
   memories that correspond are taken for the same: checked by `bisimilar`;
2. two proofs that a machine is right on all sources of the task: `prove`, with its assumptions;
3. a bisimulation with the abstract memories of both: their product is explored, in which both read
   any string over the alphabet, as in `stacktrans.proofs.proof`, with the assumptions 3, 5 and 6
   there; two symbols of a class represent it if neither machine distinguishes them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, NamedTuple

from stacktrans.automata.execution import Transition
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import EMPTY, START
from stacktrans.proofs.product import FINISHED, WRONG, Product, ProductStep, Top, Unproved
from stacktrans.proofs.proof import (
    BisimulationProver,
    Counterexample,
    Invariant,
    prove,
    representatives,
)
from stacktrans.proofs.references import (
    FRESH,
    QUEUE,
    STACK,
    Reference,
    ReferenceStep,
    symbol_classes,
)
from stacktrans.tasks.alphabets import FAILED, NO_OUTPUT
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Layout

Method = Literal["renaming", "task", "product"]
"""The method of a proof: bisimilar up to names, right on the same task, or by the product."""
MOST_OBSERVATIONS = 1_000_000
"""The most observations that are compared."""
MOST_CORRESPONDENCES = 5000
"""The most correspondences of memories' ends that are tried: all of them for up to 5 memories."""
DIFFERENT = -4
"""The output of two machines that differ; `FAILED` if only one of them has no rule."""


@dataclass(frozen=True)
class Equivalence:
    """A proof that two machines give the same answers.

    Attributes:
        method: of the proof.
        situations: number of situations of the product; 0 for other methods.
        memories: the invariants of the memories of both machines in the product, by their names.
    """

    method: Method
    situations: int = 0
    memories: Mapping[str, Invariant] = field(default_factory=dict)


def prove_equivalent(one: Machine, other: Machine, task: Task) -> Equivalence | Counterexample:
    """Decide whether two machines give the same answer to every source of a task.

    Args:
        one: a machine.
        other: another, with the same alphabets.
        task: the task.

    Returns:
        the proof; or a source to which the answers differ.

    Raises:
        Unproved: there is neither a proof nor a difference.
    """
    classes = [*_common_classes(one, other)]
    if bisimilar(one, other):
        return Equivalence("renaming")
    is_different = partial(_is_different, one, other, task)
    with contextlib.suppress(Unproved):
        verdicts = [prove(machine, task) for machine in (one, other)]
        wrong = [verdict for verdict in verdicts if isinstance(verdict, Counterexample)]
        if not wrong:
            return Equivalence("task")
        for verdict in wrong:
            if is_different(verdict.source):
                return verdict
    return _by_product(_Pair.of(one, other), classes, is_different)


def distinct_symbols(one: Machine, other: Machine) -> list[str]:
    """Source symbols that represent all: if answers differ, so do some to strings of these."""
    return [one.source[number] for number in sorted(representatives(_common_classes(one, other)))]


def _common_classes(one: Machine, other: Machine) -> Iterator[tuple[int, ...]]:
    """The source symbols, by their numbers, in classes that neither machine distinguishes."""
    strings = _AllStrings(len(one.source))
    pairs = itertools.product(symbol_classes(one, strings), symbol_classes(other, strings))
    for symbols, others in pairs:
        if common := {*symbols} & {*others}:
            yield tuple(sorted(common))


def bisimilar(one: Machine, other: Machine) -> bool:
    """Whether machines are known to be bisimilar up to names of states, stack symbols and ends.

    Memories that no rule depends on are left aside. Bisimilar machines do the same at all
    observations, even those that never occur, and so give the same answers (Hopcroft & Karp 1971).
    """
    names = ("source", "target", "words", "buffers", "layout")
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    redundant = {*one.source} - {*distinct_symbols(one, other)}
    left_out = {one.symbols.index(symbol) for symbol in redundant}
    inputs = [at for at, (_, symbol) in enumerate(one.inputs.entries) if symbol not in left_out]
    rows, others = (sorted(each.memories.rows_behind(each.relevant_reads)) for each in (one, other))
    renamed = _Renamed(other, {end: end for row in others for end in (2 * row, 2 * row + 1)})
    return len(rows) == len(others) and any(
        _bisimilar((_Renamed(one, ends), renamed), other.memories.alphabets, inputs)
        for ends in itertools.islice(_correspondences(rows, others), MOST_CORRESPONDENCES)
    )


def _is_answered(layout: Layout, symbol: int) -> bool:
    """Whether the output after an input can be part of an answer."""
    is_joint = layout.feeds_back and not layout.consecutive
    return not is_joint or symbol in layout.after or symbol >= (layout.first_target or 0)


def _correspondences(rows: Sequence[int], others: Sequence[int]) -> Iterator[dict[int, int]]:
    """All ways in which the ends of rows can be those of others, whose tops may be bottoms."""
    for images in itertools.permutations(others):
        for flips in itertools.product((0, 1), repeat=len(rows)):
            ends = [*zip(rows, images, flips, strict=True)]
            yield {
                2 * row + side: 2 * of + (side ^ flip) for row, of, flip in ends for side in (0, 1)
            }


class _Step(NamedTuple):
    """A step of a machine: what it does, the stack symbols that it pushes, and its next state."""

    done: tuple[Any, ...]
    pushed: list[int]
    next_state: int


class _Renamed:
    """A machine under other names of its memories' ends; memories without a name are left aside.

    Args:
        machine: the machine.
        names: of ends.
    """

    def __init__(self, machine: Machine, names: Mapping[int, int]) -> None:
        self._machine, self._names = machine, names
        positions = machine.relevant_positions
        self.positions = [position and (names[position[0]], position[1]) for position in positions]

    def step(self, symbol: int, state: int, cells: Mapping[Any, int]) -> _Step | None:
        """A step, given an input and the stack symbols that are read; None if no rule applies."""
        machine, names = self._machine, self._names
        read = (cells[position] if position else EMPTY for position in self.positions)
        transition = machine.transition((symbol, *read, state))
        if transition is None:
            return None
        signals, output, pops, pushes, moves, next_state, _ = transition
        renamed = [(names[end], cell) for end, cell in pushes if end in names]
        pushed = sorted(renamed, key=lambda push: push[0])
        buffers = signals[-2:] if machine.buffers else ()
        is_output = _is_answered(machine.layout, symbol) and buffers[1:] != (0,)
        done = (
            sorted(names[end] for end in pops if end in names),
            [end for end, _ in pushed],
            [(names[taken], names[put]) for taken, put in moves if put in names],
            buffers,
            output if is_output else NO_OUTPUT,
        )
        return _Step(done, [cell for _, cell in pushed], next_state)


def _bisimilar(
    machines: tuple[_Renamed, _Renamed], alphabets: Sequence[int], inputs: Collection[int]
) -> bool:
    """Whether machines are known to be bisimilar if ends of the same name correspond.

    Args:
        machines: the machines.
        alphabets: the stack alphabets of memories; see `Ends`.
        inputs: those that are compared.
    """
    positions = sorted({*filter(None, [of for machine in machines for of in machine.positions])})
    # The states that occur together, and the stack symbols of each alphabet.
    states, cells = {(START, START)}, {alphabet: {(EMPTY, EMPTY)} for alphabet in alphabets}
    size = 0
    while size < (size := len(states) + sum(map(len, cells.values()))):
        parts: list[Collection[Any]] = [inputs, [*states]]
        parts += ([*cells[alphabets[end // 2]]] for end, _ in positions)
        if math.prod(map(len, parts)) > MOST_OBSERVATIONS:
            return False
        for symbol, *pairs in itertools.product(*parts):
            one, other = (
                machine.step(symbol, state, dict(zip(positions, read, strict=True)))
                for machine, (state, *read) in zip(machines, zip(*pairs, strict=True), strict=True)
            )
            if one is None or other is None or one.done != other.done:
                if one is not other:
                    return False
                continue
            states.add((one.next_state, other.next_state))
            for end, *pair in zip(one.done[1], one.pushed, other.pushed, strict=True):
                cells[alphabets[end // 2]].add((pair[0], pair[1]))
    return True


def _is_different(one: Machine, other: Machine, task: Task, source: Sequence[int]) -> bool:
    """Whether the decoder's answers to a source of the task differ where they are scored."""
    pair = task.exact_pair([one.source[symbol] for symbol in source])
    if pair is None:
        return False
    limit, scored = int(task.layout.limit(len(source))), pair.scored
    answers = []
    for target, log_probability, ended in (one.run(source, limit), other.run(source, limit)):
        symbols = target if scored is None else [*itertools.compress(target, scored)]
        answers.append(log_probability == 0 and (symbols, ended))
    return answers[0] != answers[1]


def _by_product(
    pair: _Pair, classes: Sequence[tuple[int, ...]], is_different: Callable[[Sequence[int]], bool]
) -> Equivalence | Counterexample:
    """Explore the product of two machines; raises `Unproved`."""
    layout, backwards = pair.layout, pair.layout.backwards
    if pair.other.layout != layout or pair.buffers or pair.other.buffers or layout.consecutive:
        raise Unproved(
            "machines with buffers, of streams, or of different layouts are not supported"
        )
    if pair.memories.moves:
        raise Unproved("lists are supported only if both machines use them in the same way")
    strings, symbols = _AllStrings(len(pair.source)), representatives(classes)
    product = _PairProduct(pair, strings, symbols)

    def differs(prefix: Sequence[int]) -> bool:
        return is_different(prefix[::-1] if backwards else prefix)

    used = [*_used_memories(pair.one), *_used_memories(pair.other)]
    verdict = BisimulationProver(product, classes, differs, used).prove()
    if isinstance(verdict, Counterexample):
        return Counterexample(verdict.source[::-1] if backwards else verdict.source)
    memories = dict(zip(pair.memories.names, verdict.invariants, strict=True))
    return Equivalence("product", verdict.situations, memories)


def _used_memories(machine: Machine) -> Iterator[str]:
    """What each memory is used as: a stack if cells are pushed at the ends that are read."""
    pushes, rules = machine.memories.pushes, machine.rules
    pushed = {end for signal, end in pushes if any(rule.signals[signal] for rule in rules)}
    for row in range(len(machine.stack_symbols)):
        read = {end for end in machine.relevant_reads if end // 2 == row}
        yield STACK if read <= pushed else QUEUE


class _AllStrings(Reference):
    """An automaton that reads all strings, and whose symbols are interchangeable.

    Args:
        size: number of symbols.
    """

    memory = None

    def __init__(self, size: int) -> None:
        self._symbols = range(size)
        self.interchangeable = (frozenset(self._symbols),)

    def steps(self, state: Hashable, top: Hashable | None) -> Iterator[ReferenceStep]:
        return (ReferenceStep(symbol, None, "read") for symbol in self._symbols)


@dataclass(frozen=True)
class _Pair(Machine):
    """Two machines side by side as one, which has a rule unless both have none.

    Attributes:
        one: the first; the other attributes of a machine are its own.
        other: the second, whose memories follow those of the first.
    """

    one: Machine
    other: Machine

    @classmethod
    def of(cls, one: Machine, other: Machine) -> _Pair:
        """The pair of two machines."""
        ends = other.memories.shifted(len(one.stack_symbols), 0)
        depths = (depth for each in (one, other) for _, depth in each.memories.read_positions)
        memories = one.memories._replace(
            names=(*one.memories.names, *(f"{name} of the other machine" for name in ends.names)),
            reads=(*one.memories.reads, *ends.reads),
            depths=tuple(depths),
            moves=(*one.memories.moves, *ends.moves),
        )
        parts = {part.name: getattr(one, part.name) for part in fields(Machine)}
        parts |= {"memories": memories, "stack_symbols": one.stack_symbols + other.stack_symbols}
        return cls(**parts, one=one, other=other)

    @functools.cached_property
    def relevant(self) -> frozenset[int]:
        reads = [*self.one.relevant_positions, *self.other.relevant_positions]
        return frozenset(at for at, position in enumerate(reads, start=1) if position)

    def transition(self, observation: tuple[int, ...]) -> Transition | None:
        symbol, *read, state = observation
        reads, states = len(self.one.memories.reads), divmod(state, self.other.states.size)
        one = self.one.transition((symbol, *read[:reads], states[0]))
        other = self.other.transition((symbol, *read[reads:], states[1]))
        if one is None or other is None:
            return None if one is other else Transition((), FAILED, (), (), (), START)
        shift = 2 * len(self.one.stack_symbols)
        return Transition(
            signals=(),
            output=one.output if one.output == other.output else DIFFERENT,
            pops=(*one.pops, *(end + shift for end in other.pops)),
            pushes=(*one.pushes, *((end + shift, cell) for end, cell in other.pushes)),
            moves=(),
            next_state=one.next_state * self.other.states.size + other.next_state,
        )


class _PairProduct(Product):
    """The product of two machines that read the same strings.

    A state is whether something was read, and the next input if it is certain, -1 otherwise.
    """

    @property
    def start(self) -> Any:
        return (FRESH, *self.machine.layout.before, -1)[:2]

    def steps(self, state: Any, top: Top) -> Iterator[ProductStep]:
        read, symbol = state
        inputs = (symbol,) if symbol >= 0 else self.machine.layout.after if read != FRESH else ()
        yield from (ProductStep(each, None, None, state) for each in inputs)
        if symbol < 0:
            for each, step in self._source_steps(read, None):
                yield ProductStep(each, step, None, (step.next_state, -1))

    def after(self, step: ProductStep, transition: Transition | None) -> Any:
        if transition is None:
            return FINISHED
        (read, _), layout, output = step.next_state, self.machine.layout, transition.output
        if output == FAILED or (output == DIFFERENT and _is_answered(layout, step.symbol)):
            return WRONG
        if layout.first_target is None or not _is_answered(layout, step.symbol):
            return read, -1
        return (
            FINISHED
            if output in (layout.end, NO_OUTPUT, *layout.last)
            else (read, layout.first_target + output)
        )
