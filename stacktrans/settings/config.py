"""The typed, validated configuration of a run.

Recipes hold every value, so no default stands here.
"""

import functools
import hashlib
import json
import math
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, cast, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from stacktrans import __version__
from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.settings.layers import Settings, overlaid
from stacktrans.tasks.base import LONGEST, LengthLaw, Lengths

FORMAT: Literal[2] = 2
"""Version of the layout of configurations and checkpoints; see `stacktrans.settings.formats`."""


def _in_order(lengths: Lengths) -> Lengths:
    if not 1 <= lengths.shortest <= lengths.longest <= LONGEST:
        raise ValueError(f"{lengths} is no range; expected 1 <= shortest <= longest <= {LONGEST}")
    return lengths


def _in_single_precision(value: float) -> float:
    if value and not SMALLEST <= abs(value) <= LARGEST:
        raise ValueError(f"expected 0 or a number of a size from {SMALLEST} to {LARGEST}")
    return value


SMALLEST, LARGEST = 1.2e-38, 3.4e38
"""The sizes of the numbers that weights can be."""
MOST_STRINGS = 1_000_000
"""The most strings that are held at once."""

Range = Annotated[Lengths, AfterValidator(_in_order)]
Size = Annotated[int, Field(ge=1, le=65_536)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Strings = Annotated[int, Field(ge=1, le=MOST_STRINGS)]
Number = Annotated[float, AfterValidator(_in_single_precision)]
Scale = Annotated[Number, Field(ge=-1e6, le=1e6)]
Positive = Annotated[float, Field(gt=0), AfterValidator(_in_single_precision)]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(_in_single_precision)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


@functools.cache
def _kinds(annotation: Any) -> frozenset[Any]:
    """The types that a setting may be of, one or several."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return frozenset().union(*(_kinds(part) for part in get_args(annotation)))
    return frozenset([annotation])


def _whole(value: Any) -> Any:
    """What is written as 1e3 as a number, if it is a whole one."""
    try:
        number = float(value) if isinstance(value, str) and "e" in value.lower() else math.nan
    except ValueError:
        return value
    return int(number) if number.is_integer() else value


class Strict(BaseModel):
    """Settings that refuse a key they do not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Numbers are not true or false; 1e3, which is text in YAML, is a whole one."""
        kinds = _kinds(cast(Any, cls.model_fields[info.field_name or ""].annotation))
        if isinstance(value, bool) and bool not in kinds and kinds & {int, float}:
            raise ValueError("expected a number")
        return _whole(value) if int in kinds and not kinds & {str, float} else value


class TaskLengths(Strict):
    """Lengths of sources, in symbols.

    Attributes:
        train: what is trained on.
        test: what generalisation is measured on.
    """

    train: Range
    test: Range


class TaskLaws(Strict):
    """How lengths are spread over each range.

    Attributes:
        train: over the training range.
        test: over the test range.
    """

    train: LengthLaw
    test: LengthLaw


class TaskConfig(Strict):
    """A task: what a file in `tasks/` says.

    Attributes:
        name: how the command line calls it.
        description: what it maps to what, for people.
        generator: what makes its strings: one of `stacktrans list generators`.
        parameters: what the generator is made with.
        paper: the paper that it is from, whose recipes it is trained with.
        lengths: training and test lengths; null where nothing is drawn, as of a text.
        length_law: how lengths are spread over a range, or over each: uniformly if a file does
            not say; null likewise.
        recipes: changes to recipes, by the recipe's name; none in a run's configuration, which
            has what came of them.
    """

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")]
    description: str = ""
    generator: str
    parameters: Settings = {}
    paper: Annotated[str, Field(pattern=r"^[a-z]+[0-9]+$")] = "grefenstette2015"
    lengths: TaskLengths | None = None
    length_law: LengthLaw | TaskLaws | None = None
    recipes: dict[str, Settings] = {}

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
        """How lengths are spread over a range, which may be another than the task's own.

        Raises:
            UsageError: nothing is drawn.
        """
        own, laws = self.ranges, self.length_law
        assert laws is not None  # as there are lengths
        if not isinstance(laws, TaskLaws):
            return laws
        if lengths == own.test:
            return laws.test
        return laws.train if lengths == own.train else "uniform"


BUFFER_SIGNALS = ("input read", "output write")
"""The strengths that a buffered model gives beside the signals of its memory."""


class StartConfig(Strict):
    """How the weights of a transducer start, beside what is usual.

    Attributes:
        gate_bias: added to the initial biases of the controller's gates, by the gate's
            name. A negative bias of the gate that keeps makes a controller that
            forgets, and so has to learn to use its memory.
        signal_bias: where the biases of the signals start, by the signal's name
            ("push bottom") or its first word ("push"); b_u is "pop", b_d is "push".
        weights: how weights are drawn. "uniform": as torch does, up to 1/sqrt(n) for n numbers
            that go in; "normal": with standard deviation 1/sqrt(n) for n numbers that come
            out, and biases of 0 (hao2018, section 5).
        signal_scale: factor on the initial weights W_u and W_d.
        value_scale: factor on the initial weights W_v.
        read_scale: factor on the initial weights of the vectors read.
    """

    gate_bias: dict[str, Number]
    signal_bias: dict[str, Number]
    weights: Literal["uniform", "normal"]
    signal_scale: Scale
    value_scale: Scale
    read_scale: Scale


class ModelConfig(Strict):
    """The shape of a transducer and how it starts.

    Attributes:
        memory: one of `stacktrans list memories`.
        controller: one of `stacktrans list controllers`.
        layers: recurrent layers; a linear controller has one.
        hidden_size: units in each layer; a linear controller has none.
        recurrent: whether units see the layer's own output at the step before; without, only
            the memory (and the cells of an LSTM) carries anything from step to step.
        biases: whether sums have biases; those of `start` are left out where there are none.
        initial_state: whether the state before the first step is learned, or is zero.
        state_gradient: share of the gradient that goes back through the controller's state from
            a step to the one before; the rest of what it learns of the past comes through the
            memory. With less than 1 it can't learn to remember for long by itself.
        memory_size: size m of a pushed vector; 1 for the scalar cells of joulin2015.
        memory_count: how many stacks or lists there are side by side, for the memories of
            joulin2015; the others are alone.
        read_depth: how many cells of each of them the controller sees; joulin2015 calls it k.
        no_op: whether doing nothing is one of their actions.
        capacity: how many cells of each are kept; null for as many as are needed.
        value_nonlinearity: what a pushed vector goes through.
        embedding_size: size of the input's embeddings, or one-hot for none.
        output_size: size of o_t, which is not used without a memory; null for outputs read
            from the controller itself.
        buffered: whether inputs are read from a buffer and outputs written to one, for each
            of which the controller gives a strength (hao2018, section 3.2); for tasks with a
            target symbol for each source symbol.
        steps_per_symbol: how many steps a buffered model takes for each symbol of the input.
        extra_steps: how many it takes beside.
        output_skip: how much is popped from the output buffer before the first symbol is
            read: 0 as hao2018 says, 1 as its code does, which spares a model waiting.
        kernel: "fused" for compiled code, "torch" for the definition step by step,
            "auto" for the first where it can be had.
        start: how its weights start.
        other_starts: changes to `start`, which a run that starts again takes in turn.
    """

    memory: str
    controller: str
    layers: Annotated[int, Field(ge=1, le=64)]
    hidden_size: Size
    recurrent: bool
    biases: bool
    initial_state: Literal["learned", "zero"]
    state_gradient: Annotated[float, Field(ge=0, le=1)]
    memory_size: Size
    memory_count: Size
    read_depth: Size
    no_op: bool
    capacity: Size | None
    value_nonlinearity: Literal["tanh", "sigmoid"]
    embedding_size: Size | Literal["one-hot"]
    output_size: Size | None
    buffered: bool
    steps_per_symbol: Annotated[int, Field(ge=1, le=64)]
    extra_steps: Annotated[int, Field(ge=0, le=65_536)]
    output_skip: Annotated[int, Field(ge=0, le=65_536)]
    kernel: Literal["auto", "fused", "torch"]
    start: StartConfig
    other_starts: list[Settings]

    @field_validator("memory")
    @classmethod
    def _memory_exists(cls, name: str) -> str:
        MEMORIES.check(name)
        return name

    @field_validator("controller")
    @classmethod
    def _controller_exists(cls, name: str) -> str:
        CONTROLLERS.check(name)
        return name

    @model_validator(mode="after")
    def _without_units_there_is_one_layer(self) -> Self:
        if self.layers > 1 and not self.has_units:
            raise ValueError(f"layers is {self.layers}; a {self.controller} controller has 1")
        return self

    @model_validator(mode="after")
    def _memory_can_be_several(self) -> Self:
        if self.memory_count > 1 and not _can_be_several(self.memory):
            several = filter(_can_be_several, MEMORIES.builtin)
            raise ValueError(
                f"memory_count is {self.memory_count}; "
                f"expected 1, or one of the memories {', '.join(several)}"
            )
        return self

    @model_validator(mode="after")
    def _starting_biases_exist(self) -> Self:
        # A recipe may set the biases of other kinds than the one that is chosen.
        layers = map(CONTROLLERS.load, {*CONTROLLERS.builtin, self.controller})
        gates = {gate for layer in layers for gate in layer.gates}
        memories = [MEMORIES.load(name)() for name in MEMORIES.builtin]
        memories.append(MEMORIES.load(self.memory).from_config(self))
        signals = {name for memory in memories for name in memory.signal_names}
        signals |= set(BUFFER_SIGNALS)
        signals |= {name.split()[0] for name in signals}
        for attempt in range(1, len(self.other_starts) + 2):
            start = self.start_of(attempt)
            for kind, names, existing in (
                ("gate", start.gate_bias, gates),
                ("signal", start.signal_bias, signals),
            ):
                for name in names:
                    if name not in existing:
                        raise ValueError(unknown_name(kind, name, existing))
        return self

    @property
    def has_units(self) -> bool:
        """Whether the controller has units of its own."""
        return bool(CONTROLLERS.load(self.controller).units)

    def start_of(self, attempt: int) -> StartConfig:
        """How the weights start at a run's n-th attempt, from 1."""
        changes: list[Settings] = [{}, *self.other_starts]
        change = changes[(attempt - 1) % len(changes)]
        return StartConfig.model_validate(overlaid(self.start.model_dump(), change))


def _can_be_several(memory: str) -> bool:
    return "memory_count" in MEMORIES.load(memory).settings


class CurriculumConfig(Strict):
    """Short strings first: a memory is learned sooner where its uses lie close together.

    Attributes:
        share: of the range of training lengths, from the shortest up, that a start begins
            with.
        growth: what the share is multiplied with whenever the running loss (nats a
            symbol) falls under `loss`, until the range is whole.
        loss: see growth.
    """

    share: Annotated[float, Field(gt=0, le=1)]
    growth: Annotated[Number, Field(gt=1)]
    loss: Positive


class ExamplesConfig(Strict):
    """Examples that are drawn once and used again (hao2018, section 5).

    Attributes:
        train: how many to train on, in another order in each epoch.
        development: how many, as long as those trained on, to measure after each epoch.
        test: how many, as long as the test range, to measure at the end.
        epochs: the most times that they are gone through.
    """

    train: Strings
    development: Strings
    test: Strings
    epochs: Count


class StreamConfig(Strict):
    """An unsegmented stream, cut into pieces for truncated backpropagation (joulin2015, section 4).

    `batch_size` streams are read side by side, and each carries its state from piece to piece.
    After each epoch the loss is measured on validation strings of the training lengths; if it has
    not fallen, the learning rate does, and training goes on from the best weights.

    Attributes:
        steps: of a piece, through which gradients go back.
        sequences: in an epoch, of all streams together; null for the whole of a text.
        empty_after: sequences of a stream after which its memory is emptied and its state is the
            initial one; null for once an epoch.
        first_longest: the longest sequence of the first epoch, in the task's lengths; it grows by
            one an epoch. null for the longest training length from the start.
        rate_decay: what the learning rate is multiplied with.
        least_rate: a start ends when its learning rate falls under this.
        epochs: the most of a start.
        starts: how many starts, from other weights each, are trained; the best is kept.
        judged_after: epochs after which a start whose loss is above the mean of the starts so
            far is thrown away.
    """

    steps: Size
    sequences: Strings | None
    empty_after: Count | None
    first_longest: Count | None
    rate_decay: Annotated[float, Field(gt=0, lt=1)]
    least_rate: Positive
    epochs: Count
    starts: Count
    judged_after: Count


class RoundingConfig(Strict):
    """Fine-tuning that makes a model use its memory without degrees (joulin2015, section 3.3).

    Attributes:
        factor: what the weights that make the signals are multiplied with, again and again.
        batches: trained on after each time.
        indecision: it ends when the mean of s (1 - s) over all signals s is under this.
        most: times at most.
    """

    factor: Annotated[Number, Field(gt=1)]
    batches: Count
    indecision: Positive
    most: Count


class TrainingConfig(Strict):
    """How a transducer is trained.

    Attributes:
        optimizer: which update rule; "sgd" has no state.
        smoothing: decay of the running mean of squared gradients.
        learning_rate: where the learning rate starts.
        read_rate: share of the learning rate for the weights by which a controller sees what was
            read. An optimiser that moves every weight as far moves their sum too far where many
            reads move together.
        weight_decay: added to the gradient, times the weights.
        batch_size: strings in a batch; of a stream, pieces of it.
        sequences: of a stream, how many make a piece, from an empty memory on.
        loss_over: of a stream, which symbols are trained on: those that can be known, or all.
        stream: an unsegmented stream, for tasks that are one; null for pieces of `sequences`
            sequences.
        examples: sets of examples, and epochs; null for strings that are new in each batch.
        loss_per: what the loss is a mean over: scored symbols; strings, of which it is the sum
            over their symbols; or batches, of which it is the sum.
        gradient_clip: largest norm of the gradient; null for any.
        gradient_limit: largest absolute value of each number of it; null for any.
        length_law: how training lengths are spread; null for the task's own law.
        curriculum: how training lengths grow; null for the whole range from the first batch. Not
            for a `stream`, which has `first_longest`.
        settle_loss: a run settles, once, when its running loss (nats a symbol) on the
            whole range of lengths falls under this; null for never.
        settle_rate: what the learning rate is multiplied with then.
        sharpening: weight in the loss, from then on, of the mean of s (1 - s) over all
            strengths s, which drives them to 0 and 1. A strength of 0.002 is as good
            as 0 on short strings, and adds up on long ones.
        buffer_penalty: weight in the loss of the mean of 1 / (1 + (3.25 s - 1.625)^12) over
            the strengths s of buffers, which drives them to 0 and 1 (hao2018, section 5).
        gate_noise: standard deviation of normal noise that is added, at each step of
            training, to the sums under the controller's gates. A gate that has to be
            right in spite of it is nearly 0 or 1, and so keeps a count however long.
        averaging: decay of the running mean of the weights, which is what is
            evaluated and kept; 0 for the weights themselves.
        restart_after: start again from other weights when, this many batches after
            a start, the running loss is not under restart_loss and the curriculum has not
            gone on; null for never.
        give_up_after: start again from other weights when, so many batches after a start, no rule
            has ended the run; null for never.
        restart_loss: the running loss (nats a symbol) of a run that has taken off.
        loss_every: batches between two records of loss and perplexity.
        accuracy_every: batches between two measurements of accuracy.
        accuracy_loss: accuracy is measured only while the running loss is under
            this, and at the end; null for always.
        validation_count: strings as long as the test range in a measurement of accuracy;
            on training lengths it is measured on at most 100, if only the others decide.
        solved_accuracy: coarse accuracy on validation strings of a task that counts as solved.
        solved_on: the range whose validation strings have to be right, "test"; or "both" ranges.
        solved_times: measurements running in which the task has to be solved. The more, the longer
            the run goes on at the rate that it has settled at.
        stop: "solved" ends the run when the task is solved, `solved_times` running;
            "converged" ends it when the perplexity has not improved for `patience`
            records; "development" when the share of symbols of the development set that are
            right has not improved for `patience` epochs, which needs `examples`.
        patience: see stop.
        rounding: what is done when a rule has ended the run; null for nothing. It is kept if
            it is no worse on validation strings of both ranges, with degrees and without. A run
            that may start again does so if the task is not solved without degrees.
        rounding_rate: what the learning rate is multiplied with, too, whenever rounding multiplies
            the weights.
        rounding_kept: "last", the weights at the end of rounding; or "best", of those after each
            multiplication the last that no others surpass on validation strings of both ranges.
        prune: whether, then, stacks or lists with actions that the model does without are left
            out.
        max_steps: most batches; null for no limit.
        time_limit: most seconds of training; null for no limit.
    """

    optimizer: Literal["rmsprop", "adam", "sgd"]
    smoothing: Fraction
    learning_rate: Positive
    read_rate: Positive
    weight_decay: NotNegative
    batch_size: Size
    sequences: Size
    loss_over: Literal["known", "all"]
    stream: StreamConfig | None
    examples: ExamplesConfig | None
    loss_per: Literal["symbol", "string", "batch"]
    gradient_clip: Positive | None
    gradient_limit: Positive | None
    length_law: LengthLaw | None
    curriculum: CurriculumConfig | None
    settle_loss: Positive | None
    settle_rate: Positive
    sharpening: NotNegative
    buffer_penalty: NotNegative
    gate_noise: NotNegative
    averaging: Fraction
    restart_after: Count | None
    give_up_after: Count | None
    restart_loss: Positive
    loss_every: Count
    accuracy_every: Count
    accuracy_loss: Positive | None
    validation_count: Strings
    solved_accuracy: Annotated[float, Field(gt=0, le=1)]
    solved_on: Literal["test", "both"]
    solved_times: Count
    stop: Literal["solved", "converged", "development"]
    patience: Count
    rounding: RoundingConfig | None
    rounding_rate: Annotated[float, Field(gt=0, le=1)]
    rounding_kept: Literal["last", "best"]
    prune: bool
    max_steps: Count | None
    time_limit: Positive | None

    @model_validator(mode="after")
    def _examples_and_stop_agree(self) -> Self:
        if (self.examples is None) != (self.stop != "development"):
            raise ValueError('stop: "development" and examples need each other')
        return self


class RunConfig(Strict):
    """Everything that decides what a run does.

    Attributes:
        format: version of this layout.
        version: the stacktrans that wrote it.
        recipe: the recipe it began from.
        seed: what all random numbers of the run derive from.
        threads: threads that torch computes with.
        workers: processes. All but one train the starts that would be next, which are
            taken over if the run has to start again. But for the time that it takes, and
            what a time limit makes of that, the run is the same.
        task: what is learned.
        model: what learns it.
        training: how.
    """

    format: Literal[2] = FORMAT
    version: str = __version__
    recipe: str
    seed: Annotated[int, Field(ge=0)]
    threads: Annotated[int, Field(ge=1, le=256)]
    workers: Annotated[int, Field(ge=1, le=256)]
    task: TaskConfig
    model: ModelConfig
    training: TrainingConfig

    @model_validator(mode="after")
    def _read_rate_fits(self) -> Self:
        if self.training.read_rate != 1 and not self.model.has_units:
            kind = self.model.controller
            raise ValueError(f"training.read_rate: a {kind} controller passes on what is read")
        return self

    @model_validator(mode="after")
    def _buffers_fit(self) -> Self:
        if self.model.buffered and self.training.gate_noise:
            raise ValueError("training.gate_noise: not for a buffered model")
        return self

    def identity(self) -> str:
        """Changes whenever anything does that decides what comes out, the version included."""
        # What is said of a task, and recipes of it that were not taken, decide nothing.
        task = self.task.model_copy(update={"recipes": {}, "description": ""})
        deciding = self.model_copy(update={"task": task}).model_dump(mode="json")
        deciding["format"] = 1  # nor does how it is written down
        deciding["training"] = _without_neutral(deciding["training"], _NEUTRAL)
        parameters = _without_neutral(deciding["task"]["parameters"], _NEUTRAL_PARAMETERS)
        deciding["task"]["parameters"] = parameters
        return hashlib.sha256(_yaml(json.dumps(deciding)).encode()).hexdigest()[:16]

    def to_yaml(self) -> str:
        """The configuration as YAML that `train --config` reads."""
        return _yaml(self.model_dump_json())


_NEUTRAL: Settings = {
    "read_rate": 1.0,
    "rounding_kept": "last",
    "rounding_rate": 1.0,
    "solved_on": "test",
    "solved_times": 2,
}
"""Settings of training that older versions lack, and the value with which a run is as in these."""
_NEUTRAL_PARAMETERS: Settings = {"characters": False, "deleted": 0, "known": ""}
"""Parameters that tasks leave out, and what they are then."""


def _without_neutral(settings: Settings, neutral: Settings) -> Settings:
    return {
        key: value for key, value in settings.items() if key not in neutral or value != neutral[key]
    }


# Of the same output, and faster where PyYAML was built with libyaml.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@functools.lru_cache(maxsize=8)
def _yaml(settings: str) -> str:
    """Settings in JSON as YAML; once for each, since a run saves its own again and again."""
    return yaml.dump(
        json.loads(settings), Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=100
    )
