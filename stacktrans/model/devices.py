"""The choice of torch's device, and of the number of threads of torch and predictors."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stacktrans.common.errors import UsageError

if TYPE_CHECKING:
    import torch


def find_device(name: str) -> "torch.device":
    """The torch device of a name; raises `UsageError` if it is not available."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"device {name}: expected auto, cpu, cuda or cuda:N") from error
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device {name}: not available here ({reason})") from error
    return device


def check_device(name: str) -> None:
    """Raise `UsageError` if a device is not available."""
    if name not in ("auto", "cpu"):  # which are always available: torch need not be imported
        find_device(name)


@contextlib.contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Set the number of threads of torch and of predictors within a `with` block.

    Outputs do not depend on their number; gradients may differ in their last digits.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
