"""Proofs that two machines give the same answers: by renaming, by their task, or by their product.

Theorem. If `prove_equivalent` returns an `Equivalence`, then for every source of the task, of any
length, both machines give the same answer, that is, the same outputs at all scored positions and
the same end; or neither gives an answer. Only tasks with labels have the empty source.

The proof is about the machines, run as `automata.execution` runs them. It is one of

1. a bisimulation up to names: both do the same at all observations, if states, stack symbols and
   memories that correspond are taken for the same: checked in
   `stacktrans.proofs.renaming`;
2. two proofs that a machine is right on all sources of the task: `prove`, with its assumptions;
3. a bisimulation with the abstract memories of both: their product is explored, in which both read
   any string over the alphabet, as in `stacktrans.proofs.proof`, with the assumptions 3, 5 and 6
   there; two symbols of a class represent it if neither machine distinguishes them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from stacktrans.automata.execution import Transition
from stacktrans.automata.machine import Machine
from stacktrans.common.errors import StacktransError
from stacktrans.proofs.product import FINISHED, WRONG, Product, ProductStep, Top, Unproved
from stacktrans.proofs.proof import (
    BisimulationProver,
    Counterexample,
    Invariant,
    prove,
    representatives,
)
from stacktrans.proofs.references import FRESH, QUEUE, STACK, AllStrings
from stacktrans.proofs.renaming import bisimilar, common_classes, is_answered
from stacktrans.tasks.alphabets import FAILED, NO_OUTPUT
from stacktrans.tasks.base import Task

Method = Literal["renaming", "task", "product"]
"""The method of a proof: bisimilar up to names, right on the same task, or by the product."""
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
    if bisimilar(one, other):
        return Equivalence("renaming")
    is_different = functools.partial(_is_different, one, other, task)
    with contextlib.suppress(Unproved):
        verdicts = [prove(machine, task) for machine in (one, other)]
        wrong = [verdict for verdict in verdicts if isinstance(verdict, Counterexample)]
        if not wrong:
            return Equivalence("task")
        for verdict in wrong:
            if is_different(verdict.source):
                return verdict
    return _by_product(_Pair.of(one, other), [*common_classes(one, other)], is_different)


def _is_different(one: Machine, other: Machine, task: Task, source: Sequence[int]) -> bool:
    """Whether the decoder's answers to a source of the task differ where they are scored."""
    written = task.source.decode(source)
    pair = task.exact_pair(written)
    # The answers of files are not known, but any string that can be written is a source.
    if pair is None and not (task.file_parameters and _can_be_written(task, written)):
        return False
    limit, scored = int(task.layout.limit(len(source))), pair and pair.scored
    answers = []
    for target, log_probability, ended in (one.run(source, limit), other.run(source, limit)):
        symbols = target if scored is None else [*itertools.compress(target, scored)]
        answers.append(log_probability == 0 and (symbols, ended))
    return answers[0] != answers[1]


def _can_be_written(task: Task, symbols: Sequence[str]) -> bool:
    with contextlib.suppress(StacktransError):
        return [*task.source.split(task.source.join(symbols))] == [*symbols]
    return False


def _by_product(
    pair: _Pair, classes: Sequence[tuple[int, ...]], is_different: Callable[[Sequence[int]], bool]
) -> Equivalence | Counterexample:
    """Explore the product of two machines; raises `Unproved`."""
    layout, backwards = pair.layout, pair.layout.backwards
    if pair.other.layout != layout or pair.buffers or pair.other.buffers or layout.consecutive:
        raise Unproved(
            "machines with buffers, of streams, or of different layouts are not supported"
        )
    if pair.one.memories.moves or pair.other.memories.moves:
        raise Unproved("lists are supported only if both machines use them in the same way")
    strings = AllStrings(len(pair.source), layout.shortest_source)
    symbols = representatives(classes)
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
    """The use of each memory: a stack if cells are pushed at all ends that are read, or a queue."""
    pushes, rules = machine.memories.pushes, machine.rules
    pushed = {end for signal, end in pushes if any(rule.signals[signal] for rule in rules)}
    for row in range(len(machine.stack_symbols)):
        read = {end for end in machine.relevant_reads if end // 2 == row}
        yield STACK if read <= pushed else QUEUE


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
        names = (f"{name} of the other machine" for name in other.memories.names)
        memories = one.memories._replace(names=(*one.memories.names, *names))
        parts = {part.name: getattr(one, part.name) for part in fields(Machine)}
        parts |= {"memories": memories, "stack_symbols": one.stack_symbols + other.stack_symbols}
        return cls(**parts, one=one, other=other)

    @functools.cached_property
    def relevant_positions(self) -> list[tuple[int, int] | None]:
        shift = 2 * len(self.one.stack_symbols)
        positions = self.other.relevant_positions
        others = (position and (position[0] + shift, position[1]) for position in positions)
        return [*self.one.relevant_positions, *others]

    def transition(self, observation: tuple[int, ...]) -> Transition | None:
        symbol, *read, state = observation
        reads, states = len(self.one.memories.reads), divmod(state, self.other.states.size)
        one = self.one.transition((symbol, *read[:reads], states[0]))
        other = self.other.transition((symbol, *read[reads:], states[1]))
        if one is None or other is None:
            return None if one is other else Transition(output=FAILED)
        shift = 2 * len(self.one.stack_symbols)
        return Transition(
            output=one.output if one.output == other.output else DIFFERENT,
            pops=(*one.pops, *(end + shift for end in other.pops)),
            pushes=(*one.pushes, *((end + shift, cell) for end, cell in other.pushes)),
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
        ends = self.machine.layout.after if self.reference.accepts(read, None) else ()
        inputs = (symbol,) if symbol >= 0 else ends
        yield from (ProductStep(each, None, None, state) for each in inputs)
        if symbol < 0:
            for each, step in self._source_steps(read, None):
                yield ProductStep(each, step, None, (step.next_state, -1))

    def after(self, step: ProductStep, transition: Transition | None) -> Any:
        if transition is None:
            return FINISHED
        (read, _), layout, output = step.next_state, self.machine.layout, transition.output
        if output == FAILED or (output == DIFFERENT and is_answered(layout, step.symbol)):
            return WRONG
        if layout.first_target is None or not is_answered(layout, step.symbol):
            return read, -1
        if output in (layout.end, NO_OUTPUT, *layout.last):
            return FINISHED
        return read, layout.first_target + output
