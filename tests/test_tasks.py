"""Tasks: alphabets, samples, oracles, and every shipped task file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_tasks import task_of, written

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.registry import GENERATORS
from stacktrans.settings.locations import shipped
from stacktrans.settings.task_files import load_task
from stacktrans.tasks import make_task
from stacktrans.tasks.alphabets import Alphabet, UnknownSymbol
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.encoding import encode_batch
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import Lengths, NoSuchLength

SHIPPED = sorted(path.stem for path in shipped("tasks").glob("*.yaml") if path.stem != "text")


JOINT = ["bigram-flip", "copy", "gender", "reverse", "svo-sov"]


@pytest.mark.parametrize("name", JOINT)
def test_shipped_tasks_are_as_published(name: str) -> None:
    config = load_task(name)
    assert config.name == name
    assert config.description
    assert config.generator in GENERATORS
    assert config.ranges.train == (8, 64)
    assert config.ranges.test == (65, 128)


@pytest.mark.parametrize("name", JOINT)
@pytest.mark.parametrize("law", ["task", "uniform"])
def test_samples_have_lengths_in_range_and_the_oracle_s_answer(name: str, law: str) -> None:
    task = task_of(name)
    pairs = task.sample(np.random.default_rng(3), Lengths(8, 40), 60, law)  # type: ignore[arg-type]
    assert len(pairs) == 60
    assert len({len(pair.source) for pair in pairs}) > 5
    for pair in pairs:
        assert 8 <= len(pair.source) <= 40
        answer = task.answer(task.source.decode(pair.source))
        assert answer == task.target.decode(pair.target)


@pytest.mark.parametrize("name", SHIPPED)
def test_samples_are_determined_by_the_random_generator(name: str) -> None:
    task = task_of(name)
    lines = [
        [
            task.source.join(task.source.decode(pair.source))
            for pair in task.sample(
                generator(seed, Purpose.TRAINING, 5), Lengths(8, 30), 20, "task"
            )
        ]
        for seed in (1, 1, 2)
    ]
    assert lines[0] == lines[1]
    assert lines[0] != lines[2]


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("copy", "hello", "hello"),
        ("reverse", "hello", "olleh"),
        ("bigram-flip", "abcdef", "badcfe"),
        ("gender", "the me1 and a fe2 we3", "der mg1 und eine fg2 wg3"),
    ],
)
def test_answers_equal_the_examples(name: str, source: str, target: str) -> None:
    task = task_of(name)
    assert written(task, task.answer(task.source.split(source))) == target


def test_oracles_say_why_a_string_is_no_source() -> None:
    with pytest.raises(NotASource, match="expected a multiple of 2 symbols; found 3"):
        task_of("bigram-flip").answer(["a", "b", "c"])
    with pytest.raises(NotASource, match="word 1, 'vi3'"):
        task_of("svo-sov").answer(["vi3", "si1"])
    with pytest.raises(UnknownSymbol, match="symbol 2 is '€'"):
        task_of("copy").answer(["a", "€"])


def test_bigram_flip_draws_even_lengths_only() -> None:
    pairs = task_of("bigram-flip").sample(np.random.default_rng(0), Lengths(65, 68), 50, "task")
    assert {len(pair.source) for pair in pairs} == {66, 68}
    with pytest.raises(NoSuchLength, match="multiple of 2"):
        task_of("bigram-flip").sample(np.random.default_rng(0), Lengths(7, 7), 1, "task")


def test_grammars_refuse_impossible_lengths() -> None:
    with pytest.raises(NoSuchLength, match="1:2"):
        task_of("svo-sov").sample(np.random.default_rng(0), Lengths(1, 2), 1, "task")


def test_laws_of_length_differ_where_the_grammar_s_is_uneven() -> None:
    task = task_of("svo-sov")
    mean = {}
    for law in ("task", "uniform"):
        pairs = task.sample(np.random.default_rng(0), Lengths(8, 64), 400, law)
        mean[law] = np.mean([len(pair.source) for pair in pairs])
    assert mean["task"] < 24 < 32 < mean["uniform"]


def test_the_meaningless_symbols_are_128_printable_characters() -> None:
    symbols = make_task("mine", "copy", {"symbols": 128}).source.symbols
    assert symbols[0] == "!"
    assert symbols[93] == "~"
    assert symbols[94] == "À"
    assert len(set(symbols)) == 128
    assert all(len(symbol) == 1 and symbol.isprintable() and symbol != " " for symbol in symbols)
    assert all(symbol.isalpha() and ord(symbol) < 256 for symbol in symbols[94:])


@pytest.mark.parametrize(
    ("generator_name", "parameters", "message"),
    [
        ("copi", {}, "did you mean 'copy'"),
        ("copy", {"symbols": 0}, "symbols is 0; expected a number from 1 to 65536"),
        ("reverse", {"symbols": 65_537}, "symbols is 65537; expected a number from 1 to 65536"),
        ("memorization", {"symbols": True}, "symbols is True; expected a number"),
        ("waiting-reversal", {"symbols": "9"}, "symbols is '9'; expected a number"),
        ("copy", {"letters": 5}, "letters"),
        ("grammar", {"root": "A", "rules": {"A": [{"probability": 0.5, "source": "b"}]}}, "'A'"),
    ],
)
def test_wrong_parameters_are_named(
    generator_name: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_task("mine", generator_name, parameters)


@pytest.mark.parametrize(
    ("generator_name", "most", "source", "target"),
    [
        ("copy", 156, "s1000 s7", "s1000 s7"),
        ("reverse", 156, "s1000 s7", "s7 s1000"),
        ("bigram-flip", 156, "s1 s2 s3 s4", "s2 s1 s4 s3"),
        ("waiting-reversal", 62, "s1000 s7 # #", "# # s7 s1000"),
        ("memorization", 61, "s1000 s7 =", "s7 s1000"),
    ],
)
def test_symbols_are_words_where_characters_run_out(
    generator_name: str, most: int, source: str, target: str
) -> None:
    characters = make_task("mine", generator_name, {"symbols": most})
    assert all(len(symbol) == 1 for symbol in characters.source.symbols)
    assert not characters.source.words
    assert make_task("mine", generator_name, {"symbols": most + 1}).source.words
    task = make_task("mine", generator_name, {"symbols": 1000})
    answer = task.answer(task.source.split(source))
    known = [symbol or mark for symbol, mark in zip(answer, target.split(), strict=True)]
    assert task.target.join(known) == target
    (pair,) = task.sample(np.random.default_rng(1), Lengths(40, 40), 1, "uniform")
    numbers = {int(symbol[1:]) for symbol in task.source.decode(pair.source) if symbol[0] == "s"}
    assert max(numbers) > 500
    with pytest.raises(UnknownSymbol, match="s1001"):
        task.source.encode(["s1001"])


def test_alphabets_write_characters_side_by_side_and_words_apart() -> None:
    characters, words = Alphabet("abc", words=False), Alphabet(["ab", "c"], words=True)
    assert characters.join(characters.split("cab")) == "cab"
    assert words.split("  ab c ") == ["ab", "c"]
    assert words.join(["ab", "c"]) == "ab c"
    with pytest.raises(UnknownSymbol) as caught:
        words.encode(["ab", "x"])
    assert (caught.value.symbol, caught.value.position) == ("x", 2)
    assert words.decode(words.encode_leniently(["ab", "x"])) == ["ab", "<unk>"]


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 4), max_size=6), st.lists(st.integers(0, 2), max_size=5)),
        min_size=1,
        max_size=5,
    )
)
def test_joint_layouts_encode_pairs(examples: list[tuple[list[int], list[int]]]) -> None:
    layout = Layout.joint(sources=5, targets=3)
    pairs = [
        Pair(np.array(source, dtype=np.int64), np.array(target, dtype=np.int64))
        for source, target in examples
    ]
    batch = encode_batch(layout, [[pair] for pair in pairs])
    assert (layout.inputs, layout.outputs, layout.end) == (10, 4, 3)
    for row, (source, target) in enumerate(examples):
        steps = len(source) + len(target) + 2
        read = [0, *(2 + index for index in source), 1, *(7 + index for index in target)]
        assert batch.inputs[row, :steps].tolist() == read
        assert batch.targets[row][batch.mask[row]].tolist() == [*target, 3]
        assert batch.mask[row].nonzero()[0].tolist() == list(range(len(source) + 1, steps))


def test_a_custom_task_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "name: tiny\ngenerator: copy\nparameters: {symbols: 3}\n"
        "lengths: {train: [1, 4], test: [5, 8]}\nlength_law: task\n"
    )
    assert load_task(str(path)).ranges.test == (5, 8)
