"""Layouts: how pairs of strings become what a model reads, and its outputs an answer."""

from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from stacktrans.common.ragged import Ragged
from stacktrans.tasks.alphabets import Alphabet, Ids, Mask, Role

SEQUENCES_IN_A_ROW = 200
"""How many sequences of a stream are measured one after another (joulin2015, section 5)."""
LONGEST_PRODUCT = 100_000
"""The most symbols of an answer as long as a product of counts, unless its source is that long."""
ENDING: Role = ("end",)
BEGIN, SEPARATOR, SOURCE, BLANK, TARGET = "begin", "separator", "source", "blank", "target"
"""The sections of the input ids of a layout."""
LayoutKind = Literal["pairs", "synchronous", "stream", "text"]
"""What a model reads and outputs: a target after its source, or in a buffer; a symbol for each
symbol; the next symbol of a stream of sequences, or of a text."""


Example = tuple[Ids, Ids, Mask]
"""What is read, the outputs that are right, and which of them are scored: [T] each."""


class Pair(NamedTuple):
    """A source and its target, as indices into the task's source and target symbols.

    Attributes:
        source: [k].
        target: [l].
        scored: [l] which symbols of the target are scored; None for all.
        size: the length that the task counts; None for that of the source.
        written: what stands in the task's columns in a file; None if it comes from none.
        known: whether a model can read it; if not, `OUT_OF_VOCABULARY` stands for the symbols that
            the task's alphabets lack, no answer is computed, and it counts as wrong.
    """

    source: Ids
    target: Ids
    scored: Mask | None = None
    size: int | None = None
    written: tuple[str, ...] | None = None
    known: bool = True

    @property
    def length(self) -> int:
        """The length by which ranges of lengths choose."""
        return len(self.source) if self.size is None else self.size


@dataclass(frozen=True, slots=True)
class Batch:
    """B examples, padded on the right to T steps.

    Attributes:
        inputs: [B, T] ids of what the model reads.
        targets: [B, T] the outputs that are right; 0 where nothing is scored.
        mask: [B, T] True at the scored positions.
        lengths: [B] steps of each before the padding.
    """

    inputs: Ids
    targets: Ids
    mask: Mask
    lengths: list[int]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Self:
        """Examples side by side."""
        inputs, targets, mask = (Ragged.of(rows).padded() for rows in zip(*examples, strict=True))
        return cls(inputs, targets * mask, mask, [len(read) for read, _, _ in examples])


class OutputBound(NamedTuple):
    """A bound on the outputs for a source of k symbols: `each` * k + `further`."""

    each: int
    further: int

    def of(self, length: Any) -> Any:
        """The steps for a source of so many symbols, or for several."""
        return np.maximum(1, self.each * length + self.further)

    @classmethod
    def for_pairs(cls, lengths: Ids) -> "OutputBound":
        """The fewest that suffice for pairs with sources and targets of some lengths, [n, 2].

        Of bounds that are as close, the one that grows faster with the source is chosen, since
        longer sources are to come.
        """
        sources, needed = lengths[:, 0], lengths[:, 1] + 1
        steepest = int((-(-needed // np.maximum(sources, 1))).max())

        def bound(each: int) -> OutputBound:
            return cls(each, max(0, int((needed - each * sources).max())))

        def steps(bound: OutputBound) -> int:
            return int((bound.each * sources + bound.further).sum())

        # In `each` the steps are convex, so that they fall until they are fewest and rise then.
        rises = bisect(
            range(2, steepest + 1),
            False,
            key=lambda each: steps(bound(each)) > steps(bound(each - 1)),
        )
        return bound(1 + rises)


NO_PADDING = OutputBound(1, 0)


@dataclass(frozen=True)
class Layout:
    """How pairs become what a model reads, and its outputs an answer.

    Either the outputs follow the source, each being read as the next input (`feeds_back`), or they
    are synchronous: the n-th belongs to the n-th symbol read.

    Attributes:
        kind: which strategies are for it.
        inputs: number of input ids.
        outputs: number of output ids; the first are the target symbols.
        before: ids read before a source.
        after: ids read after it.
        first_source: the input id of source symbol 0.
        first_target: the input id of output 0; None if outputs are synchronous.
        end: the output that ends an answer and is not part of it; None if there is none.
        last: the target symbol that every answer ends with; None if there is none.
        blank: the input id that fills sources up; None if they are not.
        padding: how far sources are filled up with it.
        backwards: whether sources are read, and targets output, from the last symbol to the first.
        consecutive: whether pairs follow one another in one sequence without boundaries.
        bound: gives a bound on the training targets and their ends, which limits answers.
    """

    kind: LayoutKind
    inputs: int
    outputs: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first_source: int = 0
    first_target: int | None = None
    end: int | None = None
    last: int | None = None
    blank: int | None = None
    padding: OutputBound = NO_PADDING
    backwards: bool = False
    consecutive: bool = False
    bound: Callable[[], OutputBound] = field(
        default=lambda: OutputBound(1, 1), compare=False, repr=False
    )

    @classmethod
    def joint(
        cls,
        sources: int,
        targets: int,
        bound: Callable[[], OutputBound] = lambda: OutputBound(1, 1),
        backwards: bool = False,
    ) -> Self:
        """`<s> a1 .. ak ||| b1 .. bl </s>` (grefenstette2015, section 4.1).

        Source and target symbols have ids, and so embeddings, of their own. The model reads all
        but `</s>` and is scored on b1 .. bl and `</s>`. Backwards it is
        `<s> ak .. a1 ||| bl .. b1 </s>`.

        Args:
            sources: number of source symbols.
            targets: number of target symbols.
            bound: as the attribute; by default targets are as long as their sources.
            backwards: as the attribute.
        """
        return cls(
            "pairs",
            inputs=2 + sources + targets,
            outputs=targets + 1,
            before=(0,),
            after=(1,),
            first_source=2,
            first_target=2 + sources,
            end=targets,
            backwards=backwards,
            bound=cache(bound),
        )

    @classmethod
    def synchronous(cls, sources: int, targets: int) -> Self:
        """A target symbol for each source symbol (hao2018, section 4)."""
        return cls("synchronous", sources, targets)

    @classmethod
    def padded(
        cls, sources: int, targets: int, padding: OutputBound, backwards: bool = False
    ) -> Self:
        """Both sides filled up: `a1 .. ak` with blanks, `b1 .. bl` with `</s>`.

        What hao2018 writes as w #^|w|, for targets of any length. The model is scored on b1 .. bl
        and the first `</s>`.
        """
        return cls(
            "pairs",
            sources + 1,
            targets + 1,
            end=targets,
            blank=sources,
            padding=padding,
            backwards=backwards,
        )

    @classmethod
    def stream(cls, symbols: int, follow: int | None = None, last: int | None = None) -> Self:
        """Sequences one after another, without boundaries (joulin2015, section 4).

        A sequence is a source, the prompt, and a target, which is what can be known of it. The
        model reads all of a stream and predicts the next symbol; scored are those of targets and,
        if it is known, the first symbol of the sequence that follows.

        An answer ends before the symbol that the next sequence begins with; or after a symbol that
        marks its end; or, if neither is known, when it is one symbol shorter than the prompt.

        Args:
            symbols: number of symbols, of sources and targets alike.
            follow: the symbol that every sequence begins with; None if it can't be known.
            last: the symbol that every target ends with; None if there is none.
        """
        return cls(
            "stream", symbols, symbols, first_target=0, end=follow, last=last, consecutive=True
        )

    @classmethod
    def text(cls, symbols: int, end: int) -> Self:
        """The sentences of a text, one after another; `end` ends each and so comes before each."""
        return cls(
            "text", symbols, symbols, before=(end,), first_target=0, end=end, consecutive=True
        )

    @property
    def feeds_back(self) -> bool:
        """Whether each output is the next input."""
        return self.first_target is not None

    @property
    def ends_answers(self) -> bool:
        """Whether a model can end an answer; otherwise its source's length does."""
        return self.end is not None or self.last is not None

    @property
    def sections(self) -> list[tuple[str, int]]:
        """What the input ids stand for, in their order: `BEGIN`, ... and how many ids."""
        if self.first_source:
            sources = (self.first_target or self.inputs) - self.first_source
            targets = self.inputs - self.first_source - sources
            return [(BEGIN, 1), (SEPARATOR, 1), (SOURCE, sources), (TARGET, targets)]
        if self.blank is not None:
            return [(SOURCE, self.blank), (BLANK, 1)]
        return [(SOURCE, self.inputs)]

    def roles(self, source: Alphabet, target: Alphabet) -> tuple[list[Role], list[Role]]:
        """What each input id and each output id stands for, with these alphabets."""
        read: list[Role] = []
        for section, _ in self.sections:
            alphabet = {SOURCE: source, TARGET: target}.get(section)
            own = alphabet.roles() if alphabet else [(section,)]
            read += [(section, *role) for role in own] if alphabet and self.first_source else own
        outputs = target.roles()
        return read, [*outputs, ENDING] if len(outputs) < self.outputs else outputs

    def in_reading_order(self, symbols: Ids) -> Ids:
        """A string in the order in which it is read and output; or, of that, the string."""
        return symbols[::-1] if self.backwards else symbols

    def prompt(self, source: Ids) -> Ids:
        """What is read before the first output that is not synchronous, or for all that are."""
        return self.prompts(Ragged.of([source]))[0]

    def prompts(self, sources: Ragged) -> Ragged:
        """The prompt of each source."""
        ids = sources.reversed() if self.backwards else sources
        if not self.feeds_back:
            if self.blank is None:
                return ids
            return ids.padded_to(
                np.maximum(ids.lengths, self.padding.of(ids.lengths)), 0, self.blank
            )
        first, after = len(self.before), len(self.after)
        shifted = Ragged(ids.values + self.first_source, ids.starts)
        found = shifted.padded_to(ids.lengths + first + after, first)
        for place, symbol in enumerate(self.before):
            found.values[found.starts[:-1] + place] = symbol
        for place, symbol in enumerate(self.after, -after):
            found.values[found.starts[1:] + place] = symbol
        return found

    def limit(self, lengths: Any, most: int | None = None) -> Any:
        """The most symbols of an answer to a source of some length, or to each of several.

        That is `most`, unless it is None; but as a stream without a mark for the end of an answer
        never ends one, it is no more than a symbol less than the prompt there. Otherwise it is
        twice the bound on training targets, and 20 more; of streams as many as can be counted by
        products of counts, but not without end.
        """
        if self.consecutive and not self.ends_answers:
            usual = np.maximum(0, lengths - 1)
            return usual if most is None else np.minimum(usual, most)
        if most is not None:
            return np.full(np.shape(lengths), most)
        if self.kind == "text":
            return lengths + 20
        if self.consecutive:
            return np.minimum(lengths**2, np.maximum(4 * lengths, LONGEST_PRODUCT)) + 20
        return 2 * (self.bound().of(lengths) - 1) + 20

    def decode(self, outputs: Ragged, limits: Ids | None = None) -> tuple[Ragged, Mask]:
        """The answers in all outputs to n sources, and which of them were ended by the model.

        Args:
            outputs: of each source; an output that ends an answer included.
            limits: [n] the most symbols of each; None for any number.
        """
        lengths = outputs.lengths
        kept = lengths if limits is None else np.minimum(lengths, limits)
        ended = np.full(len(outputs), not self.ends_answers)
        if self.last is not None:
            ended = (kept == lengths) & (outputs.last(-1) == self.last)
        if self.end is not None:
            rows, places = outputs.indices_of(outputs.values == self.end)
            first = lengths.copy()
            np.minimum.at(first, rows, places)
            kept, ended = np.minimum(kept, first), ended | (first < lengths)
        answers = outputs.truncate(kept)
        return answers.reversed() if self.backwards else answers, ended

    def steps(self, pair: Pair) -> int:
        """How many symbols the model reads of a pair."""
        source, target = len(pair.source), len(pair.target)
        if self.feeds_back:
            return len(self.before) + source + len(self.after) + target
        return source if self.end is None else max(self.padding.of(source), source, target + 1)

    def example(self, pairs: Sequence[Pair], everything: bool = False) -> Example:
        """Inputs, targets and which of them are scored, of pairs in one sequence: [T] each.

        Args:
            pairs: one, unless they are consecutive.
            everything: whether all symbols of a stream are scored, and not only what can be known.
        """
        return self.examples([pairs], everything)[0]

    def examples(self, rows: Sequence[Sequence[Pair]], everything: bool = False) -> list[Example]:
        """The `example` of each row of pairs."""
        pairs = [pair for row in rows for pair in row]
        if self.feeds_back:
            prompts = self.prompts(Ragged.of([pair.source for pair in pairs]))
            each = iter([_followed(self, *both) for both in zip(pairs, prompts, strict=True)])
        else:
            each = iter([_synchronous(self, pair) for pair in pairs])
        return [
            _one_after_another(self, row, [next(each) for _ in row], everything) for row in rows
        ]

    def batch(self, rows: Sequence[Sequence[Pair]], everything: bool = False) -> Batch:
        """Lay examples out side by side, each as `example` makes it of a row of pairs."""
        return Batch.of(self.examples(rows, everything))


def _one_after_another(
    layout: Layout, pairs: Sequence[Pair], examples: Sequence[Example], everything: bool
) -> Example:
    """The example of a sequence, of those of its pairs."""
    if not pairs:  # as at the end of a stream that is shorter than those beside it
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
    inputs, targets, scored = map(np.concatenate, zip(*examples, strict=True))
    if layout.consecutive:
        inner = np.cumsum([*map(layout.steps, pairs)])[:-1]
        targets[inner - 1] = inputs[inner]
        if everything:
            scored[:-1] = True
    return inputs, targets, scored


def _followed(layout: Layout, pair: Pair, prompt: Ids) -> Example:
    """The example of a pair whose target follows its source."""
    assert layout.first_target is not None
    target = layout.in_reading_order(pair.target)
    # In the place of a symbol that is not in the alphabet any other will do.
    inputs = np.concatenate([prompt, np.maximum(target, 0) + layout.first_target])
    targets = np.concatenate([prompt[1:], target, [0 if layout.end is None else layout.end]])
    scored = np.arange(len(inputs)) >= len(prompt) - 1
    scored[-1] = layout.end is not None
    return inputs, targets, scored


def _synchronous(layout: Layout, pair: Pair) -> Example:
    """The example of a pair with an output for each input."""
    steps = layout.steps(pair)
    inputs = _filled(layout.in_reading_order(pair.source), layout.blank, steps)
    targets = _filled(layout.in_reading_order(pair.target), layout.end, steps)
    scored = np.arange(steps) <= len(pair.target)
    return inputs, targets, scored if pair.scored is None else pair.scored


def _filled(ids: Ids, filler: int | None, length: int) -> Ids:
    """Ids filled up to a length; as they are without a filler."""
    if filler is None or len(ids) >= length:
        return ids
    return np.concatenate([ids, np.full(length - len(ids), filler)])


def measured_sequences(layout: Layout, pairs: Sequence[Pair]) -> list[list[int]]:
    """Which pairs, by their indices, are measured in one sequence: each alone.

    Consecutive ones of one length are together, in their order, up to `SEQUENCES_IN_A_ROW`.
    """
    if not layout.consecutive:
        return [[index] for index in range(len(pairs))]
    by_length: dict[int, list[int]] = {}
    for index, pair in enumerate(pairs):
        by_length.setdefault(pair.length, []).append(index)
    size = SEQUENCES_IN_A_ROW
    return [
        same[start : start + size]
        for same in by_length.values()
        for start in range(0, len(same), size)
    ]
