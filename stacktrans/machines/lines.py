"""Answering lines with a machine, and with nothing but what Python has: it starts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stacktrans.common.errors import StacktransError
from stacktrans.common.files import MACHINE
from stacktrans.common.incoming import check_length, decode_line, line_groups, split_words
from stacktrans.machines.definition import SAME_LENGTH, STREAM, Machine
from stacktrans.machines.files import read_machine
from stacktrans.machines.running import Tables, answer


class Answered(NamedTuple):
    """A line's answer.

    Attributes:
        number: of the line, from 1.
        output: the answer; empty if there is none.
        error: why there is no answer; None if there is one.
        ended: whether the machine ended it.
        last: whether no further line is ready.
        complete: whether the line ends with this: always.
    """

    number: int
    output: str
    error: str | None
    ended: bool
    last: bool
    complete: bool = True


def machine_at(name: str) -> Machine | None:
    """The machine in a directory, if there is one that answers whole lines.

    Raises:
        CheckpointError: it is damaged.
    """
    path = Path(name) / MACHINE
    if not path.is_file():
        return None
    machine = read_machine(path)
    return None if machine.reads.kind in (SAME_LENGTH, STREAM) else machine


def answered_lines(machine: Machine, descriptor: int, limit: int | None) -> Iterator[Answered]:
    """The answers to every line of an open file or pipe, in order, as lines come.

    Args:
        machine: what answers.
        descriptor: an open file or pipe.
        limit: the most symbols of an answer; the usual number unless given.
    """
    tables = Tables(machine)
    numbers = {symbol: number for number, symbol in enumerate(machine.source)}
    count = 0
    for group in line_groups(descriptor):
        for place, piece in enumerate(group, start=1):
            count += 1
            output, error, ended = "", None, True
            try:
                text = decode_line(piece.raw)
                symbols: Sequence[str] = split_words(text) if machine.words[0] else text
                if symbols:
                    check_length(len(symbols))
                    said = answer(tables, _encoded(numbers, symbols), limit)
                    ended = said.ended
                    between = " " if machine.words[1] else ""
                    output = between.join([machine.target[each] for each in said.outputs])
            except StacktransError as problem:
                error = str(problem)
            yield Answered(count, output, error, ended, place == len(group))


def _encoded(numbers: dict[str, int], symbols: Sequence[str]) -> list[int]:
    """The numbers of symbols; raises `StacktransError` for one that is not known."""
    try:
        return [numbers[symbol] for symbol in symbols]
    except KeyError:
        place = next(at for at, symbol in enumerate(symbols) if symbol not in numbers)
        message = f"symbol {place + 1} is {symbols[place]!r}, which the model does not know"
        raise StacktransError(message) from None
