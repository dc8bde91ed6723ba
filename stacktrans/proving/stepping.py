"""A machine's step as a function of what stands in its places, apart from any run."""

from __future__ import annotations

from typing import NamedTuple

from stacktrans.machines.definition import CONSTANT, Machine, Term
from stacktrans.machines.running import ASKED_NOTHING, Tables, fits


class Done(NamedTuple):
    """What a machine does in a step.

    Attributes:
        signals: those of the rule that holds.
        said: the output; `ASKED_NOTHING` where it has learned none.
        popped: the ends of memories at which something is popped, in this order.
        pushed: then, the ends at which something is pushed, and its kind.
        after: the next state.
    """

    signals: tuple[int, ...]
    said: int
    popped: tuple[int, ...]
    pushed: tuple[tuple[int, int], ...]
    after: int


class Stepping:
    """The steps of a machine.

    Args:
        machine: whose they are.

    Attributes:
        seen: the numbers of the places of memories that some rule looks at.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine, self._tables = machine, Tables(machine)
        self._known: dict[tuple[int, ...], Done | None] = {}
        self.seen = frozenset(
            place
            for place in range(1, len(machine.places) - 1)
            if any(self._looks(number, place) for number in range(len(machine.rules)))
        )

    def _looks(self, number: int, place: int) -> bool:
        rule, size = self._machine.rules[number], self._machine.places[place].size
        own = rule.when[place]
        terms = (rule.output, rule.after, *rule.pushed)
        return (
            (own is not None and len(own) < size)
            or any(place in (one, other) for one, other, _ in rule.equal)
            or any(term is not None and term.place == place for term in terms)
        )

    def step(self, places: tuple[int, ...]) -> Done | None:
        """What is done; None if no rule says it."""
        if places not in self._known:
            self._known[places] = self._found(places)
        return self._known[places]

    def _found(self, places: tuple[int, ...]) -> Done | None:
        machine, letters = self._machine, self._tables.letters
        rule = next((rule for rule in machine.rules if fits(rule, places, letters)), None)
        if rule is None:
            return None
        memories = machine.memories
        pushed = tuple(
            (end, self._value(term, places, end // 2))
            for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True)
            if rule.signals[signal] and term is not None
        )
        output = rule.output or Term(CONSTANT, ASKED_NOTHING)
        place, table = self._tables.table(output, machine.outputs)
        said = table[(0, *places)[place]]
        place, table = self._tables.table(rule.after, machine.states)
        after = table[(0, *places)[place]]
        if after < 0 or any(kind < 0 for _, kind in pushed):
            return None
        popped = tuple(end for signal, end in memories.pops if rule.signals[signal])
        return Done(rule.signals, said, popped, pushed, after)

    def _value(self, term: Term, places: tuple[int, ...], memory: int) -> int:
        place, table = self._tables.table(term, self._machine.kinds[memory])
        return table[(0, *places)[place]]
