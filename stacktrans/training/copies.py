"""Copies of the pairs that come only once, as standard input does, for all processes of a race."""

from pathlib import Path

from stacktrans.common.files import write_atomically
from stacktrans.settings.task_config import TaskConfig, paths_of
from stacktrans.tasks.contents import comes_once, read_content


def copy(task: TaskConfig, folder: Path) -> None:
    """Copy what comes only once, of what a task names, to a folder that is made if need be."""
    for name, path in _named(task).items():
        if comes_once(path):
            folder.mkdir(exist_ok=True)
            write_atomically(folder / name, read_content(path))


def copies_of(task: TaskConfig, folder: Path) -> dict[Path, Path]:
    """The copies in a folder, by what they are copies of."""
    named = _named(task).items()
    return {path: folder / name for name, path in named if (folder / name).is_file()}


def _named(task: TaskConfig) -> dict[str, Path]:
    """The files that a task names, by its parameters."""
    names, given = paths_of(task.generator), task.parameters
    return {name: Path(given[name]) for name in names if given.get(name) is not None}
