"""The loss of a batch: cross-entropy, penalties on signals, and an auxiliary loss on sources."""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from stacktrans.memory.buffers import buffer_penalty
from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import BUFFER_SIGNALS
from stacktrans.tasks.encoding import Batch


class Objective(NamedTuple):
    """The terms of the loss of a batch.

    Attributes:
        minimized: [] loss that is minimized, with its gradients.
        loss: [] cross-entropy in nats, summed over all scored symbols.
        scored: number of scored symbols; 1 if there are none.
        signals: [steps, signals] of all steps of all strings.
    """

    minimized: Tensor
    loss: Tensor
    scored: int
    signals: Tensor


def indecision(strengths: Tensor) -> Tensor:
    """The mean of s (1 - s), which is 0 where every strength is 0 or 1; 0 for no strengths."""
    return (strengths * (1 - strengths)).sum() / max(strengths.numel(), 1)


def objective(
    model: Transducer, config: RunConfig, batch: Batch, unrolled: Unrolled, settled: bool
) -> Objective:
    """The loss of a batch: cross-entropy, plus penalties on undecided signals.

    The signals of buffers are always penalized; once `settled`, all signals are, if configured.
    """
    training, device = config.training, unrolled.signals.device
    targets, mask = (torch.from_numpy(array).to(device) for array in (batch.targets, batch.mask))
    logits = model.logits(unrolled, mask)
    loss = nn.functional.cross_entropy(logits, targets[mask], reduction="sum")
    scored = max(len(logits), 1)
    # Shorter strings are padded.
    lengths = torch.tensor(unrolled.steps or batch.lengths).unsqueeze(1)
    steps = torch.arange(unrolled.signals.shape[1]) < lengths
    signals = unrolled.signals[steps.to(device)]
    units = {"symbol": scored, "string": len(batch.lengths), "batch": 1}
    minimized = loss / units[training.loss_per]
    if settled and training.settle and training.settle.sharpening:
        minimized = minimized + training.settle.sharpening * indecision(signals)
    if config.model.buffers:
        minimized = minimized + buffer_penalty(signals[:, -len(BUFFER_SIGNALS) :])
    return Objective(minimized, loss.detach(), scored, signals)


class SourcePrediction(nn.Module):
    """An auxiliary classifier that predicts each next symbol of a source, and is not kept.

    An answer of one symbol says little about what to remember of a source. A source that repeats
    itself shows it at each of its symbols, and what is learned from these serves the answer.

    Args:
        model: the model of whose sources it predicts the symbols, from the model's own read-out.
    """

    def __init__(self, model: Transducer) -> None:
        super().__init__()
        self.classifier = nn.Linear(model.classifier.in_features, model.inputs)

    def forward(self, model: Transducer, batch: Batch, unrolled: Unrolled) -> Tensor:
        """The mean cross-entropy, in nats, of the next symbols of sources: [].

        Args:
            model: the model that was run.
            batch: sources that are followed by their targets, over which it was run.
            unrolled: the result of the run.
        """
        inputs = torch.from_numpy(batch.inputs)
        # All steps before the first symbol of a target, which the model itself learns to predict.
        reading = ~torch.from_numpy(batch.mask)
        reading &= torch.arange(inputs.shape[1]) < torch.tensor(batch.lengths).unsqueeze(1)
        outputs = model.output(unrolled.hidden[reading.to(unrolled.hidden.device)])
        following = inputs.roll(-1, dims=1)[reading].to(outputs.device)
        return nn.functional.cross_entropy(cast(Tensor, self.classifier(outputs)), following)
