"""What sequences carry from one piece to the next."""

from dataclasses import dataclass, replace

from torch import Tensor

from stacktrans.kernels.rows import Cells


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What B strings carry on, as constants.

    Attributes:
        units: [L, states, B, H] the state of the controller.
        read: [B, reads * m] what was read last.
        cells: what the memory holds; None without one.
        new: [B] which of them begin anew, and carry nothing.
    """

    units: Tensor
    read: Tensor
    cells: Cells | None
    new: Tensor

    def restarted(self, items: Tensor) -> "Carried":
        """The same, but some of them, [B] bool, begin anew: with the initial state of units."""
        return replace(self, new=self.new | items)
