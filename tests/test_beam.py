"""Beam search: against every answer there is, and against a search that keeps lists of symbols."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from shapes import shaped

from stacktrans.decoding.beam import search
from stacktrans.decoding.decoder import Answer, decode
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layout import Layout

LAYOUT = Layout.joint(sources=2, targets=2)
END = 2
"""The output that ends an answer in it."""
MEMORIES = [
    "stack",
    "queue",
    "deque",
    "none",
    "stack-rnn",
    "list-rnn",
    "superposed",
    "tape",
    "nondeterministic",
]
SOURCES = [
    np.array(source, dtype=np.int64)
    for source in ([0], [1, 0, 1], [1, 1, 0], [], [0, 0, 1, 1, 0, 1])
]


def tiny(memory: str = "stack", layout: Layout = LAYOUT, kernel: str = "auto") -> Transducer:
    """A model without training whose answers differ, since its weights are large."""
    shape = shaped(memory, hidden_size=8, size=4, embedding_size=4, output_size=6)
    config = resolve(task="copy", settings={"model": shape}).model
    torch.manual_seed(4)
    model = Transducer(config.model_copy(update={"kernel": kernel}), layout.inputs, layout.outputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(5)
        model.classifier.bias.zero_()
    return model


def logs_after(
    model: Transducer, layout: Layout, source: Ids, written: Sequence[int]
) -> list[float]:
    """The logarithms of the probabilities of all outputs after a source and part of an answer."""
    assert layout.first_target is not None
    read = [*layout.prompt(source), *(layout.first_target + symbol for symbol in written)]
    with torch.no_grad():
        logits = model(torch.tensor([read]))[0, -1].double()
    found: list[float] = torch.log_softmax(logits, dim=-1).tolist()
    return found


def every_answer(model: Transducer, source: Ids, limit: int) -> list[Answer]:
    """All answers of up to `limit` symbols, the most probable first."""
    found = []
    for length in range(limit + 1):
        for written in itertools.product(range(END), repeat=length):
            total = 0.0
            for place, symbol in enumerate(written):
                total += logs_after(model, LAYOUT, source, written[:place])[symbol]
            logs = logs_after(model, LAYOUT, source, written)
            ended = length < limit or max(logs) == logs[END]
            found.append(Answer([*written], total + ended * logs[END], ended))
    return sorted(found, key=lambda answer: -answer.log_probability)


def kept_in_lists(
    model: Transducer, layout: Layout, source: Ids, width: int, limit: int
) -> list[Answer]:
    """What a beam finds, one hypothesis at a time."""
    beam = [Answer([], 0.0, ended=False)]
    for _ in range(limit):
        following = [answer for answer in beam if answer.ended]
        for answer in beam:
            if answer.ended:
                continue
            for symbol, log in enumerate(logs_after(model, layout, source, answer.target)):
                written = [*answer.target, symbol]
                total = answer.log_probability + log
                if symbol == layout.end:
                    following.append(Answer(answer.target, total, ended=True))
                else:
                    following.append(Answer(written, total, ended=symbol in layout.last))
        beam = sorted(following, key=lambda answer: -answer.log_probability)[:width]
    last = []
    for answer in beam:
        logs = logs_after(model, layout, source, answer.target)
        if not answer.ended and logs.index(max(logs)) == layout.end:
            last.append(Answer(answer.target, answer.log_probability + max(logs), ended=True))
        else:
            last.append(answer)
    return sorted(last, key=lambda answer: -answer.log_probability)


def same(found: Sequence[Answer], expected: Sequence[Answer]) -> None:
    assert [(answer.target, answer.ended) for answer in found] == [
        (answer.target, answer.ended) for answer in expected
    ]
    assert [answer.log_probability for answer in found] == pytest.approx(
        [answer.log_probability for answer in expected], abs=1e-4
    )


@pytest.mark.parametrize("memory", ["deque", "tape"])
def test_a_beam_that_is_wide_enough_finds_every_answer(memory: str) -> None:
    model = tiny(memory)
    found = search(predictor_of(model), LAYOUT, SOURCES, width=40, best=40, limit=4)
    for source, answers in zip(SOURCES, found, strict=True):
        expected = every_answer(model, source, limit=4)
        assert len(expected) == 31
        same(answers, expected)
    total = sum(math.exp(answer.log_probability) for answer in found[0] if answer.ended)
    assert 0 < total <= 1


@pytest.mark.parametrize(
    ("memory", "kernel"),
    [*((memory, "auto") for memory in MEMORIES), ("deque", "torch"), ("tape", "torch")],
)
def test_a_narrow_beam_equals_the_reference_search(memory: str, kernel: str) -> None:
    model = tiny(memory, kernel=kernel)
    for width in (2, 3):
        found = search(predictor_of(model), LAYOUT, SOURCES, width, best=width, limit=9)
        for source, answers in zip(SOURCES, found, strict=True):
            same(answers, kept_in_lists(model, LAYOUT, source, width, limit=9))
        for answers, (first, *_) in zip(
            search(predictor_of(model), LAYOUT, SOURCES, width, limit=9), found, strict=True
        ):
            same(answers, [first])


def test_a_beam_finds_answers_that_greedy_decoding_misses() -> None:
    model = tiny("deque")
    greedy = decode(predictor_of(model), LAYOUT, SOURCES, limit=6)
    found = search(predictor_of(model), LAYOUT, SOURCES, width=8, limit=6)
    gains = [
        best.log_probability - answer.log_probability
        for answer, (best,) in zip(greedy, found, strict=True)
    ]
    assert min(gains) > -1e-4
    assert max(gains) > 1


def test_a_beam_of_one_is_greedy() -> None:
    model = tiny()
    greedy = decode(predictor_of(model), LAYOUT, SOURCES, limit=9)
    assert search(predictor_of(model), LAYOUT, SOURCES, width=1, limit=9) == [
        [answer] for answer in greedy
    ]


@pytest.mark.parametrize(
    "layout",
    [Layout.stream(3, follow=0), Layout.stream(3, last=2), Layout.stream(3)],
    ids=["follow", "last", "endless"],
)
def test_streams_are_searched(layout: Layout) -> None:
    model = tiny("stack-rnn", layout)
    sources = [np.array([0, 1]), np.array([0, 2, 1, 2, 1])]
    found = search(predictor_of(model), layout, sources, width=4, best=4, limit=5)
    for source, answers in zip(sources, found, strict=True):
        most = layout.limit(len(source), 5)
        expected = kept_in_lists(model, layout, source, 4, most)
        if layout.end is None and not layout.last:
            expected = [Answer(each.target, each.log_probability, True) for each in expected]
        same(answers, expected)


def test_synchronous_answers_are_greedy() -> None:
    layout = Layout.synchronous(2, 3)
    shape = shaped("stack", hidden_size=8, size=4, embedding_size=4, output_size=6)
    model = Transducer(resolve(task="copy", settings={"model": shape}).model, 2, 3)
    (greedy,) = decode(predictor_of(model), layout, [SOURCES[1]])
    assert search(predictor_of(model), layout, [SOURCES[1]], width=4, best=4) == [[greedy]]


def test_an_overflow_in_another_hypothesis_does_not_affect_the_best() -> None:
    model, source = tiny(), SOURCES[1]
    (greedy,) = decode(predictor_of(model), LAYOUT, [source], limit=1)
    assert LAYOUT.first_target is not None
    (other,) = {0, 1}.difference(greedy.target[:1])
    with torch.no_grad():  # an answer that begins otherwise cannot be continued
        model.embedding.weight[LAYOUT.first_target + other] = torch.nan  # type: ignore[union-attr]
    (found,) = search(predictor_of(model), LAYOUT, [source], width=8, limit=1)
    same(found, [greedy])


def test_overflowing_logits_give_a_log_probability_of_nan() -> None:
    model = tiny()
    with torch.no_grad():
        model.classifier.bias.fill_(torch.inf)
    for (answer,) in search(predictor_of(model), LAYOUT, SOURCES, width=3, limit=9):
        assert math.isnan(answer.log_probability)
