"""Splits of pairs in files into sets, and the warnings about them."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ENVIRONMENT
from pair_files import all_of, learned, lines_of, reversals, write

from stacktrans.common.errors import UsageError
from stacktrans.tasks.pair_files import DEV, TEST, TRAIN


def test_the_longest_tenth_and_a_random_tenth_are_held_out(tmp_path: Path) -> None:
    pairs = [("a" * size, "b" * size) for size in range(1, 41)]
    path = write(tmp_path / "a.tsv", lines_of(pairs[::-1]))
    found = learned(path, split=3).data
    assert all_of(found) == [32, 4, 4]
    train, dev, test = ([pair.length for pair in each] for each in found.sets)
    assert test == [40, 39, 38, 37]
    assert sorted(train + dev) == [*range(1, 37)]
    assert dev != sorted(dev)[-4:]
    assert [pair.length for pair in learned(path, split=3).data.sets[DEV]] == dev
    assert [pair.length for pair in learned(path, split=4).data.sets[DEV]] != dev
    assert found.notes[1:] == [
        f"{path}: 4 of 40 pairs, the longest, are held out as the test set (lengths 37:40)",
        f"{path}: 4 of 40 pairs, at random (seed 3), are held out as the development set "
        f"(lengths {min(dev)}:{max(dev)})",
    ]
    other = write(tmp_path / "b.tsv", "a\tb\n")
    assert all_of(learned(path, dev=other).data) == [36, 1, 4]
    assert all_of(learned(path, test=other).data) == [36, 4, 1]


def test_too_few_distinct_sources_are_refused(tmp_path: Path) -> None:
    text = lines_of([("abc", "a"), *[("abcd", f"{n:b}") for n in range(90)]])
    with pytest.raises(UsageError, match=r"a\.tsv: too few distinct sources"):
        learned(write(tmp_path / "a.tsv", text))


def test_every_process_keeps_the_same_pairs_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", reversals(100, 1, 3, 9))
    script = (
        "import sys; from stacktrans.tasks.sets import read_sets, PairFiles; "
        "found = read_sets(PairFiles(sys.argv[1], None, None, None, None, 1)); "
        "print([pair.source.tolist() for pair in found.sets[1]])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script, str(path)],
            env={**ENVIRONMENT, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


RIGHT = "; an answer is right if it is one of those in its set"


def test_lines_with_one_source_stay_together(tmp_path: Path) -> None:
    pairs = [(f"{letter * size}", "x") for letter in "abcde" for size in (1, 2, 3)]
    path = write(tmp_path / "a.tsv", lines_of(pairs * 4))
    found = learned(path).data
    own = [{tuple(pair.source.tolist()) for pair in each} for each in found.sets]
    assert not own[TRAIN] & own[DEV]
    assert not own[TRAIN] & own[TEST]
    assert not own[DEV] & own[TEST]
    assert all_of(found) == [44, 8, 8]
    assert not [note for note in found.notes if "sources of the" in note]


def test_sources_with_equal_ids_stay_in_one_part_of_a_split(tmp_path: Path) -> None:
    pairs = [(" ".join("abcde"[:size]), "x y") for size in (1, 2, 3, 4) for _ in range(5)]
    longest = [("a b c d e", "E D"), ("a b c d e ", "E D"), ("a  b c d e", "E F")]
    path = write(tmp_path / "a.tsv", lines_of([*pairs, *longest]))
    found = learned(path).data
    assert len(found.sets[TEST]) == 3
    assert f"1 source has more than one target ({path}:21 and 23){RIGHT}" in found.notes
    featured = write(
        tmp_path / "b.tsv",
        lines_of([("ab" * size, f"V;PST{end}", "x") for size in range(1, 9) for end in ("", ";")]),
    )
    found = learned(featured).data
    read = [{tuple(pair.source.tolist()) for pair in each} for each in found.sets]
    assert not read[TRAIN] & (read[DEV] | read[TEST])


def test_targets_that_a_model_cannot_output_are_named(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tb\nc\td\n")
    dev = write(tmp_path / "dev.tsv", "e\tb\nf\tz\n")
    test = write(tmp_path / "test.tsv", "g\tz\n")
    assert learned(train, dev=dev, test=test).data.notes[1:] == [
        "1 of 2 targets of the development set has symbols that are in no training target, "
        f"and counts as wrong ({dev}:2)",
        "1 of 1 target of the test set has symbols that are in no training target, "
        f"and counts as wrong ({test}:1)",
    ]


def test_a_note_on_a_single_held_out_pair_is_in_the_singular(tmp_path: Path) -> None:
    notes = learned(write(tmp_path / "few.tsv", "a\tb\nc\td\ne\tf\ng\th\n")).data.notes
    assert any("1 of 4 pairs, the longest, is held out as" in note for note in notes)


def test_sources_with_several_targets_are_counted_where_they_are_held_out(tmp_path: Path) -> None:
    notes = learned(write(tmp_path / "few.tsv", "aa\tb\naa\tc\nc\td\ne\tf\n")).data.notes
    held = "are held out as the test set (1 different source, lengths 2)"
    assert any(f"2 of 4 pairs, the longest, {held}" in note for note in notes)


def test_oddities_are_counted_and_named(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "a\tb\nc\td\n\na\tb\na\tx\na\tb\n")
    dev = write(tmp_path / "dev.tsv", "c\td\ne\tf\n")
    test = write(tmp_path / "test.tsv", "e\tg\nc\td\nh\ti\n")
    notes = learned(train, dev=dev, test=test).data.notes
    assert notes[1:] == [
        f"2 pairs repeat an earlier one of the training set ({train}:4, 6)",
        "1 of 2 sources of the development set is in the training set, too, which inflates "
        f"accuracy on it ({dev}:1)",
        "1 of 3 sources of the test set is in the training set, too, which inflates accuracy on it "
        f"({test}:2)",
        f"2 of 3 sources of the test set are in the development set, too ({test}:1, 2)",
        f"2 sources have more than one target ({train}:1 and 5; {dev}:2 and {test}:1){RIGHT}",
        "1 of 2 targets of the development set has symbols that are in no training target, and "
        f"counts as wrong ({dev}:2)",
        "2 of 3 targets of the test set have symbols that are in no training target, and count as "
        f"wrong ({test}:1, 3)",
    ]
    # A source is counted once, however many targets it has.
    again = learned(train, dev=write(tmp_path / "again.tsv", "c\td\nc\ta\n"), test=test).data.notes
    assert any("1 of 1 source of the development set is in the training set" in n for n in again)


def test_empty_targets_are_counted_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\t\nb\t \ncc\tdd\nd\tc d\ne\t\nf\tgg\ng\t\n")
    notes = learned(path, symbols="words").data.notes
    assert f"4 targets are empty, which counts as an answer ({path}:1, 2, 5, ...)" in notes


def test_three_sources_are_enough_however_often_one_of_them_comes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", lines_of([*[("a", "b")] * 100, ("aa", "b"), ("aaa", "b")]))
    found = learned(path).data
    assert sum(all_of(found)) == 102
    assert [pair.length for pair in found.sets[TEST]] == [3]
