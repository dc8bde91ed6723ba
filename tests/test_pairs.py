"""Pairs of strings in files: how they are read, split and scored."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import run
from pair_files import as_written, config_of, learned, lines_of, reversals, write

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.inference.scores import score
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.columns import Tokenizer, detect_unit
from stacktrans.tasks.layout import OutputBound
from stacktrans.tasks.lengths import DepthLimit, Lengths, NoSuchLaw, NoSuchLength
from stacktrans.tasks.pair_files import DEV, TEST, TRAIN
from stacktrans.tasks.pairs import Pairs, task_from_files
from stacktrans.tasks.sets import PairSet, unknown_probabilities
from stacktrans.tasks.symbol_columns import SymbolColumn
from stacktrans.tasks.written_pairs import pairs_of_strings, read_pairs

CHARACTERS = Tokenizer.of("characters", False, ";", None)
TINY = "ab\tba\nabc\tcba\nabcd\tdcba\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", b"ab\tba\nc d\td c\n"),
        ("a.txt", b"\xef\xbb\xbfab\tba\r\n\r\nc d\td c"),
        ("a.tsv.gz", gzip.compress(b"ab\tba\nc d\td c\n", mtime=0)),
        ("a.jsonl", b'{"target": "ba", "source": "ab", "more": 1}\n'
                    b'{"source": "c d", "target": "d c"}'),
        ("a.txt", b'{"source": "ab", "target": "ba"}\n{"source": "c d", "target": "d c"}\n'),
        ("a.jsonl.gz", gzip.compress(b'{"source": "ab", "target": "ba"}\n'
                                     b'{"source": "c d", "target": "d c"}\n', mtime=0)),
    ],
)  # fmt: skip
def test_all_file_formats_give_the_same_pairs(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    task = learned(path, dev=path, test=path, symbols="characters")
    for part in (TRAIN, DEV, TEST):
        assert as_written(task, part) == [("ab", "ba"), ("c d", "d c")]
    assert task.source.symbols == (" ", "a", "b", "c", "d", "<unk>")
    assert task.target.symbols == (" ", "a", "b", "c", "d")


@pytest.mark.parametrize(
    ("text", "units", "source", "target"),
    [
        ("ab\tba\nabc\tcba\n", "characters", "abc", "abc"),
        ("x1 y2\ty2 x1\ny2\ty2\nx1\tx1\n", "words", ["x1", "y2"], ["x1", "y2"]),
        ("do be\tdodo\nbe\tbeda\n", "words,characters", ["be", "do"], "abdeo"),
        ("ab cd\tx\nef\ty\n", "characters", " abcdef", "xy"),
        ("x y\ty x\nz\tz\n", "words", ["x", "y", "z"], ["x", "y", "z"]),
        ("0\t0 0\n0 1\t0 1 0 1\n", "words", ["0", "1"], ["0", "1"]),
        ("abut\tAH B\nhat\tHH AE T\n", "characters,words", "abhtu", ["AE", "AH", "B", "HH", "T"]),
        ("a\tb\nc\td\n", "characters", "ac", "bd"),
        ("1 0 1\t0\n1 1\t1\n", "words", ["0", "1"], ["0", "1"]),
    ],
)
def test_the_unit_of_strings_is_inferred(
    tmp_path: Path, text: str, units: str, source: Any, target: Any
) -> None:
    path = write(tmp_path / "a.tsv", text)
    learned_settings = make_task(
        "a", "pairs", {"train": str(path), "dev": str(path), "test": str(path)}
    )
    assert learned_settings.settings_from_files(1)["parameters"]["symbols"] == units
    task = learned(path, dev=path, test=path)
    assert task.source.symbols == (*source, "<unk>")
    assert task.target.symbols == (*target,)
    of_source, _, of_target = units.partition(",")
    found = f"sources are {of_source}, targets {of_target}" if of_target else f"symbols are {units}"
    assert task.data.notes[0] == f"{path}: columns source,target; {found}"


def test_strings_of_which_nine_in_ten_have_spaces_are_words() -> None:
    spaced = [f"the {animal} sat" for animal in ("cat", "dog", "owl", "hen", "cow")]
    assert detect_unit([*spaced, *(f"{each} down" for each in spaced[:4]), "meow"])[0] == "words"


def test_features_are_separate_symbols_before_the_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Na\tN;PL\tNas\nb\tN\tb\nNN\t\tNN\n")
    task = learned(path, dev=path, test=path, columns="source,features,target")
    assert task.source.symbols == ("N", "a", "b", "<unk>", "N", "PL", "<unk>")
    first, second, third = task.data.sets[TRAIN]
    assert first.source.tolist() == [4, 5, 0, 1]
    assert (first.length, second.length, third.length) == (2, 1, 2)
    assert third.source.tolist() == [0, 0]
    symbols = task.source.split("bN?\tPL;?;N")
    assert symbols == ["PL", "?", "N", "b", "N", "?"]
    ids = task.source.encode(symbols)
    assert ids.tolist() == [5, 6, 4, 2, 0, 3]
    assert task.source.join(task.source.decode(ids)) == "bN<unk>\tPL;<unk>;N"
    assert task.pair(ids, ids[:0]).length == 3
    with pytest.raises(StacktransError, match="expected source, a tab, features; found 1 column"):
        task.source.split("bN")
    (read,) = read_pairs(write(tmp_path / "b.tsv", "Na\tPL\tas\n"), task)
    assert (read.source.tolist(), read.target.tolist(), read.length) == ([5, 0, 1], [1, 3], 2)
    assert pairs_of_strings([("Na", "PL", "as")], task)[0].source.tolist() == [5, 0, 1]


def test_columns_stand_in_the_order_that_is_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "F\tyx\txy\nG;F\ty\ty\n")
    task = learned(path, dev=path, test=path, columns="features,target,source")
    assert as_written(task, TRAIN) == [("F\txy", "yx"), ("G;F\ty", "y")]
    assert [each.length for each in task.data.sets[TRAIN]] == [2, 1]


def test_symbols_of_the_training_set_alone_are_known(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "ab\tba\n")
    other = write(tmp_path / "other.tsv", "axb\tbxa\n")
    task = learned(train, dev=other, test=other)
    (pair,) = task.data.sets[DEV]
    assert pair.source.tolist() == [0, 2, 1]  # <unk> is the third
    assert task.target.decode(pair.target) == ["b", "<unk>", "a"]
    assert as_written(task, DEV) == [("a<unk>b", "b<unk>a")]


def test_targets_with_symbols_that_a_model_cannot_output_count_as_wrong(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "ab\tba\n")
    other = write(tmp_path / "other.tsv", "axb\tb\nab\txxx\n")
    task = learned(train, dev=other, test=other)
    config = resolve(task="copy", settings={"model": {"memory": "stack"}})
    torch.manual_seed(1)
    model = Transducer(config.model, task.layout.inputs, task.layout.outputs).eval()
    for symbol in range(len(task.target) + 1):
        with torch.no_grad():  # it always says this one
            model.classifier.bias.fill_(0)[symbol] = 100
        scores = score(predictor_of(model), task.layout, task.data.sets[DEV])
        assert scores.right[1] == (symbol == len(task.target))  # only the end is right
        assert scores.fine[1] == 0


def test_only_ordinary_spaces_separate_words(tmp_path: Path) -> None:
    spaced = "il  y a 6\u00a0000 vins\tthere\u3000are 6\u2028000 \n"
    path = write(tmp_path / "a.tsv", spaced * 3)
    task = learned(path, dev=path, test=path, symbols="words")
    assert task.source.symbols == ("6\u00a0000", "a", "il", "vins", "y", "<unk>")
    assert task.target.symbols == ("6\u2028000", "there\u3000are")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no pairs"),
        (b"\n \n", "contains no pairs"),
        (b"ab\n", ":1: expected source, a tab, target, and perhaps a tab and features; found 'ab'"),
        (b"a\tb\nc\n", ":2: expected source, a tab, target; found 'c'$"),
        (b"a,b\n", ":1: expected .*; found 'a,b'; tabs separate columns, not commas"),
        (b"a\tb\nc,d\n", ":2: expected .*; found 'c,d'; tabs separate columns, not commas"),
        (b"a\tb\nc\td\te\n", r":2: expected source, a tab, target; found 3 columns: 'c\\td\\te'"),
        (b"a\tb\tc\td\n", ":1: expected .*; found 4 columns"),
        (b"a\tb\tF\nc\td\n", ":2: expected 3 columns, as before; found 2: 'c"),
        (b"\n\na\tb\n\xff\td\n", ":4: byte 1 is 0xff, which is not UTF-8"),
        (b"\xff\td\n", ":1: byte 1 is 0xff, which is not UTF-8"),
        (b"a\tb\n\tb\n", ":2: a source of 0 symbols; expected at least 1"),
        (b"x y\tb\n  \tb\n", ":2: a source of 0 symbols; expected at least 1"),
        (b"x y\tb\n\t\n", ":2: a source of 0 symbols; expected at least 1"),
        (b"ab\t\nbcd\t\nb\t\n", ": all targets to train on are empty"),
        (b'{"source": "a"}\n', ":1: expected a JSON object with texts called source and target, f"),
        (
            b'{"source": "a", "target": "b"}\n{"source": "a", "target": "b", "features": "F"}\n',
            ":1: expected a JSON object with texts called source, target and features, found",
        ),
        (b'{"source": "a", "target": "b"}\n{"source": 1, "target": "b"}', ":2: expected a JSON"),
        (
            b'{"source": "a", "target": "b"}\n{',
            ":2: expected a JSON object: not JSON: .* at character 2; found '{'",
        ),
        (b'{"source": "a\\tb", "target": "b"}\n', r":1: a string with '\\t' in it"),
        (b'{"source": "a", "target": "\\ud800"}\n', r":1: a string with '\\ud800' in it"),
        (b"a\tb\nc\td\n", "too few distinct sources to hold some out; expected at least 3"),
        (b"a\tb\n" * 50, "too few distinct sources to hold some out; expected at least 3"),
    ],
)
def test_nothing_is_trained_on_a_file_with_a_bad_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    with pytest.raises(StacktransError, match=f"bad.tsv:? ?{message}"):
        learned(path)
    done = run("train", "--data", path, "--memory", "none", "--out", tmp_path / "run")
    assert done.returncode == (2 if message.startswith("too few") else 1)
    assert not (tmp_path / "run").exists()


def test_compressed_files_are_recognized_by_content(tmp_path: Path) -> None:
    (tmp_path / "A.GZ").write_bytes(gzip.compress(TINY.encode()))
    assert len(learned(tmp_path / "A.GZ").data.sets[TRAIN]) == 1


def test_a_file_has_a_name_that_can_be_kept(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"expected a name in UTF-8"):
        make_task("mine", "pairs", {"train": os.fsdecode(b"a\xff.tsv")})
    train = write(tmp_path / "set½ é_²-x.tsv", TINY)
    assert task_from_files(None, train, {}) == {
        "name": "set-é_-x", "generator": "pairs", "parameters": {"train": str(train)},
    }  # fmt: skip
    assert resolve(
        settings={"task": task_from_files(None, train, {}), "model": {"memory": "stack"}}
    )


@pytest.mark.parametrize("seed", range(20))
def test_output_bounds_are_the_tightest_and_prefer_growth_with_the_source(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers([1, 0], [9, 40], size=(rng.integers(1, 12), 2))
    steepest = int((-(-(lengths[:, 1] + 1) // lengths[:, 0])).max())

    def steps(each: int) -> tuple[int, int]:
        further = max(0, int((lengths[:, 1] + 1 - each * lengths[:, 0]).max()))
        return int((each * lengths[:, 0] + further).sum()), -each

    assert OutputBound.for_pairs(lengths).each == -min(map(steps, range(1, steepest + 1)))[1]


@pytest.mark.parametrize("content", [b"a\tb\n", gzip.compress(b"a\tb\n" * 99, mtime=0)[:-9], b""])
def test_files_that_are_not_compressed_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gz").write_bytes(content)
    if not content:  # an empty file is valid, but has no pairs
        with pytest.raises(StacktransError, match=r"a\.gz: contains no pairs"):
            learned(tmp_path / "a.gz")
        return
    with pytest.raises(UsageError, match=r"a\.gz: not a complete gzip file"):
        learned(tmp_path / "a.gz")


KNOWN = {"source": "a", "target": "", "steps": [1, 1], "fixed_length": False, "digests": {}}
"""What is known of files with a single source symbol."""


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": "source"}, "columns is 'source'; expected source, target and"),
        ({"columns": "source,target,target"}, "columns is"),
        ({"columns": 3}, "columns is 3"),
        ({"symbols": "letters"}, "symbols is 'letters'; expected characters or words"),
        ({"symbols": "words,words,words"}, "symbols is"),
        ({"split": -1}, "split is -1; expected a random seed"),
        ({"train": 3}, "train is 3; expected the name of a file"),
        ({"train": "-", "dev": "-"}, "standard input can be only one of the files"),
        ({"known": {}}, "known: expected source, target, steps, fixed_length and digests"),
        ({"known": KNOWN | {"source": "aa"}}, "every symbol"),
        ({"known": KNOWN | {"source": 1}}, "known: source"),
        ({"known": KNOWN | {"steps": 1}}, "known: steps"),
        ({"known": KNOWN | {"steps": [1, 10**9]}}, "known: steps"),
        ({"known": KNOWN | {"fixed_length": 1}}, "known: fixed_length"),
        ({"known": KNOWN | {"digests": 1}}, "known: digests"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        make_task("mine", "pairs", {"train": "a.tsv", **parameters})


def test_pairs_need_a_file() -> None:
    with pytest.raises(UsageError, match=r"task.parameters.train: no file given"):
        make_task("mine", "pairs", {}).settings_from_files(1)
    with pytest.raises(UsageError, match="absent: No such file"):
        make_task("mine", "pairs", {"train": "absent"}).settings_from_files(1)


def test_a_configuration_needs_no_files_but_knows_them(tmp_path: Path) -> None:
    symbols = "".join(map(chr, [*range(0x20, 0x7F), 0x85, 0x1B, 0xA0, 0x2028, 0xFEFF, 0x1F600]))
    text = lines_of([(symbols[:size], symbols) for size in range(1, 60)])
    path = write(tmp_path / "a.tsv", text)
    settings = {"model": {"memory": "stack"}}
    task = write(tmp_path / "a.yaml", "name: a\ngenerator: pairs\nparameters: {train: a.tsv}\n")
    config = resolve(task=str(task), settings=settings)
    path.unlink()
    again = resolve(config=str(write(tmp_path / "config.yaml", config.to_yaml())))
    assert again == config
    made = again.make_task()
    assert made.target.symbols == tuple(sorted(symbols))
    assert config.task.ranges.test == Lengths(55, 59)
    with pytest.raises(UsageError, match=r"a\.tsv: No such file"):
        made.held_out()
    write(path, text + "x\ty\n")
    with pytest.raises(UsageError, match=r"a\.tsv: the training pairs have changed"):
        again.make_task().held_out()


def test_a_run_s_identity_depends_on_file_contents_and_not_on_paths(tmp_path: Path) -> None:
    text = reversals(40, 1)
    first = config_of(write(tmp_path / "a.tsv", text))
    moved = config_of(write(tmp_path / "b.tsv", text))
    packed = tmp_path / "a.tsv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert first.identity() == moved.identity() == config_of(packed).identity()
    other = config_of(write(tmp_path / "c.tsv", text + "abc\tcbd\n"))
    assert other.identity() != first.identity()
    assert config_of(tmp_path / "a.tsv", split=2).identity() != first.identity()
    changed = config_of(write(tmp_path / "a.tsv", text + "abc\tcbd\n"))
    assert changed.identity() == other.identity()


@pytest.mark.parametrize("setting", ["lengths", "length_law"])
def test_lengths_are_those_of_the_files(tmp_path: Path, setting: str) -> None:
    value = {"lengths": "{train: [1, 2], test: [3, 4]}", "length_law": "uniform"}[setting]
    write(tmp_path / "a.tsv", TINY)
    text = f"name: a\ngenerator: pairs\nparameters: {{train: a.tsv}}\n{setting}: {value}\n"
    with pytest.raises(UsageError, match=rf"a\.yaml:4: {setting} cannot be used: the files decide"):
        load_task(str(write(tmp_path / "a.yaml", text)))


def test_lengths_are_drawn_as_a_law_says(tmp_path: Path) -> None:
    short, long = [("a", "b")] * 90, [("aaa", "b")] * 10
    path = write(tmp_path / "a.tsv", lines_of(short + long))
    pairs: PairSet = learned(path, dev=path, test=path).data.sets[TRAIN]
    rng = np.random.default_rng(1)

    def share(law: Any) -> float:
        drawn = pairs.draw(rng, Lengths(1, 9), 1000, law)
        return sum(pair.length == 3 for pair in drawn) / 1000

    assert share("task") == pytest.approx(0.1, abs=0.03)
    assert share("uniform") == pytest.approx(0.5, abs=0.05)
    assert {pair.length for pair in pairs.draw(rng, Lengths(2, 3), 20, "task")} == {3}
    with pytest.raises(NoSuchLength, match="no source of the files has a length of 4:9"):
        pairs.draw(rng, Lengths(4, 9), 1, "task")
    with pytest.raises(NoSuchLaw):
        pairs.draw(rng, Lengths(1, 9), 1, DepthLimit(3))


def test_rare_symbols_are_sometimes_unknown() -> None:
    task = make_task("mine", "pairs", {})
    assert isinstance(task, Pairs)
    sources = SymbolColumn.of(["aab", "aa"], "source", CHARACTERS).strings
    pairs = PairSet(sources, sources.lengths, sources, np.zeros((len(sources), 2), np.int64))
    assert unknown_probabilities(pairs, 3).tolist() == [0.25 / 4.25, 0.25 / 1.25, 1]


def test_lines_of_ten_thousand_symbols_are_read(tmp_path: Path) -> None:
    pairs = [("ab" * size, "ba" * size) for size in (1, 2, 3, 5000)]
    path = write(tmp_path / "a.tsv", lines_of(pairs))
    task = learned(path)
    assert [pair.length for pair in task.data.sets[TEST]] == [10_000]
    assert task.data.sets[TEST][0].source.tolist() == [0, 1] * 5000


def test_generate_draws_from_the_training_set(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.tsv", "ab\tF\tba\nc\tG;F\tc\n")
    text = (
        "name: a\ngenerator: pairs\nparameters:\n  columns: source,features,target\n"
        "  train: data/a.tsv\n  dev: data/a.tsv\n  test: data/a.tsv\n"
    )
    task = write(tmp_path / "a.yaml", text)
    done = run("generate", "--task", task, "--count", "30")
    assert {*done.stdout.decode().splitlines()} == {"ab\tF\tba", "c\tG;F\tc"}
    done = run("generate", "--task", task, "--format", "jsonl", "--count", "1", "--lengths", "1")
    assert done.stdout.decode() == '{"source": "c", "features": "G;F", "target": "c"}\n'
    out = tmp_path / "b.jsonl.gz"
    assert run("generate", "--task", task, "--count", "9", "--out", out).returncode == 0
    assert gzip.decompress(out.read_bytes()).startswith(b'{"source": ')
    wrong = run("generate", "--task", task, "--format", "tsv", "--out", out)
    assert wrong.stderr.decode().startswith("stacktrans: --format tsv: ")
    done = run("generate", "--task", task, "--lengths", "3:4")
    assert done.stderr.decode() == "stacktrans: no source of the files has a length of 3:4\n"


@pytest.mark.parametrize(("ids", "size"), [([3, -2], 1), ([255, 0], 1), ([70_000, -2], 4)])
def test_strings_are_kept_in_the_smallest_integer_type(ids: list[int], size: int) -> None:
    column = SymbolColumn.of(["ab", "", "b"], "source", CHARACTERS)
    held = column.as_ids(np.array(ids))
    assert [held[index].tolist() for index in range(len(held))] == [ids, [], ids[1:]]
    assert held.values.itemsize == size
