"""Transducing a stream of lines."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stacktrans.common.errors import OVERFLOW, StacktransError
from stacktrans.inference.decoding import transduce
from stacktrans.inference.perplexity import Following, followings
from stacktrans.inference.streaming import LineStream, can_stream
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.base import with_marks
from stacktrans.tasks.corpus import Corpus, Vocabulary
from stacktrans.tasks.lines import check_length, decode_line, line_groups


@dataclass
class Line:
    """A line and what became of it.

    Attributes:
        number: of the line, from 1.
        source: its text; None if it is no text.
        output: the answer; None if there is none.
        scored: of each of its symbols, whether it is scored; None of models that do not say one
            for each that they read, of which all are.
        probability: of the whole answer; None if the line is empty or there is no answer.
        ended: whether the model ended the answer; None likewise.
        following: of a model of a text, what it expects after each symbol; None of others.
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
    following: list[Following] | None = None
    error: str | None = None
    last: bool = False
    complete: bool = True

    def as_json(self) -> dict[str, Any]:
        """The line as `transduce --json` prints it."""
        entry: dict[str, Any] = {
            "line": self.number,
            "source": self.source,
            "output": self.output,
            "probability": self.probability,
            "ended": self.ended,
        }
        if self.scored is not None:
            entry["scored"] = self.scored
        if self.following is not None:
            entry |= _sentence(self.following)
        return entry | ({"error": self.error} if self.error else {})


def _sentence(followings: Sequence[Following]) -> dict[str, Any]:
    """What is said of a sentence as a whole, its end included, and of each of its symbols."""
    log_probability = sum(one.log_probability for one in followings)
    return {
        "log_probability": log_probability,
        "perplexity": math.exp(min(-log_probability / len(followings), 700.0)),
        "following": [asdict(one) for one in followings],
    }


def transduce_lines(
    checkpoint: Checkpoint,
    descriptor: int,
    max_length: int | None,
    as_json: bool = False,
    marked: bool = False,
) -> Iterator[Line]:
    """Transduce every line of an open file or pipe, in order.

    Where each symbol can be answered at once, a line that comes bit by bit is answered bit by
    bit: as several of what is given back, of which all but the last are not `complete`.

    Args:
        checkpoint: the model.
        descriptor: an open file or pipe.
        max_length: longest answer in symbols; None for what is usual.
        as_json: whether to wait for whole lines, and to find out all that is told of them as JSON.
        marked: whether there is a mark in the place of each symbol that is not scored.
    """
    stream = None if as_json or not can_stream(checkpoint) else LineStream(checkpoint, marked)
    number = 1
    for group in line_groups(descriptor, parts=stream is not None):
        lines: list[tuple[Line, bytes]] = []
        parts: list[Line] = []
        for piece in group:
            line = Line(number, complete=piece.ends)
            parts.append(line)
            if stream and not (piece.begins and piece.ends):
                line.output, line.error = stream.feed(piece)
            else:
                lines.append((line, piece.raw))
            number += piece.ends
        known = _decoded(lines)
        _answer(checkpoint, known, max_length, scored=as_json or marked, marked=marked)
        if as_json and isinstance(checkpoint.task, Corpus):
            _look_ahead(checkpoint.model, checkpoint.task.vocabulary, known)
        parts[-1].last = True
        yield from parts


def transduce_strings(
    checkpoint: Checkpoint, sources: Sequence[str], max_length: int | None, marked: bool = False
) -> list[Line]:
    """Transduce strings, in order.

    Args:
        checkpoint: the model.
        sources: a line each.
        max_length: longest answer in symbols; None for what is usual.
        marked: whether there is a mark in the place of each symbol that is not scored.

    Raises:
        StacktransError: one can't be transduced; the message says which, from 1.
    """
    lines = [Line(number, source=source) for number, source in enumerate(sources, start=1)]
    _answer(checkpoint, lines, max_length, scored=True, marked=marked)
    for line in lines:
        if line.error:
            raise StacktransError(f"source {line.number}: {line.error}")
    return lines


def _decoded(lines: Sequence[tuple[Line, bytes]]) -> list[Line]:
    """Lines with their texts, or with what is wrong with them."""
    for line, raw in lines:
        try:
            line.source = decode_line(raw)
        except StacktransError as error:
            line.error = str(error)
    return [line for line, _ in lines]


def _answer(
    checkpoint: Checkpoint,
    lines: Sequence[Line],
    max_length: int | None,
    scored: bool,
    marked: bool,
) -> None:
    """Answer lines; find out what is scored of an answer, and mark what is not, as is asked for."""
    task = checkpoint.task
    waiting, sources = [], []
    for line in lines:
        if line.source is None:
            continue
        symbols = task.source.split(line.source)
        if not symbols:
            line.output = ""
            continue
        try:
            check_length(symbols)
            sources.append(task.source.encode(symbols))
            waiting.append((line, symbols))
        except StacktransError as error:
            line.error = str(error)
    answers = transduce(checkpoint.model, checkpoint.layout, sources, max_length)
    for (line, symbols), answer in zip(waiting, answers, strict=True):
        if math.isnan(answer.log_probability):
            line.error = OVERFLOW
            continue
        said = task.target.decode(answer.target)
        if scored and task.same_length:
            line.scored = [*task.scored(symbols)]
            said = with_marks(said, line.scored) if marked else said
        line.output = task.target.join(said)
        line.probability = math.exp(answer.log_probability)
        line.ended = answer.ended


def _look_ahead(model: Transducer, vocabulary: Vocabulary, lines: Sequence[Line]) -> None:
    """Find out what a model of a text expects after each symbol of some lines."""
    for line in lines:
        if line.source and line.source.strip():
            found = followings(model, vocabulary, vocabulary.split(line.source))
            if any(math.isnan(one.log_probability) for one in found):
                line.error = OVERFLOW
            else:
                line.following = found
