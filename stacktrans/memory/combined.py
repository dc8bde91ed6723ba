"""Several memories as one, such as a queue and a stack, with the signals and reads of all.

Signals, values and reads are those of the first memory, then those of the second, and so on. The
label of a memory is its name, numbered if the name occurs several times. It is the end of signal
names and the beginning of read names: "pop queue", "push stack 2", "queue front", "stack 2 top".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stacktrans.common.ends import Ends, side_by_side
from stacktrans.common.registry import MEMORIES, LazyModule
from stacktrans.memory.base import Memory, MemorySnapshot, MemoryState
from stacktrans.memory.strengths.kernel import Rows, new_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.kernels import Array
else:
    torch = LazyModule("torch")


@dataclass(frozen=True, slots=True)
class States(MemoryState):
    """The state of each memory."""

    parts: tuple[MemoryState, ...]


class CombinedMemory(Memory[States]):
    """Several memories as one, which concatenates their signals, values and reads.

    Attributes:
        part_names: the names of the memories.
        labels: the name of each, numbered if it occurs several times.
    """

    part_names: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._parts: Sequence[Memory[Any]] = [MEMORIES.load(name)() for name in self.part_names]
        names = self.part_names
        self.labels = [
            f"{name} {names[: index + 1].count(name)}" if names.count(name) > 1 else name
            for index, name in enumerate(names)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made at run time, and can't be imported by a name.
        return _rebuilt, (self.part_names,), vars(self)

    @property
    def parts(self) -> Sequence[Memory[Any]]:
        return self._parts

    @property
    def signal_names(self) -> tuple[str, ...]:
        labeled = zip(self.labels, self.parts, strict=True)
        return tuple(f"{name} {label}" for label, part in labeled for name in part.signal_names)

    @property
    def push_names(self) -> tuple[str, ...]:
        labeled = zip(self.labels, self.parts, strict=True)
        return tuple(f"{label} {name}" for label, part in labeled for name in part.push_names)

    @property
    def read_names(self) -> tuple[str, ...]:
        labeled = zip(self.labels, self.parts, strict=True)
        return tuple(f"{label} {name}" for label, part in labeled for name in part.read_names)

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
        split = zip(self.parts, self._split(sums), strict=True)
        return torch.cat([part.signals(part_sums) for part, part_sums in split], dim=1)

    def discretize(self, signals: Tensor) -> Tensor:
        split = zip(self.parts, self._split(signals), strict=True)
        return torch.cat([part.discretize(part_signals) for part, part_signals in split], dim=1)

    def _split(self, numbers: Tensor) -> Sequence[Tensor]:
        """The columns of each part, of [B, signals]."""
        sizes = [len(part.signal_names) for part in self.parts]
        columns: Sequence[Tensor] = numbers.split(sizes, dim=1)
        return columns

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> States:
        return States(tuple(part.initial(batch_size, value_size, like) for part in self.parts))

    def initial_reads(self, batch_size: int, value_size: int, like: Tensor) -> Tensor:
        reads = [part.initial_reads(batch_size, value_size, like) for part in self.parts]
        return torch.cat(reads, dim=1)

    def step(self, state: States, signals: Tensor, values: Tensor) -> tuple[States, Tensor]:
        pushed = values.split([part.pushes for part in self.parts], dim=1)
        arguments = zip(state.parts, self._split(signals), pushed, strict=True)
        steps = [part.step(*given) for part, given in zip(self.parts, arguments, strict=True)]
        states, reads = zip(*steps, strict=True)
        return States(states), torch.cat(reads, dim=1)

    def snapshot(self, state: States) -> MemorySnapshot:
        states = zip(self.parts, state.parts, strict=True)
        snapshots = [part.snapshot(part_state) for part, part_state in states]
        labeled = zip(self.labels, snapshots, strict=True)
        return MemorySnapshot(
            total_strength=sum(snapshot.total_strength for snapshot in snapshots),
            read_weights=self._labeled([snapshot.read_weights for snapshot in snapshots]),
            read_cells=self._labeled([snapshot.read_cells for snapshot in snapshots]),
            cells=self._labeled([snapshot.cells for snapshot in snapshots]),
            rows={
                label if len(snapshot.rows) == 1 else f"{label} {name}": row
                for label, snapshot in labeled
                for name, row in snapshot.rows.items()
            },
        )

    def _labeled(self, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The entries of all parts, with the labels of the memories before their names."""
        labeled = zip(self.labels, parts, strict=True)
        return {f"{label} {name}": part[name] for label, part in labeled for name in part}

    def snapshot_of(self, store: Rows, reads: Array, steps: int) -> MemorySnapshot:
        return store.snapshot(steps, self.read_names, self.labels)

    store = new_rows

    @property
    def is_compiled(self) -> bool:
        """Whether all are compiled and have rows with strengths."""
        stores = [vars(type(part)).get("store") for part in self.parts]
        return bool(self.ends) and all(store is new_rows for store in stores)


@functools.cache
def combined_memory(names: tuple[str, ...]) -> type[CombinedMemory]:
    """The class of memories with given names side by side."""
    return type(
        "CombinedMemory", (CombinedMemory,), {"name": MEMORIES.combined(names), "part_names": names}
    )


def _rebuilt(names: tuple[str, ...]) -> CombinedMemory:
    """Rebuild pickled memories."""
    return combined_memory(names)()
