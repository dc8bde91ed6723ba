"""Rules in words: "reading a letter: push it"; "writing: pop, write it"."""

from __future__ import annotations

from collections.abc import Iterable

from stacktrans.common.visible import listed
from stacktrans.machines.definition import CONSTANT, EMPTY, Machine, Rule, Term, Things

MOST_NAMED = 6
"""How many things are named one by one."""
_MARKS = {"begin": "<s>", "separator": "|||", "end": "</s>", "blank": "#", "nothing": "no input"}
"""How symbols without a letter are shown."""


def thing(machine: Machine, things: Things, number: int) -> str:
    """What a thing is called."""
    series, letter = things.each[number]
    own = things.series[series]
    if letter is None:
        return _MARKS.get(own.name, own.name)
    suffix = own.name.removeprefix("letter") if own.name.startswith("letter ") else ""
    return machine.letters[letter] + suffix.replace(" ", "'")


def some(machine: Machine, things: Things, numbers: Iterable[int]) -> str:
    """Several things in few words: all of a series by its name, with what it lacks."""
    left, parts = set(numbers), []
    first = 0
    for series in things.series:
        own = set(range(first, first + series.size))
        first += series.size
        there = own & left
        if not there:
            continue
        lacking = sorted(own - there)
        if series.letters is not None and len(own) > 1 and len(lacking) < len(there):
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
    lists = bool(machine.memories.moves)
    reads = [_under(deep, _end_name(machine, end), lists) for end, deep in machine.memories.places]
    return ["symbol", *reads, "state"]


def _under(depth: int, name: str, lists: bool) -> str:
    """What is called that is read so deep in a memory, from 0; left of the head in lists."""
    if not depth:
        return name
    if lists:
        return f"{name} {depth} left of its head"
    return f"{name} under {'its top' if depth == 1 else f'{depth} more'}"


def _held(machine: Machine, things: Things, own: frozenset[int]) -> str:
    """What may be read of a memory: "is empty", "has a letter", "is empty or has a letter"."""
    kinds = own - {EMPTY}
    every = len(kinds) == things.size - 1
    parts = ["is empty"] if EMPTY in own else []
    if kinds:
        parts.append(f"has {'anything' if every else some(machine, things, kinds)}")
    return listed(parts, "or")


def _said(machine: Machine, term: Term, things: Things) -> str:
    if term.place == CONSTANT:
        return thing(machine, things, term.thing)
    names = place_names(machine)
    own = things.series[term.thing].name
    suffix = (
        own.removeprefix("letter").replace(" ", "'") if own.startswith("letter") else f" as {own}"
    )
    if term.place == 0:
        return f"it{suffix}"
    single = len(machine.memories.reads) == 1
    return f"{'what is read' if single else f'that of {names[term.place]}'}{suffix}"


def actions(machine: Machine, rule: Rule) -> list[str]:
    """What a rule does, in order."""
    memories, found = machine.memories, []
    single = len(memories.names) == 1
    for signal, end in memories.pops:
        if rule.signals[signal]:
            name = _end_name(machine, end)
            found.append("pop" if [name] == [*memories.names] else f"pop {name}")
    for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True):
        if rule.signals[signal] and term is not None:
            what, name = _said(machine, term, machine.kinds[end // 2]), _end_name(machine, end)
            found.append(f"push {what}{'' if [name] == [*memories.names] else f' on {name}'}")
    for signal, taken, _ in memories.moves:
        if rule.signals[signal]:
            left = taken // 2 % 2 == 0
            name = memories.names[taken // 2 - (not left)]
            found.append(f"move {'left' if left else 'right'}{'' if single else f' in {name}'}")
    if machine.buffers and rule.signals[-2]:
        found.append("read on")
    if rule.output is not None and (not machine.buffers or rule.signals[-1]):
        found.append(f"write {_said(machine, rule.output, machine.outputs)}")
    if machine.states.size > 1 and rule.after.place == CONSTANT:
        after = rule.after.thing
        starts = rule.when[-1]
        if starts != frozenset([after]):
            found.append(f"go to {thing(machine, machine.states, after)}")
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
    for place, own in enumerate(rule.when[:-1]):
        if own is None:
            continue
        things = machine.places[place]
        if place:
            found.append(f"{names[place]} {_held(machine, things, own)}")
        else:
            found.append(f"reading {some(machine, things, own)}")
    for one, other, same in rule.equal:
        found.append(f"{names[one]} and {names[other]} {'agree' if same else 'differ'}")
    return found


def situation(machine: Machine, rule: Rule) -> str:
    """When a rule holds, in words, the state included if there are several."""
    state = [f"in {starts(machine, rule)}"] if machine.states.size > 1 else []
    if rule.when[-1] is None:
        state = []
    return ", ".join([*state, *conditions(machine, rule)]) or "always"


def sentence(machine: Machine, rule: Rule) -> str:
    """A rule in words."""
    return f"{situation(machine, rule)}: {', '.join(actions(machine, rule)) or 'do nothing'}"
