"""Transducing a stream of lines."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stacktrans.checkpoint import Checkpoint
from stacktrans.decoding import transduce, usual_limit
from stacktrans.errors import StacktransError
from stacktrans.text import decode_line, line_groups


@dataclass
class Line:
    """A line and what became of it.

    Attributes:
        number: of the line, from 1.
        source: its text; None if it is no text.
        output: the answer; None if there is none.
        probability: of the whole answer; None if the line is empty or there is no answer.
        ended: whether the model ended the answer; None likewise.
        error: why there is no answer.
        last: whether no further line is ready.
    """

    number: int
    source: str | None = None
    output: str | None = None
    probability: float | None = None
    ended: bool | None = None
    error: str | None = None
    last: bool = False

    def as_json(self) -> dict[str, Any]:
        """The line as `transduce --json` prints it."""
        entry: dict[str, Any] = {
            "line": self.number,
            "source": self.source,
            "output": self.output,
            "probability": self.probability,
            "ended": self.ended,
        }
        return entry | ({"error": self.error} if self.error else {})


def transduce_lines(
    checkpoint: Checkpoint, descriptor: int, max_length: int | None
) -> Iterator[Line]:
    """Transduce every line of an open file or pipe, in order.

    Args:
        checkpoint: the model.
        descriptor: an open file or pipe.
        max_length: longest answer in symbols; None for what is usual.
    """
    number = 0
    for group in line_groups(descriptor):
        lines = []
        for raw in group:
            number += 1
            lines.append((Line(number), raw))
        _answer(checkpoint, lines, max_length)
        lines[-1][0].last = True
        yield from (line for line, _ in lines)


def _answer(
    checkpoint: Checkpoint, lines: list[tuple[Line, bytes]], max_length: int | None
) -> None:
    task = checkpoint.task
    waiting, sources = [], []
    for line, raw in lines:
        try:
            line.source = decode_line(raw)
            symbols = task.source.split(line.source)
            if not symbols:
                line.output = ""
                continue
            sources.append(task.source.encode(symbols))
            waiting.append(line)
        except StacktransError as error:
            line.error = str(error)
    limit = usual_limit if max_length is None else lambda _: max_length
    answers = transduce(checkpoint.model, checkpoint.layout, sources, limit)
    for line, answer in zip(waiting, answers, strict=True):
        line.output = task.target.join(task.target.decode(answer.target))
        line.probability = math.exp(answer.log_probability)
        line.ended = answer.ended
