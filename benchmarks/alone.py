"""Compiled memories without a controller, over whole sequences, as a torch autograd function.

Tests and benchmarks need them; the package runs compiled memories only with a controller.
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
from stacktrans.kernels.kernel import StoreSizes
from stacktrans.kernels.steps import BatchStep
from stacktrans.memory import Memory


@compiled_entry(lambda *_: 10**9)
def _forward(memory: Any, signals: Array, values: Array, reads: Array, starts: Array) -> None:
    """Run all steps forwards.

    Args:
        memory: its arrays, changed in place.
        signals: [B * T, signals].
        values: [T, B, pushes, m].
        reads: [T, B, reads, m], written.
        starts: [B + 1] the index of the first step of each item, and B * T.
    """
    for number in range(reads.shape[0]):
        step = BatchStep(number, starts[:-1] + number, starts)
        kernel.step_forward(memory, step, signals, values[number], reads[number])


@compiled_entry(lambda *_: 10**9)
def _backward(
    memory: Any, signals: Array, grad_reads: Array, grad_signals: Array, grads: Array, starts: Array
) -> None:
    """Run all steps backwards, and write grad_signals [T, B, signals] and grads of the values."""
    values = grads[0].copy()
    for number in range(grad_reads.shape[0] - 1, -1, -1):
        step, read = BatchStep(number, starts[:-1] + number, starts), grad_reads[number]
        kernel.step_backward(
            memory, step, signals, values, read, grad_signals[number], grads[number]
        )


class _MemoryAlone(torch.autograd.Function):
    """All steps of a memory, with gradients; see `fused_memory`."""

    @staticmethod
    def forward(ctx: Any, memory: Memory[Any], signals: Tensor, values: Tensor) -> Tensor:
        """Run the steps; shapes as for `fused_memory`."""
        batch, steps, numbers = values.shape
        check_shape("signals", signals.shape, (batch, steps, len(memory.signal_names)))
        columns, rest = divmod(numbers, memory.pushes)
        if rest:
            raise ValueError(f"values: {numbers} numbers for {memory.pushes} vectors")
        store = memory.store(
            StoreSizes(batch, columns, ARRAY_DTYPES[values.dtype], steps, batch * steps)
        )
        by_step = (steps, batch, memory.pushes, columns)
        given = _by_step(values).reshape(by_step)
        reads = torch.empty(steps, batch, memory.reads, columns, dtype=values.dtype)

        def run(part: slice) -> None:
            arrays = store.forward(part, _step_range(part, steps))
            own = as_array(signals[part].flatten(0, 1))
            starts = np.arange(len(signals[part]) + 1) * steps
            read = as_array(torch.empty_like(reads[:, part]))
            _forward(arrays, own, np.ascontiguousarray(given[:, part]), read, starts)
            reads[:, part] = torch.from_numpy(read)

        in_parts(run, batch)
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
                ctx.store.backward(part, _step_range(part, steps)),
                as_array(signals[part].flatten(0, 1)),
                read,
                own,
                values,
                np.arange(own.shape[1] + 1) * steps,
            )
            grad_signals[:, part] = torch.from_numpy(own)
            grad_values[:, part] = torch.from_numpy(values)

        in_parts(run, batch)
        return None, grad_signals.transpose(0, 1), grad_values.flatten(2).transpose(0, 1)


def _by_step(numbers: Tensor) -> Array:
    """Transpose an array [B, T, n] to [T, B, n]."""
    return as_array(numbers.transpose(0, 1))


def _step_range(part: slice, steps: int) -> slice:
    """The steps of a part of a batch whose items have equally many steps."""
    return slice(part.start * steps, part.stop * steps)


def fused_memory(memory: Memory[Any], signals: Tensor, values: Tensor) -> Tensor:
    """Run T steps of a memory without a controller, starting empty.

    Args:
        memory: one that `is_compiled`.
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
