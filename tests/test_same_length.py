"""Tasks with a target symbol for each source symbol: oracles, samples, scores, streams."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import invoke, run, start
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import shaped
from shipped_tasks import task_of, written

from stacktrans.common.errors import UsageError
from stacktrans.decoding.decoder import decode
from stacktrans.inference.scores import score
from stacktrans.inference.transduction import AnsweredLine, AnswerOptions, transduce_lines
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.torch_backend import TorchModel
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.encoding import encode_batch
from stacktrans.tasks.grammatical import MAX_FOLLOWED
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import DepthLimit, Lengths, NormalLengths, NoSuchLaw, NoSuchLength

NAMES = [
    "agreement",
    "delayed-xor",
    "formula",
    "parenthesis",
    "reversal",
    "reversal-deletion",
    "xor",
]


def config_of(name: str, recipe: str, **model: Any) -> RunConfig:
    return resolve(
        task=name, recipe=recipe, settings={"model": shaped(**{"memory": "stack", **model})}
    )


@pytest.mark.parametrize(
    ("name", "source", "answer"),
    [
        ("reversal", "0110####", "....0110"),
        ("reversal", "1#", ".1"),
        ("reversal-deletion", "02130#####", ".....010.."),
        ("xor", "1101", "1001"),
        ("delayed-xor", "1101", "0100"),
        ("parenthesis", "([])([", ")]).)]"),
        ("formula", "T F T and or", "1 0 1 0 1"),
        ("formula", "T", "1"),
        ("agreement", "the lobsters in the lobster that", ". have . . have has"),
        (
            "agreement",
            "the lobster that the lobsters that have slept have devoured",
            ". has has . have have . have . has",
        ),
    ],
)
def test_answers_equal_the_examples(name: str, source: str, answer: str) -> None:
    task = task_of(name)
    assert written(task, task.answer(task.source.split(source))) == answer


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("reversal", "011##", "as many # as it is long"),
        ("reversal", "0#1###", "as many # as it is long"),
        ("parenthesis", "(]", r"no sentence of the grammar begins with '\(\]'"),
        ("agreement", "the slept", "begins with 'the slept'"),
        ("formula", "T F", "ends too early"),
    ],
)
def test_oracles_say_why_a_string_is_no_source(name: str, source: str, message: str) -> None:
    task = task_of(name)
    with pytest.raises(NotASource, match=message):
        task.answer(task.source.split(source))


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_samples_are_in_range_and_the_oracle_knows_what_is_scored(name: str, recipe: str) -> None:
    config, task = config_of(name, recipe).task, task_of(name)
    for lengths in (config.ranges.train, config.ranges.test):
        pairs = task.sample(np.random.default_rng(2), lengths, 15, config.law_of(lengths))
        assert all(lengths.shortest <= pair.length <= lengths.longest for pair in pairs)
        for pair in pairs:
            answer = task.answer(task.source.decode(pair.source))
            assert len(answer) == len(pair.source) == len(pair.target)
            scored = np.ones(len(answer), bool) if pair.scored is None else pair.scored
            target = task.target.decode(pair.target)
            assert [answer[i] for i in np.flatnonzero(scored)] == [
                target[i] for i in np.flatnonzero(scored)
            ]


@pytest.mark.parametrize(("depth", "longest"), [(6, 20), (12, 110)])
def test_depths_give_the_published_lengths(depth: int, longest: int) -> None:
    law = config_of("parenthesis", "paper").task
    task = task_of("parenthesis")
    assert DepthLimit(depth) in (law.law_of(law.ranges.train), law.law_of(law.ranges.test))
    pairs = task.sample(np.random.default_rng(1), Lengths(2, 200), 40, DepthLimit(depth))
    assert longest - 12 <= max(pair.length for pair in pairs) <= longest


def test_derivations_no_deeper_than_a_limit_are_equally_likely() -> None:
    parameters = {
        "root": "S",
        "rules": {
            "S": [
                {"probability": "9/10", "source": "a"},
                {"probability": "1/10", "source": "S:1 b S:2"},
            ]
        },
    }
    task = make_task("mine", "grammar", parameters)
    # Depth 2: a. Depth 3: a, aba. Depth 4: a, and aba with either part a or aba.
    pairs = task.sample(np.random.default_rng(1), Lengths(1, 9), 5000, DepthLimit(4))
    strings = [task.source.join(task.source.decode(pair.source)) for pair in pairs]
    shares = {string: strings.count(string) / 5000 for string in set(strings)}
    expected = {"a": 1 / 5, "a b a": 1 / 5, "a b a b a": 2 / 5, "a b a b a b a": 1 / 5}
    assert shares == pytest.approx(expected, abs=0.025)


def test_published_lengths_are_normal_and_cut() -> None:
    law = NormalLengths(mean=10, deviation=2)
    pairs = task_of("reversal").sample(np.random.default_rng(1), Lengths(1, 12), 4000, law)
    lengths = np.array([pair.length for pair in pairs])
    # Rounded towards 0, which takes half a symbol off; all above are 12.
    assert lengths.mean() == pytest.approx(9.4, abs=0.1)
    assert (lengths == 12).mean() == pytest.approx(0.159, abs=0.02)


def test_next_symbols_of_very_long_prefixes_are_not_computed() -> None:
    task = task_of("parenthesis")
    opening = task.source.symbols[0]
    assert len(task.answer([opening] * MAX_FOLLOWED)) == MAX_FOLLOWED
    with pytest.raises(NotASource, match=f"at most {MAX_FOLLOWED} symbols"):
        task.answer([opening] * (MAX_FOLLOWED + 1))


def test_laws_that_a_task_does_not_have_are_refused() -> None:
    with pytest.raises(NoSuchLaw, match="depth: only for tasks with a grammar"):
        task_of("xor").sample(np.random.default_rng(1), Lengths(1, 9), 1, DepthLimit(3))
    with pytest.raises(NoSuchLaw, match="expected uniform, task or a depth for a grammar"):
        task_of("formula").sample(np.random.default_rng(1), Lengths(1, 9), 1, NormalLengths(3, 1))
    with pytest.raises(NoSuchLength, match="lengths 1: none"):
        task_of("parenthesis").sample(np.random.default_rng(1), Lengths(1, 1), 1, "uniform")


@pytest.mark.parametrize(
    ("generator", "parameters", "message"),
    [
        ("waiting-reversal", {"symbols": -9}, "symbols is -9; expected a number from 1 to"),
        ("waiting-reversal", {"deleted": 2}, "deleted is 2; expected a number from 0 to 1"),
        ("parity", {"symbols": 2}, "symbols"),
        ("next-symbol", {"predict": ["c"], "root": "S"}, "rules"),
        (
            "next-symbol",
            {"predict": ["c"], "root": "S", "rules": {"S": [{"probability": 1, "source": "a"}]}},
            "predict: unknown word 'c'",
        ),
        (
            "next-symbol",
            {"predict": [1], "root": "S", "rules": {"S": [{"source": "a"}]}},
            "expected a list of words, in quotes where YAML reads a number",
        ),
        (
            "same-length-grammar",
            {"root": "S", "rules": {"S": [{"probability": 1, "source": "a b", "target": "c"}]}},
            "2 words in the source and 1 in the target",
        ),
        (
            "grammar",
            {"characters": True, "root": "S", "rules": {"S": [{"probability": 1, "source": "ab"}]}},
            "'ab' is more than one character",
        ),
    ],
)
def test_wrong_parameters_are_named(
    generator: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_task("mine", generator, parameters)


@settings(max_examples=50)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=5))
def test_synchronous_layouts_encode_pairs(masks: list[list[bool]]) -> None:
    layout = Layout.synchronous(sources=3, targets=4)
    pairs = [
        Pair(np.arange(len(mask)) % 3, np.arange(len(mask)) % 4, np.array(mask)) for mask in masks
    ]
    batch = encode_batch(layout, [[pair] for pair in pairs])
    assert (layout.inputs, layout.outputs) == (3, 4)
    assert batch.lengths == [len(mask) for mask in masks]
    for row, (mask, pair) in enumerate(zip(masks, pairs, strict=True)):
        assert batch.inputs[row, : len(mask)].tolist() == pair.source.tolist()
        assert batch.mask[row, : len(mask)].tolist() == mask
        assert not batch.mask[row, len(mask) :].any()
        assert batch.targets[row][batch.mask[row]].tolist() == pair.target[mask].tolist()


class Sayer(Transducer):
    """Says what it reads, whatever it has learned."""

    def read_out(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


def test_scores_count_scored_symbols_only() -> None:
    model = Sayer(config_of("xor", "paper", memory="none").model, 2, 2)
    scored = np.array([True, True, False, True])
    pairs = [
        Pair(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]), scored),
        Pair(np.array([0, 1, 1, 0]), np.array([1, 1, 0, 0]), scored, size=9),
        Pair(np.array([0]), np.array([1]), np.array([False])),
    ]
    scores = score(TorchModel(model), Layout.synchronous(2, 2), pairs)
    assert scores.lengths.tolist() == [4, 9, 1]
    assert scores.fine.tolist() == [1, 0, 1]
    assert scores.coarse_accuracy == 2 / 3
    assert scores.symbol_accuracy == 5 / 6


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints that have learned nothing: of characters, of words, and with buffers."""
    paths = {}
    for name, task, buffered in (
        ("characters", "xor", False),
        ("words", "formula", False),
        ("buffered", "xor", True),
    ):
        config = config_of(task, "paper", controller="lstm", buffered=buffered)
        torch.manual_seed(1)
        layout = task_of(task).layout
        model = Transducer(config.model, layout.inputs, layout.outputs)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(5)
        paths[name] = tmp_path_factory.mktemp("models") / name
        checkpoint_files.save(paths[name], config, model.state_dict())
    return paths


def test_answers_do_not_depend_on_the_rest_of_the_batch(models: dict[str, Path]) -> None:
    for path in models.values():
        loaded = checkpoint.load(path, torch.device("cpu"))
        rng = np.random.default_rng(1)
        sources = [rng.integers(2, size=length) for length in (5, 1, 30, 5, 12)]
        together = decode(loaded.predictor, loaded.layout, sources)
        for source, answer in zip(sources, together, strict=True):
            (alone,) = decode(loaded.predictor, loaded.layout, [source])
            assert answer.target == alone.target
            assert len(answer.target) == len(source)
            assert answer.log_probability == pytest.approx(alone.log_probability, rel=1e-4)


def test_a_line_is_answered_bit_by_bit(models: dict[str, Path]) -> None:
    whole = run("transduce", models["characters"], stdin=b"1101\n01\n").stdout
    process = start("transduce", models["characters"], stdin=True)
    assert process.stdin is not None
    assert process.stdout is not None
    for sent in (b"1", b"1", b"01\n", b"0", b"1"):
        process.stdin.write(sent)
        process.stdin.flush()
        expected, whole = whole[: len(sent)], whole[len(sent) :]
        assert process.stdout.read(len(sent)) == expected
    rest, _ = process.communicate()
    assert rest == whole == b"\n"


def test_words_are_answered_when_they_are_whole(models: dict[str, Path]) -> None:
    whole = run("transduce", models["words"], stdin=b"T F and T\n").out
    reading, writing = os.pipe()
    options = AnswerOptions(marked=True)
    answers = transduce_lines(checkpoint.load(models["words"]), reading, options)
    for sent, count in ((b"T F an", 3), (b"d ", 2), (b"T\n", 2)):
        os.write(writing, sent)
        assert next(answers).output == whole[:count]
        whole = whole[count:]
    assert whole == "\n"
    os.close(writing)
    assert [*answers] == []
    os.close(reading)


def test_an_unknown_symbol_in_a_line_answered_symbol_by_symbol_is_an_error(
    models: dict[str, Path],
) -> None:
    reading, writing = os.pipe()
    answers = transduce_lines(checkpoint.load(models["characters"]), reading)
    os.write(writing, b"11")
    begun = next(answers).output
    os.write(writing, "0ä1\n11\n".encode())
    os.close(writing)
    failed, after = answers
    assert isinstance(failed, AnsweredLine)
    assert failed.number == 1
    assert failed.error == "symbol 4 is 'ä', which is not in the alphabet"
    assert after.output == begun
    os.close(reading)


@pytest.mark.parametrize(
    ("name", "full"), [("characters", True), ("words", True), ("buffered", False)]
)
def test_buffered_models_and_json_wait_for_whole_lines(
    models: dict[str, Path], name: str, full: bool
) -> None:
    loaded = checkpoint.load(models[name])
    begun, rest = (b"T F ", b"and\n") if name == "words" else (b"01", b"1\n")
    reading, writing = os.pipe()
    os.write(writing, begun)
    later = threading.Timer(0.2, os.write, (writing, rest))
    later.start()
    answer = next(transduce_lines(loaded, reading, AnswerOptions(full=full)))
    later.join()
    assert len(loaded.task.target.split((answer.output or "").rstrip("\n"))) == 3
    os.close(writing)
    os.close(reading)


def test_pairs_of_unlike_lengths_are_refused(models: dict[str, Path], tmp_path: Path) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("01\t01\n011\t01\n")
    done = run("eval", models["characters"], "--data", data)
    assert done.returncode == 1
    assert b"pairs.tsv:2: the source has 3 symbols and the target 2" in done.stderr


@pytest.mark.parametrize("name", ["xor-buffered", "reversal-stack", "anbncn"])
def test_pairs_without_a_source_are_refused(name: str, tmp_path: Path) -> None:
    data = tmp_path / "pairs.jsonl"
    data.write_text('{"source": "", "target": ""}\n')
    done = invoke("eval", name, "--data", str(data))
    assert done.returncode == 1
    assert "pairs.jsonl:1: the source is empty" in done.err


def test_empty_sources_have_empty_answers(models: dict[str, Path]) -> None:
    for path in models.values():
        loaded = checkpoint.load(path, torch.device("cpu"))
        for lengths in ([0], [0, 1]):
            sources = [np.zeros(length, dtype=np.int64) for length in lengths]
            found = decode(loaded.predictor, loaded.layout, sources)
            assert [len(answer.target) for answer in found] == lengths


@pytest.mark.parametrize("name", ["characters", "words", "buffered"])
def test_every_step_can_be_looked_at(models: dict[str, Path], name: str) -> None:
    source = "T F and" if name == "words" else "011"
    shown = run("inspect", models[name], source).stdout.decode()
    assert ("read input" in shown) == (name == "buffered")
    assert "input read" in shown or name != "buffered"
    done = run("inspect", models[name], "--lengths", "3:5", "--json")
    assert done.returncode == 0
    assert run("inspect", models[name], "").returncode == 1
