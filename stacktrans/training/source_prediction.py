"""What a model learns besides its answers: which symbol of a source comes next."""

from typing import cast

import torch
from torch import Tensor, nn

from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.layouts import Batch


class SourcePrediction(nn.Module):
    """A classifier over a model's own read-out, which is trained with it and not kept.

    An answer of a symbol tells little of what a source should have been remembered by. A source
    that repeats itself tells that at each of its symbols, and what has been learned by that is
    there for the answer.

    Args:
        model: of which sources it is to predict the symbols.
    """

    def __init__(self, model: Transducer) -> None:
        super().__init__()
        self.classifier = nn.Linear(model.classifier.in_features, model.inputs)

    def forward(self, model: Transducer, batch: Batch, unrolled: Unrolled) -> Tensor:
        """The mean cross-entropy, in nats, of what is read after each symbol of a source: [].

        Args:
            model: what was run.
            batch: of sources that are followed by their targets, over which it was run.
            unrolled: what came of that.
        """
        inputs = torch.from_numpy(batch.inputs)
        # All before the first symbol of a target, which the model is trained to say.
        reading = ~torch.from_numpy(batch.mask)
        reading &= torch.arange(inputs.shape[1]) < torch.tensor(batch.lengths).unsqueeze(1)
        shown = model.output(unrolled.hidden[reading.to(unrolled.hidden.device)])
        following = inputs.roll(-1, dims=1)[reading].to(shown.device)
        return nn.functional.cross_entropy(cast(Tensor, self.classifier(shown)), following)
