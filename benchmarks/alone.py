"""A memory alone over whole sequences, for torch's autograd: what is tested and timed apart.

Nothing in the package runs a memory without its controller in compiled code.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stacktrans.kernels import kernel
from stacktrans.kernels.arithmetic import copy
from stacktrans.kernels.arrays import check_shape
from stacktrans.kernels.compiling import Array, compiled_entry
from stacktrans.kernels.kernel import Kernel, Room
from stacktrans.kernels.loading import use_numba
from stacktrans.kernels.tensors import ARRAY_DTYPES, as_array, fresh, in_place
from stacktrans.kernels.threads import in_parts


@compiled_entry
def _forward(memory: Any, signals: Array, reads: Array) -> None:
    """All steps: given signals [B, T, signals], sets reads [B, T, reads * m]."""
    batch, steps = signals.shape[:2]
    for item in range(batch):
        for step in range(steps):
            place, later = item * steps + step, steps - step - 1
            read = reads[item, step]
            kernel.step_forward(memory, item, step, place, later, signals[item, step], read)


@compiled_entry
def _backward(
    memory: Any, signals: Array, grad_reads: Array, grad_signals: Array, grad_values: Array
) -> None:
    """All steps backwards; of the gradients, the last two are set, [B, T, pushes, m] of values."""
    batch, steps = grad_signals.shape[:2]
    for item in range(batch):
        for step in range(steps - 1, -1, -1):
            place, later = item * steps + step, steps - step - 1
            own = signals[item, step]
            grad_read = grad_reads[item, step]
            grad = grad_signals[item, step]
            kernel.step_backward(memory, item, step, place, later, own, grad_read, grad)
            given = grad_values[item, step]
            found = kernel.pushed_gradient(memory, item, step, place)
            for push in range(given.shape[0]):
                copy(given[push], found[push])


class _MemoryAlone(torch.autograd.Function):
    """All steps; see `fused_memory`."""

    @staticmethod
    def forward(ctx: Any, memory: Kernel, signals: Tensor, values: Tensor) -> Tensor:
        """Run the steps; shapes as for `fused_memory`."""
        use_numba()
        batch, steps, numbers = values.shape
        check_shape("signals", signals.shape, (batch, steps, memory.signals))
        columns, rest = divmod(numbers, memory.pushes)
        if rest:
            raise ValueError(f"values: {numbers} numbers for {memory.pushes} vectors")
        dtype, given = ARRAY_DTYPES[values.dtype], as_array(values)
        room = Room(batch, columns, dtype, steps, batch * steps, values=given)
        store = memory.store(room)
        reads = fresh(batch, steps, memory.reads * columns, dtype=values.dtype)

        def run(part: slice) -> None:
            arrays = store.forward(part, _places(part, steps))
            _forward(arrays, as_array(signals[part]), in_place(reads[part]))

        in_parts(run, batch, torch.get_num_threads())
        ctx.save_for_backward(signals)
        ctx.store, ctx.shape = store, (batch, steps, memory.pushes, columns)
        return reads

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Run the steps backwards."""
        (signals,) = ctx.saved_tensors
        batch, steps = ctx.shape[:2]
        grad_signals = fresh(*signals.shape, dtype=signals.dtype)
        grad_values = fresh(*ctx.shape, dtype=signals.dtype)

        def run(part: slice) -> None:
            _backward(
                ctx.store.backward(part, _places(part, steps)),
                as_array(signals[part]),
                as_array(grads[0][part]),
                in_place(grad_signals[part]),
                in_place(grad_values[part]),
            )

        in_parts(run, batch, torch.get_num_threads())
        return None, grad_signals, grad_values.flatten(2)


def _places(part: slice, steps: int) -> slice:
    """Of the steps of a part of a batch of which each takes as many."""
    return slice(part.start * steps, part.stop * steps)


def fused_memory(memory: Kernel, signals: Tensor, values: Tensor) -> Tensor:
    """T steps of a memory alone, from empty.

    Args:
        memory: its kernel.
        signals: [B, T, signals] in [0, 1].
        values: [B, T, pushes * m] the vectors to push.

    Returns:
        [B, T, reads * m] the vectors read.

    Raises:
        ValueError: signals or values are not of the right shapes.
    """
    run: Any = _MemoryAlone.apply
    reads: Tensor = run(memory, signals, values)
    return reads
