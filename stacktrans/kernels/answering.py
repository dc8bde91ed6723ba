"""Answers in compiled code from end to end: what is read is given, or is what was said before.

All items of a batch are run side by side, each at its own place: some still read what they are
given when others already answer. At each step only those that are asked are read out.
"""

import math
import sys
from typing import Any, NamedTuple

from stacktrans.kernels.arithmetic import (
    add,
    add_scaled,
    copy,
    index_of_largest,
    log_share,
    tanh_sum,
)
from stacktrans.kernels.compiling import Array, compiled, compiled_entry
from stacktrans.kernels.drive import operate
from stacktrans.kernels.products import product
from stacktrans.kernels.steps import Forward, units_step


class ReadOut(NamedTuple):
    """What makes symbols of the controller's outputs, for up to R of them at once.

    Attributes:
        output: to o_t, in panels (see `products`); without any if outputs are read from the
            controller itself.
        output_bias: [size of o_t].
        classifier: to logits, in panels.
        bias: [outputs].
        rows: [R, H] to work in.
        shown: [R, as wide as `output`] to work in.
        within: [R, size of o_t] to work in.
        logits: [R, as wide as `classifier`] to work in.
    """

    output: Array
    output_bias: Array
    classifier: Array
    bias: Array
    rows: Array
    shown: Array
    within: Array
    logits: Array


class Asking(NamedTuple):
    """What B items are given, and what they are asked.

    Attributes:
        ids: [M] what is given, that of an item after that of the one before.
        starts: [B + 1] where that of each item starts, and M.
        asked: [M] 1 where it is asked what comes after an id.
        limits: [B] how many symbols an item may then say of its own accord, each of which it reads
            before the next; -1 for none.
        first_target: the id, as an input, of output 0.
        end: the output that ends what is said; negative for none.
        last: the output that is the last of what is said; negative for none.
        said: [S] set: what is said, -1 where numbers overflow.
        logs: [S] set: the logarithms of the probabilities; empty to do without.
        places: [B] where what an item says starts in both; becomes where it ends.
        working: [3, B] to work in.
    """

    ids: Array
    starts: Array
    asked: Array
    limits: Array
    first_target: int
    end: int
    last: int
    said: Array
    logs: Array
    places: Array
    working: Array


@compiled
def read_out(out: ReadOut, count: int) -> None:
    """Set the logits of the first rows."""
    if out.output.shape[0]:
        product(out.rows[:count], out.output, out.shown)
        for row in range(count):
            tanh_sum(out.shown[row], out.output_bias, out.within[row])
        product(out.within[:count], out.classifier, out.logits)
    else:
        product(out.rows[:count], out.classifier, out.logits)
    for row in range(count):
        add(out.logits[row], out.bias)


@compiled
def _say_by(logits: Array, place: int, said: Array, logs: Array) -> None:
    """Say what is most probable; the logits are not needed after it."""
    chosen = index_of_largest(logits)
    said[place] = chosen
    if logs.shape[0]:
        logs[place] = logits[0] * math.nan if chosen < 0 else log_share(logits, chosen)


@compiled
def _say(asking: Asking, item: int, logits: Array) -> int:
    """Say what is most probable; the logits are not needed after it."""
    place = asking.places[item]
    _say_by(logits, place, asking.said, asking.logs)
    asking.places[item] = place + 1
    return int(asking.said[place])


@compiled
def _goes_on(asking: Asking, item: int, step: int, chosen: int) -> bool:
    """Whether an item reads another symbol after one that it has read, and perhaps said another."""
    given = asking.starts[item + 1] - asking.starts[item]
    if step + 1 < given:
        return True
    # How many symbols it has said, this one included.
    count = step + 2 - given
    if chosen < 0 or chosen in (asking.end, asking.last):
        return False
    return bool(count <= asking.limits[item])


@compiled
def _next_id(asking: Asking, item: int, step: int, chosen: int) -> int:
    """What an item reads at a step."""
    place = asking.starts[item] + step
    if place < asking.starts[item + 1]:
        return int(asking.ids[place])
    return chosen + asking.first_target


@compiled
def _asked_now(asking: Asking, running: Array, going: int, step: int, items: Array) -> int:
    """Set which of the first items are asked after a step; gives back how many they are."""
    count = 0
    for item in range(going):
        place = asking.starts[item] + step
        if running[item] and (place >= asking.starts[item + 1] or asking.asked[place]):
            items[count] = item
            count += 1
    return count


@compiled_entry
def answer(run: Forward, memory: Any, own: int, asking: Asking, out: ReadOut) -> None:
    """Run all items until none goes on.

    Args:
        run: each item takes one step of it at once: `run.starts` are 0 to B, and what is read is
            set in `run.inputs`.
        memory: before the first step.
        own: how many of the signals are the memory's.
        asking: what is given and asked; an item with nothing given takes no step.
        out: what makes symbols; for B at once.
    """
    batch, outputs = run.state.shape[2], out.bias.shape[0]
    state, last = run.state, run.state.shape[0] - 1
    bias, heads, read, signals = run.bias, run.heads, run.read, run.trace.signals
    ids, asked_items = run.inputs.ids, asking.working[0]
    chosen, running = asking.working[1], asking.working[2]
    for item in range(batch):
        chosen[item] = 0
        running[item] = asking.starts[item + 1] > asking.starts[item]
    going = batch
    # A counter of its own type from the first step on: for one that begins as the number 0, numba
    # would compile all that is called with it twice.
    for step in range(sys.maxsize):
        while going > 0 and not running[going - 1]:
            going -= 1
        if going == 0:
            return
        for item in range(going):
            if running[item]:
                ids[item] = _next_id(asking, item, step, chosen[item])
        units_step(run, 0, going)
        for item in range(going):
            if running[item]:
                operate(
                    memory,
                    own,
                    run.tanh_values,
                    run.hard,
                    0,
                    bias,
                    heads[item],
                    signals[item],
                    read[item],
                    item,
                    step,
                    item,
                    1,
                )
        count = _asked_now(asking, running, going, step, asked_items)
        for row in range(count):
            copy(out.rows[row], state[last, 0, asked_items[row]])
        if count:
            read_out(out, count)
        for row in range(count):
            item = asked_items[row]
            chosen[item] = _say(asking, item, out.logits[row, :outputs])
        for item in range(going):
            if running[item]:
                running[item] = _goes_on(asking, item, step, chosen[item])


@compiled_entry
def read_rows(hidden: Array, said: Array, logs: Array, out: ReadOut) -> None:
    """Say what is most probable after each of N outputs of the controller.

    Args:
        hidden: [N, H].
        said: [N] set; -1 where numbers overflow.
        logs: [N] set: the logarithms of the probabilities; empty to do without.
        out: what makes symbols, of some of them at once.
    """
    rows, outputs = out.rows.shape[0], out.bias.shape[0]
    for first in range(0, hidden.shape[0], rows):
        count = min(rows, hidden.shape[0] - first)
        for row in range(count):
            copy(out.rows[row], hidden[first + row])
        read_out(out, count)
        for row in range(count):
            _say_by(out.logits[row, :outputs], first + row, said, logs)


class Writing(NamedTuple):
    """What buffered items have written in N steps, and what is read of it.

    Attributes:
        hidden: [N, H] the controller's outputs, those of an item after those of the one before.
        strengths: [N] with which they were written.
        starts: [B + 1] where the steps of each item start, and N.
        taken: how many of them were taken, if an item has more.
        skip: how much of it is popped before the first symbol is read.
        counts: [B] how many symbols are read.
        said: [S] set, those of an item after those of the one before; -1 where numbers overflow.
        logs: [S] set: the logarithms of the probabilities; empty to do without.
        sums: [outputs] to work in.
    """

    hidden: Array
    strengths: Array
    starts: Array
    taken: int
    skip: float
    counts: Array
    said: Array
    logs: Array
    sums: Array


@compiled_entry
def read_written(writing: Writing, out: ReadOut) -> None:
    """Read the symbols that were written to a buffer (hao2018, section 3.2).

    The n-th is read with strength 1 after n - 1 has been popped. So each step has a part in two
    symbols at most, and only the one that is being written is kept. Strengths are added up in
    double precision, as torch does it.
    """
    strengths, starts, rows = writing.strengths, writing.starts, out.rows.shape[0]
    outputs, sums, place = out.bias.shape[0], writing.sums, 0
    kind = strengths.dtype.type
    for item in range(writing.counts.shape[0]):
        end = place + writing.counts[item]
        nothing, one = kind(0), kind(1)
        before = number = nothing
        total = 0.0
        begun, overflows = place, False
        sums.fill(0)
        last = min(starts[item + 1], starts[item] + writing.taken)
        for first in range(starts[item], last, rows):
            count = min(rows, last - first)
            for row in range(count):
                copy(out.rows[row], writing.hidden[first + row])
            read_out(out, count)
            for row in range(count):
                if place == end:
                    break
                total += strengths[first + row]
                overflows |= total != total or index_of_largest(out.logits[row, :outputs]) < 0
                after = max(nothing, kind(total) - kind(writing.skip))
                while place < end and after > number:
                    weight = min(one, after - number) - min(one, max(nothing, before - number))
                    add_scaled(sums, weight, out.logits[row])
                    if after < number + one:
                        break
                    _say_by(sums, place, writing.said, writing.logs)
                    sums.fill(0)
                    place, number = place + 1, number + one
                before = after
            if place == end:
                break
        while place < end:
            _say_by(sums, place, writing.said, writing.logs)
            sums.fill(0)
            place += 1
        if overflows:
            writing.said[begun:end] = -1
            if writing.logs.shape[0]:
                writing.logs[begun:end] = math.nan
