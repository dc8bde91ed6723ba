"""Base class of parts of a run with saved state, and the types of its values."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_origin, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model

from stacktrans.common.errors import first_problem

if TYPE_CHECKING:
    from torch import nn

MAX_COUNT = 2**53
"""Bound on counts, so that they are exact as floats."""

SavedCount = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
SavedNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]
RankingKey = Annotated[list[SavedNumber], Field(max_length=6)]
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

    def load_state_dict(self, state: Any, model: "nn.Module | None" = None) -> None:
        """Load a state.

        Args:
            state: the state.
            model: takes any weights in the state, which shows whether they are its own.

        Raises:
            ValueError: a value is missing or wrong; the message names it.
            RuntimeError: the weights are those of another model.
        """
        try:
            values = dict(self._schema.model_validate(state))
        except ValidationError as error:
            raise ValueError(first_problem(error, self.name)) from error
        for value in values.values():
            if model and isinstance(value, dict):
                model.load_state_dict(value)
        vars(self).update(values)
