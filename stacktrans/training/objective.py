"""What training minimises: cross-entropy, and what undecided or idle signals cost."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stacktrans.memory.buffers import buffer_penalty
from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import BUFFER_SIGNALS, RunConfig
from stacktrans.tasks.layouts import Batch


@dataclass(frozen=True)
class Objective:
    """What came of a batch.

    Attributes:
        minimised: [] the sum that is minimised, with its gradients.
        loss: [] cross-entropy in nats, the sum over all symbols that count.
        scored: how many they are; 1 if there are none.
        signals: [steps, signals] the strengths of all strings' steps.
    """

    minimised: Tensor
    loss: Tensor
    scored: int
    signals: Tensor


def indecision(strengths: Tensor) -> Tensor:
    """The mean of s (1 - s), which is 0 where every strength is 0 or 1; 0 for no strengths."""
    return (strengths * (1 - strengths)).sum() / max(strengths.numel(), 1)


def objective(
    model: Transducer, config: RunConfig, batch: Batch, unrolled: Unrolled, settled: bool
) -> Objective:
    """The objective of one batch.

    Args:
        model: what was run.
        config: of the run.
        batch: what it was run over.
        unrolled: what came of it.
        settled: whether the loss is so low that signals are to be sharpened.
    """
    training = config.training
    device = unrolled.signals.device
    targets, mask = (torch.from_numpy(each).to(device) for each in (batch.targets, batch.mask))
    logits = model.logits(unrolled, mask)
    loss = nn.functional.cross_entropy(logits, targets[mask], reduction="sum")
    scored = max(len(logits), 1)
    signals = _of_strings(batch, unrolled)
    shares = {"symbol": scored, "string": len(batch.lengths), "batch": 1}
    minimised = loss / shares[training.loss_per]
    if settled and training.settle and training.settle.sharpening:
        minimised = minimised + training.settle.sharpening * indecision(signals)
    if config.model.buffers:
        minimised = minimised + buffer_penalty(signals[:, -len(BUFFER_SIGNALS) :])
    return Objective(minimised, loss.detach(), scored, signals)


def _of_strings(batch: Batch, unrolled: Unrolled) -> Tensor:
    """The signals of the steps that strings have; shorter ones are padded."""
    taken = torch.tensor(unrolled.steps or batch.lengths).unsqueeze(1)
    steps = torch.arange(unrolled.signals.shape[1]) < taken
    return unrolled.signals[steps.to(unrolled.signals.device)]
