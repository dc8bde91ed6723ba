"""Layouts: the ids that a model reads and writes, prompts, decoding, and bounds on answers."""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from stacktrans.common.ragged import Ragged
from stacktrans.tasks.alphabets import Alphabet, Ids, Mask, Role

LONGEST_PRODUCT = 100_000
"""The limit on answers that are as long as a product of counts, unless the source is longer."""
UNLIMITED = 1 << 40
"""A limit on answers that none reaches, though sums with it are still numbers of 64 bits."""
ENDING: Role = ("end",)
BEGIN_ID, SEPARATOR_ID = 0, 1
"""The input ids before and after a source that is followed by its target."""
BEGIN, SEPARATOR, SOURCE, BLANK, TARGET = "begin", "separator", "source", "blank", "target"
"""The sections of a layout's input ids."""
LayoutKind = Literal["pairs", "synchronous", "stream", "text"]
"""The kind of outputs: a target after its source, or in a buffer; a symbol for each input symbol;
the next symbol of a stream of sequences, or of a text."""


class Pair(NamedTuple):
    """A source and its target, as ids of the task's source and target alphabets.

    Attributes:
        source: [k] ids.
        target: [l] ids.
        scored: [l] mask of the scored symbols of the target; None for all.
        size: its length as the task defines it; None for that of the source.
        written: its fields in a file; None if it comes from none.
        in_vocabulary: whether a model can read it; if not, `OUT_OF_VOCABULARY` stands for the
            symbols that the task's alphabets lack, no answer is computed, and it counts as wrong.
        kind: how a labeled string was made; empty if that is not known.
    """

    source: Ids
    target: Ids
    scored: Mask | None = None
    size: int | None = None
    written: tuple[str, ...] | None = None
    in_vocabulary: bool = True
    kind: str = ""

    @property
    def length(self) -> int:
        """The length that ranges of lengths refer to."""
        return len(self.source) if self.size is None else self.size


class OutputBound(NamedTuple):
    """A bound on the number of outputs for a source of k symbols: `each` * k + `further`."""

    each: int
    further: int

    def of(self, length: Any) -> Any:
        """The bound for a source length, or for an array of them; at least 1."""
        return np.maximum(1, self.each * length + self.further)

    @classmethod
    def for_pairs(cls, lengths: Ids) -> "OutputBound":
        """The tightest bound for source and target lengths, [n, 2], on average.

        Of equally tight bounds, the one that grows faster with the source is chosen, since it has
        to hold for longer sources, too.
        """
        sources, needed = lengths[:, 0], lengths[:, 1] + 1
        steepest = int((-(-needed // np.maximum(sources, 1))).max())

        def bound(each: int) -> OutputBound:
            return cls(each, max(0, int((needed - each * sources).max())))

        def total(each: int) -> int:
            return int((each * sources + bound(each).further).sum())

        # The total is convex in `each`: it falls to the minimum, and rises from there on.
        slopes = range(2, steepest + 1)
        return bound(1 + bisect(slopes, False, key=lambda each: total(each) > total(each - 1)))


NO_PADDING = OutputBound(1, 0)


def is_fixed(lengths: Ids) -> bool:
    """Whether targets are equally long where sources are not, by the lengths of both, [n, 2]."""
    sources, targets = (np.unique(column) for column in lengths.T)
    return len(targets) == 1 < len(sources)


@dataclass(frozen=True)
class Layout:
    """The encoding of pairs as inputs and outputs of a model.

    Either the outputs follow the source, and each is the next input (`feeds_back`), or they are
    synchronous: the n-th output belongs to the n-th input.

    Attributes:
        kind: the kind of outputs, by which strategies are chosen.
        inputs: number of input ids.
        outputs: number of output ids; the first are the target symbols.
        before: input ids before a source.
        after: input ids after a source.
        first_source: the input id of source symbol 0.
        first_target: the input id of output 0; None if outputs are synchronous.
        end: the output that ends an answer and is not part of it; None if there is none.
        last: the outputs after which an answer, of which they are part, is complete; none if its
            last symbol varies.
        blank: the input id that sources are padded with; None without padding.
        padding: the length to which sources are padded.
        backwards: whether sources are read, and targets output, from the last symbol to the first.
        consecutive: whether pairs follow one another in a sequence without boundaries.
        bound: computes the bound on training targets with their ends, by which answers are limited.
    """

    kind: LayoutKind
    inputs: int
    outputs: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    first_source: int = 0
    first_target: int | None = None
    end: int | None = None
    last: tuple[int, ...] = ()
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
        labels: bool = False,
    ) -> Self:
        """`<s> a1 .. ak ||| b1 .. bl </s>` (grefenstette2015, section 4.1).

        Source and target symbols have separate ids, and so embeddings. The model reads all but
        `</s>` and is scored on b1 .. bl and `</s>`. Backwards, the sequence is
        `<s> ak .. a1 ||| bl .. b1 </s>`.

        Args:
            sources: number of source symbols.
            targets: number of target symbols.
            bound: as the attribute; by default targets are as long as their sources.
            backwards: as the attribute.
            labels: whether every target is a single symbol, a label; no `</s>` follows it then.
        """
        return cls(
            "pairs",
            inputs=2 + sources + targets,
            outputs=targets + (not labels),
            before=(BEGIN_ID,),
            after=(SEPARATOR_ID,),
            first_source=2,
            first_target=2 + sources,
            end=None if labels else targets,
            last=tuple(range(targets)) if labels else (),
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
        """Padded sides: `a1 .. ak` with blanks, `b1 .. bl` with `</s>`.

        This generalizes w #^|w| of hao2018 to targets of any length. The model is scored on
        b1 .. bl and the first `</s>`.
        """
        sizes = sources + 1, targets + 1
        return cls(
            "pairs", *sizes, end=targets, blank=sources, padding=padding, backwards=backwards
        )

    @classmethod
    def stream(cls, symbols: int, follow: int | None = None, last: int | None = None) -> Self:
        """Consecutive sequences without boundaries (joulin2015, section 4).

        A sequence is a source, the prompt, and a target, its predictable part. The model reads the
        whole stream and predicts the next symbol. It is scored on the targets and, if that is
        predictable, on the first symbol of the following sequence.

        An answer ends before the first symbol of the next sequence; or after a symbol that marks
        its end; or, without either, when it is one symbol shorter than the prompt.

        Args:
            symbols: number of symbols in the common alphabet of sources and targets.
            follow: the first symbol of every sequence; None if it varies.
            last: the last symbol of every target; None if it varies.
        """
        ends = () if last is None else (last,)
        return cls(
            "stream", symbols, symbols, first_target=0, end=follow, last=ends, consecutive=True
        )

    @classmethod
    def text(cls, symbols: int, end: int) -> Self:
        """Consecutive sentences of a text; `end` follows each of them, and precedes the first."""
        return cls(
            "text", symbols, symbols, before=(end,), first_target=0, end=end, consecutive=True
        )

    @property
    def feeds_back(self) -> bool:
        """Whether each output is the next input."""
        return self.first_target is not None

    @property
    def ends_answers(self) -> bool:
        """Whether the model ends answers; otherwise the length of the source determines theirs."""
        return self.end is not None or bool(self.last)

    @property
    def labels(self) -> bool:
        """Whether each answer is one symbol, a label, which the empty source has as well."""
        return bool(self.last) and not self.consecutive

    @property
    def shortest_source(self) -> int:
        """The length of the shortest sources: none is empty, unless it is labeled."""
        return 0 if self.labels else 1

    @property
    def sections(self) -> list[tuple[str, int]]:
        """The sections of the input ids in order, with their numbers of ids."""
        if self.first_source:
            sources = (self.first_target or self.inputs) - self.first_source
            targets = self.inputs - self.first_source - sources
            return [(BEGIN, 1), (SEPARATOR, 1), (SOURCE, sources), (TARGET, targets)]
        if self.blank is not None:
            return [(SOURCE, self.blank), (BLANK, 1)]
        return [(SOURCE, self.inputs)]

    def roles(self, source: Alphabet, target: Alphabet) -> tuple[list[Role], list[Role]]:
        """The role of each input id and of each output id, with these alphabets."""
        inputs: list[Role] = []
        for section, _ in self.sections:
            alphabet = {SOURCE: source, TARGET: target}.get(section)
            if alphabet is None:
                inputs.append((section,))
            else:  # alphabets that share a section have no prefix
                prefix = (section,) if self.first_source else ()
                inputs += [(*prefix, *role) for role in alphabet.roles()]
        outputs = target.roles()
        return inputs, [*outputs, ENDING] if len(outputs) < self.outputs else outputs

    def in_reading_order(self, symbols: Ids) -> Ids:
        """Turn a string into reading order, or back: reversed if `backwards`."""
        return symbols[::-1] if self.backwards else symbols

    def prompt(self, source: Ids) -> Ids:
        """The inputs before the first output, or all inputs if outputs are synchronous."""
        return self.prompts(Ragged.of([source]))[0]

    def prompts(self, sources: Ragged) -> Ragged:
        """The prompt of each source."""
        ids = sources.reversed() if self.backwards else sources
        if not self.feeds_back:
            lengths = np.maximum(ids.lengths, self.padding.of(ids.lengths))
            return ids if self.blank is None else ids.padded_to(lengths, 0, self.blank)
        first, after = len(self.before), len(self.after)
        shifted = Ragged(ids.values + self.first_source, ids.starts)
        prompts = shifted.padded_to(ids.lengths + first + after, first)
        for offset, symbol in enumerate(self.before):
            prompts.values[prompts.starts[:-1] + offset] = symbol
        for offset, symbol in enumerate(self.after, -after):
            prompts.values[prompts.starts[1:] + offset] = symbol
        return prompts

    def limit(self, lengths: Any, most: int | None = None) -> Any:
        """The limit on symbols of an answer, for a source length or an array of them.

        It is `most` unless that is None; by default it is twice the bound on training targets plus
        20, and for streams enough for products of counts. Where the model does not end answers, it
        is at most one symbol less than the prompt.
        """
        most = most and min(most, UNLIMITED)
        if self.consecutive and not self.ends_answers:
            return np.minimum(np.maximum(0, lengths - 1), UNLIMITED if most is None else most)
        if most is not None:
            return np.full(np.shape(lengths), most)
        if self.kind == "text":
            return lengths + 20
        if self.consecutive:
            return np.minimum(lengths**2, np.maximum(4 * lengths, LONGEST_PRODUCT)) + 20
        return 2 * (self.bound().of(lengths) - 1) + 20

    def decode(self, outputs: Ragged, limits: Ids | None = None) -> tuple[Ragged, Mask]:
        """The answers in the outputs for n sources, and [n] whether the model ended them.

        Args:
            outputs: the outputs for each source, with the one that ends the answer.
            limits: [n] the most symbols of each answer; None without limits.
        """
        lengths = outputs.lengths
        kept = lengths if limits is None else np.minimum(lengths, limits)
        ended = np.full(len(outputs), not self.ends_answers)
        if self.last:
            ended = (kept == lengths) & np.isin(outputs.last(-1), self.last)
        if self.end is not None:
            ends, first = outputs.values == self.end, lengths.copy()
            np.minimum.at(first, outputs.row_indices[ends], outputs.positions[ends])
            kept, ended = np.minimum(kept, first), ended | (first < lengths)
        answers = outputs.truncate(kept)
        return answers.reversed() if self.backwards else answers, ended

    def fed_back(self, answer: Ids) -> Ids:
        """The outputs of an answer that are read as inputs: all but a label, which ends it."""
        return answer if self.consecutive or self.end is not None else answer[:-1]
