"""Machines of rules in compiled code: what is looked up at each step is in flat tables.

A rule is found by a key, the sum of what each place adds for the thing that stands there, and of
what each pair of places adds if their letters are the same. What a rule leads to is found in one
table of all: at an offset, for the thing that stands in a place.
"""

from typing import NamedTuple

import numpy as np

from stacktrans.kernels.compiling import Array, compiled, compiled_entry

LOST = -2
"""How many symbols are said, by their number, where no rule fits."""


class Rules(NamedTuple):
    """The rules of a machine. All places are counted from 1; in place 0 stands always thing 0.

    Attributes:
        adds: [places, things] what each adds to the key.
        pairs: [pairs, 3] two places, and what is added if their letters are the same.
        letters: [places, things] the letter of each; -1 for none.
        rule: [keys] the rule of each key; -1 for none.
        terms: [n] what things stand for.
        output: [rules, 2] of what is said: a place, and an offset in `terms`.
        after: [rules, 2] the same of the next state.
        pops: [pops] the end of each.
        popping: [rules, pops] whether it is done.
        pushes: [pushes] the end of each.
        pushed: [rules, pushes, 2] as `output`; a place of -1 where nothing is pushed.
        moves: [moves, 2] the ends that are taken from and put on.
        moving: [rules, moves] whether it is done.
        reads: [reads, 2] ends, and how deep under each.
        flags: [rules, 2] whether it reads on, and whether it writes.
    """

    adds: Array
    pairs: Array
    letters: Array
    rule: Array
    terms: Array
    output: Array
    after: Array
    pops: Array
    popping: Array
    pushes: Array
    pushed: Array
    moves: Array
    moving: Array
    reads: Array
    flags: Array


class Strings(NamedTuple):
    """What is read of strings, and what is said to them.

    Attributes:
        ids: all that is given, string after string.
        starts: [strings + 1] where each starts.
        steps: [strings] how many steps are taken at most.
        room: [strings + 1] where what is said to each starts.
        said: [n] set: what is said; of strings that read what they say, after what is given.
        counts: [strings] set: how many symbols; `LOST` where no rule fits.
        first_target: the symbol that output 0 is read as; -1 if outputs are not read.
        nothing: the symbol that is read after the last of an input buffer.
        buffered: 1 if there are buffers.
        skip: how many outputs that are written are dropped.
        end: the output that ends what is said; -1 for none.
    """

    ids: Array
    starts: Array
    steps: Array
    room: Array
    said: Array
    counts: Array
    first_target: int
    nothing: int
    buffered: int
    skip: int
    end: int


@compiled
def _taken(held: Array, bounds: Array, end: int) -> int:
    """Take what is at an end; 0 if there is nothing."""
    ring = end // 2
    if bounds[ring, 0] == bounds[ring, 1]:
        return 0
    if end % 2:
        bounds[ring, 0] += 1
        return int(held[ring, bounds[ring, 0] - 1])
    bounds[ring, 1] -= 1
    return int(held[ring, bounds[ring, 1]])


@compiled
def _put(held: Array, bounds: Array, end: int, thing: int) -> None:
    """Put something on an end."""
    ring = end // 2
    if end % 2:
        bounds[ring, 0] -= 1
        held[ring, bounds[ring, 0]] = thing
    else:
        held[ring, bounds[ring, 1]] = thing
        bounds[ring, 1] += 1


@compiled
def _rule_of(rules: Rules, values: Array) -> int:
    """The rule for what stands in all places."""
    key = 0
    for place in range(rules.adds.shape[0]):
        key += rules.adds[place, values[place + 1]]
    for pair in range(rules.pairs.shape[0]):
        one, other = rules.pairs[pair, 0], rules.pairs[pair, 1]
        letter = rules.letters[one, values[one + 1]]
        if letter >= 0 and letter == rules.letters[other, values[other + 1]]:
            key += rules.pairs[pair, 2]
    return int(rules.rule[key])


@compiled
def _operate(
    rules: Rules, rule: int, values: Array, held: Array, bounds: Array, following: int
) -> bool:
    """Pop, push and move, then read, and go on in the next state; false if something is unknown."""
    for pop in range(rules.pops.shape[0]):
        if rules.popping[rule, pop]:
            _taken(held, bounds, rules.pops[pop])
    for push in range(rules.pushes.shape[0]):
        place = rules.pushed[rule, push, 0]
        if place >= 0:
            thing = rules.terms[rules.pushed[rule, push, 1] + values[place]]
            if thing < 0:
                return False
            _put(held, bounds, rules.pushes[push], thing)
    for move in range(rules.moves.shape[0]):
        if rules.moving[rule, move]:
            _put(held, bounds, rules.moves[move, 1], _taken(held, bounds, rules.moves[move, 0]))
    for read in range(rules.reads.shape[0]):
        end, depth = rules.reads[read, 0], rules.reads[read, 1]
        ring = end // 2
        low, high = bounds[ring, 0], bounds[ring, 1]
        values[read + 2] = 0
        if high - low > depth:
            values[read + 2] = held[ring, low + depth if end % 2 else high - 1 - depth]
    values[values.shape[0] - 1] = following
    return True


@compiled_entry
def run_rules(rules: Rules, strings: Strings, values: Array, held: Array, bounds: Array) -> None:
    """Run a machine over strings.

    Args:
        rules: its own.
        strings: what is read and said.
        values: [places + 1] to work in.
        held: [rings, n] the same: twice as many as a ring may hold.
        bounds: [rings, 2] the same.
    """
    for string in range(strings.steps.shape[0]):
        first = strings.starts[string]
        given = strings.starts[string + 1] - first
        room = strings.room[string + 1] - strings.room[string]
        out = strings.said[strings.room[string] : strings.room[string + 1]]
        values[:] = 0
        bounds[:] = held.shape[1] // 2
        place, count, skip, last = 0, 0, strings.skip, 0
        for _ in range(strings.steps[string]):
            own = place >= given
            if not own:
                values[1] = strings.ids[first + place]
            elif strings.buffered:
                values[1] = strings.nothing
            else:
                values[1] = strings.first_target + last
            rule = _rule_of(rules, values)
            if rule < 0:
                count = LOST
                break
            last = rules.terms[rules.output[rule, 1] + values[rules.output[rule, 0]]]
            following = rules.terms[rules.after[rule, 1] + values[rules.after[rule, 0]]]
            known = following >= 0
            if not (known and _operate(rules, rule, values, held, bounds, following)):
                count = LOST
                break
            place += rules.flags[rule, 0]
            if strings.buffered:
                if rules.flags[rule, 1]:
                    if skip:
                        skip -= 1
                    elif count < room:
                        out[count] = last
                        count += 1
                if place >= given and count == room:
                    break
            elif strings.first_target < 0 or place >= given:
                out[count] = last
                count += 1
                if last == strings.end and strings.first_target >= 0:
                    break
                if last < 0 and strings.first_target >= 0:
                    count = LOST
                    break
        strings.counts[string] = count


def work_of(rules: Rules, rings: int, steps: int) -> tuple[Array, Array, Array]:
    """What `run_rules` works in, for strings of so many steps at most."""
    places, each = rules.adds.shape[0], 1 + len(rules.moves)
    room = 2 * (each * steps + 2)
    return (
        np.zeros(places + 1, np.int64),
        np.zeros((rings, room), np.int64),
        np.zeros((rings, 2), np.int64),
    )
