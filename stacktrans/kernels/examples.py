"""Compiling the steps of training, both ways at once, by the smallest example of them.

What is compiled depends on the types of arrays, and not on their sizes or numbers.
"""

from typing import Any

import numpy as np

from stacktrans.kernels.batches import Grads, Sizes, backward_run, backward_weights, forward_weights
from stacktrans.kernels.drive import backward, forward
from stacktrans.kernels.steps import Backward, Forward, Trace


def compile_steps(sizes: Sizes) -> None:
    """Have the steps of a run compiled forward and backward, if they are not."""
    from stacktrans.kernels.together import Job, compile_together  # waits for numba

    ahead, back = smallest(sizes)
    # Backward first, which takes longer: a helper takes a second to begin.
    compile_together([Job.of(backward, back), Job.of(forward, ahead)])


def smallest(of: Sizes) -> tuple[tuple[Forward, Any, int, int], tuple[Backward, Any, int]]:
    """What `drive.forward` and `drive.backward` are given in a run over a string of one step."""
    sizes, kind = of._replace(layers=1, batch=1, size=1), of.kind
    own, gates = kind.memory.signals, kind.units.gates

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, sizes.dtype)

    weights = [zeros(gates, sizes.read), zeros(gates, 1)]
    heads, initial = zeros(sizes.heads, 1), zeros(1, kind.units.states, 1, 1)
    starts, all_items = np.array([0, 1]), slice(0, 1)
    ids = np.zeros(3 if kind.buffered else 1, np.int64)
    inputs = sizes.inputs(starts, starts, ids, zeros(1, gates))
    trace = sizes.new_trace(1, 1)
    store = sizes.store(1, 1)
    run = sizes.run(
        forward_weights(gates, weights, heads),
        zeros(sizes.heads),
        starts,
        inputs,
        initial.copy(),
        sizes.nothing_read(),
        Trace._make(trace),
    )
    grads = Grads(
        zeros(1, 1, 1),
        zeros(1, sizes.signals),
        zeros(1, sizes.read),
        zeros(1, 1, gates),
        zeros(*((1, 1, gates) if kind.units.split else (0, 0, 0))),
        zeros(1, sizes.heads),
    )
    back = backward_run(
        sizes, all_items, backward_weights(weights, heads), starts, inputs, initial, trace, grads
    )
    return (
        (run, store.forward(all_items, all_items), own, 0),
        (back, store.backward(all_items, all_items), own),
    )
