"""Model settings from keyword arguments, each put into the section it belongs to."""

from typing import Any

from stacktrans.settings.model_config import BuffersConfig, ControllerConfig, MemoryConfig
from stacktrans.settings.values import PartConfig


def shaped(
    memory: str, controller: str | None = None, buffered: bool = False, **settings: Any
) -> dict[str, Any]:
    """The settings of a model.

    Args:
        memory: its name.
        controller: its name; the recipe's if not given.
        buffered: whether it has buffers.
        settings: of the memory, the controller, the buffers, or the model itself; those of a part
            that the model lacks are passed over.
    """
    kinds: dict[str, type[PartConfig]] = {"memory": MemoryConfig, "controller": ControllerConfig}
    names = {"memory": memory, "controller": controller or "lstm"}
    model: dict[str, Any] = {"buffers": {} if buffered else None}
    for part, kind in kinds.items():
        own = kind.config_class(names[part]).model_fields.keys()
        model[part] = {key: settings.pop(key) for key in own & settings.keys()}
        settings = {key: each for key, each in settings.items() if key not in kind.all_settings()}
    for key in BuffersConfig.model_fields.keys() & settings.keys():
        value = settings.pop(key)
        if buffered:
            model["buffers"][key] = value
    model["memory"]["name"] = memory
    if controller:
        model["controller"]["name"] = controller
    return {**model, **settings}
