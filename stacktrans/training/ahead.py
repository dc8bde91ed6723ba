"""The starts that a run may need next, trained by other processes meanwhile.

A start depends on nothing but the seed and its number, so it can be trained before it is
known whether it will be needed. The run takes over its result.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch

from stacktrans.common.files import write_atomically
from stacktrans.model.checkpoint import CONFIG
from stacktrans.settings.config import RunConfig

FOLDER = ".ahead"
"""Where in a run's directory the starts are that are trained ahead."""


class Ahead:
    """The processes that train ahead; none with one worker, or where nothing restarts."""

    def __init__(self, config: RunConfig, directory: Path, device: torch.device) -> None:
        self.config, self.directory, self.device = config, directory, device
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.stop()  # the remains of a run that was killed cannot be used
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def train(self, attempts: Sequence[int]) -> None:
        """Train these starts, if they are not being trained; end all others if there are none."""
        if not attempts and self.running:
            self.stop()
        for attempt in attempts:
            if attempt not in self.running:
                self.running[attempt] = self._begin(attempt)

    def take(self, attempt: int) -> Path | None:
        """The run of a start as far as it was trained ahead; None if it was not."""
        process = self.running.pop(attempt, None)
        if process is None:
            return None
        process.terminate()
        process.wait()
        return self._place(attempt)

    def stop(self) -> None:
        """End all of them and remove their results."""
        for process in self.running.values():
            process.kill()
            process.wait()
        self.running.clear()
        shutil.rmtree(self.directory / FOLDER, ignore_errors=True)

    def _place(self, attempt: int) -> Path:
        return self.directory / FOLDER / str(attempt)

    def _begin(self, attempt: int) -> subprocess.Popen[bytes]:
        place = self._place(attempt)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        write_atomically(place / CONFIG, self.config.to_yaml())
        arguments = [str(place), str(attempt), str(self.device), str(os.getpid())]
        command = [sys.executable, "-m", "stacktrans.training.trainer", *arguments]
        null = subprocess.DEVNULL
        # In a session of its own, since Ctrl-C is for the run alone.
        return subprocess.Popen(
            command, stdin=null, stdout=null, stderr=null, start_new_session=True
        )
