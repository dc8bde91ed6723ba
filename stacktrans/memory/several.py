"""Several memories side by side in one model, such as a queue and a stack.

Each has signals, values and reads of its own, which stand one memory after the other; whatever
one does, the others do not see. The name of a memory, with a number if there are several of its
kind, ends the names of its signals and begins those of what it is pushed to: "pop queue",
"push stack 2", "queue front", "stack 2 top".
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stacktrans.common.ends import Ends, side_by_side
from stacktrans.common.registry import MEMORIES, LazyModule
from stacktrans.memory.base import Memory, MemorySnapshot, MemoryState
from stacktrans.memory.strengths.kernel import StrengthKernel, snapshot_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.kernels import Array
    from stacktrans.kernels.kernel import Kernel
else:
    torch = LazyModule("torch")


@dataclass(frozen=True, slots=True)
class States(MemoryState):
    """What each memory holds."""

    each: tuple[MemoryState, ...]


class Several(Memory[States]):
    """Memories side by side.

    Attributes:
        part_names: their names, in order.
        parts: themselves.
        labels: how the signals of each are told from those of the others.
    """

    part_names: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.parts: Sequence[Memory[Any]] = [MEMORIES.load(name)() for name in self.part_names]
        seen = [self.part_names[:place].count(name) for place, name in enumerate(self.part_names)]
        self.labels = [
            f"{name} {before + 1}" if self.part_names.count(name) > 1 else name
            for name, before in zip(self.part_names, seen, strict=True)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        # Its class can't be imported by a name.
        return _made, (self.part_names,), vars(self)

    @property
    def signal_names(self) -> tuple[str, ...]:
        labelled = zip(self.labels, self.parts, strict=True)
        return tuple(f"{name} {label}" for label, part in labelled for name in part.signal_names)

    @property
    def push_names(self) -> tuple[str, ...]:
        labelled = zip(self.labels, self.parts, strict=True)
        return tuple(f"{label} {name}" for label, part in labelled for name in part.push_names)

    @property
    def ends(self) -> Ends | None:
        parts = [part.ends for part in self.parts if part.ends]
        if len(parts) < len(self.parts):
            return None
        return side_by_side(parts, self.labels, self.signal_names)

    @property
    def reads(self) -> int:
        return sum(part.reads for part in self.parts)

    def signals(self, sums: Tensor) -> Tensor:
        each = zip(self.parts, self._split(sums), strict=True)
        return torch.cat([part.signals(own) for part, own in each], dim=1)

    def discretise(self, signals: Tensor) -> Tensor:
        each = zip(self.parts, self._split(signals), strict=True)
        return torch.cat([part.discretise(own) for part, own in each], dim=1)

    def _split(self, numbers: Tensor) -> Sequence[Tensor]:
        """Those of each part, of [B, signals]."""
        each: Sequence[Tensor] = numbers.split([len(part.signal_names) for part in self.parts], 1)
        return each

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> States:
        return States(tuple(part.initial(batch_size, value_size, like) for part in self.parts))

    def initial_reads(self, batch_size: int, value_size: int, like: Tensor) -> Tensor:
        reads = [part.initial_reads(batch_size, value_size, like) for part in self.parts]
        return torch.cat(reads, dim=1)

    def step(self, state: States, signals: Tensor, values: Tensor) -> tuple[States, Tensor]:
        pushed = values.split([part.pushes for part in self.parts], dim=1)
        given = zip(state.each, self._split(signals), pushed, strict=True)
        done = [part.step(*own) for part, own in zip(self.parts, given, strict=True)]
        states, reads = zip(*done, strict=True)
        return States(states), torch.cat(reads, dim=1)

    def snapshot(self, state: States) -> MemorySnapshot:
        each = [part.snapshot(own) for part, own in zip(self.parts, state.each, strict=True)]
        labelled = list(zip(self.labels, each, strict=True))
        return MemorySnapshot(
            total_strength=sum(own.total_strength for own in each),
            read_weights={
                f"{label} {name}": row
                for label, own in labelled
                for name, row in own.read_weights.items()
            },
            read_cells={
                f"{label} {name}": cells
                for label, own in labelled
                for name, cells in own.read_cells.items()
            },
            rows={label: row for label, own in labelled for row in own.rows.values()},
        )

    def snapshot_of(
        self, store: Any, reads: Array, steps: int, contents: bool = True
    ) -> MemorySnapshot:
        return snapshot_of(store, steps, self.push_names, self.labels if contents else ())

    def compiled(self) -> Kernel | None:
        """Compiled code for all of them, if that of each is of rows with strengths."""
        if any(type(part.compiled()) is not StrengthKernel for part in self.parts):
            return None
        return StrengthKernel.of(self.ends) if self.ends else None


@functools.cache
def several(names: tuple[str, ...]) -> type[Several]:
    """The class of memories with these names."""
    return type("Several", (Several,), {"name": MEMORIES.combined(names), "part_names": names})


def _made(names: tuple[str, ...]) -> Several:
    """For what was pickled."""
    return several(names)()
