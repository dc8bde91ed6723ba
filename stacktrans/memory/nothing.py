"""No memory at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stacktrans.common.ends import Ends
from stacktrans.memory.base import Memory, MemoryState

if TYPE_CHECKING:
    from torch import Tensor

    from stacktrans.kernels.kernel import Kernel


class Nothing(Memory[MemoryState]):
    """Nothing: the controller alone."""

    name = "none"
    carries = True
    signal_names = ()
    push_names = ()
    ends = Ends((), (), (), (), ())
    reads = 0

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> MemoryState:
        return MemoryState()

    def carried(self, state: MemoryState) -> MemoryState:
        return state

    def step(
        self, state: MemoryState, signals: Tensor, values: Tensor
    ) -> tuple[MemoryState, Tensor]:
        return state, values

    def kernel(self) -> Kernel:
        from stacktrans.memory.strengths.kernel import StrengthKernel  # waits for numba

        return StrengthKernel.of(self.ends)
