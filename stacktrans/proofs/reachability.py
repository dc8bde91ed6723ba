"""All situations that a machine and its reference automaton can reach together.

A situation is a state of both automata with an abstraction of their memories. If reading depends on
something unknown, the situation waits at a node, and continues once for each of the node's edges,
those that are added later included. When nothing is left to expand, the situations are an inductive
invariant: every step of a situation leads to another.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from stacktrans.automata.machine import Transition
from stacktrans.automata.rules import EMPTY, START
from stacktrans.common.ends import BOTTOM, TOP
from stacktrans.proofs.abstractions import Abstraction, Operations, Unknown
from stacktrans.proofs.product import FINISHED, WRONG, Product, ProductStep, Unproved
from stacktrans.proofs.references import QUEUE

MOST_SITUATIONS = 50_000
"""Maximum number of situations of a proof, and of a search for a shorter counterexample."""
Trail = tuple[Any, ...]
"""Symbols of a source, nested: none, one, or two trails after one another."""
Node = tuple[int, Hashable]
"""A node of an abstraction, after the index of that."""


class Situation(NamedTuple):
    """What is known of both automata after some steps.

    Attributes:
        product: the state of their product.
        state: of the machine.
        contents: of their memories, by abstractions.
    """

    product: Any
    state: int
    contents: tuple[Any, ...]


@dataclass(frozen=True)
class Reachable:
    """The situations that were reached.

    Attributes:
        situations: how many there are.
        relation: states of the reference and of the machine that are reached together.
        wrong: a source, or the beginning of one, that leads to a wrong output; None if there is no
            wrong output. The machine may answer it correctly, as abstractions describe too much.
    """

    situations: int
    relation: frozenset[tuple[Hashable, int]]
    wrong: list[int] | None


class Explorer:
    """A worklist algorithm that reaches all situations, up to a wrong output.

    Args:
        product: of the machine and the reference.
        abstractions: by the parts that they describe; a part without one is never read. One whose
            edges are exact comes last.
        shortest: whether sources are followed in the order of their lengths, so that the wrong one
            is the shortest; all contents have to be known.
    """

    def __init__(
        self, product: Product, abstractions: Mapping[int, Abstraction], shortest: bool = False
    ) -> None:
        self._product, self._shortest = product, shortest
        self._abstractions = [*dict.fromkeys(abstractions.values())]
        self._indices = {
            part: self._abstractions.index(each) for part, each in abstractions.items()
        }
        self._pop_side = BOTTOM if product.reference.memory == QUEUE else TOP
        self._trails: dict[Situation, Trail] = {}
        # The edges of each node, each with the symbols read since the node below was reached.
        self._edges: defaultdict[Node, dict[Any, Trail]] = defaultdict(dict)
        self._waiting: defaultdict[Node, list[Situation]] = defaultdict(list)
        self._queue: list[tuple[int, int, Situation]] = []
        self._order = itertools.count()
        self._relation = set[tuple[Hashable, int]]()
        self._wrong: tuple[int, list[int]] | None = None

    def explore(self) -> Reachable:
        """Expand situations until none is left, or an output is wrong.

        Raises:
            Refuted: the invariant of an abstraction does not hold.
            Unproved: the product cannot be followed, or there are too many situations.
        """
        contents = tuple(abstraction.start for abstraction in self._abstractions)
        self._add(Situation(self._product.start, START, contents), (), 0)
        while self._queue and (self._wrong is None or self._queue[0][0] < self._wrong[0]):
            length, _, situation = heapq.heappop(self._queue)
            try:
                self._expand(situation, length)
            except Unknown as unknown:
                node = self._indices[unknown.part], unknown.node
                self._waiting[node].append(situation)
                for value in self._edges[node]:
                    self._reveal(situation, node, value)
        wrong = None if self._wrong is None else self._wrong[1]
        return Reachable(len(self._trails), frozenset(self._relation), wrong)

    def _add(self, situation: Situation, trail: Trail, length: int) -> None:
        if situation in self._trails:
            return
        if len(self._trails) >= MOST_SITUATIONS:
            raise Unproved(f"there are more than {MOST_SITUATIONS:,} situations to look at")
        self._trails[situation] = trail
        heapq.heappush(self._queue, (length, next(self._order), situation))

    def _expand(self, situation: Situation, length: int) -> None:
        """Take all steps of both automata from a situation."""
        product, machine = self._product, self._product.machine
        self._relation.add((situation.product[0], situation.state))
        reads = []
        for component, (end, depth) in enumerate(machine.memories.read_positions, start=1):
            cell = None
            if component in machine.relevant:
                cell = self._read(situation, end // 2 + 1, end % 2, depth)
            reads.append(EMPTY if cell is None else cell)
        top = partial(self._read, situation, 0, self._pop_side)
        for step in product.steps(situation.product, top if product.reference.memory else _nothing):
            transition = machine.transition((step.symbol, *reads, situation.state))
            self._take(situation, step, transition, length)

    def _read(self, situation: Situation, part: int, side: int, depth: int = 0) -> Any:
        index = self._indices[part]
        return self._abstractions[index].read(situation.contents[index], part, side, depth)

    def _take(
        self, situation: Situation, step: ProductStep, transition: Transition | None, length: int
    ) -> None:
        """Take a step of both automata."""
        read = (step.reference.symbol,) if step.reference and step.reference.symbol >= 0 else ()
        trail: Trail = (self._trails[situation], read)
        length += sum(map(self._product.reference.length, read))
        after = self._product.after(step, transition)
        if after == WRONG and (self._wrong is None or length < self._wrong[0]):
            self._wrong = length if self._shortest else 0, self._source(situation, trail)
        if transition is None or after in (FINISHED, WRONG):
            return
        head: tuple[Any, ...] = after, transition.next_state
        done = self._operations(step, transition)
        for index, abstraction in enumerate(self._abstractions):
            contents, edges = abstraction.step(situation.contents[index], done, head)
            for node, value in edges:
                self._add_edge((index, node), value, trail if abstraction.exact else ())
                trail = () if abstraction.exact else trail
            head = (*head, contents)
        self._add(Situation(after, transition.next_state, head[2:]), trail, length)

    def _operations(self, step: ProductStep, transition: Transition) -> Operations:
        """The pops and pushes of a step of both automata, by parts."""
        done: Operations = defaultdict(lambda: ([], []))
        if step.reference:
            pushes = [(TOP, cell) for cell in step.reference.pushed]
            done[0] = [self._pop_side] * step.reference.pops, pushes
        for end in transition.pops:
            done[end // 2 + 1][0].append(end % 2)
        for end, symbol in transition.pushes:
            done[end // 2 + 1][1].append((end % 2, symbol))
        return done

    def _add_edge(self, node: Node, value: Any, trail: Trail) -> None:
        if value in self._edges[node]:
            return
        self._edges[node][value] = trail
        for situation in self._waiting[node]:
            self._reveal(situation, node, value)

    def _reveal(self, situation: Situation, node: Node, value: Any) -> None:
        """Continue a situation that waits at a node by one of its edges."""
        index, name = node
        trail = self._edges[node][value], self._trails[situation]
        contents = situation.contents
        for known in self._abstractions[index].reveal(contents[index], name, value):
            revealed = (*contents[:index], known, *contents[index + 1 :])
            self._add(situation._replace(contents=revealed), trail, 0)

    def _source(self, situation: Situation, trail: Trail) -> list[int]:
        """The source along a trail, from the first symbol on."""
        index, below = len(self._abstractions) - 1, situation.contents[-1]
        while (node := self._abstractions[index].below(below)) is not None:
            below, before = next(iter(self._edges[index, node].items()))
            trail = before, trail
        return _flat(trail)


def _nothing() -> None:
    """The cell that is read without a memory."""


def _flat(trail: Trail) -> list[int]:
    """The symbols of a trail, without recursion, as trails can be nested deeply."""
    symbols, stack = list[int](), [trail]
    while stack:
        part = stack.pop()
        if isinstance(part, int):
            symbols.append(part)
        else:
            stack += reversed(part)
    return symbols
