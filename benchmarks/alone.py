"""A memory alone over whole sequences, for torch's autograd: what is tested and timed apart.

Nothing in the package runs a memory without its controller in compiled code.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stacktrans.kernels import Array, kernel
from stacktrans.kernels.autograd import ARRAY_DTYPES, as_array, in_parts
from stacktrans.kernels.batches import check_shape
from stacktrans.kernels.compiling import compiled_entry
from stacktrans.kernels.kernel import Kernel, Room
from stacktrans.kernels.steps import BatchStep


@compiled_entry(lambda *_: 10**9)
def _forward(memory: Any, signals: Array, values: Array, reads: Array, starts: Array) -> None:
    """All steps.

    Args:
        memory: changed in place.
        signals: [B * T, signals].
        values: [T, B, pushes, m].
        reads: [T, B, reads, m] set.
        starts: [B + 1] where the steps of each item start, and B * T.
    """
    for number in range(reads.shape[0]):
        step = BatchStep(number, starts[:-1] + number, starts)
        kernel.step_forward(memory, step, signals, values[number], reads[number])


@compiled_entry(lambda *_: 10**9)
def _backward(
    memory: Any, signals: Array, grad_reads: Array, grad_signals: Array, grads: Array, starts: Array
) -> None:
    """All steps backwards; grad_signals, [T, B, signals], and grads, of the values, are set."""
    values = grads[0].copy()
    for number in range(grad_reads.shape[0] - 1, -1, -1):
        step, read = BatchStep(number, starts[:-1] + number, starts), grad_reads[number]
        kernel.step_backward(
            memory, step, signals, values, read, grad_signals[number], grads[number]
        )


class _MemoryAlone(torch.autograd.Function):
    """All steps; see `fused_memory`."""

    @staticmethod
    def forward(ctx: Any, memory: Kernel, signals: Tensor, values: Tensor) -> Tensor:
        """Run the steps; shapes as for `fused_memory`."""
        batch, steps, numbers = values.shape
        check_shape("signals", signals.shape, (batch, steps, memory.signals))
        columns, rest = divmod(numbers, memory.pushes)
        if rest:
            raise ValueError(f"values: {numbers} numbers for {memory.pushes} vectors")
        store = memory.store(Room(batch, columns, ARRAY_DTYPES[values.dtype], steps, batch * steps))
        by_step = (steps, batch, memory.pushes, columns)
        given = _by_step(values).reshape(by_step)
        reads = torch.empty(steps, batch, memory.reads, columns, dtype=values.dtype)

        def run(part: slice) -> None:
            arrays = store.forward(part, _places(part, steps))
            own = as_array(signals[part].flatten(0, 1))
            starts = np.arange(len(signals[part]) + 1) * steps
            read = as_array(torch.empty_like(reads[:, part]))
            _forward(arrays, own, np.ascontiguousarray(given[:, part]), read, starts)
            reads[:, part] = torch.from_numpy(read)

        in_parts(run, batch, torch.get_num_threads())
        ctx.save_for_backward(signals)
        ctx.store, ctx.shape = store, by_step
        return reads.flatten(2).transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Run the steps backwards."""
        (signals,) = ctx.saved_tensors
        steps, batch, _, columns = ctx.shape
        grad_signals = torch.empty(steps, batch, signals.shape[2], dtype=signals.dtype)
        grad_values = torch.empty(*ctx.shape, dtype=signals.dtype)

        def run(part: slice) -> None:
            own = as_array(torch.empty_like(grad_signals[:, part]))
            values = as_array(torch.empty_like(grad_values[:, part]))
            read = _by_step(grads[0][part]).reshape(steps, own.shape[1], -1, columns)
            _backward(
                ctx.store.backward(part, _places(part, steps)),
                as_array(signals[part].flatten(0, 1)),
                read,
                own,
                values,
                np.arange(own.shape[1] + 1) * steps,
            )
            grad_signals[:, part] = torch.from_numpy(own)
            grad_values[:, part] = torch.from_numpy(values)

        in_parts(run, batch, torch.get_num_threads())
        return None, grad_signals.transpose(0, 1), grad_values.flatten(2).transpose(0, 1)


def _by_step(numbers: Tensor) -> Array:
    """[B, T, n] as [T, B, n]."""
    return as_array(numbers.transpose(0, 1))


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
