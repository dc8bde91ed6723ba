"""What a `Model` returns, and notebooks show: answers, evaluations, traces and verifications."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stacktrans.api.arguments import NameOrPath, checked
from stacktrans.common.files import check_file_path, write_atomically
from stacktrans.common.visible import counted
from stacktrans.inference import trace as inference
from stacktrans.inference import verification
from stacktrans.inference.predictions import Prediction
from stacktrans.inference.scores import Scores
from stacktrans.inference.transduction import Hypothesis
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.settings.config import RunConfig
from stacktrans.showing.page import SUFFIXES, PageModel, page_of
from stacktrans.showing.pictures import animate_trace, plot_trace
from stacktrans.showing.plots import check_plot
from stacktrans.showing.progress import as_html
from stacktrans.showing.scores import scores_tables
from stacktrans.showing.traces import trace_view
from stacktrans.showing.verification import verification_view
from stacktrans.tasks.lengths import Lengths


@dataclass(frozen=True)
class Answer:
    """A model's answer to a source.

    Attributes:
        source: the source as given.
        text: the answer.
        probability: of the whole answer; 1 for an empty source, unless the model labels strings.
        ended: whether the model ended the answer; otherwise it was cut off.
        scored: whether each symbol is predictable and scored; None if all are.
        hypotheses: the best hypotheses of a beam search, this one first; None without a beam, or
            for an empty source.
    """

    source: str
    text: str
    probability: float
    ended: bool
    scored: list[bool] | None
    hypotheses: list[Hypothesis] | None = None


class Evaluation:
    """The accuracies of a model on a set of strings.

    Attributes:
        lengths: shortest and longest source, in symbols.
        count: number of strings.
        coarse: share of strings that are right from first to last symbol.
        fine: mean share of a string before its first error.
        symbols: share of all scored symbols that are right.
        unknown: number of strings with symbols that the model does not know; they count as wrong.
        symbol_error_rate: edit distance between answers and targets, per target symbol; None
            unless the model answered the sources.
        oracle: share of strings whose target is among the best answers; None without `n_best`.
        predictions: the answer to each source, with its target; empty unless the model answered
            the sources.
    """

    def __init__(self, lengths: Lengths, scores: Scores, hard: bool) -> None:
        self.lengths, self.count = lengths, scores.count
        self.coarse, self.fine = scores.coarse_accuracy, scores.fine_accuracy
        self.symbols, self.unknown = scores.symbol_accuracy, scores.unknown_count
        self.symbol_error_rate = scores.symbol_error_rate
        self.oracle = scores.oracle_accuracy
        predictions = scores.predictions
        self.predictions: list[Prediction] = [] if predictions is None else predictions.tolist()
        self._scores, self._hard = scores, hard

    def by_length(self) -> dict[int, float]:
        """Coarse accuracy by the length of the source."""
        return {length: each.coarse_accuracy for length, each in self._scores.by_length().items()}

    def __repr__(self) -> str:
        return (
            f"Evaluation({self.lengths}: coarse {self.coarse:.3f} fine {self.fine:.3f} "
            f"symbols {self.symbols:.3f}, {counted(self.count, 'string')})"
        )

    def _repr_html_(self) -> str:
        return as_html(*scores_tables([(self.lengths, self._scores)], self._hard))


@dataclass(frozen=True, eq=False, repr=False)
class Trace(inference.Trace):
    """The trace of a model over a source.

    Attributes:
        config: of the model's run.
    """

    config: RunConfig
    _loaded: Checkpoint

    @property
    def signals(self) -> tuple[str, ...]:
        """The names of the signals, such as push and pop."""
        return tuple(self.steps[0].signals)

    @property
    def strengths(self) -> NDArray[np.float64]:
        """The strength of each signal at each step, [steps, signals]."""
        rows = [list(step.signals.values()) for step in self.steps]
        return np.array(rows, dtype=np.float64).reshape(len(self.steps), len(self.signals))

    @property
    def inputs(self) -> list[str]:
        """The symbol read at each step."""
        return [step.input for step in self.steps]

    @property
    def outputs(self) -> list[str | None]:
        """The output at each step; None before the answer begins."""
        return [step.output for step in self.steps]

    @checked
    def plot(self, path: NameOrPath) -> Path:
        """Plot strengths, values, inputs and outputs over time in a .png, .svg or .pdf file.

        Raises:
            UsageError: the path has another suffix, or matplotlib is not installed.
        """
        path = Path(path)
        check_plot(path)
        plot_trace(self, self.config, path)
        return path

    @checked
    def animate(self, path: NameOrPath) -> Path:
        """Draw the memory at each step, as an animation in a .gif file.

        Raises:
            UsageError: the path has another suffix, or matplotlib is not installed.
        """
        path = Path(path)
        check_plot(path, [".gif"])
        animate_trace(self, path)
        return path

    @checked
    def html(self, path: NameOrPath) -> Path:
        """Write a page that steps through the trace in a browser to an .html file.

        Raises:
            UsageError: the path has another suffix.
        """
        path = Path(path)
        check_file_path(path, *SUFFIXES)
        write_atomically(path, page_of([PageModel(str(self._loaded.path), self, self._loaded)]))
        return path

    def __repr__(self) -> str:
        return f"Trace({self.source!r} -> {self.answer!r}, {len(self.steps)} steps)"

    def _repr_html_(self) -> str:
        return as_html(trace_view(self, self.config))


@dataclass(repr=False, kw_only=True)
class Verification(verification.Verification):
    """The results of verifying a model, or of comparing it with another."""

    _models: Sequence[tuple[str, Checkpoint]]

    def __repr__(self) -> str:
        if wrong := self.counterexample:
            answers = [each.answer for each in (wrong, self.other) if each]
            verdict = "different" if self.other else "wrong"
            return f"Verification({verdict}: {wrong.source!r} -> {' or '.join(map(repr, answers))})"
        found = f"{'right' if self.right else 'wrong'}, {counted(self.count, 'string')}"
        return f"Verification({found}{', proved' if self.proved else ''})"

    def _repr_html_(self) -> str:
        descriptions = [model.description for _, model in self._models]
        return as_html(verification_view(self, self._models, descriptions))
