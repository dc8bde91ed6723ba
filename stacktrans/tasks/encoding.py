"""Encoding of pairs as the inputs and targets of a model, one by one or in batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.common.ragged import Ragged, concatenate_pairwise, row_starts
from stacktrans.common.visible import counted
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import Layout, Pair

CONSECUTIVE = 200
"""The number of consecutive sequences of a stream that are measured (joulin2015, section 5)."""


class Encoded(NamedTuple):
    """n encoded sequences of pairs.

    Attributes:
        inputs: input ids of each.
        targets: target outputs of each, one for each input.
        scored: masks of the scored outputs.
    """

    inputs: Ragged
    targets: Ragged
    scored: Ragged


@dataclass(frozen=True, slots=True)
class Batch:
    """B encoded sequences, padded on the right to T steps.

    Attributes:
        inputs: [B, T] input ids.
        targets: [B, T] target output ids; 0 at positions that are not scored.
        mask: [B, T] True at the scored positions.
        lengths: [B] number of steps without padding.
    """

    inputs: Ids
    targets: Ids
    mask: Mask
    lengths: list[int]


def encode(layout: Layout, rows: Sequence[Sequence[Pair]], score_all: bool = False) -> Encoded:
    """Encode sequences of pairs, each a single pair, or consecutive ones.

    Args:
        layout: of the task.
        rows: the sequences.
        score_all: whether all symbols of a stream are scored, and not only predictable ones.
    """
    pairs = [pair for row in rows for pair in row]
    encoded = (_targets_after_prompts if layout.feeds_back else _synchronous)(layout, pairs)
    ends = encoded.inputs.starts
    first = row_starts([*map(len, rows)])  # of the pairs of each row, in `pairs`
    inputs, targets, scored = (Ragged(part.values, ends[first]) for part in encoded)
    if layout.consecutive:
        # The last output of a pair is the first input of the pair after it in its row.
        inner = np.delete(ends[:-1], first[:-1][np.diff(first) > 0])
        targets.values[inner - 1] = inputs.values[inner]
        if score_all:
            scored.values[:] = True
            scored.values[scored.starts[1:] - 1] = layout.end is not None
    return Encoded(inputs, targets, scored)


def encode_batch(layout: Layout, rows: Sequence[Sequence[Pair]], score_all: bool = False) -> Batch:
    """Encode several sequences of pairs as a batch; see `encode`."""
    encoded = encode(layout, rows, score_all)
    inputs, targets, mask = (each.padded() for each in encoded)
    return Batch(inputs, targets * mask, mask, encoded.inputs.lengths.tolist())


def steps_of(layout: Layout, pair: Pair) -> int:
    """The number of inputs of a pair."""
    source = len(pair.source)
    if layout.feeds_back:
        prompt = len(layout.before) + source + len(layout.after)
        return prompt + len(layout.fed_back(pair.target))
    if layout.end is None:
        return source
    padded: int = max(layout.padding.of(source), source, len(pair.target) + 1)
    return padded


def _targets_after_prompts(layout: Layout, pairs: Sequence[Pair]) -> Encoded:
    """The encoding of pairs whose targets follow their prompts."""
    prompts, targets = _prompts_and_targets(layout, pairs)
    # Any symbol can be the input for one outside the alphabet.
    read = np.maximum(targets.values, 0) + (layout.first_target or 0)
    inputs = concatenate_pairwise(prompts, Ragged(read, targets.starts))
    outputs = np.roll(concatenate_pairwise(prompts, targets).values, -1)
    scored = inputs.positions >= np.repeat(prompts.lengths - 1, inputs.lengths)
    last = inputs.starts[1:] - 1
    outputs[last], scored[last] = layout.end or 0, layout.end is not None
    encoded = Encoded(inputs, *(Ragged(each, inputs.starts) for each in (outputs, scored)))
    if layout.consecutive or layout.end is not None:
        return encoded
    # A label is not read.
    return Encoded(*(rows.truncate(rows.lengths - 1) for rows in encoded))


def _synchronous(layout: Layout, pairs: Sequence[Pair]) -> Encoded:
    """The encoding of pairs with synchronous outputs."""
    inputs, targets = _prompts_and_targets(layout, pairs)
    ends = targets.lengths
    if layout.blank is None:
        for own, target in zip(inputs.lengths.tolist(), ends.tolist(), strict=True):
            if own != target:
                problem = f"a source of {counted(own, 'symbol')} has a target of {target}"
                raise StacktransError(f"{problem}; expected one output for each input")
    else:
        lengths = np.maximum(inputs.lengths, ends + 1)
        inputs = inputs.padded_to(lengths, 0, layout.blank)
        targets = targets.padded_to(lengths, 0, layout.end)
    scored = Ragged(inputs.positions <= np.repeat(ends, inputs.lengths), inputs.starts)
    if any(pair.scored is not None for pair in pairs):
        both = zip(scored, pairs, strict=True)
        scored = Ragged.of([own if pair.scored is None else pair.scored for own, pair in both])
    return Encoded(inputs, targets, scored)


def _prompts_and_targets(layout: Layout, pairs: Sequence[Pair]) -> tuple[Ragged, Ragged]:
    """The prompts and the targets of pairs, in reading order."""
    prompts = layout.prompts(Ragged.of([pair.source for pair in pairs]))
    targets = Ragged.of([pair.target for pair in pairs])
    return prompts, targets.reversed() if layout.backwards else targets


def measured_sequences(layout: Layout, pairs: Sequence[Pair]) -> list[list[int]]:
    """The indices of pairs in each sequence that is measured.

    That is each pair alone; in a stream, up to `CONSECUTIVE` pairs of equal length.
    """
    if not layout.consecutive:
        return [[index] for index in range(len(pairs))]
    by_length: dict[int, list[int]] = {}
    for index, pair in enumerate(pairs):
        by_length.setdefault(pair.length, []).append(index)
    return [
        indices[start : start + CONSECUTIVE]
        for indices in by_length.values()
        for start in range(0, len(indices), CONSECUTIVE)
    ]
