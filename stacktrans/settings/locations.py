"""Folders and names of recipes, tasks and trained models: the user's and the shipped ones."""

from pathlib import Path

from stacktrans.common.files import is_checkpoint, real_path

AUTO = "auto"
"""The recipe that races strategies; as a memory, that of the winner."""


def shipped(kind: str) -> Path:
    """The folder of shipped "tasks" or "checkpoints".

    It is inside an installed package, and beside the package in a checkout.
    """
    package = Path(__file__).parent.parent
    inside = package / "shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def folders(kind: str) -> list[Path]:
    """The folders that "tasks" or "checkpoints" are looked up in: the user's, then the shipped."""
    return [Path(kind), shipped(kind)]


def task_files() -> dict[str, Path]:
    """The files of all tasks by name: those in ./tasks, and shipped ones with other names."""
    paths = [path for folder in folders("tasks") for path in sorted(folder.glob("*.yaml"))]
    return {path.stem: path for path in reversed(paths)}


def checkpoints() -> dict[str, Path]:
    """All trained models: shipped ones by name, those in ./checkpoints by path."""
    local, shipped_folder = map(_trained, folders("checkpoints"))
    named = {path.name: path for path in shipped_folder}
    known = {real_path(path) for path in shipped_folder}
    return named | {str(path): path for path in local if real_path(path) not in known}


def _trained(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.name[0] != "." and checkpoint_in(path)]


def checkpoint_in(path: Path) -> Path | None:
    """The checkpoint at a path: the directory itself, or the best or last one of a run."""
    return next(filter(is_checkpoint, (path, path / "best", path / "last")), None)


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return sorted(path.stem for path in recipes().glob("*.yaml"))


def recipes() -> Path:
    """The folder of the recipes."""
    return Path(__file__).parent / "recipes"
