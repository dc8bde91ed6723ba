"""What comes with stacktrans beside its code: recipes, tasks and trained models."""

from pathlib import Path


def shipped(kind: str) -> Path:
    """The folder of shipped files of a kind: "tasks" or "checkpoints".

    They lie inside an installed package, and beside the package in a checkout.
    """
    package = Path(__file__).parent
    inside = package / "shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def recipe_names(folder: Path | None = None) -> list[str]:
    """The recipes in a folder; those of today unless it is given."""
    return sorted(path.stem for path in (folder or recipes()).glob("*.yaml"))


def recipes() -> Path:
    """The folder of the recipes of today."""
    return Path(__file__).parent / "recipes"
