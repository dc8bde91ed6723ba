"""What comes with stacktrans beside its code: recipes, tasks and trained models."""

from pathlib import Path


def shipped(kind: str) -> Path:
    """The folder of shipped files of a kind: "tasks" or "checkpoints".

    They lie inside an installed package, and beside the package in a checkout.
    """
    package = Path(__file__).parent
    inside = package / "shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def folders(kind: str) -> list[Path]:
    """Where files of a kind are looked for: where one works, and then among those shipped."""
    return [Path(kind), shipped(kind)]


def task_files() -> dict[str, Path]:
    """The tasks there are, by name: those in ./tasks, and the shipped ones that these leave."""
    paths = [path for folder in folders("tasks") for path in sorted(folder.glob("*.yaml"))]
    return {path.stem: path for path in reversed(paths)}


def recipe_names() -> list[str]:
    """The recipes there are."""
    return sorted(path.stem for path in recipes().glob("*.yaml"))


def recipes() -> Path:
    """The folder of recipes."""
    return Path(__file__).parent / "recipes"
