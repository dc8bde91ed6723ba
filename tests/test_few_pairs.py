"""Training on few pairs: symbols that are interchangeable, and the beginning of a curriculum."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from command_line import TRAIN, run
from pair_files import config_of, learned, lines_of, reversals, write

from stacktrans.common.randomness import Purpose
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths
from stacktrans.tasks.pair_files import TRAIN as TRAINING
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.permutation import SymbolClass, interchangeable_classes
from stacktrans.training.file_pairs import MAX_PERMUTED, MIN_PAIRS, FilePairs
from stacktrans.training.sources import DataSource, Moment

LETTERS = "abcdefghijklmnopqrst"
FIRST, SECOND = LETTERS[:10], LETTERS[10:]
Function = Callable[[str], str]


def capitalized(source: str) -> str:
    return ".".join(part.capitalize() for part in source.split("."))


def same(source: str) -> str:
    first, _, second = source.partition("#")
    return "yes" if first == second else "no"


def in_half(source: str) -> str:
    return "".join(symbol for symbol in source if symbol in FIRST)


def differences(source: str) -> str:
    ranks = np.diff([0, *map(LETTERS.index, source)]) % len(LETTERS)
    return "".join(LETTERS[rank] for rank in ranks)


def pairs_of(answer: Function, count: int = 300, alphabet: str = LETTERS, mark: str = "") -> str:
    rng = np.random.default_rng(5)
    sources = []
    for _ in range(count):
        source = "".join(rng.choice([*alphabet], size=rng.integers(1, 21)))
        if mark == "#":
            other = source if rng.random() < 0.5 else "".join(rng.choice([*alphabet], len(source)))
            source = f"{source}#{other}"
        elif mark:
            source += mark + "".join(rng.choice([*alphabet], size=rng.integers(1, 11)))
        sources.append(source)
    return lines_of([(source, answer(source)) for source in sources])


def classes_of(task: Pairs) -> list[SymbolClass]:
    return [*interchangeable_classes(task.data.sets[TRAINING], task.source.unknown)]


@pytest.mark.parametrize(
    ("answer", "mark", "expected"),
    [
        (lambda source: source * 2, "", {LETTERS}),
        (lambda source: source[::-1].upper(), "", {LETTERS}),
        (capitalized, ".", {LETTERS}),
        (same, "#", {LETTERS}),
        (in_half, "", {FIRST, SECOND}),
    ],
)
def test_interchangeable_symbols_make_right_pairs_of_others(
    tmp_path: Path, answer: Function, mark: str, expected: set[str]
) -> None:
    task = learned(write(tmp_path / "pairs.tsv", pairs_of(answer, mark=mark)))
    classes = classes_of(task)
    assert {"".join(task.source.decode(each.sources)) for each in classes} == expected
    rng = np.random.default_rng(1)
    for pair in task.data.sets[TRAINING]:
        permuted = pair
        for each in classes:
            permuted = each.permute(rng, permuted)
        source, target = task.source.decode(permuted.source), task.target.decode(permuted.target)
        assert "".join(target) == answer("".join(source))
        assert len(pair.source) < 4 or permuted.source.tolist() != pair.source.tolist()


@pytest.mark.parametrize(
    ("answer", "alphabet"),
    [
        (lambda source: "".join(sorted(source)), LETTERS),
        (differences, LETTERS),
        (lambda source: max(source) + source, LETTERS),
        (lambda source: f"{int(source, 2) + 1:b}", "01"),
        (lambda source: str(int(source) + 1), "0123456789"),
    ],
)
def test_symbols_are_not_interchangeable_where_pairs_differ(
    tmp_path: Path, answer: Function, alphabet: str
) -> None:
    text = pairs_of(answer, alphabet=alphabet)
    assert not classes_of(learned(write(tmp_path / "pairs.tsv", text)))


def test_a_few_wrong_pairs_do_not_hide_interchangeable_symbols(tmp_path: Path) -> None:
    lines = pairs_of(lambda source: source[::-1]).splitlines()
    lines[::40] = [line[:-1] + LETTERS[number] for number, line in enumerate(lines[::40])]
    task = learned(write(tmp_path / "pairs.tsv", "\n".join(lines)))
    assert [len(each.sources) for each in classes_of(task)] == [len(LETTERS)]


def test_every_third_attempt_and_the_development_set_have_the_pairs_as_given(
    tmp_path: Path,
) -> None:
    config = config_of(write(tmp_path / "pairs.tsv", pairs_of(lambda source: source[::-1])))
    task = config.make_task()
    assert isinstance(task, Pairs)
    source = FilePairs(config, task)
    given = {pair.source.tobytes() for pairs in task.data.sets for pair in pairs}

    def share_given(attempt: int) -> float:
        drawn = source.strings(Purpose.TRAINING, Moment(attempt, 1), source.ranges.train, 200)
        known = [pair for pair in drawn if task.source.unknown not in pair.source]
        assert all(pair.source[::-1].tolist() == pair.target.tolist() for pair in known)
        return float(np.mean([pair.source.tobytes() in given for pair in drawn]))

    assert max(share_given(1), share_given(2)) < 0.2
    assert share_given(3) > 0.9  # the others have an unknown symbol
    assert {pair.source.tobytes() for pair in source.development} <= given


class Scored(SimpleNamespace):
    """Scores of pairs: arrays of their accuracies, and of the lengths of their sources."""

    def of(self, chosen: npt.NDArray[np.bool_]) -> "Scored":
        return Scored(fine=self.fine[chosen], lengths=self.lengths[chosen])

    @property
    def coarse_accuracy(self) -> float:
        return float((self.fine == 1).mean())


def generalizes(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_right: Callable[[Pair], bool], attempt: int = 1
) -> bool:
    """Whether a model counts as a solution if its answers are right where `is_right` holds."""

    def score(_: DataSource, __: object, pairs: Sequence[Pair]) -> Scored:
        lengths = np.array([len(pair.source) for pair in pairs])
        return Scored(fine=np.array([*map(is_right, pairs)], np.float64), lengths=lengths)

    monkeypatch.setattr(DataSource, "score", score)
    config = config_of(path)
    task = config.make_task()
    assert isinstance(task, Pairs)
    return FilePairs(config, task).generalization(cast(Transducer, None), Moment(attempt, 1)) == 1


def test_right_pairs_have_to_stay_right_with_other_symbols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "pairs.tsv", pairs_of(lambda source: source[::-1]))

    def fails_with_one_symbol(pair: Pair) -> bool:
        return len(pair.source) != 9 or pair.source[0] != 3

    assert generalizes(path, monkeypatch, lambda _: True)
    assert not generalizes(path, monkeypatch, fails_with_one_symbol)
    # An attempt whose symbols are not permuted.
    assert generalizes(path, monkeypatch, fails_with_one_symbol, attempt=3)


def test_exceptions_need_not_be_right_with_permuted_symbols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for all but one target of a source, since an answer can match only one."""
    lines = pairs_of(lambda source: source[::-1], 2900).splitlines()
    lines = [*(line + line[-1] for line in lines[::80]), *lines]
    lines[1::90] = [line + line[-1] for line in lines[1::90]]
    path = write(tmp_path / "pairs.tsv", "\n".join(lines) + "\n")

    def is_reversed(pair: Pair) -> bool:
        return np.array_equal(pair.target, pair.source[::-1])

    assert generalizes(path, monkeypatch, is_reversed)


@pytest.mark.parametrize(("place", "solved"), [(0.0, False), (0.5, True), (1.0, False)])
def test_errors_on_the_shortest_or_the_longest_pairs_are_no_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: float, solved: bool
) -> None:
    path = write(tmp_path / "pairs.tsv", pairs_of(differences, 1000))
    shortest, longest = learned(path).data.sets[TRAINING].lengths
    length = round(shortest + place * (longest - shortest))

    def is_right(pair: Pair) -> bool:
        return len(pair.source) not in range(length - 1, length + 2)

    assert generalizes(path, monkeypatch, is_right) == solved


def test_permutation_is_announced_and_can_be_prevented(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", pairs_of(lambda source: source[::-1]))
    command: list[str | Path] = [*TRAIN, "--data", path, "--memory", "stack", "--dry-run"]
    first = " ".join(LETTERS[:10])
    note = f"20 symbols seem interchangeable and are permuted ({first} …)"
    assert note in run(*command).stderr.decode()
    many = pairs_of(lambda source: source[::-1], 2 * MAX_PERMUTED)
    from_many = run(*TRAIN, "--data", write(tmp_path / "many.tsv", many), *command[-3:])
    assert from_many.returncode == 0
    assert b"interchangeable" not in from_many.stderr
    setting = "parameters.interchangeable"
    assert b"interchangeable" not in run(*command, "--set", f"{setting}=false").stderr
    refused = run(*command, "--set", f"{setting}=maybe")
    assert refused.returncode == 2
    assert b"interchangeable is 'maybe'; expected true or false" in refused.stderr


@pytest.mark.parametrize(("count", "longest"), [(100, 40), (300, 15), (3000, 5)])
def test_a_curriculum_begins_with_enough_pairs(tmp_path: Path, count: int, longest: int) -> None:
    path = write(tmp_path / "pairs.tsv", reversals(count, 1, longest=40))
    parameters = {"train": str(path), "test": str(write(tmp_path / "test.tsv", reversals(10, 2)))}
    settings = {
        "task": {"name": "few", "generator": "pairs", "parameters": parameters},
        "model": {"memory": "stack"},
        "training": {"curriculum": {"share": 0.1, "growth": 1.5, "loss": "10%"}},
    }
    config = resolve(settings=settings)
    task = config.make_task()
    assert isinstance(task, Pairs)
    source, pairs = FilePairs(config, task), task.data.sets[TRAINING]
    lengths = source.lengths(source.first_share(1))
    assert lengths == Lengths(1, longest)
    assert len(pairs.of_lengths(lengths)) >= min(MIN_PAIRS, len(pairs))
