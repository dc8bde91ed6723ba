"""Answers to lines of text, with their JSON entries: in batches, or as lines and symbols arrive."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.common.ragged import Ragged, row_starts
from stacktrans.common.reading import MAX_LENGTH, LinePiece, check_length, decode_line, line_groups
from stacktrans.decoding.beam import search
from stacktrans.decoding.decoder import Answer, decode
from stacktrans.inference.line_stream import LineStream
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Characters
from stacktrans.tasks.base import mask_unscored

if TYPE_CHECKING:
    from stacktrans.inference.perplexity import NextSymbolPrediction


class Hypothesis(NamedTuple):
    """One of the best answers to a source, found by beam search.

    Attributes:
        text: the answer.
        log_probability: of the whole answer, in nats.
        ended: whether the model ended the answer; otherwise it was cut off.
    """

    text: str
    log_probability: float
    ended: bool


@dataclass(slots=True)
class AnsweredLine:
    """A line, or a part of one, and its answer.

    Attributes:
        number: number of the line, from 1.
        source: the text of the line; None if it is not text.
        output: the answer; None if there is none.
        scored: mask of the scored symbols of the answer; None if all are, or unless requested.
        probability: probability of the whole answer; None if the line is empty, there is no answer,
            or unless requested.
        ended: whether the model ended the answer; None if the line is empty or has no answer.
        hypotheses: the best answers of a beam search, the answer first; None without beam search.
        following: predictions of a language model after each symbol; None for other models.
        error: why there is no answer.
        unknown: the symbols that the model does not know, and reads as its unknown symbol.
        last: whether no further line is ready.
        complete: whether this includes the end of the line.
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
    unknown: Sequence[str] = ()
    last: bool = False
    complete: bool = True

    def as_json(self) -> dict[str, Any]:
        """The entry that `transduce --json` prints."""
        names = ("source", "output", "probability", "ended")
        entry = {"line": self.number, **{name: getattr(self, name) for name in names}}
        if self.scored is not None:
            entry["scored"] = self.scored
        if self.hypotheses is not None:
            entry["hypotheses"] = [
                {"output": text, "log_probability": log_probability, "ended": ended}
                for text, log_probability, ended in self.hypotheses
            ]
        if self.following is not None:
            from stacktrans.inference.perplexity import perplexity_of  # which few commands need

            total = sum(prediction.log_probability for prediction in self.following)
            entry["log_probability"] = total
            entry["perplexity"] = perplexity_of(-total / len(self.following))
            entry["following"] = [asdict(prediction) for prediction in self.following]
        return entry | ({"error": self.error} if self.error else {})


class AnswerOptions(NamedTuple):
    """Options of decoding and of the format of answers.

    Attributes:
        max_length: maximum number of symbols of an answer; None for the layout's limit.
        marked: whether symbols that are not scored are replaced by a mark.
        beam: width of the beam; None for greedy answers.
        n_best: maximum number of hypotheses of each line; None for all if `full`, otherwise one.
        full: whether everything is computed that `AnsweredLine.as_json` shows, such as
            probabilities and all hypotheses; lines are then answered as a whole.
    """

    max_length: int | None = None
    marked: bool = False
    beam: int | None = None
    n_best: int | None = None
    full: bool = False


_DEFAULTS = AnswerOptions()


class AnsweredBatch(NamedTuple):
    """The answers to a batch of consecutive valid lines.

    Attributes:
        output: the answers, each with the end of its line.
        unended: numbers of the lines whose answers were cut off.
    """

    output: str
    unended: list[int]


class _LineTransducer:
    """The answers of a model to lines, which are numbered as they are read.

    Args:
        checkpoint: the model.
        options: of decoding and of answers.

    Attributes:
        stream: answers parts of lines; None if lines are only answered as a whole.
    """

    def __init__(self, checkpoint: Checkpoint, options: AnswerOptions) -> None:
        self._model, self._layout = checkpoint.predictor, checkpoint.layout
        self._task, self._options = checkpoint.task, options
        synchronous = checkpoint.task.same_length and not checkpoint.config.model.buffers
        streams = synchronous and not options.full
        self.stream = LineStream(checkpoint, options.marked) if streams else None
        self._number = 1

    def answer_pieces(self, group: list[LinePiece]) -> list[AnsweredLine]:
        """The answers to lines and parts of lines."""
        lines = []
        for piece in group:
            line = AnsweredLine(self._number, complete=piece.ends)
            lines.append(line)
            self._number += piece.ends
            if self.stream and not (piece.begins and piece.ends):
                line.output, line.error = self.stream.feed(piece)
                continue
            try:
                line.source = decode_line(piece.raw)
            except StacktransError as error:
                line.error = str(error)
        self.answer(lines)
        if self._options.full and self._layout.kind == "text":
            self._add_predictions(lines)
        lines[-1].last = True
        return lines

    def answer(self, lines: Sequence[AnsweredLine]) -> None:
        """Answer the lines that have a source, in place."""
        task, options, encoded = self._task, self._options, []
        for line in lines:
            if line.source is None:
                continue
            try:
                symbols = task.source.split(line.source) if line.source else []
                if not symbols and task.positive is None:
                    line.output = ""
                    continue
                check_length(len(symbols))
                ids = task.source.encode(symbols)
                if task.source.unknown_ids:
                    read = zip(symbols, task.source.decode(ids), strict=True)
                    line.unknown = [symbol for symbol, known in read if symbol != known]
                encoded.append((line, symbols, ids))
            except StacktransError as error:
                line.error = str(error)
        sources = [ids for _, _, ids in encoded]
        width = options.beam or 1  # a beam of 1 is greedy
        most = options.n_best or (width if options.full else 1)
        hypotheses = search(
            self._model, self._layout, sources, width, most, options.max_length, options.full
        )
        for (line, symbols, _), best in zip(encoded, hypotheses, strict=True):
            if best[0].failed:
                line.error = self._model.failure
            else:
                self._fill_in(line, symbols, best)

    def _fill_in(self, line: AnsweredLine, symbols: list[str], best: Sequence[Answer]) -> None:
        """Fill in the hypotheses for the symbols of a line."""
        task, options = self._task, self._options
        if task.same_length and (options.full or not task.scores_all):
            line.scored = [*task.scored(symbols)]
        outputs = [task.target.decode(hypothesis.target) for hypothesis in best]
        if options.marked and line.scored is not None and not all(line.scored):
            outputs = [mask_unscored(output, line.scored) for output in outputs]
        texts = [*map(task.target.join, outputs)]
        line.output, line.ended = texts[0], best[0].ended
        line.probability = math.exp(best[0].log_probability) if options.full else None
        if options.beam:
            line.hypotheses = [
                Hypothesis(text, hypothesis.log_probability, hypothesis.ended)
                for text, hypothesis in zip(texts, best, strict=True)
            ]

    def _add_predictions(self, lines: Sequence[AnsweredLine]) -> None:
        """Add a language model's predictions after each word to lines."""
        from stacktrans.inference.perplexity import next_symbol_predictions

        words: Any = self._task.source
        for line in lines:
            symbols = words.split(line.source or "")
            if symbols and not line.error:
                predictions = next_symbol_predictions(self._model, words, symbols)
                if any(math.isnan(prediction.log_probability) for prediction in predictions):
                    line.error = self._model.failure
                else:
                    line.following = predictions

    @cached_property
    def _codecs(self) -> tuple[Characters, Characters] | None:
        """The encoder and decoder of many lines at once; None if lines are answered one by one."""
        task, options = self._task, self._options
        single = options.beam or options.full or (task.same_length and not task.scores_all)
        if single or not (task.source.is_character_level and task.target.is_character_level):
            return None
        return Characters(task.source), Characters(task.target)

    def answer_batch(self, group: list[LinePiece]) -> AnsweredBatch | None:
        """The answers to whole lines at once; None if they have to be answered one by one."""
        if not self._codecs or not all(piece.begins and piece.ends for piece in group):
            return None
        sources, targets = self._codecs
        ids = _encoded(sources, [piece.raw for piece in group])
        if ids is None:
            return None
        filled, limit = np.flatnonzero(ids.lengths), self._options.max_length
        given = Ragged(ids.values, np.append(0, ids.starts[1:][filled]))  # without empty lines
        answers = decode(self._model, self._layout, given, limit, log_probs=False)
        symbols = answers.targets
        if np.isnan(answers.log_probs).any() or symbols.values.min(initial=0) < 0:
            return None
        lengths = np.zeros(len(group), np.int64)
        lengths[filled] = symbols.lengths
        text = targets.decode(Ragged(symbols.values, row_starts(lengths)))
        unended = (self._number + filled[~answers.ended]).tolist()
        self._number += len(group)
        return AnsweredBatch(text, unended)


def _encoded(sources: Characters, lines: Sequence[bytes]) -> Ragged | None:
    """The ids of lines; None if one of them is not a source."""
    with contextlib.suppress(UnicodeDecodeError):
        text = b"\n".join([*lines, b""]).replace(b"\r\n", b"\n").decode("utf-8")
        ids = sources.encode(text)
        if ids is not None and ids.lengths.max() <= MAX_LENGTH:
            return ids
    return None


def transduce_lines(
    checkpoint: Checkpoint, descriptor: int, options: AnswerOptions = _DEFAULTS, name: str = "input"
) -> Iterator[AnsweredLine | AnsweredBatch]:
    """Transduce every line of an open file or pipe, in order.

    Where both alphabets are characters and all lines of a group have an answer, greedy answers come
    in batches, unless `options.full`. A synchronous model answers a line that arrives in parts part
    by part, as several `AnsweredLine`s of which all but the last are not `complete`.

    Raises:
        StacktransError: the file, called `name` in the message, can't be read.
    """
    transducer = _LineTransducer(checkpoint, options)
    for group in line_groups(descriptor, name, parts=transducer.stream is not None):
        if batch := transducer.answer_batch(group):
            yield batch
        else:
            yield from transducer.answer_pieces(group)


def transduce_strings(
    checkpoint: Checkpoint, sources: Sequence[str], options: AnswerOptions = _DEFAULTS
) -> list[AnsweredLine]:
    """Transduce strings, each as a line, in order.

    Raises:
        StacktransError: one can't be transduced; the message has its number, from 1.
    """
    lines = [AnsweredLine(number, source=source) for number, source in enumerate(sources, start=1)]
    _LineTransducer(checkpoint, options).answer(lines)
    for line in lines:
        if line.error:
            raise StacktransError(f"source {line.number}: {line.error}")
    return lines
