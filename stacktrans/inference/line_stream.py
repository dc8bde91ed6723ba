"""Answers to a line that arrives in parts: symbol by symbol, by a synchronous model."""

import codecs
import itertools
from collections import deque

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.common.reading import LinePiece, check_length
from stacktrans.decoding.decoder import most_probable
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import UnknownSymbol
from stacktrans.tasks.base import mask_unscored


class LineStream:
    """Lines that arrive in parts, answered symbol by symbol by a synchronous model.

    Args:
        checkpoint: a model of a same-length task, without buffers.
        marked: whether symbols that are not scored are replaced by a mark.
    """

    def __init__(self, checkpoint: Checkpoint, marked: bool = False) -> None:
        self._model, self._task = checkpoint.predictor, checkpoint.task
        self._marked = marked
        self._begin()

    def _begin(self) -> None:
        self._state = self._model.start(1)
        self._read: deque[str] = deque()
        self._scored = self._task.scored(iter(self._read.popleft, None))
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
        output, problem = self._answer(piece)
        self._failed = problem is not None
        return output, problem

    def _answer(self, piece: LinePiece) -> tuple[str, str | None]:
        source, target = self._task.source, self._task.target
        symbols, problem = self._symbols(piece)
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
        output_ids, log_probs = most_probable(self._model.advance(self._state, ids[None]))
        if np.isnan(log_probs).any():
            return "", self._model.failure
        output = target.decode(output_ids.tolist())
        if self._marked:
            self._read.extend(symbols[: len(output)])
            output = mask_unscored(output, itertools.islice(self._scored, len(output)))
        # The empty symbol puts a space between words and those before them.
        answer = target.join(["", *output] if self._count else output)
        self._count += len(ids)
        return answer, problem

    def _symbols(self, piece: LinePiece) -> tuple[list[str], str | None]:
        """The symbols that a part completes, and the error that follows them."""
        wrong: UnicodeDecodeError | None = None
        try:
            text = self._rest + self._decoder.decode(piece.raw, final=piece.ends)
        except UnicodeDecodeError as error:
            text, wrong = self._rest + error.object[: error.start].decode(), error
        is_whole = piece.ends and not wrong
        size = len(text.removesuffix("\r")) if is_whole else self._complete_size(text)
        symbols, self._rest = self._task.source.split(text[:size]), text[size:]
        if not wrong:
            return symbols, None
        byte, count = wrong.object[wrong.start], self._count + len(symbols)
        return symbols, f"0x{byte:02x} after {count} symbols is not UTF-8"

    def _complete_size(self, text: str) -> int:
        """The size of the complete symbols in a text, without what may be the end of the line."""
        if not self._task.source.words:
            return len(text.removesuffix("\r"))
        return max(text.rfind(space) for space in " \t\r") + 1
