"""The settings of a run: their types, their defaults and what they mean.

A default is what a run does when nothing is asked for, so most of them mean "off". What belongs
together is a block that can be null.
"""

import functools
import hashlib
import inspect
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_type_hints

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)

from stacktrans import __version__
from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import CONTROLLERS, GENERATORS, MEMORIES
from stacktrans.settings.layers import Settings, overlaid
from stacktrans.settings.values import (
    Count,
    Fraction,
    Loss,
    Named,
    NotNegative,
    Number,
    OneOf,
    Positive,
    Range,
    Scale,
    Size,
    Strict,
    Strings,
    Symbols,
)
from stacktrans.tasks import make_task
from stacktrans.tasks.base import LengthLaw, Lengths, Task

FORMAT: Literal[3] = 3
"""Version of the layout of configurations and checkpoints; see `stacktrans.settings.formats`."""


class TaskLengths(Strict):
    """Lengths of sources, in symbols."""

    train: Range
    """what is trained on."""
    test: Range
    """what generalisation is measured on."""


class TaskLaws(Strict):
    """How lengths are spread over each range."""

    train: LengthLaw
    """over the training range."""
    test: LengthLaw
    """over the test range."""


class TaskConfig(Strict):
    """What is learned."""

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")]
    """how the command line calls it."""
    description: str = ""
    """what it maps to what, for people."""
    generator: str
    """what makes its strings: one of `stacktrans list generators`."""
    parameters: Settings = Field(default_factory=dict)
    """what the generator is made with."""
    paper: Annotated[str, Field(pattern=r"^[a-z]+[0-9]+$")] = "grefenstette2015"
    """the paper that it is from, whose recipes it is trained with."""
    lengths: TaskLengths | None = None
    """training and test lengths; null where nothing is drawn, as of a text."""
    length_law: LengthLaw | TaskLaws | None = None
    """how lengths are spread over a range, or over each: uniformly if a file does not say; null
    likewise."""

    @model_validator(mode="before")
    @classmethod
    def _lengths_are_uniform(cls, task: Any) -> Any:
        """Where lengths are drawn and nothing is said of how, they are drawn uniformly."""
        if isinstance(task, dict) and task.get("lengths") and task.get("length_law") is None:
            return {**task, "length_law": "uniform"}
        return task

    @property
    def ranges(self) -> TaskLengths:
        """The lengths of strings that are drawn; raises `UsageError` if none are."""
        if self.lengths is None:
            raise UsageError(f"task {self.name}: nothing is drawn; its strings are in files")
        return self.lengths

    def law_of(self, lengths: Lengths) -> LengthLaw:
        """The law of any range, the task's own or another; raises `UsageError` as `ranges`."""
        own, laws = self.ranges, self.length_law
        assert laws is not None  # as there are lengths
        if not isinstance(laws, TaskLaws):
            return laws
        return {own.train: laws.train, own.test: laws.test}.get(lengths, "uniform")


class TaskFile(TaskConfig):
    """What a file in `tasks/` says."""

    recipes: dict[str, Settings] = Field(default_factory=dict)
    """what was published of how it is trained: changes to the recipe `paper`, under its name."""


class MemoryConfig(Named):
    """Which memory the controller operates."""

    REGISTRY = MEMORIES
    KINDS: ClassVar[dict[str, type[Named]]] = {}

    name: str
    """one of `stacktrans list memories`."""

    @property
    def own(self) -> Settings:
        """What this memory alone is made with."""
        return self.model_dump(exclude={"name", "size", "values"})

    @classmethod
    @functools.cache
    def of_class(cls, found: type) -> "type[MemoryConfig]":
        """Those of every memory of vectors, and the parameters of its class."""
        kinds = get_type_hints(vars(found).get("__init__", object))
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(found).parameters.items():
            if name not in kinds or parameter.default is parameter.empty:
                raise ValueError(f"{found.__name__}: {name} needs a type and a default")
            fields[name] = (kinds[name], parameter.default)
        if not fields:
            return VectorMemoryConfig
        return create_model(found.__name__, __base__=VectorMemoryConfig, **fields)


class VectorMemoryConfig(MemoryConfig):
    """A memory of vectors."""

    size: Size = 32
    """size of a pushed vector; 1 for the scalar cells of joulin2015."""
    values: Literal["tanh", "sigmoid"] = "tanh"
    """nonlinearity of a pushed vector."""


class ActionMemoryConfig(VectorMemoryConfig):
    """Stacks or lists with actions (joulin2015)."""

    count: Size = 1
    """number of stacks or lists side by side."""
    depth: Size = 2
    """cells of each that the controller sees; joulin2015 calls it k."""
    no_op: bool = True
    """whether doing nothing is one of the actions."""
    capacity: Size | None = None
    """cells of each that are kept; null for as many as are needed."""


MemoryConfig.KINDS |= {
    **dict.fromkeys(("stack", "queue", "deque"), VectorMemoryConfig),
    **dict.fromkeys(("stack-rnn", "list-rnn"), ActionMemoryConfig),
    "none": MemoryConfig,
}


class ControllerConfig(Named):
    """What reads the input and operates the memory."""

    REGISTRY = CONTROLLERS
    KINDS: ClassVar[dict[str, type[Named]]] = {}

    name: str
    """one of `stacktrans list controllers`."""
    biases: bool = True
    """whether there are biases, those of signals, values and outputs included; if not, the biases
    that `model.start` sets are left out."""

    @classmethod
    def of_class(cls, found: type) -> "type[ControllerConfig]":
        return RecurrentConfig if getattr(found, "units", True) else cls


class RecurrentConfig(ControllerConfig):
    """A controller of recurrent units."""

    layers: Annotated[int, Field(ge=1, le=64)] = 1
    """number of layers over one another."""
    hidden_size: Size = 64
    """units in each layer."""
    recurrent: bool = True
    """whether units see the layer's own previous output; if not, only the memory (and the cells of
    an LSTM) carries anything from step to step."""
    initial_state: Literal["learned", "zero"] = "learned"
    """whether the state before the first step is learned or zero."""
    state_gradient: Annotated[float, Field(ge=0, le=1)] = 1.0
    """share of the gradient that flows back through the controller's state from a step to the
    previous one. With less than 1 the controller can't learn by itself to remember for long, and
    has to use its memory."""


ControllerConfig.KINDS |= {
    **dict.fromkeys(("lstm", "gru", "rnn", "sigmoid"), RecurrentConfig),
    "linear": ControllerConfig,
}


BUFFER_SIGNALS = ("input read", "output write")
"""The strengths that a buffered model gives beside the signals of its memory."""


class BuffersConfig(Strict):
    """A buffer that inputs are read from and one that outputs are written to.

    The controller gives a strength for each (hao2018, section 3.2).
    """

    steps_per_symbol: Annotated[int, Field(ge=1, le=64)] = 1
    """steps for each symbol of the input."""
    extra_steps: Annotated[int, Field(ge=0, le=65_536)] = 0
    """further steps."""
    output_skip: Annotated[int, Field(ge=0, le=65_536)] = 0
    """how much is popped from the output buffer before the first symbol is read: 0 as in hao2018, 1
    as in its code, which spares a model waiting."""


class ScaleConfig(Strict):
    """Factors on initial weights."""

    signals: Scale = 1.0
    """factor on the weights of the signals, W_u and W_d."""
    values: Scale = 1.0
    """factor on the weights of the values, W_v."""
    reads: Scale = 1.0
    """factor on the weights by which the controller sees the vectors read."""


class StartConfig(Strict):
    """How the weights of a transducer start."""

    gate_bias: dict[str, Number] = Field(default_factory=dict)
    """added to the initial biases of the controller's gates, by the gate's name. A negative bias of
    the gate that keeps makes a controller that forgets, and so has to learn to use its memory."""
    signal_bias: dict[str, Number] = Field(default_factory=dict)
    """initial biases of the signals, by the signal's name ("push bottom") or its first word
    ("push"); b_u is "pop", b_d is "push". Of several memories, "push" is all of them, "push queue"
    each queue, and "push queue 2" the second."""
    weights: Literal["uniform", "normal"] = "uniform"
    """distribution of the initial weights. "uniform": as in torch, up to 1/sqrt(n) for n inputs;
    "normal": with standard deviation 1/sqrt(n) for n outputs, and biases of 0 (hao2018, section
    5)."""
    scale: ScaleConfig = ScaleConfig()
    """factors on the initial weights of signals, of values, and of the vectors read."""

    @staticmethod
    def keys_of(signal: str) -> list[str]:
        """What the bias of a signal may be found by: its name, without its last word, and so on."""
        words = signal.split()
        return [" ".join(words[:count]) for count in range(len(words), 0, -1)]

    def bias_of(self, signal: str) -> float:
        """The initial bias of a signal."""
        found = (key for key in self.keys_of(signal) if key in self.signal_bias)
        return next((self.signal_bias[key] for key in found), 0.0)


class ModelConfig(Strict):
    """The shape of a transducer and how it starts."""

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
    start: StartConfig = StartConfig()
    """initial weights."""
    kernel: Literal["auto", "fused", "torch"] = "auto"
    """"fused" for compiled code, "torch" for the definition step by step, "auto" for compiled code
    where it is available."""

    @model_validator(mode="after")
    def _starting_biases_exist(self) -> Self:
        # A recipe may set the biases of other kinds than the one that is chosen.
        controllers = map(CONTROLLERS.load, {*CONTROLLERS.builtin, self.controller.name})
        gates = {gate for controller in controllers for gate in controller.gates}
        memories = [MEMORIES.load(name)() for name in MEMORIES.builtin]
        memories.append(MEMORIES.load(self.memory.name).from_config(self))
        signals = {*BUFFER_SIGNALS, *(name for each in memories for name in each.signal_names)}
        signals |= {key for name in signals for key in StartConfig.keys_of(name)}
        for kind, names, existing in (
            ("gate", self.start.gate_bias, gates),
            ("signal", self.start.signal_bias, signals),
        ):
            for name in sorted(names.keys() - existing):
                raise ValueError(unknown_name(kind, name, existing))
        return self

    @property
    def memory_size(self) -> int:
        """Size of a pushed vector; 0 without a memory."""
        return self.memory.size if isinstance(self.memory, VectorMemoryConfig) else 0

    @property
    def value_nonlinearity(self) -> str:
        """What a pushed vector goes through; tanh without a memory."""
        return self.memory.values if isinstance(self.memory, VectorMemoryConfig) else "tanh"

    @property
    def units(self) -> RecurrentConfig:
        """The controller's units; a controller without units has the settings of one layer."""
        if isinstance(self.controller, RecurrentConfig):
            return self.controller
        return RecurrentConfig(name=self.controller.name)


class ExamplesConfig(Strict):
    """Examples that are drawn once and used again (hao2018, section 5)."""

    train: Strings
    """examples to train on, in another order in each epoch."""
    development: Strings
    """examples as long as those trained on, measured after each epoch."""
    test: Strings
    """examples as long as the test range, measured at the end."""
    epochs: Count
    """most epochs."""


class StreamConfig(Strict):
    """An unsegmented stream, cut into pieces for truncated backpropagation (joulin2015, section 4).

    `batch_size` streams are read side by side, and each carries its state from piece to piece.
    After each epoch the loss is measured on validation strings of the training lengths, or on the
    validation text; if it has not fallen, the learning rate is halved, and training continues from
    the best weights.
    """

    RATE_DECAY: ClassVar[float] = 0.5
    """What the learning rate is multiplied with."""
    LEAST_RATE: ClassVar[float] = 1e-5
    """A start ends when its learning rate falls under this."""
    JUDGED_AFTER: ClassVar[int] = 20
    """Epochs after which a start whose loss is above the mean of those so far is thrown away."""
    EMPTY_AFTER: ClassVar[int] = 1000
    """Sequences of a stream after which its memory is emptied; that of a text is once an epoch."""
    FIRST_LONGEST: ClassVar[int] = 3
    """The longest sequence of the first epoch; it grows by one an epoch."""

    steps: Size
    """steps in a piece, through which gradients flow back."""
    sequences: Strings | None
    """sequences in an epoch, of all streams together; null for the whole of a text."""
    epochs: Count
    """most epochs of a start."""
    starts: Count = 1
    """number of starts from different weights; the best is kept."""


class DataConfig(OneOf):
    """What is trained on, if not strings that are new in each batch."""

    examples: ExamplesConfig | None = None
    """sets of examples that are used again in each epoch."""
    stream: StreamConfig | None = None
    """an unsegmented stream, for tasks that are one, and for texts."""


class ClipConfig(OneOf):
    """How large gradients are cut down."""

    norm: Positive | None = None
    """largest norm of the gradient."""
    value: Positive | None = None
    """largest absolute value in the gradient."""


class CurriculumConfig(Strict):
    """Short strings first: a memory is learned sooner where its uses lie close together."""

    share: Annotated[float, Field(gt=0, le=1)]
    """share of the range of training lengths, from the shortest up, at the beginning."""
    growth: Annotated[Number, Field(gt=1)]
    """factor on the share whenever the mean of recent losses falls under `loss`, until the range
    is whole."""
    loss: Loss
    """see growth. Losses are nats a symbol, or such as 15% of what guessing by how frequent symbols
    are costs, and so the same for few symbols and for many."""


class SettleConfig(Strict):
    """What happens, once, when a run has learned its task except for the last mistakes."""

    loss: Loss
    """the run settles when the mean of recent losses (as of training.curriculum), on the whole
    range of lengths, is under this."""
    rate: Positive = 1.0
    """factor on the learning rate from then on."""
    sharpening: NotNegative = 0.0
    """weight in the loss, from then on, of the mean of s (1 - s) over all strengths s, which drives
    them to 0 and 1. A strength of 0.002 is as good as 0 on short strings, but adds up on long
    ones."""


class RestartConfig(Strict):
    """When a run starts again from other weights, and from which."""

    after: Count | None = None
    """restart if, this many batches after a start, or after strings have grown longer, the mean of
    recent losses is not under `loss`; null for never."""
    loss: Loss = 1.0
    """mean of recent losses (as of training.curriculum) of a run that has taken off."""
    give_up_after: Count | None = None
    """restart if, this many batches after a start, no rule has ended the run; null for never."""
    starts: list[Settings] = Field(default_factory=list)
    """changes to `model.start`, one after another for each restart."""

    @model_validator(mode="after")
    def _starts_again(self) -> Self:
        if self.after is None and self.give_up_after is None:
            raise ValueError("expected after or give_up_after")
        return self


class MeasureConfig(Strict):
    """When a run is measured, and on how many strings."""

    loss_every: Count = 100
    """batches between two records of loss and perplexity."""
    accuracy_every: Count = 1000
    """batches between two measurements of accuracy."""
    accuracy_loss: Loss | None = None
    """accuracy is measured only while the mean of recent losses (as of training.curriculum) is
    under this, and at the end; null for always, as with pairs in files."""
    strings: Strings = 1000
    """strings as long as the test range in a measurement of accuracy; on training lengths at most
    100 are measured, if only the others decide. Of a larger development set of pairs in files, so
    many are measured, the same every time."""


class SolvedConfig(Strict):
    """The run ends when the task is solved."""

    accuracy: Annotated[float, Field(gt=0, le=1)] = 1.0
    """coarse accuracy on validation strings at which the task counts as solved."""
    ranges: Literal["test", "both"] = "test"
    """lengths of the validation strings that count: "test", or "both" ranges; of pairs in files,
    all of the development set counts."""
    times: Count = 2
    """measurements in a row in which the task has to be solved. The more, the longer the run trains
    at the rate that it has settled at."""


class ConvergedConfig(Strict):
    """The run ends when the training perplexity no longer improves."""

    patience: Count = 50
    """records in a row without improvement."""


class DevelopmentConfig(Strict):
    """The run ends when accuracy on the development set no longer improves.

    With pairs in files, it also ends when all of the set is right in as many measurements in a row
    as with `solved`; and with `solved`, also when accuracy no longer improves.
    """

    PATIENCE: ClassVar[int] = 50
    """Measurements of pairs in files that are no better, after which a run ends with `solved`."""

    patience: Count = 5
    """epochs in a row in which the share of correct symbols has not risen; of pairs in files,
    measurements in a row in which coarse accuracy, or else fine, has not."""


class StopConfig(OneOf):
    """The rule by which a run ends."""

    solved: SolvedConfig | None = None
    """when the task is solved, several times in a row."""
    converged: ConvergedConfig | None = None
    """when the training perplexity no longer improves."""
    development: DevelopmentConfig | None = None
    """when accuracy on the development set no longer improves: that of `training.data.examples`,
    or of pairs in files."""


class RoundingConfig(NamedTuple):
    """Fine-tuning that makes a model certain of what it does (joulin2015, section 3.3)."""

    factor: float
    """factor on the weights that make the signals, again and again."""
    batches: int
    """batches trained on after each time."""
    indecision: float
    """ends when the mean of s (1 - s) over all signals s is under this."""
    most: int
    """most times."""
    rate: float = 1.0
    """factor on the learning rate each time."""
    best: bool = False
    """whether to keep the weights, of those after each time, that are right most often (the last of
    these), and not those at the end."""


ROUNDINGS = {
    "quick": RoundingConfig(factor=1.2, batches=20, indecision=1e-4, most=40),
    "published": RoundingConfig(factor=1.05, batches=100, indecision=1e-3, most=100),
    "slow": RoundingConfig(factor=1.05, batches=100, indecision=1e-6, most=40, rate=0.97),
    "thorough": RoundingConfig(
        factor=1.05, batches=100, indecision=1e-6, most=20, rate=0.97, best=True
    ),
}
"""The ways to round, by their names."""


class TrainingConfig(Strict):
    """How a transducer is trained."""

    optimizer: Literal["rmsprop", "adam", "sgd"] = "rmsprop"
    """update rule; "sgd" has no state."""
    learning_rate: Positive = 0.002
    """initial learning rate."""
    read_rate: Positive = 1.0
    """share of the learning rate for the weights by which a controller sees what was read. An
    optimizer that moves all weights equally far moves the sum of many reads too far."""
    weight_decay: NotNegative = 0.0
    """times the weights, added to the gradient."""
    batch_size: Size | Symbols = 10
    """strings in a batch; of a stream, pieces of it. Or as many strings as have about so many
    symbols to read, such as 500 symbols: the more, the shorter they are."""
    loss_per: Literal["symbol", "string", "batch"] = "symbol"
    """unit that the loss is a mean over: scored symbols; strings, whose loss is the sum over their
    symbols; or batches, whose loss is the sum."""
    gradient_clip: ClipConfig | None = None
    """bound on gradients; null for none."""
    data: DataConfig | None = None
    """what is trained on; null for new strings in each batch, or for pairs in files."""
    sequences: Size = 1
    """for new strings of a stream: how many make a piece, which begins with an empty memory."""
    length_law: LengthLaw | None = None
    """distribution of training lengths; null for the task's own."""
    curriculum: CurriculumConfig | None = None
    """how training lengths grow; null for the whole range from the first batch."""
    settle: SettleConfig | None = None
    """what happens once the loss is low; null for nothing."""
    gate_noise: NotNegative = 0.0
    """standard deviation of normal noise that is added in training to the sums under the
    controller's gates. A gate that has to be right in spite of it is nearly 0 or 1, and so keeps a
    count for any length."""
    averaging: Fraction = 0.0
    """decay of the moving average of the weights, which is evaluated and kept; 0 for the weights
    themselves."""
    restart: RestartConfig | None = None
    """when a run starts again from other weights; null for never."""
    measure: MeasureConfig = MeasureConfig()
    """when the run is measured, and on what."""
    stop: StopConfig | None = None
    """rule that ends the run; null where epochs or a budget end it."""
    rounding: Literal["quick", "published", "slow", "thorough"] | None = None
    """fine-tuning, when a rule has ended the run, until the model uses its memory discretely;
    stacks or lists that it does not need are left out; null for none. The result is kept if it is
    no worse on validation strings of both ranges, soft and hard. A run that may restart does so if
    the task is not solved in hard mode."""
    max_steps: Count | None = None
    """most batches; null for no limit."""
    time_limit: Positive | None = None
    """most seconds of training; null for no limit."""

    @model_validator(mode="after")
    def _data_and_stop_agree(self) -> Self:
        if self.stream and self.stop:
            raise ValueError("stop: expected null: the epochs and starts of a stream end it")
        budget = self.stream or self.max_steps or self.time_limit
        if self.stop is None and not budget:
            raise ValueError("stop: null needs max_steps, time_limit or data.stream")
        if self.data and isinstance(self.batch_size, str):
            raise ValueError("batch_size: symbols are for strings drawn anew; expected a number")
        if self.stream and self.curriculum:
            raise ValueError("curriculum: not for a stream, whose sequences grow by themselves")
        return self

    @property
    def batch_symbols(self) -> int | None:
        """Symbols to read in a batch, if that is what its size is given by."""
        size = self.batch_size
        return int(size.split()[0]) if isinstance(size, str) else None

    @property
    def batch_strings(self) -> int:
        """Strings in a batch; raises `TypeError` if its size is given in symbols."""
        if isinstance(self.batch_size, str):
            raise TypeError("a batch has so many symbols, and not strings")
        return self.batch_size

    @property
    def examples(self) -> ExamplesConfig | None:
        """Sets of examples, if these are trained on."""
        return self.data.examples if self.data else None

    @property
    def stream(self) -> StreamConfig | None:
        """The stream that is trained on, if it is one."""
        return self.data.stream if self.data else None

    @property
    def solved(self) -> SolvedConfig:
        """When the task counts as solved, be it a rule that ends the run or not."""
        return (self.stop and self.stop.solved) or SolvedConfig()


class CarriedConfig(Strict):
    """What became of the symbols of a checkpoint in a run that starts from it."""

    carried_over: Annotated[int, Field(ge=0)]
    """how many both have."""
    new: Annotated[int, Field(ge=0)]
    """how many only the run has."""
    dropped: Annotated[int, Field(ge=0)]
    """how many only the checkpoint has."""

    def __str__(self) -> str:
        return f"{self.carried_over} carried over, {self.new} new, {self.dropped} dropped"


class StartFromConfig(Strict):
    """The trained model that a run starts from."""

    checkpoint: str
    """its directory, or the name of a shipped one."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """checksum of the file of its weights."""
    source_symbols: CarriedConfig | None = None
    """what became of those of sources, features included; found out."""
    target_symbols: CarriedConfig | None = None
    """what became of those of targets; found out."""


class RunConfig(Strict):
    """Everything that decides what a run does."""

    format: Literal[3] = FORMAT
    """version of this layout."""
    version: str = __version__
    """the stacktrans that wrote it."""
    recipe: str
    """the recipe it began from."""
    seed: Annotated[int, Field(ge=0)] = 1
    """what all random numbers of the run derive from."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """threads that torch computes with."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """processes. All but one train the starts that would come next, which are used if the run
    restarts. Except for the time that it takes, and for what a time limit makes of that, the run is
    the same."""
    start_from: StartFromConfig | None = None
    """the checkpoint whose weights are the first; null for new ones."""
    task: TaskConfig
    """what is learned."""
    model: ModelConfig
    """what learns it."""
    training: TrainingConfig
    """how."""

    @property
    def of_files(self) -> bool:
        """Whether pairs in files are trained on."""
        return bool(self._paths)

    @property
    def _paths(self) -> tuple[str, ...]:
        name = self.task.generator
        paths: tuple[str, ...] = GENERATORS.load(name).paths if name in GENERATORS else ()
        return paths

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        training = self.training
        development = training.stop is not None and training.stop.development is not None
        if (training.examples is not None) != development and not self.of_files:
            raise ValueError("training: stop.development and data.examples need each other")
        if not isinstance(self.model.controller, RecurrentConfig) and self.training.read_rate != 1:
            raise ValueError("training.read_rate: a linear controller passes on what is read")
        if self.model.buffers and self.training.gate_noise:
            raise ValueError("training.gate_noise: not for a buffered model")
        if self.start_from and training.restart:
            raise ValueError(f"training.restart: expected null: {_NO_OTHER_WEIGHTS}")
        if self.start_from and training.stream and training.stream.starts > 1:
            raise ValueError(f"training.data.stream.starts: expected 1: {_NO_OTHER_WEIGHTS}")
        if self.training.restart:
            for attempt in range(2, len(self.training.restart.starts) + 2):
                self.model_of(attempt)
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, serialize: SerializerFunctionWrapHandler) -> Settings:
        """As configurations were written before there was `start_from`, if there is none."""
        settings: Settings = serialize(self)
        if self.start_from is None:
            settings.pop("start_from", None)
        return settings

    @property
    def title(self) -> str:
        """Task, memory and seed, as a directory is called; a shell would take * for a pattern."""
        return f"{self.task.name}-{self.model.memory.name}-{self.seed}".replace("*", "x")

    def model_of(self, attempt: int) -> ModelConfig:
        """The model as the weights start at a run's n-th attempt, from 1."""
        changes = [{}, *(self.training.restart.starts if self.training.restart else [])]
        change = changes[(attempt - 1) % len(changes)]
        if not change:
            return self.model
        start = StartConfig.model_validate(overlaid(self.model.start.model_dump(), change))
        return ModelConfig.model_validate({**dict(self.model), "start": start})

    def make_task(self) -> Task:
        """The task, laid out as the model reads it; raises `TaskError`."""
        made = make_task(self.task.name, self.task.generator, self.task.parameters)
        made.in_step = self.model.buffers is not None
        return made

    def identity(self) -> str:
        """Changes whenever a setting does that decides what comes out."""
        deciding = self.model_dump(mode="json", exclude=_DECIDES_NOTHING)
        # Not where files are, but what they say.
        for path in self._paths:
            deciding["task"]["parameters"].pop(path, None)
        return hashlib.sha256(str(_as_yaml(deciding)).encode()).hexdigest()[:16]

    def to_yaml(self) -> str:
        """The configuration as YAML that `train --config` reads."""
        return str(_as_yaml(self.model_dump(mode="json")))


_DECIDES_NOTHING: Any = {
    "format": True,
    "version": True,
    "recipe": True,
    "workers": True,
    "start_from": {"checkpoint", "source_symbols", "target_symbols"},
    "task": {"description", "paper"},
}
"""How a run is written down, how it was put together, what is said of it, and who works on it."""
_NO_OTHER_WEIGHTS = "a run that starts from a checkpoint has no other weights to start from"

# The same output, but faster where PyYAML was built with libyaml.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_as_yaml = functools.partial(
    yaml.dump, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=100
)
