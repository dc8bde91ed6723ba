"""Formats of configurations, and what completes those that do not say everything.

A run's configuration of today's format says all that it means. One of an older format is
completed by the recipes and the defaults of that time, which lie in `frozen/` and never change, so
that a model answers for ever as it did when it was trained. A file of settings that names no format
is a user's own, and takes the recipe of today.

Who adds a setting raises `FORMAT`, and writes down in `frozen/`, for every older format, the value
with which a run is as it was without the setting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stacktrans import __version__
from stacktrans.common.errors import UsageError
from stacktrans.settings import packaged
from stacktrans.settings.config import FORMAT
from stacktrans.settings.layers import Layer, Settings, read_layer


@dataclass(frozen=True)
class Rules:
    """What completes a configuration.

    Attributes:
        recipes: the folder of recipes.
        run: what a run is that does not say it.
        task: what a task is that does not say it.
        parameters: what a generator is made with, by its name; those of the code if none.
    """

    recipes: Path
    run: Settings = field(default_factory=dict)
    task: Settings = field(default_factory=dict)
    parameters: Mapping[str, Settings] = field(default_factory=dict)

    def recipe_names(self) -> list[str]:
        """The recipes there are."""
        return packaged.recipe_names(self.recipes)


def written_format(layer: Layer) -> int | None:
    """The format that a file of settings names; None if it names none.

    Raises:
        UsageError: there is no such format, or none yet.
    """
    found = layer.settings.get("format")
    if found is None:
        return None
    place = layer.place(("format",))
    if type(found) is not int or found < 1:
        raise UsageError(f"{place}: format: expected a number from 1 to {FORMAT}")
    if found > FORMAT:
        raise UsageError(
            f"{place}: format {found} is newer than this stacktrans {__version__} reads "
            f"(up to {FORMAT}); upgrade stacktrans"
        )
    return found


def rules_of(number: int | None) -> Rules:
    """What completes a configuration of a format, or of none."""
    if number is None or number == FORMAT:
        return Rules(packaged.recipes(), run={} if number else {"recipe": "default"})
    folder = Path(__file__).parent / "frozen" / f"format-{number}"
    return Rules(folder / "recipes", **read_layer(folder / "defaults.yaml").settings)
