"""Coarse and fine accuracy (grefenstette2015, section 4.4), and that of symbols.

Until its first error a greedy decoder has read exactly the true prefix, so both
scores come out of one pass over the true joint sequences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stacktrans.sequences import Batch, Ids, Layout, Pair, Stream
from stacktrans.transducer import Transducer

STEPS_AT_ONCE = 2**16
"""Steps of all strings of a batch, however few they are."""
SEQUENCES_IN_A_STREAM = 200
"""How many sequences of a stream are measured one after another, as in joulin2015."""
STEPS_IN_A_PIECE = 2**13
"""Steps of all strings of a batch that are run at once: few enough to stay in a cache."""


@dataclass(frozen=True)
class Scores:
    """How n strings were transduced.

    Attributes:
        lengths: [n] source lengths.
        fine: [n] share of what is scored of the target, `</s>` included, before the first error.
        right: [n] how many of the scored symbols are right.
        scored: [n] how many there are.
        differing: [n] of a model that is run hard, at how many of them it says something else
            than when it is not; zeros of any other.
    """

    lengths: npt.NDArray[np.int64]
    fine: npt.NDArray[np.float64]
    right: npt.NDArray[np.int64]
    scored: npt.NDArray[np.int64]
    differing: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of strings."""
        return len(self.lengths)

    @property
    def wrong(self) -> int:
        """Number of strings with an error."""
        return int((self.fine < 1).sum())

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
        """Share of all scored symbols where a model run hard says something else than soft."""
        return float(self.differing.sum() / max(self.scored.sum(), 1))

    def of_lengths(self, shortest: int, longest: int) -> "Scores":
        """The scores of the strings within a range of lengths."""
        chosen = (self.lengths >= shortest) & (self.lengths <= longest)
        return Scores(*(numbers[chosen] for numbers in self._all()))

    def __add__(self, other: "Scores") -> "Scores":
        both = zip(self._all(), other._all(), strict=True)
        return Scores(*(np.concatenate(numbers) for numbers in both))

    def _all(self) -> tuple[npt.NDArray[Any], ...]:
        return self.lengths, self.fine, self.right, self.scored, self.differing


def confidence_interval(accuracy: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share measured on `count` strings.

    For fine accuracy it errs on the wide side: no quantity between 0 and 1
    varies more than a coin with the same mean.
    """
    z = 1.959964
    centre = (accuracy + z * z / (2 * count)) / (1 + z * z / count)
    spread = accuracy * (1 - accuracy) / count + z * z / (4 * count * count)
    half = z * sqrt(spread) / (1 + z * z / count)
    return max(0.0, centre - half), min(1.0, centre + half)


def batches_of(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Group indices of items of similar size, so that count times largest size stays within `most`.

    An item larger than `most` gets a group of its own.
    """
    group: list[int] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        if group and (len(group) + 1) * sizes[index] > most:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


@torch.no_grad()
def score(model: Transducer, layout: Layout, pairs: Sequence[Pair]) -> Scores:
    """Score a model's greedy answers.

    Args:
        model: a trained transducer.
        layout: how pairs become sequences.
        pairs: sources with their true targets.

    Returns:
        The scores, in the order of the pairs. The sequences of a stream follow one another as in
        training, those of one length together, up to `SEQUENCES_IN_A_STREAM`: what a model
        leaves behind of one can spoil the next.
    """
    if isinstance(layout, Stream):
        return _score_streams(model, layout, pairs)
    fine = np.zeros(len(pairs))
    right, scored, differing = np.zeros((3, len(pairs)), dtype=np.int64)
    steps = [model.steps_over(layout.steps(pair)) for pair in pairs]
    for group in batches_of(steps, STEPS_AT_ONCE):
        batch = layout.batch([pairs[index] for index in group])
        said = predicted(model, batch)
        correct = (said == batch.targets) & batch.mask
        differing[group] = _differing(model, batch, said).sum(axis=1)
        wrong_before = np.cumsum(batch.mask & ~correct, axis=1) > 0
        scored[group], right[group] = batch.mask.sum(axis=1), correct.sum(axis=1)
        # Where nothing is scored, nothing is wrong.
        shares = (correct & ~wrong_before).sum(axis=1) / np.maximum(scored[group], 1)
        fine[group] = np.where(scored[group] > 0, shares, 1.0)
    lengths = np.array([pair.length for pair in pairs], dtype=np.int64)
    return Scores(lengths, fine, right, scored, differing)


def _score_streams(model: Transducer, layout: Stream, pairs: Sequence[Pair]) -> Scores:
    streams = _streams(pairs)
    fine = np.zeros(len(pairs))
    right, scored, differing = np.zeros((3, len(pairs)), dtype=np.int64)
    sizes = [sum(layout.steps(pairs[index]) for index in stream) for stream in streams]
    for group in batches_of(sizes, STEPS_AT_ONCE):
        batch = layout.joined([[pairs[index] for index in streams[row]] for row in group])
        said = predicted(model, batch)
        correct = (said == batch.targets) & batch.mask
        different = _differing(model, batch, said)
        for row, stream in enumerate(group):
            begin = 0
            for index in streams[stream]:
                end = begin + layout.steps(pairs[index])
                own = correct[row, begin:end][batch.mask[row, begin:end]]
                fine[index], right[index], scored[index] = _fine(own), own.sum(), len(own)
                differing[index] = different[row, begin:end].sum()
                begin = end
    lengths = np.array([pair.length for pair in pairs], dtype=np.int64)
    return Scores(lengths, fine, right, scored, differing)


def _differing(model: Transducer, batch: Batch, said: Ids) -> npt.NDArray[np.bool_]:
    """Where a model that is run hard says something else than soft, of what is scored."""
    if not model.hard:
        return np.zeros_like(batch.mask)
    model.hard = False
    try:
        different: npt.NDArray[np.bool_] = (predicted(model, batch) != said) & batch.mask
    finally:
        model.hard = True
    return different


@torch.no_grad()
def cross_entropy(
    model: Transducer, layout: Stream, pairs: Sequence[Pair], everything: bool
) -> float:
    """Mean nats a scored symbol of streams, which are made up as for `score`.

    Args:
        model: a transducer.
        layout: of the stream.
        pairs: its sequences.
        everything: whether every symbol is scored, and not only what can be known.
    """
    total, count = 0.0, 0
    streams = _streams(pairs)
    sizes = [sum(layout.steps(pairs[index]) for index in stream) for stream in streams]
    for group in batches_of(sizes, STEPS_AT_ONCE):
        rows = [[pairs[index] for index in streams[row]] for row in group]
        batch = layout.joined(rows, everything)
        inputs, targets, mask = (
            torch.from_numpy(part) for part in (batch.inputs, batch.targets, batch.mask)
        )
        device = model.classifier.weight.device
        hidden = model.start(len(group)).step(inputs.to(device)).hidden
        logits = model.read_out(hidden[mask.to(device)])
        scored = targets[mask].to(device)
        total += float(torch.nn.functional.cross_entropy(logits, scored, reduction="sum"))
        count += len(scored)
    return total / max(count, 1)


def _streams(pairs: Sequence[Pair]) -> list[list[int]]:
    """Which sequences follow one another: those of one length, in their order."""
    by_length: dict[int, list[int]] = {}
    for index, pair in enumerate(pairs):
        by_length.setdefault(pair.length, []).append(index)
    size = SEQUENCES_IN_A_STREAM
    return [
        same[start : start + size]
        for same in by_length.values()
        for start in range(0, len(same), size)
    ]


def _fine(correct: npt.NDArray[np.bool_]) -> float:
    """The share before the first error."""
    if correct.all():
        return 1.0
    return float(correct.argmin() / len(correct))


@torch.no_grad()
def predicted(model: Transducer, batch: Batch) -> Ids:
    """The most probable outputs [B, T]; 0 where nothing is scored."""
    device = model.classifier.weight.device
    inputs, mask = (torch.from_numpy(array).to(device) for array in (batch.inputs, batch.mask))
    predicted = torch.zeros_like(inputs)
    if model.config.buffered:
        logits = model.logits(model.unroll(inputs, batch.lengths), mask)
        predicted[mask] = logits.argmax(dim=-1)
        whole: Ids = predicted.cpu().numpy()
        return whole
    run = model.start(len(inputs))
    # In pieces, since what is known of a step takes far more room than its id.
    size = max(1, STEPS_IN_A_PIECE // len(inputs))
    for begin in range(0, inputs.shape[1], size):
        piece = slice(begin, begin + size)
        hidden = run.step(inputs[:, piece]).hidden
        scored = mask[:, piece]
        predicted[:, piece][scored] = _most_probable(model, hidden[scored])
    ids: Ids = predicted.cpu().numpy()
    return ids


def _most_probable(model: Transducer, hidden: Tensor) -> Tensor:
    # In pieces: logits are far larger than the states they are read from.
    return torch.cat([model.read_out(part).argmax(dim=-1) for part in hidden.split(16_384)])
