"""Coarse, fine and symbol accuracy of a model on pairs.

Until its first error a greedy decoder has read exactly the true prefix, so one pass over the true
joint sequences gives both accuracies.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stacktrans.common.ragged import Ragged, row_starts
from stacktrans.decoding.decoder import predict
from stacktrans.decoding.model import Discretizable
from stacktrans.inference.predictions import Prediction, predictions
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import OUT_OF_VOCABULARY, Mask
from stacktrans.tasks.base import Task, source_key
from stacktrans.tasks.encoding import encode, measured_sequences, steps_of
from stacktrans.tasks.layout import Layout, Pair

Floats = npt.NDArray[np.float64]

MUCH_RARER = 3
"""A target that is this many times rarer than another one of its source is likely to be wrong."""


def symbol_error_rate(predictions: Collection[Prediction]) -> float:
    """Edits per target symbol that turn all targets into their answers."""
    edits: int = sum(prediction.edits for prediction in predictions)
    symbols: int = sum(prediction.symbols for prediction in predictions)
    return edits / max(symbols, 1)


@dataclass(frozen=True)
class Scores:
    """Accuracies of a model on n strings.

    Attributes:
        lengths: [n] source lengths.
        fine: [n] share of the scored symbols, `</s>` included, before the first error.
        right: [n] number of scored symbols that are right.
        scored: [n] number of scored symbols.
        differing: [n] number of scored symbols at which a discretized model differs from its soft
            one; zeros for other models, and unless requested.
        predictions: [n] `Prediction`s of the answers that the model decodes by itself; None unless
            requested.
        name: of the set that the strings belong to; empty for others.
        unknown: [n] strings with symbols that the model does not know, which count as wrong; None
            unless requested.
        positive: [n] 1 if the target is the label of strings in a language, 0 if it is the other
            one, and NaN if it is neither; None without labels.
        kinds: [n] the kind of each string, as in `Pair`; None unless labeled strings are drawn.
        log_probs: [n] log-probability of the scored symbols that the model outputs given the true
            symbols before them; NaN for strings that it does not know, and unless requested.
        n_best: the number of best answers among which targets are ranked; None unless requested.
        baselines: the scores of other answers to some of the strings, by how they are found; empty
            unless requested.
    """

    lengths: npt.NDArray[np.int64]
    fine: Floats
    right: npt.NDArray[np.int64]
    scored: npt.NDArray[np.int64]
    differing: npt.NDArray[np.int64]
    predictions: npt.NDArray[np.object_] | None = None
    name: str = ""
    unknown: Mask | None = None
    positive: Floats | None = None
    kinds: npt.NDArray[np.object_] | None = None
    log_probs: Floats | None = None
    n_best: int | None = None
    baselines: dict[str, "Scores"] = field(default_factory=dict)

    @property
    def label_scores(self) -> dict[str, float | None] | None:
        """Precision, recall and AUC of labels, None where undefined; None without labels.

        The AUC, the area under the ROC curve, is how often a string in the language has the higher
        probability; a tie counts one half (the statistic of Mann and Whitney).
        """
        if self.positive is None or self.log_probs is None:
            return None
        known = ~np.isnan(self.positive)
        positive: Mask = self.positive[known] == 1
        answered = (self.fine[known] == 1) == positive
        likely = np.nan_to_num(np.exp(self.log_probs[known]), nan=0.5)
        inside, outside = positive.sum(), (~positive).sum()
        found, auc = (positive & answered).sum(), None
        if inside and outside:
            probability = np.where(answered, likely, 1 - likely)
            _, group, counts = np.unique(probability, return_inverse=True, return_counts=True)
            ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
            above = ranks[positive].sum() - inside * (inside + 1) / 2
            auc = float(above / (inside * outside))
        return {
            "precision": float(found / answered.sum()) if answered.any() else None,
            "recall": float(found / inside) if inside else None,
            "auc": auc,
        }

    @property
    def count(self) -> int:
        """Number of strings."""
        return len(self.lengths)

    @property
    def wrong(self) -> int:
        """Number of strings with an error."""
        return int((self.fine < 1).sum())

    @property
    def unknown_count(self) -> int:
        """Number of strings with symbols that the model does not know."""
        return 0 if self.unknown is None else int(self.unknown.sum())

    @property
    def coarse_accuracy(self) -> float:
        """Share of strings that are right from first to last symbol."""
        return float((self.fine == 1).mean())

    @property
    def fine_accuracy(self) -> float:
        """Mean share of a string before its first error."""
        return float(self.fine.mean())

    @property
    def symbol_accuracy(self) -> float:
        """Share of all scored symbols that are right, those after an error included."""
        return float(self.right.sum() / max(self.scored.sum(), 1))

    @property
    def oracle_accuracy(self) -> float | None:
        """Share of strings whose target is among the best answers; None unless requested."""
        if self.predictions is None or self.n_best is None:
            return None
        return float(np.mean([prediction.rank is not None for prediction in self.predictions]))

    @property
    def differing_share(self) -> float:
        """Share of all scored symbols at which the discretized model differs from the soft one."""
        return float(self.differing.sum() / max(self.scored.sum(), 1))

    @property
    def symbol_error_rate(self) -> float | None:
        """Edits per target symbol of all answers; None without predictions."""
        return None if self.predictions is None else symbol_error_rate([*self.predictions])

    @property
    def positional_accuracy(self) -> float:
        """Share of scored symbols that answers have at their positions, averaged over lengths.

        This is the score of deletang2023. It needs predictions.
        """
        assert self.predictions is not None
        counts = np.array([[each.position_matches, each.symbols] for each in self.predictions])
        groups = [counts[self.lengths == length].sum(axis=0) for length in np.unique(self.lengths)]
        return float(np.mean([matches / max(symbols, 1) for matches, symbols in groups]))

    def by_length(self) -> dict[int, "Scores"]:
        """The scores of the strings of each length, the shortest first."""
        return {
            length: self.of_lengths(length, length) for length in sorted(set(self.lengths.tolist()))
        }

    def by_kind(self) -> dict[str, "Scores"]:
        """The scores of the strings of each kind; none if kinds are not known."""
        kinds = [] if self.kinds is None else sorted(set(self.kinds.tolist()))
        return {kind: self.of(self.kinds == kind) for kind in kinds}

    def of_lengths(self, shortest: int, longest: int) -> "Scores":
        """The scores of the strings within a range of lengths."""
        return self.of((self.lengths >= shortest) & (self.lengths <= longest))

    def of(self, chosen: Mask) -> "Scores":
        """The scores of the strings that a mask [n] chooses."""
        return replace(self, **{name: values[chosen] for name, values in self._arrays().items()})

    def __add__(self, other: "Scores") -> "Scores":
        arrays, others = self._arrays(), other._arrays()
        joined: dict[str, Any] = {
            name: np.concatenate([values, others[name]]) for name, values in arrays.items()
        }
        return replace(self, **joined)

    def _arrays(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}


def score(
    model: Discretizable,
    layout: Layout,
    pairs: Sequence[Pair],
    compare_soft: bool = False,
    log_probs: bool = False,
) -> Scores:
    """The scores of a model's greedy answers to pairs of sources and targets, in their order.

    In a stream, pairs follow one another: what a model leaves behind of one can spoil the next.

    Args:
        model: what answers.
        layout: of the task.
        pairs: sources and targets.
        compare_soft: whether a discretized model is compared with its soft one, which doubles the
            time.
        log_probs: whether log-probabilities are computed.

    Raises:
        ValueError: a buffered model would read its own answers in the input.
    """
    if model.buffers and layout.feeds_back:
        raise ValueError("a buffered model needs a synchronous layout")
    # Each row of pairs is one sequence; pairs that the model cannot read are wrong, and left out.
    known = (
        [index for index in row if pairs[index].in_vocabulary]
        for row in measured_sequences(layout, pairs)
    )
    rows = [row for row in known if row]
    examples = encode(layout, [[pairs[index] for index in row] for row in rows])
    predicted = predict(model, examples.inputs, examples.scored, log_probs)
    outputs = predicted.symbols.values
    soft = outputs
    if compare_soft and model.hard:
        unrounded = model.discretized(hard=False)
        soft = predict(unrounded, examples.inputs, examples.scored, False).symbols.values
    correct = outputs == examples.targets.values[examples.scored.values]
    in_order = np.array([index for row in rows for index in row], np.int64)
    steps = [steps_of(layout, pairs[index]) for index in in_order]
    # The pair that each output belongs to.
    owners = np.repeat(in_order, steps)[examples.scored.values]
    right, scored, differing = (
        np.bincount(owners[mask], minlength=len(pairs))
        for mask in (correct, slice(None), outputs != soft)
    )
    first_wrong, counts = scored.copy(), scored[in_order]
    positions = Ragged(owners, row_starts(counts)).positions
    np.minimum.at(first_wrong, owners[~correct], positions[~correct])
    fine, likelihood = np.zeros(len(pairs)), np.full(len(pairs), np.nan)
    fine[in_order] = np.where(counts, first_wrong[in_order] / np.maximum(counts, 1), 1)
    if predicted.log_probs:
        sums = np.bincount(owners, predicted.log_probs.values, minlength=len(pairs))
        likelihood[in_order] = sums[in_order]
    for index, pair in enumerate(pairs):
        if not pair.in_vocabulary:
            scored[index] = encode(layout, [[pair]]).scored.values.sum()
    lengths = np.array([pair.length for pair in pairs], dtype=np.int64)
    return Scores(lengths, fine, right, scored, differing, log_probs=likelihood)


def checkpoint_scores(
    checkpoint: Checkpoint,
    pairs: Sequence[Pair],
    beam: int | None = None,
    name: str = "",
    n_best: int | None = None,
) -> Scores:
    """The scores of a checkpoint on the `counted_pairs`.

    Args:
        checkpoint: the model.
        pairs: sources and targets.
        beam: width of the beam that answers are decoded with, as `predictions`; coarse and fine
            accuracy are those of the answers if it is more than 1. None for no predictions.
        name: of the set of pairs.
        n_best: the number of best answers among which targets are ranked, no more than `beam`.
    """
    layout, positive = checkpoint.layout, checkpoint.task.positive
    log_probs = beam is not None or positive is not None
    scores = score(checkpoint.predictor, layout, pairs, compare_soft=True, log_probs=log_probs)
    if positive is not None:
        in_language = [
            np.nan if OUT_OF_VOCABULARY in pair.target else pair.target.tolist() == [positive]
            for pair in pairs
        ]
        scores = replace(scores, positive=np.array(in_language, np.float64))
    if kinds := [pair.kind for pair in pairs if pair.kind]:
        scores = replace(scores, kinds=np.array(kinds, np.object_))
    unknown = [not pair.in_vocabulary or OUT_OF_VOCABULARY in pair.target for pair in pairs]
    scores = replace(scores, unknown=np.array(unknown, np.bool_), name=name)
    if beam is not None:
        assert scores.log_probs is not None
        greedy = beam == 1 or not layout.feeds_back
        # In a stream, scores depend on the pairs before, but each source is answered by itself; and
        # the probability of an answer is also that of its symbols that are not scored.
        same_answers = greedy and not layout.consecutive and checkpoint.task.scores_all
        known = np.where((scores.fine == 1) & same_answers, scores.log_probs, np.nan)
        answers = np.empty(len(pairs), dtype=np.object_)
        answers[:] = predictions(checkpoint, pairs, beam, known, n_best or 1)
        fine = scores.fine if greedy else np.array([prediction.fine for prediction in answers])
        scores = replace(scores, fine=fine, predictions=answers, n_best=n_best)
    return scores.of(counted_pairs(checkpoint.task, pairs, scores.fine))


def counted_pairs(task: Task, pairs: Sequence[Pair], fine: Floats) -> Mask:
    """[n] which of n pairs count, so that a source with several targets is counted once.

    An answer is right if it is one of the targets of its source; otherwise the target counts that
    it agrees with longest. A pair that is repeated counts each time, unless its source has another
    target as well. So does every pair of a stream, in which an answer depends on the pairs before.

    Args:
        task: their task.
        pairs: sources and targets.
        fine: [n] share of each target before the first error of the answer.
    """
    counted = np.ones(len(pairs), np.bool_)
    if task.layout.consecutive:
        return counted
    by_source: dict[Hashable, list[int]] = {}
    for index, pair in enumerate(pairs):
        if (source := source_key(task, pair)) is not None:
            by_source.setdefault(source, []).append(index)
    for indices in by_source.values():
        if len({pairs[index].target.tobytes() for index in indices}) > 1:
            counted[indices] = False
            counted[max(indices, key=lambda index: float(fine[index]))] = True
    return counted


def outnumbered_pairs(pairs: Sequence[Pair], fine: Floats) -> Mask:
    """[n] which of n pairs have a target much rarer than that with which their source is answered.

    Of several targets of a source, such a one is likely to be wrong.

    Args:
        pairs: sources and targets.
        fine: [n] share of each target before the first error of the answer.
    """
    keys = [(pair.source.tobytes(), pair.target.tobytes()) for pair in pairs]
    counts = Counter(keys)
    answered = {key[0]: counts[key] for key, share in zip(keys, fine, strict=True) if share == 1}
    return np.array([answered.get(key[0], 0) >= MUCH_RARER * counts[key] for key in keys], np.bool_)
