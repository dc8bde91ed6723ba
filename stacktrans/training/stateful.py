"""Base class of parts of a run with saved state; types of its values, and checks on loading."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, get_origin, get_type_hints

import torch
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model
from torch import Tensor

from stacktrans.common.errors import shown

MOST = 2**53
"""Bound on counts, so that they are exact as floats."""


def _plain(value: Any) -> Any:
    """Refuse values that only behave like numbers, such as tensors."""
    if type(value) not in (int, float):
        raise ValueError("expected a number")
    return value


SavedCount = Annotated[int, BeforeValidator(_plain), Field(strict=True, ge=0, le=MOST)]
SavedNumber = Annotated[float, BeforeValidator(_plain), Field(strict=True, allow_inf_nan=False)]
Merit = Annotated[list[SavedNumber], Field(max_length=6)]
"""Quantities that weights are compared by, the greater the better; empty if unmeasured."""
Weights = dict[str, Any]
"""Tensors by name."""


class StatefulPart:
    """A part of a run whose annotated attributes, numbers or weights, are its saved state.

    Attributes:
        name: key of the state in that of the run.
    """

    name: ClassVar[str]
    _schema: ClassVar[type[BaseModel]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True).items()
        fields: Any = {key: (hint, ...) for key, hint in hints if get_origin(hint) is not ClassVar}
        cls._schema = create_model(cls.__name__, **fields)

    def state_dict(self) -> dict[str, Any]:
        """The state that `load_state_dict` takes."""
        return {key: getattr(self, key) for key in self._schema.model_fields}

    def load_state_dict(self, state: Any, like: Weights | None = None) -> None:
        """Take up a state; raises `ValueError` naming a value that is wrong.

        Args:
            state: the state.
            like: weights of the same shapes as those in the state.
        """
        check_keys(self.name, state, self._schema.model_fields)
        try:
            values = dict(self._schema.model_validate(state))
        except ValidationError as error:
            first = error.errors()[0]
            raise _wrong(".".join(map(str, (self.name, *first["loc"]))), first["input"]) from error
        for key, value in values.items():
            if isinstance(value, dict):
                check_same_structure(f"{self.name}.{key}", value, like)
        vars(self).update(values)
        self.check_state()

    def check_state(self) -> None:
        """Raise `ValueError` if the values of the state contradict each other."""

    def check_attribute(self, key: str, right: bool) -> None:
        """Raise `ValueError` naming a value of the state if it is wrong."""
        check_value(f"{self.name}.{key}", getattr(self, key), right)


def check_keys(name: str, state: Any, expected: Iterable[str]) -> None:
    """Raise `ValueError`, naming missing and unknown keys, unless a state is a dict with these."""
    check_value(name, state, isinstance(state, Mapping))
    different = ", ".join(sorted(map(str, state.keys() ^ set(expected))))
    check_value(name, different, not different)


def check_value(name: str, value: object, right: bool) -> None:
    """Raise `ValueError` naming a value of a state if it is wrong."""
    if not right:
        raise _wrong(name, value)


def check_same_structure(name: str, state: Any, expected: Any) -> None:
    """Raise `ValueError` unless two states differ only in the numbers in their tensors.

    The numbers in the first must be finite.
    """
    is_alike = type(state) is type(expected)
    if isinstance(expected, Tensor):
        is_dense = isinstance(state, Tensor) and state.layout is torch.strided
        like = expected.shape, expected.dtype
        check_value(name, state, is_dense and (state.shape, state.dtype) == like)
        if state.is_floating_point() and not state.isfinite().all():
            raise ValueError(f"{name}: not all finite numbers")
    elif isinstance(expected, Mapping):
        check_keys(name, state, expected)
        for key, part in expected.items():
            check_same_structure(f"{name}.{key}", state[key], part)
    elif isinstance(expected, (list, tuple)):
        check_value(name, state, is_alike and len(state) == len(expected))
        for index, (part, other) in enumerate(zip(state, expected, strict=True)):
            check_same_structure(f"{name}.{index}", part, other)
    else:
        check_value(name, state, is_alike and state == expected)


def _wrong(name: str, value: object) -> ValueError:
    if isinstance(value, Tensor):
        return ValueError(f"{name}: {list(value.shape)} {value.dtype}")
    return ValueError(f"{name}: {shown(value)}")
