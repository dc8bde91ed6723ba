"""All reachable situations: states of machine and reference automaton with abstract memories.

A situation is a state of both automata with an abstraction of their memories. If reading depends on
something unknown, the situation waits at a node, and continues once for each of the node's edges,
those that are added later included. When nothing is left to expand, the situations are an inductive
invariant: every step of a situation leads to another.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from stacktrans.automata.execution import Transition
from stacktrans.automata.rules import EMPTY, START
from stacktrans.common.ends import BOTTOM, TOP
from stacktrans.proofs.abstractions import Abstraction, Operations, Unknown
from stacktrans.proofs.product import FINISHED, WRONG, Product, ProductStep, Unproved
from stacktrans.proofs.references import QUEUE

MAX_SITUATIONS = 50_000
"""Maximum number of situations of a proof."""
Trail = tuple[Any, ...]
"""Symbols of a source, nested: none, one, or two trails after one another."""
Node = tuple[int, Hashable]
"""A node of an abstraction, after the index of that."""


class Situation(NamedTuple):
    """A situation: states of both automata, with abstract memory contents.

    Attributes:
        product: the state of the `Product`, which has that of the reference.
        state: of the machine.
        contents: of their memories, by abstractions.
    """

    product: Any
    state: int
    contents: tuple[Any, ...]


class Explorer:
    """A worklist algorithm that reaches all situations.

    Args:
        product: of the machine and the reference.
        abstractions: by the parts that they describe; a part without one is never read. One whose
            edges are exact comes last.

    Attributes:
        situations: the situations that were reached, each with the symbols that lead to it.
        relation: states of the reference and of the machine that are reached together.
    """

    def __init__(self, product: Product, abstractions: Mapping[int, Abstraction]) -> None:
        self.situations: dict[Situation, Trail] = {}
        self.relation = set[tuple[Hashable, int]]()
        self._product = product
        self._abstractions = [*dict.fromkeys(abstractions.values())]
        self._indices = {part: self._abstractions.index(own) for part, own in abstractions.items()}
        self._pop_side = BOTTOM if product.reference.memory == QUEUE else TOP
        # The edges of each node, each with the symbols read since the node below was reached.
        self._edges: defaultdict[Node, dict[Any, Trail]] = defaultdict(dict)
        self._waiting: defaultdict[Node, list[Situation]] = defaultdict(list)
        self._queue = deque[Situation]()
        self._wrong: list[list[int]] = []

    def explore(self) -> Iterator[list[int]]:
        """Expand all situations, and give sources that seem to be answered wrongly.

        They may be the beginnings of sources, and the machine may answer them correctly, since
        abstractions describe too much.

        Raises:
            Refuted: the invariant of an abstraction does not hold.
            Unproved: the product cannot be followed, or there are too many situations.
        """
        contents = tuple(abstraction.start for abstraction in self._abstractions)
        self._add(Situation(self._product.start, START, contents), ())
        while self._queue:
            situation = self._queue.popleft()
            try:
                self._expand(situation)
            except Unknown as unknown:
                node = self._indices[unknown.part], unknown.node
                self._waiting[node].append(situation)
                for value in self._edges[node]:
                    self._reveal(situation, node, value)
            yield from self._wrong
            self._wrong.clear()

    def _add(self, situation: Situation, trail: Trail) -> None:
        if situation in self.situations:
            return
        if len(self.situations) >= MAX_SITUATIONS:
            raise Unproved(f"there are more than {MAX_SITUATIONS:,} reachable situations")
        self.situations[situation] = trail
        self._queue.append(situation)

    def _expand(self, situation: Situation) -> None:
        """Take all steps of both automata from a situation."""
        product, machine = self._product, self._product.machine
        self.relation.add((situation.product[0], situation.state))
        reads = []
        for position in machine.relevant_positions:
            cell = None
            if position:
                end, depth = position
                cell = self._read(situation, end // 2 + 1, end % 2, depth)
            reads.append(EMPTY if cell is None else cell)
        top = partial(self._read, situation, 0, self._pop_side)
        for step in product.steps(situation.product, top):
            transition = machine.transition((step.symbol, *reads, situation.state))
            self._take(situation, step, transition)

    def _read(self, situation: Situation, part: int, side: int, depth: int = 0) -> Any:
        if part == 0 and self._product.reference.memory is None:
            return None
        index = self._indices[part]
        return self._abstractions[index].read(situation.contents[index], part, side, depth)

    def _take(self, situation: Situation, step: ProductStep, transition: Transition | None) -> None:
        """Take a step of both automata."""
        read = (step.reference.symbol,) if step.reference and step.reference.symbol >= 0 else ()
        trail: Trail = (self.situations[situation], read)
        after = self._product.after(step, transition)
        if after == WRONG:
            self._wrong.append(self._source(situation, trail))
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
        self._add(Situation(after, transition.next_state, head[2:]), trail)

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
        trail = self._edges[node][value], self.situations[situation]
        contents = situation.contents
        for known in self._abstractions[index].reveal(contents[index], name, value):
            revealed = (*contents[:index], known, *contents[index + 1 :])
            self._add(situation._replace(contents=revealed), trail)

    def _source(self, situation: Situation, trail: Trail) -> list[int]:
        """The source along a trail, from the first symbol on."""
        index, below = len(self._abstractions) - 1, situation.contents[-1]
        while (node := self._abstractions[index].below(below)) is not None:
            below, before = next(iter(self._edges[index, node].items()))
            trail = before, trail
        return _flat(trail)


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
