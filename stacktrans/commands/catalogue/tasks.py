"""Tasks, listed."""

from pathlib import Path

from stacktrans.commands.catalogue.entries import Entry, Listing, assigned
from stacktrans.common.errors import StacktransError
from stacktrans.settings.config import TaskConfig
from stacktrans.settings.packaged import shipped, task_files
from stacktrans.settings.resolve import load_task


def tasks() -> Listing:
    """Every task: its lengths, its generator, and the parameters of this."""
    entries, problems = [], []
    for name, path in sorted(task_files().items()):
        try:
            entries.append(_task(name, path, load_task(str(path))))
        except StacktransError as error:
            problems.append(str(error))
    return Listing(entries, problems)


def _task(name: str, path: Path, task: TaskConfig) -> Entry:
    plain = {
        key: value
        for key, value in task.parameters.items()
        if value is not None and not isinstance(value, dict)
    }
    made = f"{task.generator}: {assigned(plain)}" if plain else task.generator
    own = path.resolve().parent != shipped("tasks").resolve()
    lengths = task.lengths
    return Entry(
        name,
        task.description,
        columns={
            "train": str(lengths.train) if lengths else "",
            "test": str(lengths.test) if lengths else "",
        },
        remarks=[f"generator {made}", *([str(path)] if own else [])],
        facts={
            **task.model_dump(
                mode="json", include={"generator", "parameters", "paper", "lengths", "length_law"}
            ),
            "file": str(path),
        },
    )
