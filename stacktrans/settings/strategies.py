"""The strategies that are raced where no recipe is given: ways to set up a model and its training.

Each is what one idea changes of the default recipe, and can be given by its name as a recipe is.
"""

import functools
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from stacktrans.common.registry import MEMORIES
from stacktrans.settings.layers import Layer, Settings, overlaid, read_layer, validated
from stacktrans.settings.values import Strict
from stacktrans.tasks.layout import Kind

FILE = Path(__file__).parent / "strategies.yaml"


class Strategy(Strict):
    """An idea of how something is learned."""

    idea: str
    """what it does, and for what, in a sentence."""
    kinds: Annotated[list[Kind], Field(min_length=1)]
    """the tasks that it is for."""
    memory: Annotated[str, AfterValidator(MEMORIES.canonical)]
    """where none is asked for."""
    of_this_memory: bool = False
    """whether it is for no other memory."""
    first_with_features: bool = False
    """whether it begins before all others where sources have features."""
    paper: str = ""
    """whose default recipe it changes; the general one unless given, whatever the task's is."""
    settings: Settings
    """what else it changes of that recipe."""


class _File(Strict):
    strategies: dict[str, Strategy]


@functools.cache
def strategies() -> dict[str, Strategy]:
    """All strategies by name, in the order in which they are tried."""
    layer = read_layer(FILE)
    return validated(_File, layer.settings, [layer]).strategies


def layer_of(name: str) -> Layer:
    """What a strategy changes of the default recipe."""
    strategy = strategies()[name]
    memory = {"model": {"memory": strategy.memory}}
    return Layer(f"strategy {name}", overlaid(memory, strategy.settings))
