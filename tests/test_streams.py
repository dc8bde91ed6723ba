"""Streams of sequences: oracles, what of them is scored, how models answer them."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import shaped
from shipped_tasks import task_of, written

from stacktrans.decoding.decoder import decode
from stacktrans.decoding.model import Numbers, SoftInput
from stacktrans.inference.scores import score
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.alphabets import Ids, Mask, UnknownSymbol
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.encoding import Batch, encode_batch, steps_of
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import Lengths, NoSuchLength

COUNTING = {
    "anbn": r"(a+)(b+)",
    "anbncn": r"(a+)(b+)(c+)",
    "anbncndn": r"(a+)(b+)(c+)(d+)",
    "anb2n": r"(a+)(b+)",
    "anbmcn+m": r"(a+)(b+)(c+)",
    "anbmcndm": r"(a+)(b+)(c+)(d+)",
    "anbmcnm": r"(a+)(b+)(c+)",
}
RIGHT: dict[str, Callable[..., bool]] = {
    "anbn": lambda a, b: a == b,
    "anbncn": lambda a, b, c: a == b == c,
    "anbncndn": lambda a, b, c, d: a == b == c == d,
    "anb2n": lambda a, b: b == 2 * a,
    "anbmcn+m": lambda a, b, c: c == a + b,
    "anbmcndm": lambda a, b, c, d: (a, b) == (c, d),
    "anbmcnm": lambda a, b, c: c == a * b,
}
NAMES = [*COUNTING, "memorization", "addition"]


def drawn(name: str, shortest: int, longest: int, count: int = 40) -> list[Pair]:
    return task_of(name).sample(
        np.random.default_rng(1), Lengths(shortest, longest), count, "uniform"
    )


def text(task: Task, pair: Pair) -> tuple[str, str]:
    return (
        task.source.join(task.source.decode(pair.source)),
        task.target.join(task.target.decode(pair.target)),
    )


@pytest.mark.parametrize("name", COUNTING)
def test_counting_sequences_are_those_of_the_pattern(name: str) -> None:
    task = task_of(name)
    for pair in drawn(name, 2, 12):
        found = re.fullmatch(COUNTING[name], "".join(text(task, pair)))
        assert found
        runs = [len(run) for run in found.groups()]
        assert RIGHT[name](*runs)
        assert pair.length == (runs[0] + runs[1] if "m" in name else runs[0])


@pytest.mark.parametrize(
    ("name", "source", "answer"),
    [
        ("anbn", "aaab", "bb"),
        ("anbn", "ab", ""),
        ("anbncn", "aab", "bcc"),
        ("anbncn", "aabbc", "c"),
        ("anbncndn", "aab", "bccdd"),
        ("anb2n", "aab", "bbb"),
        ("anbmcn+m", "aabbbc", "cccc"),
        ("anbmcndm", "aabbbc", "cddd"),
        ("anbmcnm", "aabbbc", "ccccc"),
        ("memorization", "12=", "21"),
        ("memorization", "11121=", "12111"),
        ("addition", "101+1=", "011."),
        ("addition", "0+0=", "0."),
        ("addition", "1+0=", "1."),
    ],
)
def test_answers_equal_the_examples(name: str, source: str, answer: str) -> None:
    task = task_of(name)
    assert written(task, task.answer([*source])) == answer


@pytest.mark.parametrize(
    ("name", "source", "why"),
    [
        ("anbn", "", "the beginning of a\\^n b\\^n, as far as its first b"),
        ("anbn", "aaa", "as far as its first b"),
        ("anbn", "aabbb", "as far as its first b"),
        ("anbn", "ba", "as far as its first b"),
        ("anbncn", "aabc", "as far as its first b"),
        ("memorization", "12", "and then ="),
        ("memorization", "=", "and then ="),
        ("memorization", "1=2=", "and then ="),
        ("addition", "101+=", "two binary numbers"),
        ("addition", "01+1=", "two binary numbers"),
        ("addition", "1+1=0", "two binary numbers"),
        ("addition", "1+1.=", "two binary numbers"),
    ],
)
def test_oracles_say_why_a_string_is_no_prompt(name: str, source: str, why: str) -> None:
    with pytest.raises(NotASource, match=why):
        task_of(name).answer([*source])


def test_symbols_that_are_not_in_the_alphabet_are_named() -> None:
    with pytest.raises(UnknownSymbol, match="symbol 3 is 'x'"):
        task_of("anbn").answer([*"aax"])


@settings(max_examples=50)
@given(first=st.integers(0, 2**70), second=st.integers(0, 2**70))
def test_sums_are_those_of_integers(first: int, second: int) -> None:
    task = task_of("addition")
    answer = written(task, task.answer([*f"{first:b}+{second:b}="]))
    assert int(answer[-2::-1], 2) == first + second
    assert answer[-1] == "."


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", [Lengths(2, 9), Lengths(1000, 1000)])
def test_samples_have_the_oracle_s_answer_and_their_length(name: str, lengths: Lengths) -> None:
    task = task_of(name)
    pairs = drawn(name, *lengths, count=5)
    for pair in pairs:
        source, target = text(task, pair)
        assert written(task, task.answer([*source])) == target
        assert lengths.shortest <= pair.length <= lengths.longest
        # So that pairs read from a file have the length that they were drawn with.
        assert task.pair(pair.source, pair.target).length == pair.length


def test_lengths_that_a_pattern_has_no_sequence_of_are_refused() -> None:
    with pytest.raises(NoSuchLength, match="no sequence has a length of 1; the shortest has 2"):
        task_of("anbmcnm").sample(np.random.default_rng(1), Lengths(1, 1), 1, "uniform")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (5, "expected one like"),
        ("", "expected one like"),
        ("a^n bb", "can't read 'bb'"),
        ("a^n a^n", "'a' has two runs"),
        ("a^2n b^n", "must stand alone"),
        ("a^n b^(n+m)", "must stand alone"),
        ("a^nm b^n", "must stand alone"),
        ("a^n b^(n+)", r"can't read 'b\^\(n\+\)'"),
        ("a b", "no run has a count"),
        ("a b^n", "nothing is predictable"),
    ],
)
def test_patterns_that_can_not_be_read_are_named(pattern: object, why: str) -> None:
    with pytest.raises(TaskError, match=why):
        make_task("mine", "counting", {"pattern": pattern})


def test_a_custom_pattern_is_accepted() -> None:
    task = make_task("mine", "counting", {"pattern": "x y^n z^(2n+3) w"})
    assert written(task, task.answer([*"xyyz"])) == "zzzzzzw"


def shown(layout: Layout, task: Task, batch: Batch) -> list[tuple[str, str]]:
    """For each row, the symbols read, and the symbols scored, with dots for the others."""
    return [
        (
            "".join(task.source.decode(inputs[:length])),
            "".join(
                symbol if scored else "."
                for symbol, scored in zip(
                    task.source.decode(targets[:length]), mask[:length].tolist(), strict=True
                )
            ),
        )
        for inputs, targets, mask, length in zip(
            batch.inputs, batch.targets, batch.mask, batch.lengths, strict=True
        )
    ]


def pairs_of(task: Task, *sources: str) -> list[Pair]:
    return [
        task.pair(
            task.source.encode([*source]),
            task.target.encode([*written(task, task.answer([*source]))]),
        )
        for source in sources
    ]


def test_answers_and_the_first_symbol_after_them_are_scored() -> None:
    task = task_of("anbn")
    layout = task.layout
    streams = [pairs_of(task, "aab", "ab"), pairs_of(task, "ab")]
    assert shown(layout, task, encode_batch(layout, streams)) == [
        ("aabbab", "..ba.a"),
        ("ab", ".a"),
    ]
    assert shown(layout, task, encode_batch(layout, streams, score_all=True)) == [
        ("aabbab", "abbaba"),
        ("ab", "ba"),
    ]


def test_unpredictable_symbols_of_a_stream_are_not_scored() -> None:
    task = task_of("memorization")
    layout = task.layout
    streams = [pairs_of(task, "12=", "2=")]
    assert shown(layout, task, encode_batch(layout, streams)) == [("12=212=2", "..21..2.")]
    assert shown(layout, task, encode_batch(layout, streams, score_all=True)) == [
        ("12=212=2", "2=212=2.")
    ]


def model_of(name: str, memory: str = "stack-rnn", **settings: Any) -> Transducer:
    task = task_of(name)
    config = resolve(task=name, settings={"model": shaped(memory, hidden_size=7, **settings)})
    torch.manual_seed(3)
    return Transducer(config.model, task.layout.inputs, task.layout.outputs).double().eval()


@pytest.mark.parametrize("memory", ["stack-rnn", "list-rnn", "stack", "none"])
def test_scores_of_a_stream_carry_the_state_from_one_sequence_to_the_next(memory: str) -> None:
    task, model = task_of("anbn"), model_of("anbn", memory)
    layout = task.layout
    pairs = drawn("anbn", 2, 4, count=30)
    scores = score(predictor_of(model), layout, pairs)
    assert scores.lengths.tolist() == [pair.length for pair in pairs]
    for length in (2, 3, 4):
        same = [index for index, pair in enumerate(pairs) if pair.length == length]
        ids = np.concatenate([part for index in same for part in pairs[index][:2]])
        with torch.no_grad():
            predicted = model(torch.from_numpy(ids).unsqueeze(0))[0].argmax(dim=-1).tolist()
        place = 0
        for index in same:
            end = place + steps_of(layout, pairs[index])
            known = end - len(pairs[index].target) - 1
            right = [
                predicted[step] == (ids[step + 1] if step + 1 < end else 0)
                for step in range(known, end)
            ]
            assert scores.scored[index] == len(right)
            assert scores.right[index] == sum(right)
            share = right.index(False) / len(right) if False in right else 1
            assert scores.fine[index] == pytest.approx(share)
            place = end


class Oracle:
    """A model that always outputs the same continuation of one prompt."""

    failure: ClassVar[str] = ""
    is_deterministic: ClassVar[bool] = False
    threads, buffers = 1, None

    def __init__(self, task: Task, prompt: str, then: str) -> None:
        self.outputs = len(task.source)
        outputs = 5 * np.eye(len(task.source))[task.source.encode([*then])]
        # There is none before the end of the prompt.
        self._logits = np.concatenate([np.zeros((len(prompt) - 1, len(task.source))), outputs])

    def start(self, batch: int, steps: int = 0) -> Iterator[Numbers]:
        return iter(self._logits)

    def advance(
        self, state: Iterator[Numbers], ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        assert isinstance(ids, np.ndarray)
        logits = np.array([*itertools.islice(state, ids.shape[1])])
        return logits if requested is None else logits[requested[0]]

    def select(self, state: Iterator[Numbers], items: Ids) -> Iterator[Numbers]:
        return state


@pytest.mark.parametrize(
    ("name", "prompt", "then", "answer", "ended"),
    [
        ("anbn", "aab", "ba", "b", True),
        ("anbn", "ab", "a", "", True),
        ("addition", "1+1=", "01.0", "01.", True),
        ("memorization", "12=", "2121", "21", True),
        ("anbn", "ab", "b" * 50, "b" * 24, False),
    ],
)
def test_answers_end_where_the_layout_ends_them(
    name: str, prompt: str, then: str, answer: str, ended: bool
) -> None:
    task = task_of(name)
    oracle = Oracle(task, prompt, then)
    (found,) = decode(oracle, task.layout, [task.source.encode([*prompt])])
    assert "".join(task.target.decode(found.target)) == answer
    assert found.ended is ended
