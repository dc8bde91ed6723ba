"""The command `verify`: a model beside the exact answers of its task."""

from typing import Annotated

import typer

from stacktrans.commands.options import (
    CheckpointArgument,
    DeviceOption,
    HardOption,
    JsonOption,
    SeedOption,
    WorkersOption,
    load_model,
)
from stacktrans.commands.terminal import print_json, print_out
from stacktrans.common.errors import check_positive

WRONG = 1
"""The exit code where something was wrong."""


def verify(
    checkpoint: CheckpointArgument,
    exhaustive: Annotated[int, typer.Option(metavar="N")] = 20_000,
    count: int = 10_000,
    longest: int = 10_000,
    seed: SeedOption = 1,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    workers: WorkersOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Look for a string that a model answers wrongly.

    All short strings are tried, then random ones as long as those that the model
    was trained and tested on, then ever longer ones, beside the exact answers of
    its task; a model of pairs in files is tried on these. A wrong string is
    shortened as far as possible, and the command that shows the model at it is
    printed. The exit code is 1 if something was wrong. For a machine made by
    extract, it also tries to prove that all strings, however long, are answered
    correctly.

        stacktrans verify checkpoints/reverse-stack
        stacktrans verify checkpoints/xor-buffered --hard --longest 1000
        stacktrans verify checkpoints/copy-queue --count 1000 --json

    Args:
        exhaustive: Try all strings up to the length to which there are no more than N.
        count: Number of random strings of training and test lengths tried next.
        longest: Length of the longest strings tried last, in symbols.
        seed: Random seed of the strings.
    """
    from stacktrans.inference import verification
    from stacktrans.showing.verification import verification_json, verification_view

    check_positive(**{"--exhaustive": exhaustive, "--count": count, "--longest": longest})
    loaded = load_model(checkpoint, device, hard, workers)
    found = verification.verify(loaded, verification.Effort(exhaustive, count, longest, seed))
    if as_json:
        facts = {"checkpoint": checkpoint, "task": loaded.config.task.name, "seed": seed}
        print_json({**facts, "hard": hard, **verification_json(found, loaded.machine)})
    else:
        print_out(verification_view(found, loaded, checkpoint))
    if not found.right:
        raise typer.Exit(WRONG)
