"""The process that trains one start of a run ahead; see `stacktrans.training.ahead`."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import torch

from stacktrans.common.errors import StacktransError
from stacktrans.model.checkpoint import CONFIG
from stacktrans.settings.resolve import resolve
from stacktrans.training.trainer import Trainer


def train_ahead(directory: Path, attempt: int, device: torch.device, parent: int) -> None:
    """Train a start until it ends, fails, or is asked for by the process `parent`; then save it."""
    trainer = Trainer(resolve(config=str(directory / CONFIG)), directory, device, "", attempt)

    def ask(number: int, _: object) -> None:
        trainer.stop_requested = number

    signal.signal(signal.SIGTERM, ask)
    with contextlib.suppress(StacktransError):  # the run itself will come to it, and say so
        trainer.run_ahead(lambda: os.getppid() == parent)


if __name__ == "__main__":
    train_ahead(Path(sys.argv[1]), int(sys.argv[2]), torch.device(sys.argv[3]), int(sys.argv[4]))
