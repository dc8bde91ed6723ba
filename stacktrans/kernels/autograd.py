"""The compiled recurrence as a torch autograd function, with threads and weight gradients."""

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
    BatchArguments,
    ModelWeights,
    Sizes,
    backward_part,
    backward_weights,
    check_ids,
    check_shape,
    forward_part,
)
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.kernels.kernel import Store
from stacktrans.kernels.steps import Grads, Inputs, StepTrace

Result = TypeVar("Result")
ARRAY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""The dtypes that compiled code supports, with numpy's counterpart of each."""
# With fewer rows, products would wait for the weights to arrive from memory.
_LEAST_ITEMS = 4


@dataclass(frozen=True, slots=True, eq=False)
class CarriedCompiled:
    """The state that B strings carry over to the next segment, as constants.

    Attributes:
        units: [L, states, B, H] the state of the controller.
        read: [B, reads * m] the vectors that were read last.
        contents: contents of the memory; None for one that is not carried over.
    """

    units: Tensor
    read: Tensor
    contents: Store | None


def can_run(tensor: Tensor) -> bool:
    """Whether compiled code supports the device and dtype of a tensor."""
    return tensor.device.type == "cpu" and tensor.dtype in ARRAY_DTYPES


def as_array(tensor: Tensor) -> Array:
    """The numbers of a tensor as an array; a copy if the tensor is not contiguous."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


@functools.cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one would inherit the pool without its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="stacktrans")


def in_parts(run: Callable[[slice], Result], batch: int) -> list[Result]:
    """Run parts of a batch in as many threads as torch, and return their results in order.

    The items of a batch are independent of one another.
    """
    threads = max(1, min(torch.get_num_threads(), batch // _LEAST_ITEMS))
    ends = [batch * part // threads for part in range(threads + 1)]
    first, *rest = (slice(start, end) for start, end in itertools.pairwise(ends))
    others = [_pool(os.getpid(), threads - 1).submit(run, part) for part in rest]
    return [run(first), *(other.result() for other in others)]


class _Plan(NamedTuple):
    """The arguments of a sequence other than tensors with gradients.

    Attributes:
        architecture: the architecture that is run.
        starts: [B + 1] the index at which the steps of each item start, and N.
        input_starts: [B + 1] the index at which the inputs of each item start, and their number.
        ids: the inputs, as in `Inputs.ids`.
        before: memory and reads to begin with; None for the empty memory.
        noise: [N, signals] added to the pre-activations of signals; None for none.
    """

    architecture: Architecture
    starts: Array
    input_starts: Array
    ids: Array
    before: CarriedCompiled | None = None
    noise: Array | None = None


class _Sequence(torch.autograd.Function):
    """The autograd function behind `fused_sequence`."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> tuple[Tensor, Tensor, CarriedCompiled]:
        """Run the steps, given the tensors of `ModelWeights` in their order."""
        CompiledFunction.always_compile()
        starts, before = plan.starts, plan.before
        projected, start, heads, bias, *layers = map(as_array, tensors)
        own = ModelWeights(plan.architecture, projected, start, heads, bias, layers)
        sizes = own.sizes
        inputs = sizes.inputs(plan.input_starts, plan.ids, projected)
        first, contents, total = torch.from_numpy(sizes.nothing_read()), None, int(starts[-1])
        if before is not None:
            # `fused_sequence` has made the carried state of the units the initial one.
            check_shape("read", before.read.shape, (sizes.batch, sizes.read))
            first, contents = before.read, before.contents
        store = sizes.store(int(np.diff(starts).max(initial=0)), total, contents)
        trace = sizes.new_trace(total, total)
        given = BatchArguments(own.forward_panels, starts, inputs, store, trace)
        reads = as_array(first)

        def run(part: slice) -> tuple[Array, Array]:
            state, read = start[:, :, part].copy(), reads[part].copy()
            forward_part(sizes, part, given, bias, state, read, noise=plan.noise)
            return state, read

        states, reads_last = zip(*in_parts(run, sizes.batch), strict=True)
        kept = [*map(torch.from_numpy, trace)]
        ctx.save_for_backward(*tensors[1:], *kept)
        ctx.plan, ctx.sizes, ctx.inputs, ctx.store, ctx.first = plan, sizes, inputs, store, first
        units, last = np.concatenate(states, axis=2), np.concatenate(reads_last)
        carried = CarriedCompiled(torch.from_numpy(units), torch.from_numpy(last), store.contents)
        return kept[1][:, -1], kept[2], carried

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """Run the backward pass, then compute the gradient of each weight as one product."""
        initial, heads, _, *rest = ctx.saved_tensors
        weights, trace = rest[:-5], rest[-5:]
        sizes: Sizes = ctx.sizes
        plan: _Plan = ctx.plan
        if plan.architecture.hard:
            raise ValueError("signals that are rounded to 0 or 1 have no gradients")
        inputs: Inputs = ctx.inputs
        ready = backward_weights([*map(as_array, weights)], as_array(heads))
        of_steps = StepTrace._make(map(as_array, trace))
        whole = BatchArguments(ready, plan.starts, inputs, ctx.store, of_steps)
        grads = _grads(sizes, *map(as_array, given[:2]))
        run = functools.partial(backward_part, sizes, given=whole, grads=grads)
        grad_initial = torch.from_numpy(np.concatenate(in_parts(run, sizes.batch), axis=2))
        _, hidden, _, reads, positions = trace
        grad_projected, grad_inner, grad_heads = map(torch.from_numpy, grads[2:])
        units = plan.architecture.units

        def layer_gradient(index: int) -> Tensor:
            """The gradient of a weight on the layer below or, if odd, on the hidden state."""
            layer, on_hidden = divmod(index, 2)
            grad = (grad_inner if on_hidden and units.split else grad_projected)[:, layer]
            if on_hidden:
                states = hidden[:, layer], initial[layer, 0], plan.starts
                if units.second_order:
                    return _second_order_gradient(grad, *states, inputs)
                return _recurrent_weight_gradient(grad, *states).unsqueeze(0)
            if layer:
                return _weight_gradient(grad, hidden[:, layer - 1])
            return _recurrent_weight_gradient(grad, reads[:, 0], ctx.first, plan.starts)

        needed = ctx.needs_input_grad[-len(weights) :]
        grad_weights = [layer_gradient(n) if wanted else None for n, wanted in enumerate(needed)]
        return (
            None,
            _projected_gradient(grad_projected.flatten(1), inputs, plan.starts, positions),
            grad_initial,
            _weight_gradient(grad_heads[:, 0], hidden[:, -1]),
            grad_heads[:, 0].sum(dim=0),
            *grad_weights,
        )


def _grads(sizes: Sizes, hidden: Array, signals: Array) -> Grads:
    """Gradients from outside, and arrays for those that the backward pass sets."""
    shape = (len(hidden), sizes.layers, sizes.architecture.units.gates * sizes.size)
    return Grads(
        hidden,
        signals,
        np.empty(shape, sizes.dtype),
        np.empty(shape if sizes.architecture.units.split else (0, 0, 0), sizes.dtype),
        np.empty((shape[0], 1, sizes.heads), sizes.dtype),
    )


def _weight_gradient(grad: Tensor, by: Tensor) -> Tensor:
    """The gradient of a weight, [out, in], from gradients [N, out] and inputs [N, in]."""
    # In this order, libraries for linear algebra take a sixth less time.
    return (by.t() @ grad).t()


def _recurrent_weight_gradient(grad: Tensor, by: Tensor, first: Tensor, starts: Array) -> Tensor:
    """The gradient of a weight, [out, in], whose inputs are outputs of the step before.

    Args:
        grad: [N, out] gradients of its outputs.
        by: [N, in] outputs of each step, which are the inputs of the next.
        first: [B, in] inputs at the first step of each item.
        starts: [B + 1] the index at which the steps of each item start, and N.
    """
    at = torch.from_numpy(starts[:-1][np.diff(starts) > 0])
    # Only the few first steps are corrected: shifting a copy of `by` would take longer.
    before = by[(at - 1).clamp(min=0)] * (at > 0).unsqueeze(1)
    right = first[: len(at)] - before
    return torch.addmm(right.t() @ grad[at], by[:-1].t(), grad[1:]).t()


def _second_order_gradient(
    grad: Tensor, by: Tensor, first: Tensor, starts: Array, inputs: Inputs
) -> Tensor:
    """The gradient of weights [ids, out, in], one of which each step uses, by the id it reads.

    `inputs` are those of the steps; the other arguments are as in `_recurrent_weight_gradient`.
    """
    before, at = by.roll(1, dims=0), torch.from_numpy(starts[:-1][np.diff(starts) > 0])
    before[at] = first[: len(at)]
    gradient = grad.new_zeros(len(inputs.projected), grad.shape[1], by.shape[1])
    read, counts = np.unique(inputs.ids, return_counts=True)
    *by_id, _ = np.split(np.argsort(inputs.ids, kind="stable"), counts.cumsum())
    for number, steps in zip(read, map(torch.from_numpy, by_id), strict=True):
        torch.mm(grad[steps].t(), before[steps], out=gradient[number])
    return gradient


def _projected_gradient(rows: Tensor, inputs: Inputs, starts: Array, positions: Tensor) -> Tensor:
    """The gradients of the ids' contributions to the gates, from those at each step.

    Args:
        rows: [N, L * gates * H] gradients at each step.
        inputs: the inputs that the steps read.
        starts: [B + 1] the index at which the steps of each item start, and N.
        positions: [N] as in `StepTrace`; empty without buffers.
    """
    count = len(inputs.projected)
    if not len(positions):
        return _sum_by_id(rows, inputs.ids, count)
    lengths, items = np.diff(inputs.starts), np.arange(len(starts) - 1)
    of = np.repeat(items, np.diff(starts))
    read = positions.numpy()
    # A NaN counts as the end of the inputs, as in compiled code.
    whole = np.where(read < lengths[of], read, lengths[of]).astype(int)
    first = (inputs.starts[:-1] + 2 * items)[of] + whole
    share = torch.from_numpy(read - np.floor(read)).unsqueeze(1)
    later = rows * share
    earlier = _sum_by_id(rows - later, inputs.ids[first], count)
    return earlier + _sum_by_id(later, inputs.ids[first + 1], count)


def _sum_by_id(rows: Tensor, ids: Array, count: int) -> Tensor:
    """The sum of rows [N, size] by their ids [N]: [count, size]."""
    indices = torch.from_numpy(ids)
    grad: Tensor = torch.ops.aten.embedding_dense_backward(rows, indices, count, -1, False)
    return grad


def fused_sequence(
    weights: ModelWeights[Tensor],
    lengths: Sequence[int],
    steps: Sequence[int],
    ids: Tensor,
    before: CarriedCompiled | None = None,
    noise: Tensor | None = None,
) -> tuple[Tensor, Tensor, CarriedCompiled]:
    """Run a controller and the memory that it operates, for a batch of B.

    Gradients reach back to the first of these steps, and no further.

    Args:
        weights: of the model.
        lengths: the number of inputs of each item, M in all; the longest item first.
        steps: the number of steps of each item, N in all; without buffers, that of its inputs.
        ids: [M] the inputs, item by item.
        before: the state carried over from earlier steps; None at the start of the strings.
        noise: [N, signals] added to the pre-activations of signals; None for none.

    Returns:
        The output of the highest layer, [N, H]; the signals, [N, signals], in the order of the
        memory's `signal_names`, then those of buffers; and the state to carry over.

    Raises:
        IndexError: an id is out of range.
        ValueError: the shapes of weights, carried state or noise do not agree.
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
    added = None if noise is None else as_array(noise)
    if added is not None:
        check_shape("noise", added.shape, (int(starts[-1]), weights.architecture.signals))
    plan = _Plan(weights.architecture, starts, input_starts, inputs, before, added)
    shared = weights.projected, initial, weights.heads, weights.bias
    run: Any = _Sequence.apply
    hidden, signals, carried = run(plan, *shared, *weights.layers)
    return hidden, signals, carried
