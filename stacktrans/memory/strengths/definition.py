"""Stacks, queues and deques of rows with strengths, and `NoMemory`, step by step in torch.

All (grefenstette2015, equations 1 to 11) are made of two operations at either end of the rows.
With s[i] the strength of row i, and above[i] the sum of the strengths of the rows nearer to the
end,

    a pop of strength u leaves     max(0, s[i] - max(0, u - above[i]))     equations 2, 4, 7, 8
    a read takes of each row       min(s[i], max(0, 1 - above[i]))         equations 3, 5, 10, 11

Ties. Where a max or a min has two equal arguments, its derivative is that of the left one (section
3.1 of the paper). So

    a row with just the strength that is left of a pop is removed, and is a constant 0;
    a row that nothing is left for (u = above[i]) keeps its strength, and has a derivative by this
        strength alone: not by u, nor by the rows above it;
    a row of strength 0 is a constant 0 after the next pop, wherever it is;
    a row that just fills the rest of a read has its strength as weight, and so has a row of
        strength 0; a row for which no rest remains (above[i] = 1) has the constant weight 0.

Saturated signals, which are exactly 0 or 1, tie at every step. Rounding decides about ties, too, so
above[i] is summed row by row from the end inwards, in the precision of the strengths, and compiled
code (`stacktrans.memory.strengths.kernel`) compares the same sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stacktrans.common.ends import BOTTOM, TOP, Ends
from stacktrans.common.registry import LazyModule
from stacktrans.memory.base import Memory, MemorySnapshot, MemoryState, RowContents
from stacktrans.memory.strengths.kernel import Rows, new_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import functional

    from stacktrans.kernels import Array
else:
    torch, functional = LazyModule("torch"), LazyModule("torch.nn.functional")


@dataclass(frozen=True, slots=True)
class StrengthState(MemoryState):
    """The rows of a memory after some steps, for a batch of B strings.

    Attributes:
        strengths: [B, rows] the strength s_t of each row, bottom (or front) first.
        values: [B, rows, m] the pushed vectors V_t, in the same order.
    """

    strengths: Tensor
    values: Tensor


class StrengthMemory(Memory[StrengthState]):
    """Rows with strengths, which signals in [0, 1] push and pop; `ends.reads` are read."""

    push_names: ClassVar[tuple[str, ...]]
    ends: ClassVar[Ends]

    @property
    def signal_names(self) -> tuple[str, ...]:
        return self.ends.signal_names

    @property
    def reads(self) -> int:
        return len(self.ends.reads)

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> StrengthState:
        """The empty memory: no rows."""
        strengths = like.new_zeros(batch_size, 0)
        return StrengthState(strengths, like.new_zeros(batch_size, 0, value_size))

    def step(
        self, state: StrengthState, signals: Tensor, values: Tensor
    ) -> tuple[StrengthState, Tensor]:
        strengths, rows, amounts = state.strengths, state.values, signals.split(1, dim=1)
        for signal, end in self.ends.pops:  # equations 2, 4, 7 and 8
            strengths = _from_end(end, pop(_from_end(end, strengths), amounts[signal]))
        for (signal, end), vector in zip(self.ends.pushes, values.split(1, dim=1), strict=True):
            strengths = _pushed(end, strengths, amounts[signal])  # equations 2, 4 and 9
            rows = _pushed(end, rows, vector)  # equations 1 and 6
        state = StrengthState(strengths, rows)
        return state, torch.bmm(self.read_weights(state), rows)

    def read_weights(self, state: StrengthState) -> Tensor:
        """The weights of all rows in each read: [B, reads, rows]."""
        strengths, ends = state.strengths, self.ends.reads
        by_end = [_from_end(end, read_weights_of(_from_end(end, strengths))) for end in ends]
        return torch.stack(by_end, dim=1)  # equations 3, 5, 10 and 11

    def row_origins(self, steps: int) -> list[int]:
        """The step, from 0, that pushed each row of a memory after some steps."""
        pushed, ends = range(steps), [end for _, end in self.ends.pushes]
        below = reversed(pushed) if BOTTOM in ends else ()
        return [*below, *(pushed if TOP in ends else ())]

    def snapshot_of(self, store: Rows, reads: Array, steps: int) -> MemorySnapshot:
        return store.snapshot(steps, self.read_names, (self.name,))

    def snapshot(self, state: StrengthState) -> MemorySnapshot:
        weights = self.read_weights(state)[0]
        steps = weights.shape[1] // self.pushes
        origins = torch.tensor(self.row_origins(steps), dtype=torch.long, device=weights.device)
        by_step = weights.new_zeros(self.reads, steps).index_add_(1, origins, weights)
        return MemorySnapshot(
            total_strength=float(state.strengths.sum()),
            read_weights=dict(zip(self.read_names, by_step, strict=True)),
            rows={self.name: RowContents(origins, state.strengths[0])},
        )


def _from_end(end: int, rows: Tensor) -> Tensor:
    """Rows [B, n] ordered from an end inwards; a second call restores their own order."""
    return rows.flip(1) if end == TOP else rows


def _pushed(end: int, rows: Tensor, new: Tensor) -> Tensor:
    """Rows [B, n, ...] with a new row at an end."""
    return torch.cat([rows, new] if end == TOP else [new, rows], dim=1)


def _sums(strengths: Tensor) -> tuple[Tensor, Tensor]:
    """Cumulative strengths before and through each row, [B, rows] each."""
    through = strengths.cumsum(1)
    if strengths.device.type == "cpu" and strengths.dtype == torch.float32:
        # There torch adds in double precision, which rounds differently than compiled code does.
        sums = torch.from_numpy(np.add.accumulate(strengths.detach().numpy(), axis=1))
        through = through + (sums - through).detach()
    return functional.pad(through[:, :-1], (1, 0)), through


def pop(strengths: Tensor, amount: Tensor) -> Tensor:
    """The strengths after a pop (equations 2, 4, 7 and 8).

    Args:
        strengths: [B, rows] from the end inwards.
        amount: [B, 1] the strength of the pop.
    """
    above, through = _sums(strengths)
    # At a tie the two are the same number, but only one of them is a constant.
    taken = torch.where(above == amount, above, amount)
    return torch.relu(torch.where(above > amount, strengths, through - taken))


def read_weights_of(strengths: Tensor) -> Tensor:
    """The weight of each row in a read (equations 3, 5, 10 and 11).

    Args:
        strengths: [B, rows] from the end inwards.
    """
    above, through = _sums(strengths)
    beyond = (through > 1) & (strengths > 0)
    return torch.where(beyond, torch.relu(1 - above), strengths)


class Stack(StrengthMemory):
    """A stack, which is popped, pushed and read at the top (grefenstette2015, equations 1 to 3).

    Row 0 is the bottom.
    """

    name = "stack"
    push_names = ("top",)
    ends = Ends(
        ("stack",), pops=((0, TOP),), pushes=((1, TOP),), reads=(TOP,), signal_names=("pop", "push")
    )
    store = new_rows


class Queue(StrengthMemory):
    """A queue, popped and read in front, pushed at the back (grefenstette2015, equations 1, 4, 5).

    Row 0 is the front.
    """

    name = "queue"
    push_names = ("back",)
    ends = Ends(
        ("queue",),
        pops=((0, BOTTOM),),
        pushes=((1, TOP),),
        reads=(BOTTOM,),
        signal_names=("pop", "push"),
    )

    read_names = ("front",)
    store = new_rows


class Deque(StrengthMemory):
    """A deque, which is popped, pushed and read at both ends (grefenstette2015, equations 6 to 11).

    Row 0 is the bottom. A step pops from the top, then from the bottom, then pushes and reads at
    both ends.
    """

    name = "deque"
    push_names = ("top", "bottom")
    ends = Ends(
        ("deque",),
        pops=((0, TOP), (2, BOTTOM)),
        pushes=((1, TOP), (3, BOTTOM)),
        reads=(TOP, BOTTOM),
        signal_names=("pop top", "push top", "pop bottom", "push bottom"),
    )
    store = new_rows


class NoMemory(Memory[MemoryState]):
    """No memory: the controller alone."""

    name = "none"
    carries = True
    signal_names = ()
    push_names = ()
    ends = Ends((), (), (), (), ())
    reads = 0

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> MemoryState:
        return MemoryState()

    def step(
        self, state: MemoryState, signals: Tensor, values: Tensor
    ) -> tuple[MemoryState, Tensor]:
        return state, values

    store = new_rows
