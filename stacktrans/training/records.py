"""Records and summary of a run: measurements, outcomes, and the quantities that rank weights."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from stacktrans.tasks.lengths import Lengths

if TYPE_CHECKING:
    from stacktrans.inference.perplexity import Perplexity
    from stacktrans.inference.scores import Scores


METRICS = "metrics.jsonl"
SUMMARY = "summary.json"

LOSS = "loss: cross-entropy in nats per symbol"
"""The legend of a loss."""

BUDGET_OUTCOMES = {"max_steps", "time_limit", "budget"}
"""Outcomes after which there may be more to train; all others are stopping rules."""
OUTCOMES = {
    "solved": ("solved", "coarse accuracy reached {accuracy} in the last {measurements}"),
    "no_machine": (
        "solved (no machine)",
        "coarse accuracy reached {accuracy} in the last {measurements} of an attempt; "
        "no machine agrees with the model",
    ),
    "exceptions": ("solved", "a few development pairs stayed wrong"),
    "converged": ("converged", "the training perplexity stopped improving"),
    "development": ("stopped improving", "the accuracy on the development set stopped improving"),
    "epochs": ("all epochs", "the training set was used for the requested number of epochs"),
    "attempts": ("all attempts", "all attempts have ended"),
    "max_steps": ("batch limit", "the maximum number of batches was reached"),
    "time_limit": ("time limit", "the time limit was reached"),
    "budget": ("out of time", "time ran out"),
}
"""How a run can end: in a word or two, and in a sentence."""
Outcome = Annotated[str, Field(pattern=f"^({'|'.join(OUTCOMES)})$")]
SOLUTIONS = {"solved", "no_machine", "exceptions"}
"""Outcomes after which a task counts as solved."""
MAX_EXCEPTION_SHARE = 0.05
"""The greatest share of pairs that may contradict a model that has solved its task."""


@dataclass
class Accuracy:
    """The accuracies on `count` strings of a range of lengths."""

    coarse: float
    fine: float
    count: int
    symbols: float

    @classmethod
    def of(cls, scores: "Scores") -> Self:
        """Summarise scores."""
        coarse, fine, symbols = scores.coarse_accuracy, scores.fine_accuracy, scores.symbol_accuracy
        return cls(coarse, fine, scores.count, symbols)


@dataclass
class Record:
    """One line of metrics.jsonl.

    Attributes:
        step: batches trained on since the run began.
        attempt: number of the attempt, from 1.
        seconds: training time since the run began.
        loss: mean nats per scored symbol since the last record.
        perplexity: the exponential of the loss.
        learning_rate: the learning rate.
        lengths: shortest and longest source that is trained on next, or that was last in a
            stream; None on a text.
        signals: mean of each signal over all steps of the last batch.
        train: accuracy on training lengths, where it was measured. For pairs in files, on the
            development strings as long as those that are trained on.
        test: accuracy on lengths of the test range. For pairs in files, on the longer development
            strings, or on their longest tenth once all lengths are trained on.
        development: accuracy on the development set.
        validation: mean nats per scored symbol on the validation strings of a stream, or on the
            validation text.
        longest: accuracy on the longest tenth of a development set of pairs in files, with any
            training lengths; None if all are equally long.
        discreteness: 1 if all signals of the last batch are 0 or 1; 0 if all are one half, or
            unknown.
    """

    step: int
    attempt: int
    seconds: float
    loss: float
    perplexity: float
    learning_rate: float
    lengths: Lengths | None
    signals: dict[str, float]
    train: Accuracy | None = None
    test: Accuracy | None = None
    development: Accuracy | None = None
    validation: float | None = None
    longest: Accuracy | None = None
    discreteness: float = 0.0


STRING_SETS = ("development", "longest", "test", "train")
"""The sets of strings by whose coarse accuracies weights are compared."""


def ranking_measures(record: Record) -> dict[str, float]:
    """The quantities that weights, and runs, are compared by; empty if none was measured.

    The greater the better, and the first that differs decides: coarse accuracy on the development
    set and then on its longest tenth or, where strings are drawn, on test lengths and then on
    training lengths; fine accuracy on the first of these; discreteness; and the log-likelihood of a
    symbol, in nats.
    """
    names = ("development", "longest") if record.development else ("test", "train")
    measured = {name: each for name in names if (each := getattr(record, name))}
    if not measured:
        return {}
    return {
        **{name: each.coarse for name, each in measured.items()},
        "fine": next(iter(measured.values())).fine,
        "discreteness": record.discreteness,
        "log_likelihood": -record.loss,
    }


@dataclass(kw_only=True)
class Summary:
    """The summary of a run: how it ended, and its final measurements.

    Attributes:
        outcome: the key of `OUTCOMES` that ended it; `rule` is its meaning.
        decided_by: description of what decided when the run stopped.
        reported_on: description of what the final measurements are made on.
        steps: batches of all attempts, with those of rounding and pruning, which have no records.
        attempts: number of attempts.
        seconds: training time.
        best_step: the batch after which the best weights were taken.
        train: accuracy of the best weights on training lengths, or on the training set; None for a
            text.
        test: accuracy on lengths of the test range, or on the test set.
        development: accuracy on the development set.
        hard: accuracy on the strings of `test` with hard signals; None if the run was not rounded.
        without: accuracy on some strings of `test` without a part of the model, by its name; see
            `model.ablation.ablate`.
        race: the winner, the seconds and the candidates, by name, of the race that the run comes
            from; see `race_state.Candidate`. None if there was none.
        baselines: accuracy of answers to strings of `test` that need no model, by how they are
            found; see `inference.baselines`.
        texts: perplexity of the validation and the test text, if they are learned.
        start_from: the checkpoint that the run started from, and counts of its symbols; see
            `settings.config.StartFromConfig`. None for new weights.
        contradictions: pairs in files whose targets are not the model's answers, if it has solved
            the task; each is a line, as `file:number`, and its source, target and answer. Of a
            source with several targets, at most one pair is listed; but if the answer is one of
            these targets, so are all pairs with much rarer ones.
        notes: remarks made before the run, on `start_from` and on the files of pairs.
        parameters: number of parameters in training; a memory may be pruned at the end.
        model: the saved model, in one line.
        command: the command that trains the run.
        seed: the random seed of the run.
        version: version of stacktrans; `torch` is that of torch.
    """

    outcome: str
    rule: str
    decided_by: str
    reported_on: str
    steps: int
    attempts: int
    seconds: float
    best_step: int
    train: Accuracy | None = None
    test: Accuracy | None = None
    development: Accuracy | None = None
    hard: Accuracy | None = None
    without: dict[str, Accuracy] = field(default_factory=dict)
    baselines: dict[str, Accuracy] = field(default_factory=dict)
    texts: dict[str, "Perplexity"] = field(default_factory=dict)
    race: dict[str, Any] | None = None
    start_from: dict[str, Any] | None = None
    contradictions: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parameters: int
    model: str = ""
    command: str
    version: str
    torch: str
    seed: int


def measurements(measured: Record | Summary) -> dict[str, Any]:
    """The measurements in a record or summary, as JSON."""
    parts = ("train", "test", "development")
    accuracies = {part: asdict(accuracy) for part in parts if (accuracy := getattr(measured, part))}
    if isinstance(measured, Summary):
        return accuracies | {part: asdict(text) for part, text in measured.texts.items()}
    validation = measured.validation
    return accuracies if validation is None else accuracies | {"validation": validation}
