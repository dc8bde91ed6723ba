"""The settings of training: types, defaults and meanings."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from stacktrans.settings.layers import Settings
from stacktrans.settings.model_config import NOT_PAIRS
from stacktrans.settings.values import (
    Count,
    Fraction,
    Loss,
    NotNegative,
    Number,
    OneOf,
    Positive,
    Section,
    Size,
    Strings,
    Symbols,
)
from stacktrans.tasks.base import LengthLaw
from stacktrans.tasks.layout import Layout


class ExamplesConfig(Section):
    """A fixed set of examples that is reused in every epoch (hao2018, section 5)."""

    train: Strings
    """examples to train on, in another order in each epoch."""
    development: Strings
    """examples as long as those trained on, measured after each epoch."""
    test: Strings
    """examples as long as the test range, measured at the end."""
    epochs: Count
    """most epochs."""


class StreamConfig(Section):
    """An unsegmented stream, cut into pieces for truncated backpropagation (joulin2015, section 4).

    `batch_size` streams are read side by side, and each carries its state from piece to piece.
    After each epoch the loss is measured on validation strings of the training lengths, or on the
    validation text; if it has not fallen, the learning rate is halved, and training continues from
    the best weights.
    """

    RATE_DECAY: ClassVar[float] = 0.5
    """What the learning rate is multiplied with."""
    LEAST_RATE: ClassVar[float] = 1e-5
    """An attempt ends when its learning rate falls under this."""
    JUDGED_AFTER: ClassVar[int] = 20
    """Epochs after which an attempt whose loss is above the mean of those so far is thrown away."""
    EMPTY_AFTER: ClassVar[int] = 1000
    """Sequences of a stream after which its memory is emptied; that of a text is once an epoch."""
    FIRST_LONGEST: ClassVar[int] = 3
    """The longest sequence of the first epoch; it grows by one an epoch."""

    steps: Size
    """steps in a piece, through which gradients flow back."""
    sequences: Strings | None
    """sequences in an epoch, of all streams together; null for the whole of a text."""
    epochs: Count
    """most epochs of an attempt."""
    attempts: Count = 1
    """number of attempts from different weights; the best is kept."""


class DataConfig(OneOf):
    """The training data, if not new strings in each batch."""

    examples: ExamplesConfig | None = None
    """sets of examples that are used again in each epoch: how many to train on, to measure after
    each epoch and, as long as the test range, at the end; and how many epochs at most."""
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
    """share of the range of training lengths, from the shortest up, at the beginning."""
    growth: Annotated[Number, Field(gt=1)]
    """factor on the share whenever the mean of recent losses falls under `loss`, until the range
    is whole."""
    loss: Loss
    """see growth. Losses are nats a symbol, or such as 15% of what guessing by how frequent symbols
    are costs, and so the same for few symbols and for many."""


class SettleConfig(Section):
    """Settling: the change of settings, once, when a run has nearly learned its task."""

    loss: Loss
    """the run settles when the mean of recent losses (as of training.curriculum), on the whole
    range of lengths, is under this."""
    rate: Positive = 1.0
    """factor on the learning rate from then on."""
    sharpening: NotNegative = 0.0
    """weight in the loss, from then on, of the mean of s (1 - s) over all strengths s, which drives
    them to 0 and 1. A strength of 0.002 is as good as 0 on short strings, but adds up on long
    ones."""


class RestartConfig(Section):
    """Restarts: the conditions under which a run begins again from other weights."""

    after: Count | None = None
    """restart if, this many batches after an attempt began or strings grew longer, the mean of
    recent losses is not under `loss`; null for never."""
    loss: Loss = 1.0
    """mean of recent losses (as of training.curriculum) of a run that has taken off."""
    give_up_after: Count | None = None
    """restart if, this many batches after an attempt began, no rule has ended the run; null for
    never."""
    attempts: list[Settings] = Field(default_factory=list)
    """changes to `model.initialization`, one after another for each restart."""

    @model_validator(mode="after")
    def _starts_again(self) -> Self:
        if self.after is None and self.give_up_after is None:
            raise ValueError("expected after or give_up_after")
        return self


class MeasureConfig(Section):
    """Measurements: their frequency and numbers of strings."""

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


class SolvedConfig(Section):
    """Stopping when the task is solved."""

    accuracy: Annotated[float, Field(gt=0, le=1)] = 1.0
    """coarse accuracy on validation strings at which the task counts as solved."""
    ranges: Literal["test", "both"] = "test"
    """lengths of the validation strings that count: "test", or "both" ranges; of pairs in files,
    all of the development set counts."""
    times: Count = 2
    """measurements in a row in which the task has to be solved. The more, the longer the run trains
    at the rate that it has settled at."""


class ConvergedConfig(Section):
    """Stopping when the training perplexity no longer improves."""

    patience: Count = 50
    """records in a row without improvement."""


class DevelopmentConfig(Section):
    """Stopping when accuracy on the development set no longer improves.

    With pairs in files, it also ends when all of the set is right in as many measurements in a row
    as with `solved`; and with `solved`, also when accuracy no longer improves.
    """

    PATIENCE: ClassVar[int] = 50
    """Measurements of pairs in files that are no better, after which a run ends with `solved`."""

    patience: Count = 5
    """epochs in a row in which the share of correct symbols has not risen; of pairs in files,
    measurements in a row in which coarse accuracy, or else fine, has not."""


class StopConfig(OneOf):
    """The stopping rule of a run."""

    solved: SolvedConfig | None = None
    """when the task is solved, several times in a row."""
    converged: ConvergedConfig | None = None
    """when the training perplexity no longer improves."""
    development: DevelopmentConfig | None = None
    """when accuracy on the development set no longer improves: that of `training.data.examples`,
    or of pairs in files."""


class RoundingConfig(NamedTuple):
    """Rounding: fine-tuning that makes signals discrete (joulin2015, section 3.3)."""

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
    lossless: bool = False
    """whether the result is kept only if it is no worse without being hard, and a run that is wrong
    when hard ends as well as another."""


ROUNDINGS = {
    "quick": RoundingConfig(factor=1.2, batches=20, indecision=1e-4, most=40),
    "lossless": RoundingConfig(factor=1.1, batches=20, indecision=1e-4, most=80, lossless=True),
    "published": RoundingConfig(factor=1.05, batches=100, indecision=1e-3, most=100),
    "slow": RoundingConfig(factor=1.05, batches=100, indecision=1e-6, most=40, rate=0.97),
    "thorough": RoundingConfig(
        factor=1.05, batches=100, indecision=1e-6, most=20, rate=0.97, best=True
    ),
}
"""The ways to round, by their names."""


class TrainingConfig(Section):
    """All settings of training."""

    optimizer: Literal["rmsprop", "adam", "sgd"] = "rmsprop"
    """update rule; "sgd" has no state."""
    learning_rate: Positive = 0.002
    """initial learning rate."""
    read_rate: Positive = 1.0
    """share of the learning rate for the weights by which a controller sees what was read. An
    optimizer that moves all weights equally far moves the sum of many reads too far."""
    weight_decay: NotNegative = 0.0
    """this times the weights is added to the gradient."""
    batch_size: Size | Symbols = 10
    """strings in a batch; of a stream, pieces of it. Or as many strings as have about so many
    symbols to read, such as 500 symbols: the more, the shorter they are. There are
    at least as many as the alphabet has, up to 2000."""
    loss_per: Literal["symbol", "string", "batch"] = "symbol"
    """unit that the loss is a mean over: scored symbols; strings, whose loss is the sum over their
    symbols; or batches, whose loss is the sum."""
    source_loss: NotNegative = 0.0
    """weight in the loss, until the run settles, of what it costs to predict each next symbol of a
    source, in nats a symbol. By a source that repeats itself a memory is learned sooner than by an
    answer that says little."""
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
    rounding: Literal["quick", "lossless", "published", "slow", "thorough"] | None = None
    """fine-tuning, when a rule has ended the run, until the model uses its memory discretely;
    stacks or lists that it does not need are left out; null for none. The result is kept if it is
    no worse on validation strings of both ranges, soft and hard. A run that may restart does so if
    the task is not solved in hard mode; not if it is lossless, which makes a model discrete that
    can be, and leaves others as they are."""
    max_steps: Count | None = None
    """most batches; null for no limit."""
    time_limit: Positive | None = None
    """most seconds of training; null for no limit."""

    @model_validator(mode="after")
    def _data_and_stop_agree(self) -> Self:
        if self.stream and self.stop:
            raise ValueError("stop: expected null: the epochs and attempts of a stream end it")
        budget = self.stream or self.max_steps or self.time_limit
        if self.stop is None and not budget:
            raise ValueError("stop: null needs max_steps, time_limit or data.stream")
        if self.data and isinstance(self.batch_size, str):
            raise ValueError("batch_size: symbols are for strings drawn anew; expected a number")
        if self.stream and self.curriculum:
            raise ValueError("curriculum: not for a stream, whose sequences grow by themselves")
        return self

    def misfits(self, layout: Layout) -> Iterator[tuple[str, str]]:
        """The settings that make no sense with a layout, and what of a task with it is wrong."""
        if self.source_loss and layout.kind != "pairs":
            yield "source_loss", NOT_PAIRS

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
