"""Transducing strings: greedy decoding, and targets that are as long as their sources."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from stacktrans.model.transducer import Transducer
from stacktrans.tasks.layouts import Ids, InStep, JointSequence, Layout, Stream

NO_SYMBOL = -1
"""The absence of a symbol, among ids."""
STEPS_AT_ONCE = 2**16
"""Steps of all strings of a batch, however few they are."""
PIECE = 1024
"""Steps of a source that are run at once."""


@dataclass(frozen=True)
class Answer:
    """A model's answer to a source.

    Attributes:
        target: the target symbols' ids.
        log_probability: of the whole answer, `</s>` included, in nats.
        ended: whether the model ended it; otherwise it was cut off.
    """

    target: list[int]
    log_probability: float
    ended: bool


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
def transduce(
    model: Transducer, layout: Layout, sources: Sequence[Ids], limit: int | None = None
) -> list[Answer]:
    """The greedy answers to sources, in their order.

    An answer has at most `limit` symbols, or the layout's usual number unless given; where answers
    are given in step with sources, the limit is ignored.
    """
    answers: dict[int, Answer] = {}
    if isinstance(layout, InStep):
        read = [layout.read(source) for source in sources]
        sizes = [model.steps_over(len(each)) for each in read]
        for group in batches_of(sizes, STEPS_AT_ONCE):
            found = _in_step(model, layout, [read[index] for index in group])
            answers.update(zip(group, found, strict=True))
    else:
        assert isinstance(layout, JointSequence | Stream)
        limits = [layout.longest_answer(len(source), limit) for source in sources]
        sizes = [len(source) + most + 2 for source, most in zip(sources, limits, strict=True)]
        for group in batches_of(sizes, STEPS_AT_ONCE):
            for length in {len(sources[index]) for index in group}:
                same = [index for index in group if len(sources[index]) == length]
                found = _decode(model, layout, [sources[index] for index in same], limits[same[0]])
                answers.update(zip(same, found, strict=True))
    return [answers[index] for index in range(len(sources))]


def _in_step(model: Transducer, layout: InStep, read: list[Ids]) -> list[Answer]:
    """Answers in what is said with a symbol for each symbol read."""
    lengths = [len(each) for each in read]
    if not any(lengths):
        return [Answer([], 0.0, ended=True) for _ in read]
    inputs = pad_sequence([torch.from_numpy(each) for each in read], batch_first=True)
    inputs = inputs.to(model.classifier.weight.device)
    if model.config.buffers:
        everything = torch.ones_like(inputs, dtype=torch.bool)
        logits = model.logits(model.unroll(inputs, lengths), everything)
        said = [likeliest(logits.view(*inputs.shape, -1))]
    else:
        run = model.start(len(inputs))
        pieces = inputs.split(PIECE, dim=1)
        said = [likeliest(model.read_out(run.step(piece).hidden)) for piece in pieces]
    symbols, probabilities = (torch.cat(parts, dim=1) for parts in zip(*said, strict=True))
    answers = []
    for row, log, length in zip(symbols.cpu().numpy(), probabilities, lengths, strict=True):
        target, ended = layout.answered(row[:length])
        scored = len(target) + (len(target) < length)  # the end of an answer included
        total = float(log[:scored].sum(dtype=torch.float64))
        answers.append(Answer(target.tolist(), total, ended))
    return answers


def likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable outputs [...] and the logarithms of their probabilities, of [..., n]."""
    best = torch.log_softmax(logits, dim=-1).max(dim=-1)
    return best.indices, best.values


def _decode(
    model: Transducer, layout: JointSequence | Stream, sources: list[Ids], limit: int
) -> list[Answer]:
    """Greedy answers to sources of one length, decoded side by side."""
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
    endless = end == last  # neither exists
    return [
        Answer([symbol for symbol in row if symbol != NO_SYMBOL], log_probability, endless or ended)
        for row, log_probability, ended in zip(
            torch.stack(symbols, dim=1).tolist(), total.tolist(), (~running).tolist(), strict=True
        )
    ]
