"""Rules in words: "reading a symbol: push it"; "writing: pop, write it"."""

from __future__ import annotations

from collections.abc import Iterable

from stacktrans.automata.machine import CONSTANT, EMPTY, Machine, Rule, Term, Things
from stacktrans.common.visible import listed

MOST_NAMED = 6
"""How many things are named one by one."""
_MARKS = {"begin": "<s>", "separator": "|||", "end": "</s>", "blank": "#", "nothing": "no input"}
"""How inputs and outputs that are no symbols of the task are shown."""


def thing(machine: Machine, things: Things, number: int) -> str:
    """What a thing is called."""
    series, symbol = things.each[number]
    name = things.series[series].name
    if symbol is None:
        return _MARKS.get(name, name)
    return machine.symbols[symbol] + (_suffix(name) or "")


def _suffix(name: str) -> str | None:
    """What follows a symbol by the name of its series: '2 for "symbol 2"; None for another name."""
    return name.removeprefix("symbol").replace(" ", "'") if name.startswith("symbol") else None


def some(machine: Machine, things: Things, numbers: Iterable[int]) -> str:
    """Several things in few words: all of a series by its name, with what it lacks."""
    wanted, parts = set(numbers), []
    for index, series in enumerate(things.series):
        own = {number for number, (of, _) in enumerate(things.each) if of == index}
        there, lacking = own & wanted, sorted(own - wanted)
        if not there:
            continue
        if series.symbols is not None and len(own) > 1 and len(lacking) < len(there):
            named = [thing(machine, things, each) for each in lacking]
            but = f" but {listed(named)}" if len(named) <= MOST_NAMED else f" but {len(named)}"
            parts.append(f"a {series.name}{but if named else ''}")
        else:
            named = [thing(machine, things, each) for each in sorted(there)]
            parts += named if len(named) <= MOST_NAMED else [f"{len(named)} of {series.name}s"]
    return listed(parts, "or")


def _end_name(machine: Machine, end: int) -> str:
    """What an end of a memory is called: by the memory, and the end if several of it are used."""
    memories = machine.memories
    used, name = {*memories.reads, *(own for _, own in memories.pops)}, memories.names[end // 2]
    return f"{name} {'bottom' if end % 2 else 'top'}" if {end, end ^ 1} <= used else name


def place_names(machine: Machine) -> list[str]:
    """What the places of rules are called."""
    reads = []
    for end, depth in machine.memories.places:
        under = f" under {'its top' if depth == 1 else f'{depth} more'}"
        if machine.memories.moves:
            under = f" {depth} left of its head"
        reads.append(f"{_end_name(machine, end)}{under if depth else ''}")
    return ["symbol", *reads, "state"]


def _held(machine: Machine, things: Things, own: frozenset[int]) -> str:
    """What may be read of a memory: "is empty", "has a symbol", "is empty or has a symbol"."""
    stack_symbols, parts = own - {EMPTY}, ["is empty"] if EMPTY in own else []
    if stack_symbols:
        every = len(stack_symbols) == things.size - 1
        parts.append(f"has {'anything' if every else some(machine, things, stack_symbols)}")
    return listed(parts, "or")


def _said(machine: Machine, term: Term, things: Things) -> str:
    if term.place == CONSTANT:
        return thing(machine, things, term.thing)
    name = things.series[term.thing].name
    suffix = _suffix(name)
    if term.place == 0:
        what = "it"
    elif len(machine.memories.reads) == 1:
        what = "what is read"
    else:
        what = f"that of {place_names(machine)[term.place]}"
    return what + (f" as {name}" if suffix is None else suffix)


def actions(machine: Machine, rule: Rule) -> list[str]:
    """What a rule does, in order."""
    memories, signals, found = machine.memories, rule.signals, []

    def at(end: int, word: str) -> str:
        """An end, after a word, unless it is that of the only memory."""
        name = _end_name(machine, end)
        return "" if memories.names == (name,) else f"{word} {name}"

    found += [f"pop{at(end, '')}" for signal, end in memories.pops if signals[signal]]
    for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True):
        if signals[signal] and term is not None:
            found.append(
                f"push {_said(machine, term, machine.stack_symbols[end // 2])}{at(end, ' on')}"
            )
    for signal, taken, _ in memories.moves:
        if signals[signal]:
            left = taken // 2 % 2 == 0
            name = memories.names[taken // 2 - (not left)]
            of_list = "" if len(memories.names) == 1 else f" in {name}"
            found.append(f"move {'left' if left else 'right'}{of_list}")
    if machine.buffers and signals[-2]:
        found.append("read on")
    if rule.output is not None and (not machine.buffers or signals[-1]):
        found.append(f"write {_said(machine, rule.output, machine.outputs)}")
    next_state = rule.next_state.thing
    if (
        machine.states.size > 1
        and rule.next_state.place == CONSTANT
        and rule.when[-1] != frozenset([next_state])
    ):
        found.append(f"go to {thing(machine, machine.states, next_state)}")
    return found


def starts(machine: Machine, rule: Rule) -> str:
    """The states that a rule holds in; all of many but a few by those few."""
    own = rule.when[-1]
    if own is None:
        return "any"
    lacking = sorted(set(range(machine.states.size)) - own)
    if machine.states.size > MOST_NAMED and len(lacking) < len(own):
        return f"any but {listed([thing(machine, machine.states, each) for each in lacking])}"
    return listed([thing(machine, machine.states, each) for each in sorted(own)], "or")


def conditions(machine: Machine, rule: Rule) -> list[str]:
    """When a rule holds, but for the state."""
    names, found = place_names(machine), []
    for place, (things, own) in enumerate(zip(machine.places[:-1], rule.when[:-1], strict=True)):
        if own is not None and place:
            found.append(f"{names[place]} {_held(machine, things, own)}")
        elif own is not None:
            found.append(f"reading {some(machine, things, own)}")
    for one, other, same in rule.equal:
        found.append(f"{names[one]} and {names[other]} {'agree' if same else 'differ'}")
    return found


def situation(machine: Machine, rule: Rule) -> str:
    """When a rule holds, in words, the state included if there are several."""
    several = machine.states.size > 1 and rule.when[-1] is not None
    state = [f"in {starts(machine, rule)}"] if several else []
    return ", ".join([*state, *conditions(machine, rule)]) or "always"


def sentence(machine: Machine, rule: Rule) -> str:
    """A rule in words."""
    return f"{situation(machine, rule)}: {', '.join(actions(machine, rule)) or 'do nothing'}"
