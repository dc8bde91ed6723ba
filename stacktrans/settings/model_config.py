"""Schemas of the settings of a model: memory, controller, buffers, initial weights."""

import functools
import inspect
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import (
    BeforeValidator,
    Field,
    PydanticUserError,
    SerializeAsAny,
    create_model,
    model_validator,
)

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.settings.layers import Settings
from stacktrans.settings.values import Fraction, PartConfig, Scale, Section, SinglePrecision, Size


class MemoryConfig(PartConfig):
    """The memory that the controller operates."""

    REGISTRY = MEMORIES

    name: str
    """one of `stacktrans list memories`."""

    @property
    def arguments(self) -> Settings:
        """The arguments of the constructor of the memory."""
        return self.model_dump(exclude={"name", "size", "values"})

    @classmethod
    @functools.cache
    def config_class_of(cls, part: type) -> "type[MemoryConfig]":
        """Settings of a memory of vectors, and a setting for each parameter of its constructor."""
        try:
            fields = _settings_of(part)
            if not fields:
                return VectorMemoryConfig
            return create_model(part.__name__, __base__=VectorMemoryConfig, **fields)
        except (NameError, ValueError, PydanticUserError) as error:  # or a type of no setting
            place = f"{inspect.getsourcefile(part)}:{inspect.getsourcelines(part)[1]}"
            problem = str(error).splitlines()[0]
            raise UsageError(f"{place}: memory {part.__name__}: {problem}") from error


def _settings_of(memory: type) -> dict[str, Any]:
    """The type and the default of each parameter of the constructor of a memory.

    Raises NameError or ValueError if it has a parameter that is no setting.
    """
    types = get_type_hints(memory.__init__)  # type: ignore[misc]
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(memory).parameters.items():
        if name not in types or parameter.default is parameter.empty:
            raise ValueError(f"{name} needs a type and a default")
        if name in VectorMemoryConfig.model_fields:
            raise ValueError(f"{name} is a setting of all memories; expected another name")
        fields[name] = (types[name], parameter.default)
    return fields


class VectorMemoryConfig(MemoryConfig):
    """A memory of vectors."""

    size: Size = 32
    """size of a pushed vector; 1 for the scalar cells of joulin2015."""
    values: Literal["tanh", "sigmoid"] = "tanh"
    """nonlinearity of a pushed vector."""


class ActionMemoryConfig(VectorMemoryConfig):
    """Stacks or lists with actions (joulin2015)."""

    count: Size = 1
    """number of stacks, lists or tapes side by side."""
    depth: Size = 2
    """cells of each that the controller sees; joulin2015 calls it k."""
    no_op: bool = True
    """whether doing nothing is one of the actions."""
    capacity: Size | None = None
    """most cells of each, of lists and tapes on either side of the head; null for no limit."""


class VectorActionMemoryConfig(ActionMemoryConfig):
    """Superposed stacks or tapes of vectors (deletang2023)."""

    depth: Size = 1
    """cells of each that the controller sees."""


class NondeterministicStackConfig(VectorMemoryConfig):
    """A nondeterministic stack (dusell2023)."""

    size: Size = 32
    """size of a pushed vector, whose first number is always 1; 1 for symbols alone, as in
    dusell2022."""
    states: Annotated[int, Field(ge=1, le=16)] = 2
    """number of states of the automaton."""
    symbols: Annotated[int, Field(ge=1, le=16)] = 3
    """number of its stack symbols."""
    window: Size | None = None
    """number of last steps whose pushes may be on top of the stack, called D in dusell2022; null
    for no limit."""


MemoryConfig.CONFIG_CLASSES = {
    **dict.fromkeys(("stack", "queue", "deque"), VectorMemoryConfig),
    **dict.fromkeys(("stack-rnn", "list-rnn"), ActionMemoryConfig),
    **dict.fromkeys(("superposed", "tape"), VectorActionMemoryConfig),
    "nondeterministic": NondeterministicStackConfig,
    "none": MemoryConfig,
}


class ControllerConfig(PartConfig):
    """The network that reads the input and operates the memory."""

    REGISTRY = CONTROLLERS

    name: str
    """one of `stacktrans list controllers`."""
    biases: bool = True
    """whether there are biases, those of signals, values and outputs included; if not, the biases
    that `model.initialization` sets are left out."""

    @classmethod
    def config_class_of(cls, part: type) -> "type[ControllerConfig]":
        return RecurrentConfig if getattr(part, "has_units", True) else cls


class RecurrentConfig(ControllerConfig):
    """A controller of recurrent units."""

    layers: Annotated[int, Field(ge=1, le=64)] = 1
    """number of layers over one another."""
    hidden_size: Size = 64
    """units in each layer."""
    recurrent: bool = True
    """whether gates see the layer's own previous output; if not, only the memory carries anything
    from step to step, besides the cells of an LSTM and what a GRU keeps of its output."""
    initial_state: Literal["learned", "zero"] = "learned"
    """whether the state before the first step is learned or zero."""
    state_gradient: Annotated[float, Field(ge=0, le=1)] = 1.0
    """share of the gradient that flows back through the controller's state from a step to the
    previous one. With less than 1 the controller can't learn by itself to remember for long, and
    has to use its memory."""


class SecondOrderConfig(RecurrentConfig):
    """A controller of second-order recurrent units."""

    recurrent: Literal[True] = True
    """whether units see the layer's own previous output, as these always do."""


class EncoderDecoderConfig(ControllerConfig):
    """An encoder and a decoder, which operate no memory."""

    layers: Annotated[int, Field(ge=1, le=64)] = 1
    """number of layers of the encoder, and of the decoder."""
    hidden_size: Size = 128
    """units in each layer, and in each direction of an encoder with LSTMs."""
    dropout: Fraction = 0.0
    """share of the units that are left out of each batch, drawn anew."""


class TransformerConfig(EncoderDecoderConfig):
    """A transformer."""

    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """number of layers of the encoder, and of the decoder."""
    hidden_size: Size = 128
    """size of the vectors of each layer; its feed-forward network has four times as many units."""
    heads: Annotated[int, Field(ge=1, le=64)] = 4
    """number of heads of attention, which divides `hidden_size`."""

    @model_validator(mode="after")
    def _heads_are_equal(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size: expected a multiple of the {self.heads} heads")
        return self


ENCODER_DECODERS = {"attention": EncoderDecoderConfig, "transformer": TransformerConfig}
ControllerConfig.CONFIG_CLASSES = {
    **dict.fromkeys(("lstm", "gru", "rnn", "sigmoid"), RecurrentConfig),
    "second-order": SecondOrderConfig,
    "linear": ControllerConfig,
    **ENCODER_DECODERS,
}


BUFFER_SIGNALS = ("input read", "output write")
"""The strengths of a buffered model besides the signals of its memory."""


class BuffersConfig(Section):
    """The input buffer and the output buffer of a model (hao2018, section 3.2).

    The controller computes a strength for each.
    """

    steps_per_symbol: Annotated[int, Field(ge=1, le=64)] = 1
    """steps for each symbol of the input."""
    extra_steps: Annotated[int, Field(ge=0, le=65_536)] = 0
    """further steps."""
    output_skip: Annotated[int, Field(ge=0, le=65_536)] = 0
    """strength popped from the output buffer before the first symbol of the answer: 0 as in
    hao2018, 1 as in its code, so that a model need not wait a step."""


class ScaleConfig(Section):
    """Scale factors of initial weights."""

    signals: Scale = 1.0
    """factor on the weights of the signals, W_u and W_d."""
    values: Scale = 1.0
    """factor on the weights of the values, W_v."""
    reads: Scale = 1.0
    """factor on the weights by which the controller sees the vectors read."""


class InitializationConfig(Section):
    """The initial weights of a transducer."""

    gate_bias: dict[str, SinglePrecision] = Field(default_factory=dict)
    """added to the initial biases of the controller's gates, by the gate's name. A negative bias of
    the gate that keeps the state makes the controller forgetful, so that it has to learn to use its
    memory."""
    signal_bias: dict[str, SinglePrecision] = Field(default_factory=dict)
    """initial biases of the signals, by the signal's name ("push bottom") or its first word
    ("push"); b_u is "pop", b_d is "push". Of several memories, "push" is all of them, "push queue"
    each queue, and "push queue 2" the second."""
    weights: Literal["uniform", "normal"] = "uniform"
    """distribution of the initial weights. "uniform": as in torch, up to 1/sqrt(n) for n inputs, or
    for n units of a recurrent layer; "normal": with standard deviation 1/sqrt(n) for n outputs, and
    biases of 0 (hao2018, section 5), but for the read-out. Encoder-decoders have those of torch."""
    scale: ScaleConfig = ScaleConfig()
    """factors on the initial weights of signals, of values, and of the vectors read."""
    same_symbols: bool = False
    """whether the output weights of a symbol start as a random projection of its embedding, so that
    copying is learned for all symbols at once."""

    @staticmethod
    def keys_of(signal: str) -> list[str]:
        """The keys for the bias of a signal, from its whole name down to its first word."""
        words = signal.split()
        return [" ".join(words[:count]) for count in range(len(words), 0, -1)]

    def bias_of(self, signal: str) -> float:
        """The initial bias of a signal."""
        keys = (key for key in self.keys_of(signal) if key in self.signal_bias)
        return next((self.signal_bias[key] for key in keys), 0.0)


def _signal_keys(memory: Any) -> set[str]:
    """The keys that `InitializationConfig.signal_bias` may have in a model with a memory."""
    signals = {*BUFFER_SIGNALS, *memory.signal_names}
    return signals | {key for name in signals for key in InitializationConfig.keys_of(name)}


class ModelConfig(Section):
    """The architecture of a transducer and its initial weights."""

    memory: Annotated[SerializeAsAny[MemoryConfig], BeforeValidator(MemoryConfig.read)]
    """memory that the controller operates: one of `stacktrans list memories`, or {name: ..., size:
    ...} with settings of that memory."""
    controller: Annotated[SerializeAsAny[ControllerConfig], BeforeValidator(ControllerConfig.read)]
    """network that operates it: one of `stacktrans list controllers`, or {name: ..., hidden_size:
    ...} with settings of that controller."""
    embedding_size: Size | Literal["one-hot"] = 32
    """size of the input's embeddings, or one-hot for none."""
    output_size: Size | None = 64
    """size of o_t, which is unused without a memory; null to read outputs from the controller
    itself."""
    buffers: BuffersConfig | None = None
    """buffers that inputs are read from and outputs written to; null for none."""
    backwards: bool = False
    """whether sources are read and answers written from the last symbol to the first, for answers
    whose first symbol depends on the end of the source. For tasks of pairs."""
    initialization: InitializationConfig = InitializationConfig()
    """initial weights."""
    kernel: Literal["auto", "fused", "torch"] = "auto"
    """"fused" for compiled code, "torch" for the definition step by step, "auto" for compiled code
    where it is available."""

    @model_validator(mode="after")
    def _starting_biases_exist(self) -> Self:
        gates = set(CONTROLLERS.load(self.controller.name).gates)
        signals = _signal_keys(MEMORIES.load(self.memory.name).from_config(self))
        initial = self.initialization
        if initial.gate_bias.keys() <= gates and initial.signal_bias.keys() <= signals:
            return self
        # A recipe may set biases of memories and controllers other than the chosen ones.
        gates.update(*(CONTROLLERS.load(name).gates for name in CONTROLLERS.builtin))
        for name in MEMORIES.builtin:
            if not initial.signal_bias.keys() <= signals:  # otherwise they need not be imported
                signals |= _signal_keys(MEMORIES.load(name)())
        for kind, names, existing in (
            ("gate", initial.gate_bias, gates),
            ("signal", initial.signal_bias, signals),
        ):
            for name in sorted(names.keys() - existing):
                unknown = unknown_name(kind, name, existing)
                raise ValueError(f"initialization.{kind}_bias: {unknown}")
        return self

    @model_validator(mode="after")
    def _encoder_decoder_is_alone(self) -> Self:
        if self.encoder_decoder and (self.buffers or self.memory.name != "none"):
            part, none = ("buffers", "null") if self.buffers else ("memory", "none")
            reason = f"the controller {self.controller.name} operates no {part}"
            raise ValueError(f"{reason}; expected {part}: {none}")
        return self

    def steps_over(self, length: int) -> int:
        """The number of steps over an input of `length` symbols."""
        buffers = self.buffers
        return buffers.steps_per_symbol * length + buffers.extra_steps if buffers else length

    @property
    def memory_size(self) -> int:
        """Size of a pushed vector; 0 without a memory."""
        return self.memory.size if isinstance(self.memory, VectorMemoryConfig) else 0

    @property
    def value_nonlinearity(self) -> str:
        """The nonlinearity of pushed vectors; tanh without a memory."""
        return self.memory.values if isinstance(self.memory, VectorMemoryConfig) else "tanh"

    @property
    def has_state(self) -> bool:
        """Whether the controller can remember something without a memory."""
        units = CONTROLLERS.load(self.controller.name)
        recurrent = getattr(self.controller, "recurrent", True)
        return bool(units.keep_gate or (units.has_units and recurrent))

    @property
    def encoder_decoder(self) -> EncoderDecoderConfig | None:
        """The settings of an encoder-decoder; None if the controller is another."""
        return self.controller if isinstance(self.controller, EncoderDecoderConfig) else None

    @property
    def units(self) -> RecurrentConfig:
        """The settings of recurrent units; the defaults for a controller without units."""
        if isinstance(self.controller, RecurrentConfig):
            return self.controller
        return RecurrentConfig(name=self.controller.name)
