"""What comes with stacktrans beside its code: recipes, tasks and trained models."""

from pathlib import Path

from stacktrans.common.files import is_checkpoint

AUTO = "auto"
"""The recipe that is a race of strategies, and the memory that it finds."""
BY_KIND = ("by_memory", "by_controller", "by_generator")
"""What a recipe says of one kind of memory, controller or generator alone stands under these."""


def shipped(kind: str) -> Path:
    """The folder of shipped files of a kind: "tasks" or "checkpoints".

    They lie inside an installed package, and beside the package in a checkout.
    """
    package = Path(__file__).parent.parent
    inside = package / "shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def folders(kind: str) -> list[Path]:
    """Where files of a kind are looked for: where one works, and then among those shipped."""
    return [Path(kind), shipped(kind)]


def task_files() -> dict[str, Path]:
    """All tasks by name: those in ./tasks, and the shipped ones of other names."""
    paths = [path for folder in folders("tasks") for path in sorted(folder.glob("*.yaml"))]
    return {path.stem: path for path in reversed(paths)}


def checkpoints() -> dict[str, Path]:
    """All trained models by what commands call them: shipped ones and those in ./checkpoints."""
    own, came = folders("checkpoints")
    found = {path.name: path for path in _trained(came)}
    theirs = {path.resolve() for path in found.values()}
    return found | {str(path): path for path in _trained(own) if path.resolve() not in theirs}


def _trained(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.name[0] != "." and checkpoint_in(path)]


def checkpoint_in(path: Path) -> Path | None:
    """The part of a run's directory, or the checkpoint itself, that can answer; None for none."""
    places = (path, path / "best", path / "last")
    return next(filter(is_checkpoint, places), None)


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return sorted(path.stem for path in recipes().glob("*.yaml"))


def recipes() -> Path:
    """The folder of the recipes."""
    return Path(__file__).parent / "recipes"
