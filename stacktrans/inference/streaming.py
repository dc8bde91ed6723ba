"""Transducing a line that comes bit by bit, where each symbol can be answered at once."""

import codecs
from collections import deque

import torch

from stacktrans.common.errors import OVERFLOW
from stacktrans.inference.decoding import likeliest
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.base import UNKNOWN
from stacktrans.tasks.layouts import UnknownSymbol
from stacktrans.tasks.lines import Piece


def can_stream(checkpoint: Checkpoint) -> bool:
    """Whether a model answers each symbol as soon as it has read it."""
    return checkpoint.task.same_length and not checkpoint.model.config.buffers


class LineStream:
    """Lines, each bit by bit.

    Args:
        checkpoint: a model that can stream.
        marked: whether there is a mark in the place of each symbol that is not scored.
    """

    def __init__(self, checkpoint: Checkpoint, marked: bool = False) -> None:
        self._model, self._task = checkpoint.model, checkpoint.task
        self._marked = marked
        self._begin()

    def _begin(self) -> None:
        self._run = self._model.start(1)
        self._coming: deque[str] = deque()
        self._scored = self._task.scored(iter(self._coming.popleft, None))
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""
        self._count = 0
        self._failed = False

    def feed(self, piece: Piece) -> tuple[str, str | None]:
        """The answer to the next part of a line, and why it goes no further.

        A line that has failed is not gone on with.
        """
        if piece.begins:
            self._begin()
        if self._failed:
            return "", None
        try:
            text = self._rest + self._decoder.decode(piece.raw, final=piece.ends)
        except UnicodeDecodeError as error:
            self._failed = True
            return "", f"0x{error.object[error.start]:02x} after {self._count} symbols is not UTF-8"
        whole = len(text.removesuffix("\r")) if piece.ends else self._whole(text)
        self._rest = text[whole:]
        return self._answered(self._task.source.split(text[:whole]))

    def _whole(self, text: str) -> int:
        """How much of a text is whole symbols, and not perhaps the end of the line."""
        if not self._task.source.words:
            return len(text.removesuffix("\r"))
        return max(text.rfind(space) for space in " \t\r") + 1

    def _answered(self, symbols: list[str]) -> tuple[str, str | None]:
        problem = None
        try:
            ids = self._task.source.encode(symbols)
        except UnknownSymbol as error:
            # What comes before it can be answered.
            ids = self._task.source.encode(symbols[: error.position - 1])
            problem = str(UnknownSymbol(error.symbol, self._count + error.position))
            self._failed = True
        if not len(ids):
            return "", problem
        found = self._said(torch.from_numpy(ids))
        if found is None:
            self._failed = True
            return "", OVERFLOW
        said = self._task.target.decode(found)
        if self._marked:
            said = [*map(self._mark, symbols, said)]
        # Words after others are parted from them.
        text = self._task.target.join(["", *said] if self._count else said)
        self._count += len(ids)
        return text, problem

    def _mark(self, symbol: str, said: str) -> str:
        """What is said for a symbol, or a mark in its place; to be called for one after another."""
        self._coming.append(symbol)
        return said if next(self._scored) else UNKNOWN

    def _said(self, ids: torch.Tensor) -> list[int] | None:
        """What the model says of symbols; None if its numbers overflow."""
        inputs = ids.unsqueeze(0).to(self._model.classifier.weight.device)
        hidden = self._run.step(inputs).hidden
        symbols, log_probabilities = likeliest(self._model.read_out(hidden))
        return None if log_probabilities.isnan().any() else [*map(int, symbols[0])]
