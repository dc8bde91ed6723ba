"""The state of a run apart from its weights, and its validation when it is loaded."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, get_origin, get_type_hints

import torch
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model
from torch import Tensor

from stacktrans.common.errors import shown

MOST = 2**53
"""Counts stay under this, so that they are the same as floats."""


def _plain(value: Any) -> Any:
    """Refuse what only behaves like a number, as tensors do."""
    if type(value) not in (int, float):
        raise ValueError("expected a number")
    return value


Count = Annotated[int, BeforeValidator(_plain), Field(strict=True, ge=0, le=MOST)]
Number = Annotated[float, BeforeValidator(_plain), Field(strict=True, allow_inf_nan=False)]
Merit = Annotated[list[Number], Field(max_length=6)]
"""How good weights are, the more the better; empty before anything was measured."""
Weights = dict[str, Any]
"""Tensors by name."""


class StatefulPart:
    """A part of a run whose state is saved: its annotated attributes, plain numbers or weights.

    Attributes:
        name: what the state is called where it is saved.
    """

    name: ClassVar[str]
    _kinds: ClassVar[type[BaseModel]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True).items()
        kinds: Any = {key: (hint, ...) for key, hint in hints if get_origin(hint) is not ClassVar}
        cls._kinds = create_model(cls.__name__, **kinds)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {key: getattr(self, key) for key in self._kinds.model_fields}

    def load_state_dict(self, found: Any, like: Weights | None = None) -> None:
        """Take up a state; raises `ValueError` naming what can't be so of weights like these."""
        check_keys(self.name, found, self._kinds.model_fields)
        try:
            read = dict(self._kinds.model_validate(found))
        except ValidationError as error:
            first = error.errors()[0]
            raise _wrong(".".join(map(str, (self.name, *first["loc"]))), first["input"]) from error
        for key, value in read.items():
            if isinstance(value, dict):
                check_same_structure(f"{self.name}.{key}", value, like)
        vars(self).update(read)
        self.check_state()

    def check_state(self) -> None:
        """Raise `ValueError` for what can't have been saved, though each of its parts could be."""


def check_keys(name: str, found: Any, expected: Iterable[str]) -> None:
    """Raise `ValueError` unless what was read is a dict with these keys; it names the others."""
    if not isinstance(found, Mapping):
        raise _wrong(name, found)
    different = ", ".join(sorted(map(str, found.keys() ^ set(expected))))
    check_value(name, different, not different)


def check_value(name: str, value: object, right: bool) -> None:
    """Raise `ValueError` naming a value of a run's state if it is not right."""
    if not right:
        raise _wrong(name, value)


def check_same_structure(name: str, found: Any, expected: Any) -> None:
    """Raise `ValueError` unless two states differ in nothing but the numbers in their tensors.

    Those of what was found must be finite.
    """
    if isinstance(expected, Tensor):
        right = isinstance(found, Tensor) and found.layout is torch.strided
        if not right or (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise _wrong(name, found)
        if found.is_floating_point() and not found.isfinite().all():
            raise ValueError(f"{name}: not all finite numbers")
    elif isinstance(expected, Mapping):
        check_keys(name, found, expected)
        for key, part in expected.items():
            check_same_structure(f"{name}.{key}", found[key], part)
    elif isinstance(expected, (list, tuple)):
        if type(found) is not type(expected) or len(found) != len(expected):
            raise _wrong(name, found)
        for index, (part, other) in enumerate(zip(found, expected, strict=True)):
            check_same_structure(f"{name}.{index}", part, other)
    elif type(found) is not type(expected) or found != expected:
        raise _wrong(name, found)


def _wrong(name: str, value: object) -> ValueError:
    if isinstance(value, Tensor):
        return ValueError(f"{name}: {list(value.shape)} {value.dtype}")
    return ValueError(f"{name}: {shown(value)}")
