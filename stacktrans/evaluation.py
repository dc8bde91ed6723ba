"""Coarse and fine accuracy (grefenstette2015, section 4.4).

Until its first error a greedy decoder has read exactly the true prefix, so both
scores come out of one pass over the true joint sequences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stacktrans.sequences import Batch, Ids, JointSequence, Pair
from stacktrans.transducer import Transducer

STEPS_AT_ONCE = 2**16
"""Steps of all strings of a batch, however few they are."""
STEPS_IN_A_PIECE = 2**13
"""Steps of all strings of a batch that are run at once: few enough to stay in a cache."""


@dataclass(frozen=True)
class Scores:
    """How n strings were transduced.

    Attributes:
        lengths: [n] source lengths.
        fine: [n] share of the target, `</s>` included, before the first error.
    """

    lengths: npt.NDArray[np.int64]
    fine: npt.NDArray[np.float64]

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

    def of_lengths(self, shortest: int, longest: int) -> "Scores":
        """The scores of the strings within a range of lengths."""
        chosen = (self.lengths >= shortest) & (self.lengths <= longest)
        return Scores(self.lengths[chosen], self.fine[chosen])

    def __add__(self, other: "Scores") -> "Scores":
        return Scores(
            np.concatenate([self.lengths, other.lengths]), np.concatenate([self.fine, other.fine])
        )


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
def score(model: Transducer, layout: JointSequence, pairs: Sequence[Pair]) -> Scores:
    """Score a model's greedy answers.

    Args:
        model: a trained transducer.
        layout: how pairs become sequences.
        pairs: sources with their true targets.

    Returns:
        The scores, in the order of the pairs.
    """
    fine = np.zeros(len(pairs))
    for group in batches_of([layout.steps(pair) for pair in pairs], STEPS_AT_ONCE):
        fine[group] = _fine(model, layout, [pairs[index] for index in group])
    return Scores(np.array([len(pair.source) for pair in pairs], dtype=np.int64), fine)


def _fine(model: Transducer, layout: JointSequence, pairs: list[Pair]) -> npt.NDArray[np.float64]:
    batch = layout.batch(pairs)
    wrong = (_predicted(model, batch) != batch.targets) & batch.mask
    right = batch.mask & (np.cumsum(wrong, axis=1) == 0)
    shares: npt.NDArray[np.float64] = right.sum(axis=1) / batch.mask.sum(axis=1)
    return shares


def _predicted(model: Transducer, batch: Batch) -> Ids:
    """The most probable outputs [B, T]; 0 where nothing is scored."""
    device = model.classifier.weight.device
    inputs, mask = (torch.from_numpy(array).to(device) for array in (batch.inputs, batch.mask))
    predicted = torch.zeros_like(inputs)
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
