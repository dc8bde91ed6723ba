"""Controller and memory over whole sequences, for torch, with gradients."""

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stacktrans.kernels import Array
from stacktrans.kernels.batches import (
    Architecture,
    Given,
    Grads,
    ModelWeights,
    Sizes,
    backward_part,
    backward_weights,
    check_ids,
    check_shape,
    forward_part,
    forward_weights,
)
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.kernels.kernel import Store
from stacktrans.kernels.steps import Inputs, StepTrace

Result = TypeVar("Result")
ARRAY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""The types of numbers that there is compiled code for, and numpy's name of each."""
# With fewer rows than this the products would wait for the weights to come from memory.
_LEAST_ITEMS = 4


class SequenceOutput(NamedTuple):
    """What came out of N steps, or of T steps of a batch of B.

    Attributes:
        hidden: [N, H] or [B, T, H] the output of the highest layer; the others in the same way.
        signals: [N, signals] strengths, in the order of the memory's `signal_names`.
        reads: [N, reads * m] the vectors read.
    """

    hidden: Tensor
    signals: Tensor
    reads: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What B strings carry on, as constants.

    Attributes:
        units: [L, states, B, H] the state of the controller.
        read: [B, reads * m] what was read last.
        contents: what the memory holds; None for one that holds nothing.
    """

    units: Tensor
    read: Tensor
    contents: Store | None


def can_run(tensor: Tensor) -> bool:
    """Whether there is compiled code for tensors like this one."""
    return tensor.device.type == "cpu" and tensor.dtype in ARRAY_DTYPES


def as_array(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to read; a copy if it is not contiguous."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


@functools.cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one would inherit the pool without its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="stacktrans")


def in_parts(run: Callable[[slice], Result], batch: int, threads: int) -> list[Result]:
    """Run for all of a batch, each thread a part of it, and collect what comes out.

    Items of a batch have nothing to do with each other.
    """
    threads = max(1, min(threads, batch // _LEAST_ITEMS))
    ends = [batch * part // threads for part in range(threads + 1)]
    first, *rest = (slice(start, end) for start, end in itertools.pairwise(ends))
    others = [_pool(os.getpid(), threads - 1).submit(run, part) for part in rest]
    return [run(first), *(other.result() for other in others)]


class _Plan(NamedTuple):
    """What is run, over what, but for tensors that have gradients.

    Attributes:
        architecture: what is run.
        signals: how many of the heads are signals.
        starts: [B + 1] where the steps of each item start, and N.
        input_starts: [B + 1] where the inputs of each item start, and how many there are.
        ids: what is read, as `Inputs.ids` has it.
        before: what memory and reads to begin with; None for the empty memory.
    """

    architecture: Architecture
    signals: int
    starts: Array
    input_starts: Array
    ids: Array
    before: Carried | None = None


class _Sequence(torch.autograd.Function):
    """All steps; see `fused_sequence`."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor, Carried]:
        """Run the steps, with the tensors of `ModelWeights` in their order there."""
        CompiledFunction.compile_from_now_on()
        starts, before = plan.starts, plan.before
        projected, start, heads, bias, *layers = map(as_array, tensors)
        own = ModelWeights(plan.architecture, projected, start, heads, bias, layers, plan.signals)
        sizes = Sizes.of(own)
        inputs = sizes.inputs(starts, plan.input_starts, plan.ids, projected)
        first, contents, total = torch.from_numpy(sizes.nothing_read()), None, int(starts[-1])
        if before is not None:
            # The state of the units is known to be of these sizes: it is the initial one.
            check_shape("read", before.read.shape, (sizes.batch, sizes.read))
            plan.architecture.memory.check_contents(before.contents, sizes.batch, sizes.columns)
            first, contents = before.read, before.contents
        store = sizes.store(int(np.diff(starts).max(initial=0)), total, contents)
        trace = sizes.new_trace(total, total)
        given = Given(forward_weights(own), starts, inputs, store, trace)
        reads = as_array(first)

        def run(part: slice) -> tuple[Array, Array]:
            state, read = start[:, :, part].copy(), reads[part].copy()
            forward_part(sizes, part, given, bias, state, read)
            return state, read

        states, reads_last = zip(*in_parts(run, sizes.batch, torch.get_num_threads()), strict=True)
        kept = [*map(torch.from_numpy, trace)]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors[1:], *kept)
        ctx.plan, ctx.sizes, ctx.inputs, ctx.store, ctx.first = plan, sizes, inputs, store, first
        units, last = np.concatenate(states, axis=2), np.concatenate(reads_last)
        carried = Carried(torch.from_numpy(units), torch.from_numpy(last), store.contents)
        return kept[1][:, -1], kept[2], kept[3], carried

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        """Run the steps backwards, then take each weight's gradient as one product."""
        initial, heads, _, *rest = ctx.saved_tensors
        weights, trace = rest[:-5], rest[-5:]
        sizes: Sizes = ctx.sizes
        plan: _Plan = ctx.plan
        if plan.architecture.hard:
            raise ValueError("signals that are made 0 or 1 have no gradients")
        inputs: Inputs = ctx.inputs
        ready = backward_weights([*map(as_array, weights)], as_array(heads))
        of_steps = StepTrace._make(map(as_array, trace))
        whole = Given(ready, plan.starts, inputs, ctx.store, of_steps)
        grads = _grads(sizes, of_steps, given[:3])

        def run(part: slice) -> Array:
            return backward_part(sizes, part, whole, grads)

        grad_initial = torch.from_numpy(
            np.concatenate(in_parts(run, sizes.batch, torch.get_num_threads()), axis=2)
        )
        _, hidden, _, reads, positions = trace
        grad_projected, grad_inner, grad_heads = map(torch.from_numpy, grads[3:])
        grad_weights: list[Tensor | None] = []
        for index, wanted in enumerate(ctx.needs_input_grad[-len(weights) :]):
            layer, before = divmod(index, 2)
            grad = (grad_inner if before and plan.architecture.units.split else grad_projected)[
                :, layer
            ]
            if not wanted:
                grad_weights.append(None)
            elif before:
                first = initial[layer, 0]
                grad_weights.append(
                    _late_weight_gradient(grad, hidden[:, layer], first, plan.starts)
                )
            elif layer:
                grad_weights.append(_weight_gradient(grad, hidden[:, layer - 1]))
            else:
                grad_weights.append(_late_weight_gradient(grad, reads, ctx.first, plan.starts))
        return (
            None,
            _projected_gradient(grad_projected.flatten(1), inputs, plan.starts, positions),
            grad_initial,
            _weight_gradient(grad_heads, hidden[:, -1]),
            grad_heads.sum(dim=0),
            *grad_weights,
        )


def _grads(sizes: Sizes, trace: StepTrace, given: Sequence[Tensor | None]) -> Grads:
    """Gradients that come from outside, and room for those that are found."""
    shape = (len(trace.hidden), sizes.layers, sizes.architecture.units.gates * sizes.size)
    dtype = sizes.dtype
    outputs = trace.hidden[:, -1], trace.signals, trace.reads
    hidden, signals, reads = (
        np.zeros(output.shape, dtype) if grad is None else as_array(grad)
        for grad, output in zip(given, outputs, strict=True)
    )
    return Grads(
        hidden[:, None],
        signals,
        reads,
        np.empty(shape, dtype),
        np.empty(shape if sizes.architecture.units.split else (0, 0, 0), dtype),
        np.empty((shape[0], sizes.heads), dtype),
    )


def _weight_gradient(grad: Tensor, by: Tensor) -> Tensor:
    """[N, out] gradients of what came out and [N, in] what went in -> [out, in]."""
    # This way round the libraries for linear algebra are a sixth faster.
    return (by.t() @ grad).t()


def _late_weight_gradient(grad: Tensor, by: Tensor, first: Tensor, starts: Array) -> Tensor:
    """The same where what went in came out of the step before.

    Args:
        grad: [N, out] gradients of what came out.
        by: [N, in] what came out one step earlier than it went in.
        first: [B, in] what went in at the first step of each item.
        starts: [B + 1] where the steps of each item start, and N.
    """
    at = torch.from_numpy(starts[:-1][np.diff(starts) > 0])
    # Put right at the few first steps: a copy of `by`, one step later, takes longer.
    before = by[(at - 1).clamp(min=0)] * (at > 0).unsqueeze(1)
    right = first[: len(at)] - before
    return torch.addmm(right.t() @ grad[at], by[:-1].t(), grad[1:]).t()


def _projected_gradient(rows: Tensor, inputs: Inputs, starts: Array, positions: Tensor) -> Tensor:
    """Gradients of the sums over each id, from those of the sums at each step.

    Args:
        rows: [N, L * gates * H].
        inputs: what the steps read.
        starts: [B + 1] where the steps of each item start, and N.
        positions: [N] as `StepTrace.positions` has them; empty without buffers.
    """
    count = len(inputs.projected)
    if not len(positions):
        return _added_up(rows, inputs.ids, count)
    lengths, items = np.diff(inputs.starts), np.arange(len(starts) - 1)
    of = np.repeat(items, np.diff(starts))
    read = positions.numpy()
    # A NaN is no position; as in compiled code.
    whole = np.where(read < lengths[of], read, lengths[of]).astype(int)
    first = (inputs.starts[:-1] + 2 * items)[of] + whole
    share = torch.from_numpy(read - np.floor(read)).unsqueeze(1)
    later = rows * share
    return _added_up(rows - later, inputs.ids[first], count) + _added_up(
        later, inputs.ids[first + 1], count
    )


def _added_up(rows: Tensor, ids: Array, count: int) -> Tensor:
    """Rows added up by the id they belong to: [N, size] and [N] -> [count, size]."""
    indices = torch.from_numpy(ids)
    grad: Tensor = torch.ops.aten.embedding_dense_backward(rows, indices, count, -1, False)
    return grad


def fused_sequence(
    weights: ModelWeights[Tensor],
    lengths: Sequence[int],
    steps: Sequence[int],
    ids: Tensor,
    before: Carried | None = None,
) -> tuple[SequenceOutput, Carried]:
    """The steps of a controller and the memory it operates, for a batch of B.

    Gradients go back to the first of these steps, and no further.

    Args:
        weights: of the model.
        lengths: how many inputs each item has, M together; the longest first.
        steps: how many steps each item takes, N together; without buffers, as many.
        ids: [M] the inputs, those of an item one after the other.
        before: what the items carry on from earlier steps; None for those that begin.

    Returns:
        What came out, and what the items carry on.
    """
    starts, input_starts = np.cumsum([0, *steps]), np.cumsum([0, *lengths])
    inputs, initial = as_array(ids), weights.initial
    if weights.architecture.buffered:
        nothing = len(weights.projected) - 1
        check_ids(inputs, nothing)
        inputs = np.insert(inputs, np.repeat(input_starts[1:], 2), nothing)
    if before is not None:
        check_shape("units", before.units.shape, tuple(initial.shape))
        initial = before.units
    plan = _Plan(weights.architecture, weights.signals, starts, input_starts, inputs, before)
    shared = weights.projected, initial, weights.heads, weights.bias
    run: Any = _Sequence.apply
    *done, carried = run(plan, *shared, *weights.layers)
    return SequenceOutput(*done), carried
