"""A nondeterministic stack: all runs of a weighted pushdown automaton at once, in torch.

The automaton of dusell2020 has states q, r and stack symbols x, y. The controller gives the weight
of each of its transitions at every step t; a run has the product of the weights of its transitions.
With

    gamma[i -> t][qx, ry]   the sum of the weights of all runs from step i, in state q with x on
                            top, to step t, in state r with y on top, that push y, or what became y,
                            at step i + 1, and do not pop it
    alpha[t][ry]            the sum of the weights of all runs that end in state r with y on top

where the bottom is pushed at step 0, gamma[-1 -> 0] and alpha[-1] being 1 for the first state and
symbol and 0 for all others, Lang's algorithm is

    gamma[i -> t][qx, ry] = push[t][qx, ry] if i = t - 1
                          + sum over s, z of gamma[i -> t-1][qx, sz] replace[t][sz, ry]
                          + sum over k, u of gamma[i -> k][qx, uy] popped[k -> t][uy, r]
    popped[k -> t][uy, r] = sum over s, z of gamma[k -> t-1][uy, sz] pop[t][sz, r]
    alpha[t][ry]          = sum over i, q, x of alpha[i][qx] gamma[i -> t][qx, ry]

A stack symbol carries the vector that was pushed with it, also when it is replaced (dusell2023). In
gamma[i -> t] this is v[i+1], so that, of each state r and symbol y, the read is

    sum over i, q, x of alpha[i][qx] gamma[i -> t][qx, ry] v[i+1] / sum over s, z of alpha[t][sz]

Weights are not normalized for each state and symbol (dusell2022), and a common factor of all
weights of a step cancels in the read. They are therefore given by one softmax, and kept as

    spans[i][qx, ry]        alpha[i][qx] gamma[i -> t][qx, ry] / sum over s, z of alpha[t][sz]
    below[y, i, qx, k, u]   alpha[i][qx] gamma[i -> k][qx, uy] / alpha[k][uy]

which are shares of runs, so that nothing overflows on strings of any length. They are kept in
double precision, where runs that have less than about 1e-308 of the weight of all are lost; with
the 1e-38 of single precision, gradients would overflow once transitions are nearly certain.

With Q states and S symbols, a step has O(n^2 Q^3 S^2 + n Q^3 S^3) operations, as in dusell2022, and
the state O(n^2 Q^2 S^2) numbers, where n is the number of steps so far, but at most the window.
"""

from __future__ import annotations

import functools
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stacktrans.common.errors import UsageError
from stacktrans.common.registry import LazyModule
from stacktrans.memory.base import Memory, MemorySnapshot, MemoryState

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import functional
else:
    torch, functional = LazyModule("torch"), LazyModule("torch.nn.functional")


BLOCK = 16
"""Positions in a block of `Spans.below`: full blocks are not copied, and few blocks are fast."""


@dataclass(frozen=True, slots=True)
class Spans(MemoryState):
    """The runs of an automaton with Q states and S symbols, for a batch of B strings.

    There are n positions: one for each step whose push may be on top, and before them, if it may,
    one for the bottom.

    Attributes:
        spans: [B, n, Q, S, Q, S] the share of the runs that pushed their top at each position, by
            state and top before that push, and state and top now.
        below: [B, S, i, Q, S, k, Q] in blocks of positions k: for each top y and state u before a
            push at k, the shares of the runs that pushed y at an earlier position i, by state and
            top before that push.
        values: [B, n, m] the vector pushed at each position.
        steps: the number of steps taken.
    """

    spans: Tensor
    below: tuple[Tensor, ...]
    values: Tensor
    steps: int


class NondeterministicStack(Memory[Spans]):
    """A stack operated by all runs of a nondeterministic pushdown automaton (dusell2023).

    Of each state and stack symbol, a vector is read: the mean of the vectors on top of the stack,
    over the runs in this state with this symbol on top, times the probability of such a run. The
    first number of all vectors is 1, so that the first number read is this probability. A run
    begins in state 1 with a symbol a on the stack, and ends if it pops it.

    Args:
        states: the number of states, 1, 2, 3 and so on.
        symbols: the number of stack symbols, a, b, c and so on; settings allow 16.
        window: the number of last steps whose pushes may be on top of the stack; a run ends if its
            top is older. None for no limit.
    """

    name = "nondeterministic"
    takes_actions = True
    carries = True
    push_names = ("stack",)

    def __init__(self, states: int = 2, symbols: int = 3, window: int | None = None) -> None:
        self.states, self.symbols, self.window = states, symbols, window

    @functools.cached_property
    def read_names(self) -> tuple[str, ...]:
        """The state and the symbol of each vector read."""
        letters = string.ascii_lowercase[: self.symbols]
        return tuple(f"{state}{x}" for state in range(1, self.states + 1) for x in letters)

    @functools.cached_property
    def signal_names(self) -> tuple[str, ...]:
        """The transitions: "push 1a 2b" from state 1 with a on top to state 2 with b above it."""
        names, states = self.read_names, range(1, self.states + 1)
        return (
            *(f"push {before} {after}" for before in names for after in names),
            *(f"replace {before} {after}" for before in names for after in names),
            *(f"pop {before} {after}" for before in names for after in states),
        )

    @property
    def reads(self) -> int:
        return self.states * self.symbols

    def signals(self, sums: Tensor) -> Tensor:
        """The weights of all transitions, up to a common factor: a softmax."""
        return torch.softmax(sums, dim=1, dtype=torch.float64)

    def discretize(self, signals: Tensor) -> Tensor:
        """One-hot vectors of the most probable transition."""
        return functional.one_hot(signals.argmax(dim=1), signals.shape[1]).to(signals.dtype)

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> Spans:
        """The run of no steps, and a bottom whose vector has zeros after the 1."""
        states, symbols, like = self.states, self.symbols, like.double()
        spans = like.new_zeros(batch_size, 1, states, symbols, states, symbols)
        values = like.new_zeros(batch_size, 1, value_size)
        spans[:, 0, 0, 0, 0, 0] = 1
        values[:, :, 0] = 1
        below = like.new_zeros(batch_size, symbols, 0, states, symbols, 1, states)
        return Spans(spans, (below,), values, 0)

    def initial_reads(self, batch_size: int, value_size: int, like: Tensor) -> Tensor:
        return self._read(self.initial(batch_size, value_size, like)).to(like.dtype)

    def check_can_carry(self) -> None:
        if self.window is None:
            raise UsageError(
                f"memory {self.name}: without a limit its state can't be carried from one segment "
                "of a stream to the next; expected memory.window"
            )

    def step(self, state: Spans, signals: Tensor, values: Tensor) -> tuple[Spans, Tensor]:
        states, symbols, spans, dtype = self.states, self.symbols, state.spans, values.dtype
        signals, values = signals.double(), values.double()
        both = (states * symbols) ** 2
        push, replace, pop = signals.split((both, both, both // symbols), dim=1)
        push, replace = (part.unflatten(1, spans.shape[2:]) for part in (push, replace))
        pop = pop.unflatten(1, spans.shape[2:-1])
        tops = spans.sum(dim=(1, 2, 3))  # alpha[t-1]
        pushed = tops[..., None, None] * push
        replaced = torch.einsum("bipxsz,bszry->bipxry", spans, replace)
        popped = torch.einsum("bkuysz,bszr->bkuyr", spans, pop)
        after = torch.cat([replaced + _exposed(state.below, popped), pushed.unsqueeze(1)], dim=1)
        newest = _shares(spans, tops[:, None, None, None]).permute(0, 5, 1, 2, 3, 4).unsqueeze(5)
        below = _extended(state.below, newest)
        vectors = torch.cat([torch.ones_like(values[..., :1]), values[..., 1:]], dim=2)
        vectors = torch.cat([state.values, vectors], dim=1)
        if self.window and after.shape[1] > self.window:
            after, vectors, below = after[:, 1:], vectors[:, 1:], _without_oldest(below)
        after = _shares(after, after.sum(dim=(1, 2, 3, 4, 5), keepdim=True))
        state = Spans(after, below, vectors, state.steps + 1)
        return state, self._read(state).to(dtype)

    def _read(self, state: Spans) -> Tensor:
        """The vector of each state and symbol, [B, Q * S, m]."""
        by_state = torch.einsum("bipxry,bim->brym", state.spans, state.values)
        return by_state.flatten(1, 2)

    def snapshot(self, state: Spans) -> MemorySnapshot:
        shares = state.spans[0].sum(dim=(1, 2)).flatten(1).t()
        # Without the bottom, or with zeros for the steps before the window.
        by_step = functional.pad(shares, (state.steps - shares.shape[1], 0))
        return MemorySnapshot(read_weights=dict(zip(self.read_names, by_step, strict=True)))


def _exposed(below: tuple[Tensor, ...], popped: Tensor) -> Tensor:
    """The weights of the runs that end with a pop, by the push that is now on top.

    Args:
        below: as in `Spans`.
        popped: [B, n, Q, S, Q] by the push that was on top, state and top before it, and state now.

    Returns:
        [B, n, Q, S, Q, S], as the weights of `Spans`.
    """
    parts = []
    sizes = [block.shape[5] for block in below]
    for block, part in zip(below, popped.split(sizes, dim=1), strict=True):
        exposed = torch.einsum("byipxku,bkuyr->bipxry", block, part)
        missing = popped.shape[1] - block.shape[2]
        parts.append(functional.pad(exposed, (*[0] * 9, missing)))
    return sum(parts[1:], start=parts[0])


def _extended(below: tuple[Tensor, ...], newest: Tensor) -> tuple[Tensor, ...]:
    """Blocks with a position more, in the last one or in a new one."""
    *others, last = below
    if last.shape[5] == BLOCK:
        return (*below, newest)
    last = functional.pad(last, (*[0] * 9, 1))
    return (*others, torch.cat([last, newest], dim=5))


def _without_oldest(below: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Blocks without the oldest position."""
    first, *others = (block[:, :, 1:] for block in below)
    return (first[..., 1:, :], *others) if first.shape[5] > 1 else (*others,)


def _shares(weights: Tensor, totals: Tensor) -> Tensor:
    """Weights divided by totals, where those that are too small to divide by count as 1."""
    return weights / totals.masked_fill(totals < torch.finfo(totals.dtype).tiny, 1)
