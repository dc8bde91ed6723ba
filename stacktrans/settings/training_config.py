"""Schemas of the settings of training: data, curriculum, restarts, stopping, rounding."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from stacktrans.settings.layers import Settings
from stacktrans.settings.values import (
    FallingRate,
    Fraction,
    Loss,
    NotNegative,
    OneOf,
    Positive,
    PositiveCount,
    Section,
    SinglePrecision,
    Size,
    StringCount,
    SymbolCount,
)
from stacktrans.tasks.lengths import LengthDistribution


class ExamplesConfig(Section):
    """A fixed set of examples that is reused in every epoch (hao2018, section 5)."""

    train: StringCount
    """training examples, in a new order in each epoch."""
    development: StringCount
    """development examples, with training lengths, measured after each epoch."""
    test: StringCount
    """test examples, with lengths of the test range, measured at the end."""
    epochs: PositiveCount
    """largest number of epochs."""


class StreamConfig(Section):
    """Truncated backpropagation over an unsegmented stream (joulin2015, section 4).

    `batch_size` streams are read side by side, and each carries its state from segment to segment.
    After each epoch the loss is measured on validation strings of the training lengths, or on the
    validation text; if it has not fallen, the learning rate is halved, and training continues from
    the best weights.
    """

    RATE_DECAY: ClassVar[float] = 0.5
    """Factor on the learning rate after an epoch without improvement."""
    MIN_RATE: ClassVar[float] = 1e-5
    """Learning rate under which an attempt ends."""
    JUDGED_AFTER: ClassVar[int] = 20
    """Epochs after which an attempt ends if its loss is above the mean of the attempts so far."""
    EMPTY_AFTER: ClassVar[int] = 1000
    """Sequences of a stream after which its memory is emptied; on a text, it is once an epoch."""
    FIRST_LONGEST: ClassVar[int] = 3
    """Largest length of sequences in the first epoch; it grows by one with each epoch."""

    steps: Size
    """steps of a segment, through which gradients are propagated back."""
    sequences: StringCount | None
    """sequences in an epoch, of all streams together; null for the whole of a text."""
    epochs: PositiveCount
    """largest number of epochs of an attempt."""
    attempts: PositiveCount = 1
    """number of attempts from different weights; the best is kept."""


class DataConfig(OneOf):
    """The training data, if not new strings in each batch."""

    examples: ExamplesConfig | None = None
    """sets of examples that are used again in each epoch: their sizes, and the largest number of
    epochs."""
    stream: StreamConfig | None = None
    """an unsegmented stream, for tasks that are one, and for texts."""


class ClipConfig(OneOf):
    """Gradient clipping."""

    norm: Positive | None = None
    """largest norm of the gradient."""
    value: Positive | None = None
    """largest absolute value in the gradient."""


class CurriculumConfig(Section):
    """The curriculum: short strings come first, on which the use of a memory is learned sooner."""

    share: Annotated[float, Field(gt=0, le=1)]
    """initial share of the range of training lengths, from the shortest on."""
    growth: Annotated[SinglePrecision, Field(gt=1)]
    """factor on the share whenever the running mean of losses falls under `loss`, until all
    lengths are trained on."""
    loss: Loss
    """the running mean of losses under which strings become longer: in nats per symbol or, such as
    15%, relative to the loss of guessing by symbol frequencies, which is as strict for few symbols
    as for many."""


class SettleConfig(Section):
    """Settling: the change of settings, once, when a run has nearly learned its task."""

    loss: Loss
    """the run settles when the running mean of losses (see training.curriculum), on all lengths, is
    under this."""
    rate: Positive = 1.0
    """factor on the learning rate after settling."""
    sharpening: NotNegative = 0.0
    """weight in the loss, after settling, of the mean of s (1 - s) over all strengths s, which
    drives them to 0 and 1. A strength of 0.002 is as good as 0 on short strings, but adds up on
    long ones."""


class NoiseConfig(Section):
    """Standard deviations of normal noise in training."""

    gates: NotNegative = 0.0
    """of what is added to the part of the gates' pre-activations that depends on x alone."""
    signals: NotNegative = 0.0
    """of what is added to the pre-activations of strengths, those of buffers included."""


class RestartConfig(Section):
    """Restarts: the conditions under which a run begins again from other weights."""

    after: PositiveCount | None = None
    """restart if, this many batches after an attempt began or strings grew longer, the running mean
    of losses is not under `loss`; null for never."""
    loss: Loss = 1.0
    """the running mean of losses (see training.curriculum) under which an attempt continues."""
    give_up_after: PositiveCount | None = None
    """restart if, this many batches after an attempt began, no rule has ended the run; null for
    never."""
    attempts: list[Settings] = Field(default_factory=list)
    """changes to `model.initialization` that attempts take in turn, after one without changes."""

    @model_validator(mode="after")
    def _starts_again(self) -> Self:
        if self.after is None and self.give_up_after is None:
            raise ValueError("expected after or give_up_after")
        return self


class MeasureConfig(Section):
    """Measurements: their frequency and numbers of strings."""

    loss_every: PositiveCount = 100
    """batches between two records of loss and perplexity."""
    accuracy_every: PositiveCount = 1000
    """batches between two measurements of accuracy."""
    accuracy_loss: Loss | None = None
    """accuracy is measured only while the running mean of losses (see training.curriculum) is under
    this, and at the end; null for always, as with pairs in files."""
    strings: StringCount = 1000
    """strings of the test range in a measurement of accuracy. Of training lengths, at most 100 are
    measured if they do not decide when to stop. Of a larger development set of pairs in files, this
    many are measured, the same every time."""


class SolvedConfig(Section):
    """Stopping when the task is solved."""

    accuracy: Annotated[float, Field(gt=0, le=1)] = 1.0
    """coarse accuracy on validation strings at which the task counts as solved."""
    ranges: Literal["test", "both"] = "test"
    """lengths of the validation strings that count: "test", or "both" ranges; for pairs in files,
    the whole development set counts."""
    times: PositiveCount = 2
    """measurements in a row in which the task has to be solved. The more, the longer the run trains
    with the learning rate after settling."""


class ConvergedConfig(Section):
    """Stopping when the training perplexity no longer improves."""

    patience: PositiveCount = 50
    """records in a row without improvement."""


class DevelopmentConfig(Section):
    """Stopping when accuracy on the development set no longer improves.

    With pairs in files, it also ends when the task is solved, by the defaults of `solved`; and with
    `solved`, it also ends when accuracy no longer improves.
    """

    PATIENCE: ClassVar[int] = 50
    """Patience for pairs in files with `solved`."""

    patience: PositiveCount = 5
    """epochs in a row without an increase in symbol accuracy; for pairs in files, measurements in a
    row without an increase in coarse accuracy or, where that is equal, in fine accuracy."""


class StopConfig(OneOf):
    """The stopping rule of a run."""

    solved: SolvedConfig | None = None
    """when the task is solved, several times in a row."""
    converged: ConvergedConfig | None = None
    """when the training perplexity no longer improves."""
    development: DevelopmentConfig | None = None
    """when accuracy on the development set no longer improves: that of `training.data.examples`,
    or of pairs in files."""


RoundingName = Literal["quick", "lossless", "discrete", "machine", "published", "slow", "thorough"]


class TrainingConfig(Section):
    """All settings of training."""

    optimizer: Literal["rmsprop", "adam", "sgd"] = "rmsprop"
    """update rule; "sgd" has no state."""
    learning_rate: Positive | FallingRate = 0.002
    """initial learning rate; or two, such as 0.002 to 0.0001, between which it falls exponentially
    over `max_steps` batches of an attempt, after it has risen to the first in a twentieth of
    them."""
    read_rate: Positive = 1.0
    """factor on the learning rate of the weights by which a controller sees the vectors read. An
    optimizer that moves all weights equally far moves the sum of many reads too far."""
    weight_decay: NotNegative = 0.0
    """L2 regularization: this factor times the weights is added to the gradient."""
    batch_size: Size | SymbolCount = 10
    """strings in a batch; for streams, segments. Or the approximate number of symbols to read in a
    batch, such as 500 symbols, which is raised to the number of symbols in the alphabet, up to
    2000."""
    loss_per: Literal["symbol", "string", "batch"] = "symbol"
    """the loss is the mean over scored symbols; the mean over strings, of the sums over their
    symbols; or the sum over the batch."""
    source_loss: NotNegative = 0.0
    """weight in the loss, until the run settles, of the cross-entropy of each next symbol of a
    source, in nats per symbol. From a source that repeats itself, a memory is learned faster than
    from an answer of few symbols."""
    gradient_clip: ClipConfig | None = None
    """bound on gradients; null for none."""
    data: DataConfig | None = None
    """training data; null for new strings in each batch, or for pairs in files."""
    sequences: Size = 1
    """for new strings of a stream: sequences that are read one after another, from an empty memory
    on."""
    length_law: LengthDistribution | None = None
    """distribution of training lengths; null for the task's own."""
    curriculum: CurriculumConfig | None = None
    """how training lengths grow; null for all lengths from the first batch on. Sets of examples are
    trained on as a whole."""
    settle: SettleConfig | None = None
    """changes once the loss is low; null for none."""
    noise: NoiseConfig = NoiseConfig()
    """standard deviations of normal noise in training: `gates` is added to the inputs of the
    controller's gates. A gate that has to be right in spite of it is nearly 0 or 1, and so keeps a
    count for any length. `signals` is added to the inputs of strengths, such as push and pop, and
    drives them to 0 and 1 in the same way (salakhutdinov2009); a memory with actions or cells has
    none."""
    averaging: Fraction = 0.0
    """decay of the moving average of the weights, which is evaluated and kept; 0 for the weights
    themselves."""
    restart: RestartConfig | None = None
    """when a run begins another attempt; null for never."""
    measure: MeasureConfig = MeasureConfig()
    """when the run is measured, and on how many strings."""
    stop: StopConfig | None = None
    """rule that ends the run; null if epochs or a budget end it."""
    rounding: RoundingName | None = None
    """fine-tuning, when a rule has ended the run, until the model uses its memory discretely, and
    pruning of memories that it does not need; null for none. docs/training.md compares the kinds
    (joulin2015)."""
    max_steps: PositiveCount | None = None
    """largest number of batches; null for no limit."""
    time_limit: Positive | None = None
    """largest number of seconds of training; null for no limit."""

    @property
    def discrete(self) -> bool:
        """Whether only discrete solutions are accepted."""
        return self.rounding in ("discrete", "machine")

    @model_validator(mode="after")
    def _data_and_stop_agree(self) -> Self:
        if self.stream and self.stop:
            raise ValueError("stop: expected null: the epochs and attempts of a stream end it")
        budget = self.stream or self.max_steps or self.time_limit
        if self.stop is None and not budget:
            raise ValueError("stop: null needs max_steps, time_limit or data.stream")
        highest, last = self.rates
        if isinstance(self.learning_rate, str) and not (highest >= last > 0 and self.max_steps):
            raise ValueError("learning_rate: a falling one stays over 0, and needs max_steps")
        if self.data and isinstance(self.batch_size, str):
            raise ValueError("batch_size: symbols are for strings drawn anew; expected a number")
        if self.stream and self.curriculum:
            raise ValueError("curriculum: not for a stream, whose sequences grow by themselves")
        return self

    @property
    def rates(self) -> tuple[float, float]:
        """The highest and the last learning rate, which are equal if it does not fall."""
        highest, _, last = str(self.learning_rate).partition(" to ")
        return float(highest), float(last or highest)

    @property
    def batch_symbols(self) -> int | None:
        """Symbols to read in a batch, if its size is given in symbols."""
        size = self.batch_size
        return int(size.split()[0]) if isinstance(size, str) else None

    @property
    def batch_strings(self) -> int:
        """Strings in a batch; raises `TypeError` if its size is given in symbols."""
        if isinstance(self.batch_size, str):
            raise TypeError("the size of a batch is given in symbols, not in strings")
        return self.batch_size

    @property
    def examples(self) -> ExamplesConfig | None:
        """The settings of sets of examples, if these are the training data."""
        return self.data.examples if self.data else None

    @property
    def stream(self) -> StreamConfig | None:
        """The settings of a stream, if that is the training data."""
        return self.data.stream if self.data else None

    @property
    def solved(self) -> SolvedConfig:
        """When the task counts as solved, whether or not that ends the run."""
        return (self.stop and self.stop.solved) or SolvedConfig()
