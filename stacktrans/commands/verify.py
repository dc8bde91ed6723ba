"""The command `verify`: search for a model's wrong answers, and prove a machine correct."""

from pathlib import Path
from typing import Annotated

import typer

from stacktrans.commands import completion, options
from stacktrans.commands.terminal import print_json, print_out
from stacktrans.common.errors import NoSuchCheckpoint, UsageError, check_positive, did_you_mean

WRONG = 1
"""The exit code if an answer was wrong."""
OTHER = typer.Argument(
    metavar="OTHER",
    show_default=False,
    help="Another checkpoint, whose answers are compared; or another task, by its name or YAML "
    "file. If both have this name, it is the task; checkpoints/NAME is the checkpoint.",
    autocompletion=completion.checkpoints,
)
PANELS = {
    "Strings": "exhaustive count longest seed",
    "Models": "hard device workers plugin",
    "Output": "as_json",
}


def verify(
    checkpoint: options.CheckpointName,
    other: Annotated[str | None, OTHER] = None,
    exhaustive: int = 20_000,
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
    and longer ones. A model of pairs in files is tested on the held-out pairs, then
    on the training pairs if the files have at most 10 MB. Any other string that is
    answered wrongly is shortened as far as possible. The command that shows
    the model's steps on that string is printed. The exit code is 1 if an answer was
    wrong. For a machine made by extract, verify also tries to prove that it answers
    all strings correctly, however long.

    With another checkpoint, verify looks for a string of the task that the two
    models answer differently, and tries to prove that two machines give the same
    answers to all strings. With another task, its answers are expected instead of those
    of the model's own; no command is printed then, since inspect knows only the latter.

        stacktrans verify checkpoints/reverse-stack
        stacktrans verify checkpoints/xor-buffered --hard --longest 1000
        stacktrans verify checkpoints/copy-queue --count 1000 --json
        stacktrans verify checkpoints/copy-queue checkpoints/copy-deque --count 100

    Args:
        exhaustive: Test all strings up to the greatest length for which these are at most N in all.
        count: Number of random strings of training and test lengths.
        longest: Length of the longest strings, in symbols.
        seed: Random seed of the strings.
    """
    from stacktrans.inference import verification
    from stacktrans.settings.locations import checkpoints, task_files
    from stacktrans.settings.task_files import load_task
    from stacktrans.showing.verification import verification_json, verification_view

    check_positive(**{"--exhaustive": exhaustive, "--count": count, "--longest": longest})
    loaded, second = options.load_model(checkpoint, device, hard, workers), None
    headings, own_task = [loaded.description], True
    if other is not None and _is_task(other):
        loaded, own_task = verification.with_task(loaded, load_task(other)), False
        note = f"; checkpoints/{other} is a model" if other in checkpoints() else ""
        headings.append(f"on the task {loaded.config.task.name}{note}")
    elif other is not None:
        try:
            second = options.load_model(other, device, hard, workers)
        except NoSuchCheckpoint:
            if not other:
                raise
            hint = did_you_mean(other, [*checkpoints(), *task_files()]) or "; see stacktrans list"
            raise UsageError(f"{other}: no such checkpoint or task{hint}") from None
        headings.append(second.description)
    request = verification.VerifyRequest(exhaustive, count, longest, seed)
    result = verification.verify(loaded, request, second)
    if as_json:
        facts = {"checkpoint": checkpoint, "other": other, "task": loaded.config.task.name}
        print_json(
            {**facts, "seed": seed, "hard": hard, **verification_json(result, loaded.machine)}
        )
    else:
        models = [(checkpoint, loaded), *([(other, second)] if other and second else [])]
        print_out(verification_view(result, models, headings, own_task))
    if not result.right:
        raise typer.Exit(WRONG)


def _is_task(name: str) -> bool:
    """Whether a name or path is one of a task, rather than of a checkpoint."""
    from stacktrans.settings.locations import task_files
    from stacktrans.settings.task_files import TASK_SUFFIXES

    path = Path(name)
    return path.suffix in TASK_SUFFIXES or (name in task_files() and not path.exists())
