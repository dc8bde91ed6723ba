"""The command `verify`: search for a model's wrong answers, and prove a machine correct."""

from typing import Annotated

import typer

from stacktrans.commands import options
from stacktrans.commands.terminal import print_json, print_out
from stacktrans.common.errors import check_positive

WRONG = 1
"""The exit code if an answer was wrong."""


def verify(
    checkpoint: options.CheckpointName,
    exhaustive: Annotated[int, typer.Option(metavar="N")] = 20_000,
    count: int = 10_000,
    longest: int = 10_000,
    seed: options.Seed = 1,
    hard: options.Hard = False,
    device: options.Device = "auto",
    workers: options.Workers = 1,
    as_json: options.Json = False,
) -> None:
    """Look for a string that a model answers wrongly.

    The model's answers are compared with the exact answers of its task, on all
    short strings, on random ones of its training and test lengths, and on longer
    and longer ones; a model of pairs in files is tested on the held-out pairs. A
    string that is answered wrongly is shortened as far as possible, and a command
    is printed that shows the model at it. The exit code is 1 if an answer was
    wrong. For a machine made by extract, verify also tries to prove that it
    answers all strings correctly, however long.

        stacktrans verify checkpoints/reverse-stack
        stacktrans verify checkpoints/xor-buffered --hard --longest 1000
        stacktrans verify checkpoints/copy-queue --count 1000 --json

    Args:
        exhaustive: Test all strings up to the greatest length with at most N strings.
        count: Number of random strings of training and test lengths.
        longest: Length of the longest strings, in symbols.
        seed: Random seed of the strings.
    """
    from stacktrans.inference import verification
    from stacktrans.showing.verification import verification_json, verification_view

    check_positive(**{"--exhaustive": exhaustive, "--count": count, "--longest": longest})
    loaded = options.load_model(checkpoint, device, hard, workers)
    result = verification.verify(loaded, verification.Effort(exhaustive, count, longest, seed))
    if as_json:
        facts = {"checkpoint": checkpoint, "task": loaded.config.task.name, "seed": seed}
        print_json({**facts, "hard": hard, **verification_json(result, loaded.machine)})
    else:
        print_out(verification_view(result, loaded, checkpoint))
    if not result.right:
        raise typer.Exit(WRONG)
