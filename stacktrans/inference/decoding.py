"""Transducing strings: greedy decoding, and targets that are as long as their sources."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stacktrans.inference.evaluation import NO_SYMBOL, STEPS_AT_ONCE, batches_of
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.layouts import Ids, JointSequence, Layout, SameLength, Stream

PIECE = 1024
"""Steps of a source that are run at once."""


@dataclass(frozen=True)
class Answer:
    """What a model makes of a source.

    Attributes:
        target: the target symbols' ids.
        log_probability: of the whole answer, `</s>` included, in nats.
        ended: whether the model ended it; otherwise it was cut off.
    """

    target: list[int]
    log_probability: float
    ended: bool


@torch.no_grad()
def transduce(
    model: Transducer, layout: Layout, sources: Sequence[Ids], limit: int | None = None
) -> list[Answer]:
    """The greedy answers to sources, in their order.

    Args:
        model: a trained transducer.
        layout: how sources and targets become one sequence.
        sources: ids of source symbols.
        limit: the most target symbols; None for what is usual in the layout; of no use where a
            target is as long as its source.
    """
    answers: dict[int, Answer] = {}
    if isinstance(layout, SameLength):
        sizes = [model.steps_over(len(source)) for source in sources]
        for group in batches_of(sizes, STEPS_AT_ONCE):
            found = _in_step(model, [sources[index] for index in group])
            answers.update(zip(group, found, strict=True))
        return [answers[index] for index in range(len(sources))]
    if not isinstance(layout, JointSequence | Stream):
        raise TypeError(f"no answers are known for {type(layout).__name__}")
    limits = [layout.longest_answer(len(source), limit) for source in sources]
    sizes = [len(source) + most + 2 for source, most in zip(sources, limits, strict=True)]
    for group in batches_of(sizes, STEPS_AT_ONCE):
        for length in {len(sources[index]) for index in group}:
            same = [index for index in group if len(sources[index]) == length]
            decoded = _decode(model, layout, [sources[index] for index in same], limits[same[0]])
            answers.update(zip(same, decoded, strict=True))
    return [answers[index] for index in range(len(sources))]


def _in_step(model: Transducer, sources: list[Ids]) -> list[Answer]:
    """A symbol for each symbol."""
    lengths = [len(source) for source in sources]
    if not any(lengths):
        return [Answer([], 0.0, ended=True) for _ in sources]
    inputs = torch.zeros(len(sources), max(lengths), dtype=torch.int64)
    for row, source in zip(inputs, sources, strict=True):
        row[: len(source)] = torch.from_numpy(source)
    inputs = inputs.to(model.classifier.weight.device)
    said = list(_said(model, inputs, lengths))
    symbols, probabilities = (torch.cat(parts, dim=1) for parts in zip(*said, strict=True))
    return [
        Answer(row[:length].tolist(), float(log[:length].sum(dtype=torch.float64)), ended=True)
        for row, log, length in zip(symbols, probabilities, lengths, strict=True)
    ]


def _said(
    model: Transducer, inputs: Tensor, lengths: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor]]:
    """The most probable symbols of some of the steps, and the logarithms of their probabilities."""
    everything = torch.ones_like(inputs, dtype=torch.bool)
    if model.config.buffers:
        logits = model.logits(model.unroll(inputs, lengths), everything)
        yield likeliest(logits.view(*inputs.shape, -1))
        return
    run = model.start(len(inputs))
    for piece in inputs.split(PIECE, dim=1):
        yield likeliest(model.read_out(run.step(piece).hidden))


def likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable outputs [...] and the logarithms of their probabilities, of [..., n]."""
    best = torch.log_softmax(logits, dim=-1).max(dim=-1)
    return best.indices, best.values


def _decode(
    model: Transducer, layout: JointSequence | Stream, sources: list[Ids], limit: int
) -> list[Answer]:
    """Greedy answers to sources of one length, which step side by side."""
    device = model.classifier.weight.device
    prefixes = torch.stack([torch.from_numpy(layout.prefix(source)) for source in sources])
    run = model.start(len(sources))
    for piece in prefixes.to(device).split(PIECE, dim=1):
        hidden = run.step(piece).hidden
    running = torch.ones(len(sources), dtype=torch.bool, device=device)
    total = hidden.new_zeros(len(sources), dtype=torch.float64)
    symbols: list[Tensor] = []
    end, last = (NO_SYMBOL if none is None else none for none in (layout.end, layout.last))
    while True:
        logits = model.read_out(hidden[:, -1])
        chosen = logits.argmax(dim=-1)
        probability = torch.log_softmax(logits, dim=-1).gather(1, chosen.unsqueeze(1))
        ending = chosen == end
        counted = running & ((len(symbols) < limit) | ending)
        total += torch.where(counted, probability.squeeze(1), 0.0)
        symbols.append(torch.where(counted & ~ending, chosen, NO_SYMBOL))
        running = running & ~ending & ~((chosen == last) & counted)
        if len(symbols) > limit or not running.any():
            break
        inputs = torch.where(ending, 0, chosen + layout.first_target)
        hidden = run.step(inputs.unsqueeze(1)).hidden
    endless = end == last  # there is neither
    return [
        Answer([symbol for symbol in row if symbol != NO_SYMBOL], log_probability, endless or ended)
        for row, log_probability, ended in zip(
            torch.stack(symbols, dim=1).tolist(), total.tolist(), (~running).tolist(), strict=True
        )
    ]
