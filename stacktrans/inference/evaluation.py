"""Coarse and fine accuracy (grefenstette2015, section 4.4) and symbol accuracy.

Until its first error a greedy decoder has read exactly the true prefix, so both
scores come out of one pass over the true joint sequences.
"""

import contextlib
import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stacktrans.common.errors import UsageError
from stacktrans.common.ragged import STEPS_AT_ONCE, Ragged, batches_of, starts_of
from stacktrans.common.randomness import Purpose, generator
from stacktrans.decoding.decoder import STEPS_IN_A_PIECE, log_softmax, predict, steps_over
from stacktrans.decoding.model import Numbers
from stacktrans.inference.predictions import predictions
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.predictor import Predictor
from stacktrans.settings.config import TaskConfig
from stacktrans.tasks.alphabets import UNSAYABLE, Ids
from stacktrans.tasks.base import DepthLimit, LengthLaw, Lengths, NoSuchLength, Task, test_pairs
from stacktrans.tasks.layout import Batch, Layout, Pair, sequences_of

BLOCK = 250
"""Strings that are drawn and measured at once, so that no more are held."""


@dataclass(frozen=True)
class Scores:
    """How n strings were transduced.

    Attributes:
        lengths: [n] source lengths.
        fine: [n] share of what is scored of the target, `</s>` included, before the first error.
        right: [n] how many of the scored symbols are right.
        scored: [n] how many there are.
        differing: [n] of a model that is run hard, how many of them differ from its soft answer;
            zeros of any other, and where that was not asked.
        predictions: [n] what the model says to each source of its own accord, as `Prediction`s;
            None where that was not asked.
        name: of the set that they belong to; empty for others.
        unknown: [n] which have symbols that the model does not know, and so are wrong; None where
            that was not asked.
    """

    lengths: npt.NDArray[np.int64]
    fine: npt.NDArray[np.float64]
    right: npt.NDArray[np.int64]
    scored: npt.NDArray[np.int64]
    differing: npt.NDArray[np.int64]
    predictions: npt.NDArray[np.object_] | None = None
    name: str = ""
    unknown: npt.NDArray[np.bool_] | None = None

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
        """Share of strings that are right from first to last."""
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
    def differing_share(self) -> float:
        """Share of all scored symbols at which the hard model differs from the soft one."""
        return float(self.differing.sum() / max(self.scored.sum(), 1))

    @property
    def symbol_error_rate(self) -> float | None:
        """Edits that make all answers their targets, a symbol of these; None without answers."""
        if self.predictions is None:
            return None
        edits: int = sum(each.edits for each in self.predictions)
        symbols: int = sum(each.symbols for each in self.predictions)
        return edits / max(symbols, 1)

    def by_length(self) -> dict[int, "Scores"]:
        """The scores of the strings of each length, the shortest first."""
        return {each: self.of_lengths(each, each) for each in sorted(set(self.lengths.tolist()))}

    def of_lengths(self, shortest: int, longest: int) -> "Scores":
        """The scores of the strings within a range of lengths."""
        return self.of((self.lengths >= shortest) & (self.lengths <= longest))

    def of(self, chosen: npt.NDArray[np.bool_]) -> "Scores":
        """The scores of some strings: [n] whether each is one of them."""
        parts: dict[str, Any] = {name: part[chosen] for name, part in self._parts().items()}
        return replace(self, **parts)

    def __add__(self, other: "Scores") -> "Scores":
        both = other._parts()
        own = self._parts()
        parts: dict[str, Any] = {name: np.concatenate([own[name], both[name]]) for name in own}
        return replace(self, **parts)

    def _parts(self) -> dict[str, npt.NDArray[Any]]:
        """What there is of each string, by its name."""
        parts = {name: part for name, part in vars(self).items() if name != "name"}
        return {name: part for name, part in parts.items() if part is not None}


def score(
    model: Predictor, layout: Layout, pairs: Sequence[Pair], beside_soft: bool = False
) -> Scores:
    """The scores of a model's greedy answers to pairs of sources and targets, in their order.

    In a stream, pairs follow one another: what a model leaves behind of one can spoil the next.
    With `beside_soft`, one that is run hard is run soft, too, which takes as long again.

    Raises:
        ValueError: a buffered model would find its answers in what it reads.
    """
    if model.buffers and layout.feeds_back:
        raise ValueError("a buffered model needs a synchronous layout")
    fine = np.zeros(len(pairs))
    right, scored, differing = np.zeros((3, len(pairs)), dtype=np.int64)
    for rows, batch in _batches(model, layout, pairs):
        outputs = predicted(model, batch)
        correct = outputs == batch.targets
        different = _differing(model, batch, outputs) if beside_soft else np.zeros_like(correct)
        for row, indices in enumerate(rows):
            begin = 0
            for index in indices:
                own = np.s_[row, begin : begin + layout.steps(pairs[index])]
                found = correct[own][batch.mask[own]]
                right[index], scored[index] = found.sum(), len(found)
                # The share before the first error; where nothing is scored, nothing is wrong.
                fine[index] = 1 if found.all() else found.argmin() / len(found)
                differing[index] = different[own].sum()
                begin += layout.steps(pairs[index])
    for index, pair in enumerate(pairs):
        if not pair.known:
            scored[index] = layout.example([pair])[2].sum()
    lengths = np.array([pair.length for pair in pairs], dtype=np.int64)
    return Scores(lengths, fine, right, scored, differing)


def _scores(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> Scores:
    """As `score`, with all that can be said of them."""
    scores = score(checkpoint.predictor, checkpoint.layout, pairs, beside_soft=True)
    unknown = [not pair.known or UNSAYABLE in pair.target for pair in pairs]
    return replace(scores, unknown=np.array(unknown, np.bool_))


def with_predictions(
    checkpoint: Checkpoint, pairs: Sequence[Pair], scores: Scores, beam: int | None
) -> Scores:
    """The scores of pairs with what the model says to each source, searched with a beam.

    A greedy answer is known where no error was found; but in a stream, where pairs follow one
    another, and each is answered by itself. With a beam wider than 1, coarse and fine accuracy are
    those of the answers, too. Without a beam nothing is asked.
    """
    if beam is None:
        return scores
    greedy = beam == 1 or not checkpoint.layout.feeds_back
    known = (scores.fine == 1) & (greedy and not checkpoint.layout.consecutive)
    found = np.empty(len(pairs), dtype=np.object_)
    found[:] = predictions(checkpoint, pairs, known, beam)
    fine = scores.fine if greedy else np.array([each.fine for each in found])
    return replace(scores, fine=fine, predictions=found)


def _batches(
    model: Predictor, layout: Layout, pairs: Sequence[Pair], everything: bool = False
) -> Iterator[tuple[list[list[int]], Batch]]:
    """Batches of rows of similar length, and which known pairs follow one another in each row."""
    known = ([index for index in row if pairs[index].known] for row in sequences_of(layout, pairs))
    rows = [row for row in known if row]
    sizes = [sum(layout.steps(pairs[index]) for index in row) for row in rows]
    if model.buffers:
        sizes = steps_over(model.buffers, np.array(sizes, np.int64)).tolist()
    for group in batches_of(sizes, STEPS_AT_ONCE):
        chosen = [rows[row] for row in group]
        yield chosen, layout.batch([[pairs[index] for index in row] for row in chosen], everything)


def _differing(model: Predictor, batch: Batch, said: Ids) -> npt.NDArray[np.bool_]:
    """Where, of what is scored, a model that is run hard differs from itself run soft."""
    if not model.hard:
        return np.zeros_like(batch.mask)
    different: npt.NDArray[np.bool_] = predicted(model.made_hard(False), batch) != said
    return different & batch.mask


def cross_entropy(model: Predictor, layout: Layout, pairs: Sequence[Pair]) -> float:
    """Mean nats a symbol of pairs, which follow one another as for `score`; all are scored."""
    total, count = 0.0, 0
    for _, batch in _batches(model, layout, pairs, everything=True):
        state, steps = model.start(len(batch.inputs)), batch.inputs.shape[1]
        size = max(1, STEPS_IN_A_PIECE // len(batch.inputs))
        for piece in (np.s_[:, start : start + size] for start in range(0, steps, size)):
            asked = batch.mask[piece]
            logits = model.advance(state, batch.inputs[piece], asked)
            total += nats(logits, batch.targets[piece][asked])
            count += len(logits)
    return total / max(count, 1)


def nats(logits: Numbers, targets: Ids) -> float:
    """Minus the logarithm of the probability of outputs [n], by their logits, [n, outputs]."""
    logs = log_softmax(logits)
    return -float(logs[np.arange(len(targets)), targets].sum(dtype=np.float64))


def predicted(model: Predictor, batch: Batch) -> Ids:
    """The most probable outputs [B, T]; 0 where nothing is scored, negative where there is none."""
    lengths = np.array(batch.lengths, np.int64)
    there = np.arange(batch.inputs.shape[1]) < lengths[:, None]
    rows, asked = (Ragged(part[there], starts_of(lengths)) for part in (batch.inputs, batch.mask))
    found = np.zeros_like(batch.inputs)
    found[batch.mask] = predict(model, rows, asked, logs=False).symbols.values
    return found


def ranges(
    config: TaskConfig,
    task: Task,
    bounds: Sequence[Lengths],
    usual: Sequence[Lengths],
    depth: int | None,
) -> list[tuple[Lengths, LengthLaw]]:
    """Ranges of lengths, each with how they are spread: those asked for, or else the usual."""
    if depth is None:
        return [(range_, config.law_of(range_)) for range_ in bounds or usual]
    law = DepthLimit(depth)
    return [(range_, law) for range_ in bounds or [task.lengths_within(law)]]


def scores_of_range(
    checkpoint: Checkpoint,
    lengths: Lengths,
    law: LengthLaw,
    count: int | None,
    seed: int,
    each: bool = False,
    beam: int | None = None,
) -> Scores:
    """The scores of `count` strings that are drawn from a range, 1000 unless given.

    With `each`, of `count` strings of every length in it that the task has, 100 unless given. Of
    pairs in files, those of the test set are measured, as many as there are unless given.
    With a beam, see `with_predictions`.

    Raises:
        NoSuchLength: the task has no string of such a length.
    """
    if checkpoint.task.paths:
        own = test_pairs(checkpoint.task, lengths)[:count]
        return with_predictions(checkpoint, own, _scores(checkpoint, own), beam)
    count = count or (100 if each else 1000)
    every = range(lengths.shortest, lengths.longest + 1)
    found, drawn = [], []
    for part in [Lengths(length, length) for length in every] if each else [lengths]:
        with contextlib.suppress(NoSuchLength) if each else contextlib.nullcontext():
            for start in range(0, count, BLOCK):
                rng = generator(seed, Purpose.EVALUATION, start)
                pairs = checkpoint.task.sample(rng, part, min(BLOCK, count - start), law)
                found.append(_scores(checkpoint, pairs))
                drawn += pairs if beam else []
    if not found:
        raise NoSuchLength(f"the task has no length in {lengths}")
    return with_predictions(checkpoint, drawn, functools.reduce(operator.add, found), beam)


def scores_of_sets(
    checkpoint: Checkpoint,
    bounds: Sequence[Lengths],
    count: int | None,
    beam: int | None = None,
    only: str | None = None,
) -> list[tuple[Lengths, Scores]]:
    """The scores of the pairs of each set that was not trained on, the first `count` if given.

    Each is parted by ranges of lengths, if any are given, of which those that it lacks are left
    out; then of each the first `count` are measured. With `only`, one of the sets is.

    Raises:
        UsageError: the files of the sets can't be read, or are not what they were.
        NoSuchLength: none has a pair of such lengths.
    """
    found = []
    for name, pairs in checkpoint.task.kept_apart().items():
        if name != (only or name):
            continue
        for range_ in bounds or [_lengths_of(pairs[:count])]:
            if own := _within(pairs, range_, count):
                scores = replace(_scores(checkpoint, own), name=name)
                found.append((range_, with_predictions(checkpoint, own, scores, beam)))
    if not found:
        raise NoSuchLength(f"no pair that is kept apart has a length in {bounds[0]}")
    return found


def _within(pairs: Sequence[Pair], range_: Lengths, count: int | None) -> list[Pair]:
    """The first `count` pairs of some lengths."""
    own = (pair for pair in pairs if range_.shortest <= pair.length <= range_.longest)
    return [*itertools.islice(own, count)]


def _lengths_of(pairs: Sequence[Pair]) -> Lengths:
    lengths = [pair.length for pair in pairs]
    return Lengths(min(lengths), max(lengths))


def scores_of_pairs(
    checkpoint: Checkpoint,
    pairs: Sequence[Pair],
    bounds: Sequence[Lengths],
    name: str,
    count: int | None = None,
    beam: int | None = None,
) -> list[tuple[Lengths, Scores]]:
    """The scores of pairs, by ranges of lengths, of each the first `count` if given.

    They are of one range if none is given. With a beam, see `with_predictions`.

    Raises:
        UsageError: there are none, or none of some range; the message begins with their name.
    """
    if not pairs:
        raise UsageError(f"{name}: no pairs")
    results = []
    for range_ in bounds or [_lengths_of(pairs[:count])]:
        own = _within(pairs, range_, count)
        if not own:
            raise UsageError(f"lengths {range_}: {name} has no source of such a length")
        scores = _scores(checkpoint, own)
        results.append((range_, with_predictions(checkpoint, own, scores, beam)))
    return results
