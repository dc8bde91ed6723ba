"""What a transducer did at each step, as data."""

from dataclasses import dataclass

import torch
from torch import Tensor

from stacktrans.checkpoint import Checkpoint
from stacktrans.decoding import transduce
from stacktrans.sequences import Ids
from stacktrans.tasks.base import NotASource, UnknownSymbol
from stacktrans.transducer import Transducer, TransducerState

BEGIN, SEPARATOR, END = "<s>", "|||", "</s>"


@dataclass(frozen=True)
class Part:
    """One row's share in a read.

    Attributes:
        symbol: what was being read when the row was pushed.
        step: the step, from 1, that pushed it.
        weight: its weight in the read.
    """

    symbol: str
    step: int
    weight: float


@dataclass(frozen=True)
class Step:
    """One step of a transducer.

    Attributes:
        step: number of the step, from 1.
        input: the symbol read.
        output: the most probable next symbol; None while the source is read.
        probability: of the output; None while the source is read.
        signals: strength of each signal.
        reads: for each end, the rows that the read is made of, heaviest first.
        held: sum of all strengths in the memory after the step.
    """

    step: int
    input: str
    output: str | None
    probability: float | None
    signals: dict[str, float]
    reads: dict[str, list[Part]]
    held: float


@dataclass(frozen=True)
class Trace:
    """What a transducer made of one source, step by step.

    Attributes:
        source: as it is written.
        answer: the model's answer, as it is written.
        ended: whether the model ended its answer by itself.
        expected: the exact answer; None if the task gives none.
        why_not: why the task gives none.
        correct: whether the answer is the exact one; None if there is none.
        steps: the steps.
    """

    source: str
    answer: str
    ended: bool
    expected: str | None
    why_not: str | None
    correct: bool | None
    steps: list[Step]


@torch.no_grad()
def trace(checkpoint: Checkpoint, source: list[str], smallest: float = 0.005) -> Trace:
    """Follow a model through a source and its own answer.

    Args:
        checkpoint: the model.
        source: the source's symbols.
        smallest: rows with less weight are left out of the reads.

    Raises:
        UnknownSymbol: a symbol of the source is not in the alphabet.
    """
    task, layout = checkpoint.task, checkpoint.layout
    ids = task.source.encode(source)
    answer = transduce(checkpoint.model, layout, [ids])[0]
    written = task.target.decode(answer.target)
    expected, why_not = _expected(checkpoint, source)
    return Trace(
        source=task.source.join(source),
        answer=task.target.join(written),
        ended=answer.ended,
        expected=None if expected is None else task.target.join(expected),
        why_not=why_not,
        correct=None if expected is None else answer.ended and written == expected,
        steps=_steps(
            checkpoint, ids, answer.target, [BEGIN, *source, SEPARATOR, *written], smallest
        ),
    )


def _expected(checkpoint: Checkpoint, source: list[str]) -> tuple[list[str] | None, str | None]:
    try:
        return checkpoint.task.answer(source), None
    except (NotASource, UnknownSymbol) as error:
        return None, str(error)


def _steps(
    checkpoint: Checkpoint, source: Ids, target: list[int], symbols: list[str], smallest: float
) -> list[Step]:
    model, layout = checkpoint.model, checkpoint.layout
    inputs = [*layout.prefix(source), *(layout.first_target + index for index in target)]
    ids = torch.tensor([inputs], device=model.classifier.weight.device)
    outputs = [*checkpoint.task.target.symbols, END]
    state = model.initial(1)
    steps: list[Step] = []
    for number, symbol in enumerate(symbols, start=1):
        unrolled, state = model.unroll_by_definition(ids[:, number - 1 : number], state)
        probabilities = torch.softmax(model.read_out(unrolled.hidden[0, -1]), dim=-1)
        best = int(probabilities.argmax())
        answering = number > len(source) + 1
        strengths = unrolled.signals[0, -1].tolist()
        steps.append(
            Step(
                step=number,
                input=symbol,
                output=outputs[best] if answering else None,
                probability=float(probabilities[best]) if answering else None,
                signals=dict(zip(_signal_names(model), strengths, strict=True)),
                reads=_reads(model, state, symbols[:number], smallest),
                held=_held(model, state),
            )
        )
    return steps


def _signal_names(model: Transducer) -> tuple[str, ...]:
    return model.operation.memory.signal_names if model.operation else ()


def _held(model: Transducer, state: TransducerState) -> float:
    if model.operation is None or state.memory is None:
        return 0.0
    return float(model.operation.memory.strengths(state.memory).sum())


def _reads(
    model: Transducer, state: TransducerState, symbols: list[str], smallest: float
) -> dict[str, list[Part]]:
    if model.operation is None or state.memory is None:
        return {}
    memory = model.operation.memory
    weights = memory.read_weights(state.memory)[0]
    origins = memory.row_origins(len(symbols))
    return {
        end: _parts(weights[row], origins, symbols, smallest) for row, end in enumerate(memory.ends)
    }


def _parts(weights: Tensor, origins: list[int], symbols: list[str], smallest: float) -> list[Part]:
    shares: dict[int, float] = {}
    for row in (weights >= smallest).nonzero().flatten().tolist():
        shares[origins[row]] = shares.get(origins[row], 0.0) + float(weights[row])
    heaviest = sorted(shares.items(), key=lambda share: -share[1])
    return [Part(symbols[step], step + 1, weight) for step, weight in heaviest]
