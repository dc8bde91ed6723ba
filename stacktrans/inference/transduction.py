"""Transducing lines: whole ones, and those that come bit by bit."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.common.ragged import Ragged, row_starts
from stacktrans.common.reading import LONGEST, LinePiece, check_length, decode_line, line_groups
from stacktrans.decoding.decoder import Answer, decode, most_probable
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Characters, Ids, UnknownSymbol
from stacktrans.tasks.base import mask_unscored

if TYPE_CHECKING:
    from stacktrans.inference.perplexity import NextSymbolPrediction


class Hypothesis(NamedTuple):
    """One of the answers to a source that a beam search found.

    Attributes:
        text: the answer.
        log_probability: of the whole answer, in nats.
        ended: whether the model ended it; otherwise it was cut off.
    """

    text: str
    log_probability: float
    ended: bool


@dataclass(slots=True)
class AnsweredLine:
    """A line, or a part of one, and its answer.

    Attributes:
        number: of the line, from 1.
        source: its text; None if it is not text.
        output: the answer; None if there is none.
        scored: of each of its symbols, whether it is scored; None where all are, or where it was
            not asked for.
        probability: of the whole answer; None if the line is empty, there is no answer, or the
            probability was not asked for.
        ended: whether the model ended the answer; None if the line is empty or has no answer.
        hypotheses: the best that a beam found, the answer first; None without one.
        following: of a model of a text, its predictions after each symbol; None of others.
        error: why there is no answer.
        last: whether no further line is ready.
        complete: whether the line ends with this.
    """

    number: int
    source: str | None = None
    output: str | None = None
    scored: list[bool] | None = None
    probability: float | None = None
    ended: bool | None = None
    hypotheses: list[Hypothesis] | None = None
    following: list[NextSymbolPrediction] | None = None
    error: str | None = None
    last: bool = False
    complete: bool = True

    def as_json(self) -> dict[str, Any]:
        """The line as `transduce --json` prints it."""
        names = ("source", "output", "probability", "ended")
        entry = {"line": self.number, **{name: getattr(self, name) for name in names}}
        if self.scored is not None:
            entry["scored"] = self.scored
        if self.hypotheses is not None:
            entry["hypotheses"] = [
                {"output": text, "log_probability": log_probability, "ended": ended}
                for text, log_probability, ended in self.hypotheses
            ]
        if self.following is not None:  # of the sentence as a whole, its end included
            log_probability = sum(each.log_probability for each in self.following)
            mean = log_probability / len(self.following)
            entry["log_probability"] = log_probability
            entry["perplexity"] = math.exp(min(-mean, 700.0))
            entry["following"] = [asdict(each) for each in self.following]
        return entry | ({"error": self.error} if self.error else {})


class AnswerOptions(NamedTuple):
    """How sources are answered.

    Attributes:
        max_length: longest answer in symbols; None for the layout's usual limit.
        marked: whether there is a mark in the place of each symbol that is not scored.
        beam: the width of the beam that answers are searched with; None for greedy ones.
        full: whether probabilities are asked for, all hypotheses of a beam, and of a line all that
            `AnsweredLine.as_json` shows, which takes whole lines.
    """

    max_length: int | None = None
    marked: bool = False
    beam: int | None = None
    full: bool = False


_USUAL = AnswerOptions()


class AnsweredLines(NamedTuple):
    """Whole lines that follow one another, and their answers, of which none is lacking.

    Attributes:
        number: of the first, from 1.
        output: the answers, each with the end of its line.
        unended: the numbers of the lines whose answers were cut off.
    """

    number: int
    output: str
    unended: list[int]


class _Answering:
    """Answering the lines of an input as they come, group by group.

    Args:
        checkpoint: the model.
        options: how.
    """

    def __init__(self, checkpoint: Checkpoint, options: AnswerOptions) -> None:
        self._model, self._layout = checkpoint.predictor, checkpoint.layout
        self._task, self._options = checkpoint.task, options
        in_step = checkpoint.task.same_length and not checkpoint.config.model.buffers
        streams = in_step and not options.full
        self._stream = LineStream(checkpoint, options.marked) if streams else None
        self._number = 1

    def answers(self, descriptor: int) -> Iterator[list[AnsweredLine] | AnsweredLines]:
        """The answers to the lines of an open file or pipe as they come, a group at once."""
        for group in line_groups(descriptor, parts=self._stream is not None):
            yield self.answer_batch(group) or self.answer_each(group)

    def answer_each(self, group: list[LinePiece]) -> list[AnsweredLine]:
        """The lines of a group with their answers."""
        lines = []
        for piece in group:
            line = AnsweredLine(self._number, complete=piece.ends)
            lines.append(line)
            self._number += piece.ends
            if self._stream and not (piece.begins and piece.ends):
                line.output, line.error = self._stream.feed(piece)
                continue
            try:
                line.source = decode_line(piece.raw)
            except StacktransError as error:
                line.error = str(error)
        self.answer(lines)
        lines[-1].last = True
        return lines

    def answer(self, lines: Sequence[AnsweredLine]) -> None:
        """Answer the lines that have a source."""
        task = self._task
        waiting, sources = [], []
        for line in lines:
            if line.source is None:
                continue
            try:
                symbols = task.source.split(line.source) if line.source else []
                if not symbols:
                    line.output = ""
                    continue
                check_length(len(symbols))
                sources.append(task.source.encode(symbols))
                waiting.append((line, symbols))
            except StacktransError as error:
                line.error = str(error)
        for (line, symbols), found in zip(waiting, self._searched(sources), strict=True):
            if found[0].failed:
                line.error = self._model.failure
            else:
                self._fill_in(line, symbols, found)

    def _searched(self, sources: Sequence[Ids]) -> Iterable[Sequence[Answer]]:
        """The answers to sources, for each the best first."""
        model, layout, options = self._model, self._layout, self._options
        limit, full = options.max_length, options.full
        if options.beam is None:
            return ([answer] for answer in decode(model, layout, sources, limit, full))
        from stacktrans.decoding.beam import search  # which few commands need

        best = options.beam if full else 1
        return search(model, layout, sources, options.beam, best, limit, full)

    def _fill_in(self, line: AnsweredLine, symbols: list[str], found: Sequence[Answer]) -> None:
        """Fill in the answers to the symbols of a line."""
        task, options = self._task, self._options
        if task.same_length and (options.full or not task.scores_all):
            line.scored = [*task.scored(symbols)]
        said = [task.target.decode(each.target) for each in found]
        if options.marked and line.scored is not None and not all(line.scored):
            said = [mask_unscored(each, line.scored) for each in said]
        texts = [*map(task.target.join, said)]
        line.output, line.ended = texts[0], found[0].ended
        line.probability = math.exp(found[0].log_probability) if options.full else None
        if options.beam:
            line.hypotheses = [
                Hypothesis(text, each.log_probability, each.ended)
                for text, each in zip(texts, found, strict=True)
            ]

    @cached_property
    def _characters(self) -> tuple[Characters, Characters] | None:
        """What encodes sources and decodes answers in arrays; None if they must be seen singly."""
        task, options = self._task, self._options
        seen = options.beam or options.full or (task.same_length and not task.scores_all)
        if seen or not (task.source.is_character_level and task.target.is_character_level):
            return None
        return Characters(task.source), Characters(task.target)

    def answer_batch(self, group: list[LinePiece]) -> AnsweredLines | None:
        """The same in few arrays; None where a line must be seen singly, or may have no answer."""
        if not self._characters or not all(piece.begins and piece.ends for piece in group):
            return None
        sources, targets = self._characters
        given = _encoded(sources, [piece.raw for piece in group])
        if given is None:
            return None
        asked = np.flatnonzero(given.lengths)
        answers = decode(
            self._model,
            self._layout,
            Ragged(given.values, np.append(0, given.starts[1:][asked])),
            self._options.max_length,
            log_probs=False,
        )
        symbols = answers.targets
        if np.isnan(answers.log_probs).any() or symbols.values.min(initial=0) < 0:
            return None
        lengths = np.zeros(len(group), np.int64)
        lengths[asked] = symbols.lengths
        text = targets.decode(Ragged(symbols.values, row_starts(lengths)))
        lines = AnsweredLines(self._number, text, (self._number + asked[~answers.ended]).tolist())
        self._number += len(group)
        return lines


def _encoded(sources: Characters, lines: Sequence[bytes]) -> Ragged | None:
    """The ids of lines; None if one is no source."""
    with contextlib.suppress(UnicodeDecodeError):
        text = b"\n".join([*lines, b""]).replace(b"\r\n", b"\n").decode("utf-8")
        ids = sources.encode(text)
        if ids is not None and ids.lengths.max() <= LONGEST:
            return ids
    return None


def transduce_lines(
    checkpoint: Checkpoint, descriptor: int, options: AnswerOptions = _USUAL
) -> Iterator[AnsweredLine | AnsweredLines]:
    """Transduce every line of an open file or pipe, in order.

    Lines that have nothing special about them come together, unless options ask for all of each.
    Where each symbol can be answered at once, a line that comes bit by bit is answered bit by
    bit: as several `AnsweredLine`s of which all but the last are not `complete`.
    """
    for found in _Answering(checkpoint, options).answers(descriptor):
        if isinstance(found, AnsweredLines):
            yield found
            continue
        if options.full and checkpoint.layout.kind == "text":
            _add_followings(checkpoint, found)
        yield from found


def _add_followings(checkpoint: Checkpoint, lines: Sequence[AnsweredLine]) -> None:
    """Add to lines of a text what the model takes for likely after each word."""
    from stacktrans.inference.perplexity import next_symbol_predictions  # which few commands need

    words: Any = checkpoint.task.source
    for line in lines:
        symbols = words.split(line.source or "")
        if symbols and not line.error:
            found = next_symbol_predictions(checkpoint.predictor, words, symbols)
            if any(math.isnan(each.log_probability) for each in found):
                line.error = checkpoint.predictor.failure
            else:
                line.following = found


def transduce_strings(
    checkpoint: Checkpoint, sources: Sequence[str], options: AnswerOptions = _USUAL
) -> list[AnsweredLine]:
    """Transduce strings, a line each, in order.

    Raises:
        StacktransError: one can't be transduced; the message says which, from 1.
    """
    lines = [AnsweredLine(number, source=source) for number, source in enumerate(sources, start=1)]
    _Answering(checkpoint, options).answer(lines)
    for line in lines:
        if line.error:
            raise StacktransError(f"source {line.number}: {line.error}")
    return lines


class LineStream:
    """Lines that come bit by bit, for a model that answers each symbol as soon as it has read it.

    That is one of a same-length task, without buffers. `marked` is as for `transduce_lines`.
    """

    def __init__(self, checkpoint: Checkpoint, marked: bool = False) -> None:
        self._model, self._task = checkpoint.predictor, checkpoint.task
        self._marked = marked
        self._begin()

    def _begin(self) -> None:
        self._state = self._model.start(1)
        self._coming: deque[str] = deque()
        self._scored = self._task.scored(iter(self._coming.popleft, None))
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""
        self._count = 0
        self._failed = False

    def feed(self, piece: LinePiece) -> tuple[str, str | None]:
        """The answer to the next part of a line, and the error that ends it; nothing after one."""
        if piece.begins:
            self._begin()
        if self._failed:
            return "", None
        output, problem = self._answered(piece)
        self._failed = problem is not None
        return output, problem

    def _answered(self, piece: LinePiece) -> tuple[str, str | None]:
        source, target, problem = self._task.source, self._task.target, None
        try:
            text = self._rest + self._decoder.decode(piece.raw, final=piece.ends)
        except UnicodeDecodeError as error:
            return "", f"0x{error.object[error.start]:02x} after {self._count} symbols is not UTF-8"
        whole = len(text.removesuffix("\r")) if piece.ends else self._whole(text)
        symbols, self._rest = source.split(text[:whole]), text[whole:]
        try:
            ids = source.encode(symbols)
        except UnknownSymbol as error:
            # The symbols before it can be answered.
            ids = source.encode(symbols[: error.position - 1])
            problem = str(UnknownSymbol(error.symbol, self._count + error.position))
        if not len(ids):
            return "", problem
        try:
            check_length(self._count + len(ids))
        except StacktransError as error:
            return "", str(error)
        found, logs = most_probable(self._model.advance(self._state, ids[None]))
        if np.isnan(logs).any():
            return "", self._model.failure
        said = target.decode(found.tolist())
        if self._marked:
            self._coming.extend(symbols[: len(said)])
            said = mask_unscored(said, itertools.islice(self._scored, len(said)))
        # Words after others are parted from them.
        output = target.join(["", *said] if self._count else said)
        self._count += len(ids)
        return output, problem

    def _whole(self, text: str) -> int:
        """How much of a text is whole symbols, and not perhaps the end of the line."""
        if not self._task.source.words:
            return len(text.removesuffix("\r"))
        return max(text.rfind(space) for space in " \t\r") + 1
