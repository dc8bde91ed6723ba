"""Loading the model that a command is about."""

from typing import TYPE_CHECKING

from stacktrans.model.devices import find_device

if TYPE_CHECKING:
    from stacktrans.model.checkpoint import Checkpoint


def load_model(name: str, device: str, hard: bool) -> "Checkpoint":
    """The checkpoint of a name, on a device, its memory used as a discrete one if `hard`."""
    import torch

    from stacktrans.model.checkpoint import load

    checkpoint = load(name, find_device(device))
    torch.set_num_threads(checkpoint.config.threads)
    checkpoint.model.hard = hard
    return checkpoint
