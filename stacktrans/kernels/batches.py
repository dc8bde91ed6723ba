"""Set up and run compiled passes over a batch: checked sizes, weights in panels, work arrays.

A step multiplies B rows, B being the batch, by each weight. Libraries for linear algebra copy such
operands into the order their inner loop wants at every call; here the weight is put into that order
once a sequence, in panels of `PANEL_BYTES`. The compiled product is in `stacktrans.kernels.matmul`.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from llvmlite import binding

from stacktrans.kernels import Array
from stacktrans.kernels.kernel import Store, StoreSizes
from stacktrans.kernels.steps import Backward, Forward, Grads, Inputs, StepTrace, Weights
from stacktrans.kernels.units import UnitType
from stacktrans.kernels.unroll import backward, forward

if TYPE_CHECKING:
    from stacktrans.memory import Memory

Numbers = TypeVar("Numbers")


def _registers() -> tuple[int, int]:
    """Bytes in a vector register of this processor, and how many of them it has."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 32
    if features.get("avx"):
        return 32, 16
    if features.get("neon"):
        return 16, 32
    return 16, 16


VECTOR_BYTES, REGISTERS = _registers()
VECTORS = 2
"""Vectors across a panel."""
PANEL_BYTES = VECTORS * VECTOR_BYTES
"""The width of a panel."""


class Architecture(NamedTuple):
    """The architecture of a controller and its memory, apart from sizes and weights.

    Attributes:
        units: type of the controller's units.
        memory: a memory with compiled steps; see `Memory.is_compiled`.
        buffered: whether inputs are read from a buffer; the last two signals are then the
            strengths of reading the input and of writing the output.
        tanh_values: whether pushed values are a tanh rather than a sigmoid.
        state_gradient: share of the gradient that passes back through the state at each step.
        hard: whether signals are rounded to 0 or 1, and one action is taken with certainty;
            there are no gradients then.
    """

    units: UnitType
    memory: "Memory[Any]"
    buffered: bool = False
    tanh_values: bool = True
    state_gradient: float = 1.0
    hard: bool = False

    @property
    def signals(self) -> int:
        """The number of signals, with those of buffers."""
        return len(self.memory.signal_names) + 2 * self.buffered


@dataclass(eq=False)
class ModelWeights(Generic[Numbers]):
    """The weights of a controller and its heads for a batch of B, as arrays or as tensors.

    Attributes:
        architecture: the architecture that they belong to.
        projected: [ids, L * gates * H] the contribution of each id to the gates, with the bias;
            with buffers, the last id is no input.
        initial: [L, states, B, H] the state before the first step.
        heads: [signals + pushes * m, H] of signals and values.
        bias: [signals + pushes * m] of signals and values.
        layers: two weights of each layer, the lowest first: [gates * H, size below] for the
            vectors read at the step before or, in a higher layer, the output of the layer below;
            and [1, gates * H, H] for the hidden state, or [ids, gates * H, H] of second-order
            units, which no buffered model has.
    """

    architecture: Architecture
    projected: Numbers
    initial: Numbers
    heads: Numbers
    bias: Numbers
    layers: Sequence[Numbers]

    @functools.cached_property
    def sizes(self: "ModelWeights[Array]") -> "Sizes":
        """The sizes of all arrays of a run; raises `ValueError` if the weights' shapes differ.

        Weights are checked once a call, before the steps, because compiled code would read and
        write out of bounds if their sizes did not agree.
        """
        units, memory = self.architecture.units, self.architecture.memory
        layers, _, batch, size = self.initial.shape
        columns = (len(self.heads) - self.architecture.signals) // max(memory.pushes, 1)
        sizes = Sizes(self.architecture, layers, batch, size, columns, self.heads.dtype)
        check_shape("weights of signals and values", self.heads.shape, (sizes.heads, size))
        check_shape("biases of signals and values", self.bias.shape, (sizes.heads,))
        check_shape("initial state", self.initial.shape, (layers, units.states, batch, size))
        for index, weight in enumerate(self.layers):
            layer, hidden = divmod(index, 2)
            expected: tuple[int, ...] = units.gates * size, size if layer or hidden else sizes.read
            if hidden:
                expected = (len(self.projected) if units.second_order else 1, *expected)
            what = "hidden" if hidden else "below"
            check_shape(f"{what} of layer {layer}", weight.shape, expected)
        return sizes

    @functools.cached_property
    def forward_panels(self: "ModelWeights[Array]") -> Weights:
        """The weights of layers and heads in panels, for the forward pass."""
        in_panels = functools.partial(_gate_panels, gates=self.architecture.units.gates)
        return _stacked(self.layers, in_panels, panels(self.heads.T))


class Sizes(NamedTuple):
    """The sizes of all arrays of a run.

    Attributes:
        architecture: the architecture that is run.
        layers: L.
        batch: B.
        size: H.
        columns: size m of a pushed vector.
        dtype: of all numbers.
    """

    architecture: Architecture
    layers: int
    batch: int
    size: int
    columns: int
    dtype: np.dtype[Any]

    @property
    def memory_signals(self) -> int:
        """The number of signals of the memory, which come first."""
        return len(self.architecture.memory.signal_names)

    @property
    def heads(self) -> int:
        """The number of outputs for the memory at each step: signals and values."""
        return self.architecture.signals + self.architecture.memory.pushes * self.columns

    @property
    def read(self) -> int:
        """The number of numbers read at each step."""
        return self.architecture.memory.reads * self.columns

    @property
    def projected(self) -> tuple[int, int, int]:
        """The shape of an id's contribution to the gates."""
        return self.layers, self.architecture.units.gates, self.size

    def store(self, steps: int, total_steps: int | None = None, contents: object = None) -> Store:
        """An empty memory for the batch, or with contents; arguments as in `StoreSizes`."""
        sizes = StoreSizes(self.batch, self.columns, self.dtype, steps, total_steps, contents)
        return self.architecture.memory.store(sizes)

    def nothing_read(self) -> Array:
        """The vectors read before the first step: [B, reads * m]."""
        return np.full((self.batch, self.read), self.architecture.memory.empty, dtype=self.dtype)

    def new_trace(self, total_steps: int, saved: int) -> StepTrace:
        """A trace of `total_steps` steps, with room for what units save at `saved` of them."""
        return StepTrace(
            np.empty((saved, self.layers, self.architecture.units.saved, self.size), self.dtype),
            np.empty((total_steps, self.layers, self.size), self.dtype),
            np.empty((total_steps, self.architecture.signals), self.dtype),
            np.empty((total_steps, 1, self.read), self.dtype),
            np.zeros(total_steps if self.architecture.buffered else 0, self.dtype),
        )

    def forward_arguments(
        self,
        weights: Weights,
        bias: Array,
        starts: Array,
        inputs: Inputs,
        state: Array,
        read: Array,
        trace: StepTrace,
        noise: Array | None = None,
    ) -> Forward:
        """The arguments of the forward pass of some items."""
        architecture, count = self.architecture, state.shape[2]
        return Forward(
            architecture.units.number,
            int(architecture.tanh_values),
            int(architecture.hard),
            weights,
            bias,
            np.empty((0, architecture.signals), self.dtype) if noise is None else noise,
            starts,
            inputs,
            state,
            read.reshape(len(read), architecture.memory.reads, self.columns),
            trace,
            np.empty((count, padded(self.heads, self.dtype)), self.dtype),
            np.empty((count, architecture.memory.pushes, self.columns), self.dtype),
        )

    def inputs(self, input_starts: Array, ids: Array, projected: Array) -> Inputs:
        """The inputs of a whole batch.

        Args:
            input_starts: [B + 1] the index at which the inputs of each item start, and M.
            ids: as in `Inputs`.
            projected: [ids, L * gates * H].

        Raises:
            IndexError: an id is out of range.
            ValueError: the contributions are of another size.
        """
        check_ids(ids, len(projected))
        by_gate = projected.reshape(len(projected), *self.projected)
        return Inputs(input_starts, ids, by_gate, int(self.architecture.buffered))


def check_shape(what: str, given: Sequence[int], expected: tuple[int, ...]) -> None:
    """Raise `ValueError` unless a shape is the expected one."""
    if tuple(given) != expected:
        raise ValueError(f"{what}: expected the shape {expected}, not {tuple(given)}")


def check_ids(ids: Array, count: int) -> None:
    """Raise `IndexError` unless all ids are under a count."""
    if len(ids) and not 0 <= ids.min() <= ids.max() < count:
        raise IndexError(f"ids are {ids.min()} to {ids.max()}; expected 0 to {count - 1}")


def padded(columns: int, dtype: np.dtype[Any]) -> int:
    """The number of columns with those that fill the last panel."""
    width = PANEL_BYTES // dtype.itemsize
    return -(-columns // width) * width


def panels(matrix: Array) -> Array:
    """The columns of a matrix [K, N] in panels, [ceil(N / width), K, width], filled with zeros."""
    depth, columns = matrix.shape
    filled = np.zeros((depth, padded(columns, matrix.dtype)), matrix.dtype)
    filled[:, :columns] = matrix
    width = PANEL_BYTES // matrix.itemsize
    count = filled.shape[1] // width
    return np.ascontiguousarray(filled.reshape(depth, count, width).transpose(1, 0, 2))


def _gate_panels(weight: Array, gates: int) -> Array:
    """The rows of a weight [gates * H, K] as columns of panels, each gate starting a panel."""
    size, depth = len(weight) // gates, weight.shape[1]
    whole = padded(size, weight.dtype)
    by_gate = np.zeros((gates, whole, depth), weight.dtype)
    by_gate[:, :size] = weight.reshape(gates, size, depth)
    return panels(by_gate.reshape(gates * whole, depth).T)


def backward_weights(layers: Sequence[Array], heads: Array) -> Weights:
    """The transposed weights of layers and heads in panels."""
    return _stacked(layers, panels, panels(heads))


def _stacked(layers: Sequence[Array], in_panels: Callable[[Array], Array], heads: Array) -> Weights:
    hidden = np.stack([np.stack([*map(in_panels, weight)]) for weight in layers[1::2]])
    above = np.stack([*map(in_panels, layers[2::2])]) if layers[2:] else hidden[:0, 0]
    return Weights(in_panels(layers[0]), above, hidden, heads)


class BatchArguments(NamedTuple):
    """The arguments of a batch, which is split into parts for several threads.

    Attributes:
        weights: in panels; transposed for the backward pass.
        starts: [B + 1] the index at which the steps of each item start, and N.
        inputs: the inputs that the steps read.
        store: the memory.
        trace: the record of the steps.
    """

    weights: Weights
    starts: Array
    inputs: Inputs
    store: Store
    trace: StepTrace


def forward_part(
    sizes: Sizes,
    part: slice,
    given: BatchArguments,
    bias: Array,
    state: Array,
    read: Array,
    first: int = 0,
    noise: Array | None = None,
) -> None:
    """Run the steps of a part of the batch, whose memory has taken `first` steps before.

    The other arguments are as in `Forward`; the noise is that of the whole batch, or None.
    """
    if part.start == part.stop:
        return
    indices = slice(given.starts[part.start], given.starts[part.stop])
    starts, inputs = _starts_of(part, given.starts), _inputs_of(part, given.inputs)
    trace = _trace_of(indices, given.trace)
    own = None if noise is None else noise[indices]
    run = sizes.forward_arguments(given.weights, bias, starts, inputs, state, read, trace, own)
    forward(run, given.store.forward(part, indices), sizes.memory_signals, first)


def backward_part(sizes: Sizes, part: slice, given: BatchArguments, grads: Grads) -> Array:
    """Run the backward pass of a part of the batch, with the transposed weights.

    Returns:
        The gradient of the initial state, [L, states, B, H].
    """
    architecture, dtype, count = sizes.architecture, sizes.dtype, part.stop - part.start
    units, memory = architecture.units, architecture.memory
    grad_state = np.zeros((sizes.layers, units.states, count, sizes.size), dtype)
    if not count:
        return grad_state
    indices = slice(given.starts[part.start], given.starts[part.stop])
    run = Backward(
        units.number,
        int(architecture.tanh_values),
        given.weights,
        _starts_of(part, given.starts),
        _inputs_of(part, given.inputs),
        float(architecture.state_gradient),
        _trace_of(indices, given.trace),
        Grads._make(each[indices] for each in grads),
        grad_state,
        np.empty((count, memory.reads, sizes.columns), dtype),
        np.empty((count, memory.pushes, sizes.columns), dtype),
    )
    backward(run, given.store.backward(part, indices), sizes.memory_signals)
    return grad_state


def _starts_of(part: slice, starts: Array) -> Array:
    """The index at which the steps of each item of a part start, counted within the part."""
    own: Array = starts[part.start : part.stop + 1] - starts[part.start]
    return own


def _inputs_of(part: slice, inputs: Inputs) -> Inputs:
    more = 2 * inputs.buffered
    first = inputs.starts[part.start] + more * part.start
    last = inputs.starts[part.stop] + more * part.stop
    return inputs._replace(starts=_starts_of(part, inputs.starts), ids=inputs.ids[first:last])


def _trace_of(indices: slice, trace: StepTrace) -> StepTrace:
    """The trace of some of the steps; arrays for one step only, or for none, stay whole."""
    return StepTrace._make(each[indices] if len(each) > 1 else each for each in trace)
