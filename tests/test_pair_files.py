"""Files of pairs as people have them: headers, columns, separators, Unicode forms, encodings."""

import gzip
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from command_line import TRAIN as TRAIN_ONE
from command_line import run
from pair_files import OPTIONS, as_written, learned, lines_of, reversals, write

from stacktrans.common import reading
from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.pair_files import DEV, TEST, TRAIN
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.written_pairs import read_pairs

TAGS = ("V;PST", "V;PRS;3;SG", "V;V.PTCP;PRS", "N;PL")
VERBS = [(f"verb{'x' * size}", tag, f"verb{'x' * size}ed") for size in range(5) for tag in TAGS]


def whole(path: Path, **parameters: Any) -> Pairs:
    """A task whose training, development and test sets are the same file."""
    return learned(path, dev=path, test=path, **parameters)


def notes_of(task: Pairs) -> str:
    return "\n".join(task.data.notes)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("source\ttarget", ("source", "target")),
        ("Lemma\tFeatures\tForm", ("source", "features", "target")),
        ("tgt\tsrc", ("target", "source")),
        (" form \tlemma\ttags\r", ("target", "source", "features")),
        ("Singular\tPlural", ("source", "target")),
        ("IPA\tSpelling", ("target", "source")),
        ("string\tlabel", ("source", "target")),
    ],
)
def test_a_header_names_the_columns_and_is_no_pair(
    tmp_path: Path, header: str, columns: tuple[str, ...]
) -> None:
    row = {"source": "ab", "target": "xy", "features": "F;G"}
    line = "\t".join(row[column] for column in columns)
    task = whole(write(tmp_path / "a.tsv", f"\n{header}\n{line}\n"))
    assert task.columns == columns
    assert len(task.data.sets[TRAIN]) == 1
    assert set(task.source.symbols[:2]) == {"a", "b"}
    assert task.target.symbols == ("x", "y")
    assert f"columns {','.join(columns)}, as the first line says; " in notes_of(task)


@pytest.mark.parametrize("line", ["singular\tsingulars", "base\tbase\tN;SG", "word\tspelling"])
def test_a_pair_that_does_not_name_both_columns_is_no_header(tmp_path: Path, line: str) -> None:
    other = "\t".join(["a", "b", "N;PL"][: len(line.split("\t"))])
    task = whole(write(tmp_path / "a.tsv", f"{line}\n{other}\n"))
    assert len(task.data.sets[TRAIN]) == 2


def test_every_file_may_have_a_header_with_an_order_of_its_own(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "ab\tF;G\txy\nb\tF;H\ty\n")
    dev = write(tmp_path / "dev.tsv", "form\tlemma\tfeatures\nyx\tba\tG;F\n")
    task = learned(train, dev=dev, test=train)
    assert as_written(task, DEV) == [("ba\tG;F", "yx")]
    lacking = write(tmp_path / "lacking.tsv", "lemma\tform\nab\txy\n")
    with pytest.raises(
        StacktransError, match=r"lacking\.tsv: has columns source, target; expected"
    ):
        learned(train, dev=lacking, test=train)


def test_the_known_answers_are_those_of_the_files(tmp_path: Path) -> None:
    lines = [("ab ", "F;G", " ba"), ("b", "F", "x"), ("b", "F", "y")]
    task = whole(write(tmp_path / "a.tsv", lines_of(lines)), columns="source,features,target")
    found = {}
    for text in ("ab \tF;G", "ab \tF", "ax \tF;G", "b\tF"):
        try:
            found[text] = "".join(map(str, task.known_answer(task.source.split(text), ["y"])))
        except NotASource as error:
            found[text] = str(error)
    assert found == {
        "ab \tF;G": " ba",
        "ab \tF": "this source is not in the files",
        "ax \tF;G": "this source is not in the files",
        "b\tF": "y",  # one of several targets
    }
    assert task.known_answer(task.source.split("b\tF"), ["z"]) == ["x"]
    for file in ("gone.tsv", str(tmp_path)):  # a directory without main.tok
        gone = Pairs(file, columns="source,features,target", known=task.known)
        with pytest.raises(NotASource, match="are missing, have changed"):
            gone.known_answer(["b"], [])


def test_columns_that_are_given_make_a_pair_of_every_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "source\ttarget\nab\tba\n")
    task = whole(path, columns="target,source")
    assert as_written(task, TRAIN) == [("target", "source"), ("ba", "ab")]
    assert "but is read as a pair, since columns are given" in notes_of(task)
    assert whole(path, columns="lemma,form").columns == ("source", "target")
    skipping = whole(path, columns="target,source", header=True)
    assert as_written(skipping, TRAIN) == [("ab", "ba")]


def test_eval_reads_a_header_as_a_pair_if_the_model_was_given_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "target\tsource\nab\tba\n")
    assert len(read_pairs(path, whole(path, columns="source,target"))) == 2
    assert len(read_pairs(path, whole(path))) == 1


def test_a_model_reads_its_files_again_without_their_headers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f"source\ttarget\n{reversals(60, 1)}")
    made = run(*TRAIN_ONE, "--data", path, "--memory", "stack", "--out", tmp_path / "m",
               "--max-steps", "2", *OPTIONS)  # fmt: skip
    assert made.returncode == 0
    assert f"{path}: columns source,target, as the first line says" in made.stderr.decode()
    assert run("eval", tmp_path / "m").returncode == 0
    more = run("train", "--from", tmp_path / "m", "--data", path, "--out", tmp_path / "n",
               "--max-steps", "4")  # fmt: skip
    assert "as the first line says" in more.stderr.decode()


def test_eval_does_not_count_a_header_as_a_pair(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "target\tsource\nolleh\thello\n")
    done = run("eval", "reverse-stack", "--data", path, "--csv")
    names, row = (line.split(",") for line in done.out.splitlines())
    found = dict(zip(names, row, strict=True))
    assert (int(found["count"]), float(found["coarse"])) == (1, 1.0)
    assert f"{path}: the first line names the columns: target,source" in done.stderr.decode()


def test_a_first_line_unlike_the_others_is_reported(tmp_path: Path) -> None:
    numbers = lines_of([(f"{n:b}", f"{n:b}"[::-1]) for n in range(1, 40)])
    odd = whole(write(tmp_path / "odd.tsv", f"Zahl\tUmkehr\n{numbers}"))
    assert "odd.tsv:1: the first line shares almost no symbols" in notes_of(odd)
    assert "shares almost" not in notes_of(whole(write(tmp_path / "even.tsv", numbers)))
    words = lines_of([(f"eins{n} zwei{n}", f"one{n} two{n}") for n in range(20)])
    assert "shares almost" not in notes_of(whole(write(tmp_path / "words.tsv", words)))


@pytest.mark.parametrize(
    "columns",
    [
        ("source", "target", "features"),
        ("source", "features", "target"),
        ("features", "source", "target"),
    ],
)
@pytest.mark.parametrize("single", [False, True])
def test_the_column_with_features_is_found(
    tmp_path: Path, columns: tuple[str, ...], single: bool
) -> None:
    # A single tag is recognized because there are few different ones.
    verbs = [(f"go{n}", "VN"[n % 2], f"went{n}") for n in range(20)] if single else VERBS
    rows = [dict(zip(("source", "features", "target"), verb, strict=True)) for verb in verbs]
    text = lines_of([tuple(row[column] for column in columns) for row in rows])
    task = whole(write(tmp_path / "a.tsv", text))
    assert task.columns == columns
    assert f"columns {','.join(columns)}, as it seems (see --columns); " in notes_of(task)


def test_a_directory_without_strings_is_no_file_of_pairs(tmp_path: Path) -> None:
    done = run("train", "--data", tmp_path, "--dry-run")
    expected = f"stacktrans: {tmp_path}: a directory without main.tok; expected a file of pairs\n"
    assert (done.returncode, done.stderr.decode()) == (2, expected)


def test_ambiguous_columns_are_refused_with_the_options_to_choose(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "go\tPST\twent\nsing\tPST\tsang\nsing\tPTCP\tsung\n")
    done = run("train", "--data", path)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        f"stacktrans: {path}: it is unclear which of the three columns holds the features; "
        "expected one of these, or --separator",
        "  --columns source,target,features: source 'go', target 'PST', features 'went'",
        "  --columns source,features,target: source 'go', features 'PST', target 'went'",
    ]
    given = whole(path, columns="source,features,target")
    assert as_written(given, TRAIN)[0] == ("go\tPST", "went")


def test_white_space_around_features_makes_no_difference(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "go\twent\tV; PST\nsing\tsang\tV ;PST\n")
    task = whole(path)
    assert [str(feature) for feature in task.source.symbols[-3:]] == ["PST", "V", "<unk>"]
    assert task.source.split("go\t V;PST ") == task.source.split("go\tV; PST")


def test_another_separator_of_features_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "go\twent\tV|Tense=Past\nsing\tsang\tV|Tense=Past\n")
    task = whole(path, separator="|")
    assert task.columns == ("source", "target", "features")
    ids = task.source.encode(task.source.split("go\tTense=Past | V"))
    assert task.source.join(task.source.decode(ids)) == "go\tTense=Past|V"
    for wrong in ("", "\t", 3, [5]):
        with pytest.raises(UsageError, match="separator is"):
            whole(path, separator=wrong)


@pytest.mark.parametrize(
    ("column", "usual", "odd", "units", "has"),
    [
        (1, "AE B", "AEB", "words", "no spaces"),
        (0, "a b", "ab", "words", "no spaces"),
        (1, "ab", "a b", "characters", "spaces"),
    ],
)
def test_strings_that_contradict_the_unit_are_reported(
    tmp_path: Path, column: int, usual: str, odd: str, units: str, has: str
) -> None:
    rows = [["x", "x"] for _ in range(20)]
    for number, row in enumerate(rows):
        strange = number == 7 if units == "words" else number >= 4
        row[column] = odd if strange else usual
    path = write(tmp_path / "a.tsv", lines_of([tuple(row) for row in rows]))
    count = 1 if units == "words" else 16
    name = ("source", "target")[column]
    verb = "has" if count == 1 else "have"
    note = f"{count} of 20 {name}s {verb} {has} ({odd!r}, {path}:{8 if count == 1 else 5})"
    assert f"{note}, but all are read as {units}" in notes_of(whole(path))
    assert "read as" not in notes_of(whole(path, symbols=units)).replace("symbols are", "")


COMPOSED = lines_of([("é" * size, "ñ" * size) for size in range(1, 20)])
DECOMPOSED = lines_of([("e\u0301" * size, "n\u0303" * size) for size in range(1, 20)])


def test_mixed_unicode_forms_are_reported(tmp_path: Path) -> None:
    mixed = write(tmp_path / "mixed.tsv", COMPOSED + DECOMPOSED)
    assert f"114 strings have letters in decomposed form (NFD), such as 'e\u0301' ({mixed}:20)" in (
        notes_of(whole(mixed))
    )
    assert len(whole(mixed, normalize="none").source) == 4
    assert whole(mixed, normalize="none").source.tokenizer == whole(mixed).source.tokenizer
    for form in ("none", "nfc"):
        assert "NFD" not in notes_of(whole(mixed, normalize=form))
    for text in (COMPOSED, DECOMPOSED):
        assert "NFD" not in notes_of(whole(write(tmp_path / "a.tsv", text)))
    with pytest.raises(UsageError, match="normalize is 'nf'; expected nfc, nfd, nfkc, none"):
        whole(mixed, normalize="nf")


def test_white_space_at_the_ends_of_strings_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "masa \tmasalar\nev\tevler\nkedi\t kediler\n")
    notes = notes_of(whole(path))
    assert f"3 sources begin or end with white space, which is a symbol ({path}:1" in notes
    assert f"3 targets begin or end with white space, which is a symbol ({path}:3" in notes
    twice = write(tmp_path / "twice.tsv", "ev\tevler\r\r\n")
    assert "begin or end with white space" in notes_of(whole(twice))
    words = write(tmp_path / "b.tsv", "a b \tb a\nb a\ta b\n")
    assert "which is a symbol" not in notes_of(whole(words))


@pytest.mark.parametrize("form", ["nfc", "nfd", "nfkc"])
def test_a_normalized_task_reads_every_form_as_the_same(tmp_path: Path, form: Any) -> None:
    task = whole(write(tmp_path / "mixed.tsv", COMPOSED + DECOMPOSED), normalize=form)
    assert task.source.symbols[:-1] == tuple(sorted(unicodedata.normalize(form.upper(), "é")))
    one, other = (task.source.encode(task.source.split(text)) for text in ("é", "e\u0301"))
    assert one.tolist() == other.tolist()
    assert task.target.split("ñ") == task.target.split("n\u0303")


def test_known_marks_do_not_combine_with_letters_before_them(tmp_path: Path) -> None:
    text = lines_of([("zx\u0301" * size, "z") for size in range(1, 9)])
    task = whole(write(tmp_path / "a.tsv", text), normalize="nfc")
    assert task.source.symbols == ("x", "z", "\u0301", "<unk>")


def test_a_model_normalizes_what_it_transduces_and_measures(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", COMPOSED)
    made = run(*TRAIN_ONE, "--data", path, "--normalize", "nfc", "--memory", "stack", "--out",
               tmp_path / "m", "--max-steps", "2", *OPTIONS)  # fmt: skip
    assert made.returncode == 0
    answers = [
        run("transduce", tmp_path / "m", "--json", stdin=text.encode()).stdout.partition(b"output")
        for text in ("éé\n", "e\u0301e\u0301\n")
    ]
    assert answers[0][2] == answers[1][2]
    decomposed = write(tmp_path / "b.tsv", DECOMPOSED)
    measured = [
        run("eval", tmp_path / "m", "--data", each, "--csv").stdout for each in (path, decomposed)
    ]
    assert measured[0] == measured[1]


def test_files_are_unpacked_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_CONTENT", 3 << 20)
    fits, bomb = (gzip.compress(b"a\tb\n" * (size << 18), mtime=0) for size in (3, 4))
    (tmp_path / "fits.tsv.gz").write_bytes(fits)
    (tmp_path / "bomb.tsv.gz").write_bytes(bomb)
    with pytest.raises(UsageError, match="too few distinct sources"):
        learned(tmp_path / "fits.tsv.gz")
    for command in ("train", "eval reverse-stack"):
        done = run(*command.split(), "--data", tmp_path / "bomb.tsv.gz")
        assert done.returncode == 2
        assert "bomb.tsv.gz: more than 3 MiB; expected less" in done.stderr.decode()
        piped = run(*command.split(), "--data", "-", stdin=bomb)
        assert "standard input: more than 3 MiB; expected less" in piped.stderr.decode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_utf_16_is_refused(tmp_path: Path, encoding: str, name: str) -> None:
    text = "ab\tba\nba\tab\n" if name == "a.tsv" else '{"source": "ab", "target": "ba"}\n'
    (tmp_path / name).write_bytes(text.encode(encoding))
    for command in ("train", "eval reverse-stack"):
        done = run(*command.split(), "--data", tmp_path / name)
        assert done.returncode == 1
        assert f"{name}:1: byte " in done.stderr.decode()
        assert "is 0x00, as in UTF-16 or binary data" in done.stderr.decode()
    answered = run("transduce", "reverse-stack", stdin=text.encode(encoding))
    assert (answered.returncode, answered.stdout.strip()) == (1, b"")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ('{"source": "a\nb", "target": "ba"}', "a string begins at character 12 and does not end"),
        ('{"source": "ab", "target": "ba", "n": ' + "9" * 100_000 + "}", "number of 100000 digits"),
        ('{"source": "ab", "source": "b", "target": "ba"}', "the key 'source' repeats"),
        ('{"source": "ab", "target": "ba"} {}', "not JSON: Extra data at character 34"),
        ('["ab", "ba"]', "expected a JSON object on each line; found a JSON array"),
        ('{"source": 5, "target": null}', "with texts"),
        ('{"source": ' + "[" * 20_000, "expected a JSON object"),
        ('[\n{"source": "ab", "target": "ba"}\n]', "found a JSON array"),
    ],
)
def test_json_that_is_wrong_is_refused_for_its_true_cause(
    tmp_path: Path, line: str, cause: str
) -> None:
    path = write(tmp_path / "a.jsonl", f"{line}\n")
    for command in ("train", "eval reverse-stack"):
        done = run(*command.split(), "--data", path)
        assert done.returncode == 1
        assert f"{path}:1: expected a JSON object" in done.stderr.decode()
        assert cause in done.stderr.decode()
        assert len(done.stderr) < 1000


@pytest.mark.parametrize("character", ["\0", "\t", "\n", "\r", "\ud800"])
def test_json_with_strings_that_no_line_can_hold_is_refused(tmp_path: Path, character: str) -> None:
    pair = {"source": "ab", "target": f"b{character}"}
    path = write(tmp_path / "a.jsonl", f"{json.dumps(pair)}\n")
    with pytest.raises(StacktransError, match=r":1: a string with .* in it; expected text without"):
        whole(path)


def test_the_word_for_unknown_words_is_no_other_symbol_of_sources(tmp_path: Path) -> None:
    task = whole(write(tmp_path / "a.tsv", "a <unk>\t<unk> a\n<unk> b\tb <unk>\n"))
    assert task.source.symbols == ("a", "b", "<unk>")
    assert task.target.symbols == ("<unk>", "a", "b")


def test_the_test_set_may_have_other_columns(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", lines_of(VERBS))
    test = write(tmp_path / "test.tsv", "form\tfeatures\tlemma\nverbed\tN;PL\tverb\n")
    task = learned(train, test=test)
    assert as_written(task, TEST) == [("verb\tN;PL", "verbed")]


@pytest.mark.parametrize("options", [[], ["--recipe", "default", "--memory", "stack"]])
def test_a_rehearsal_reports_how_a_file_is_read(tmp_path: Path, options: list[str]) -> None:
    path = write(tmp_path / "a.tsv", f"lemma\tform\n{reversals(40, 1)}")
    done = run("train", "--data", path, "--dry-run", *options)
    assert f"{path}: columns source,target, as the first line says" in done.stderr.decode()


def test_a_usual_separator_of_features_is_found(tmp_path: Path) -> None:
    rows = [(source, tag.replace(";", "|"), target) for source, tag, target in VERBS]
    task = whole(write(tmp_path / "a.tsv", lines_of(rows)))
    assert task.columns == ("source", "features", "target")
    assert task.data.notes[0].endswith("; features are separated by |")
    assert "PTCP" not in task.source.symbols
    assert {"V", "PST", "N", "PL"} < {*map(str, task.source.symbols)}


def test_few_lemmas_are_not_taken_for_features(tmp_path: Path) -> None:
    rows = [(lemma, f"TAG{n}", f"{lemma}{n}") for lemma in ("go", "sing", "be") for n in range(30)]
    with pytest.raises(UsageError, match="it is unclear which of the three columns"):
        whole(write(tmp_path / "a.tsv", lines_of(rows)))


def test_a_header_may_have_one_name_that_is_not_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f"Lemma\tMerkmale\tForm\n{lines_of(VERBS)}")
    assert whole(path).columns == ("source", "features", "target")
    with pytest.raises(UsageError, match="columns is 'lemma,merkmale,form'"):
        whole(path, columns="lemma,merkmale,form")


def test_files_without_headers_may_have_orders_of_their_own(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", lines_of(VERBS))
    test = write(
        tmp_path / "test.tsv", lines_of([(form, lemma, tag) for lemma, tag, form in VERBS])
    )
    swapped = write(
        tmp_path / "swapped.tsv", lines_of([(lemma, form, tag) for lemma, tag, form in VERBS])
    )
    task = learned(train, dev=swapped, test=train)
    assert task.columns == ("source", "features", "target")
    assert as_written(task, DEV) == [(f"{lemma}\t{tag}", form) for lemma, tag, form in VERBS]
    given = learned(train, dev=test, test=train, columns="source,features,target")
    assert as_written(given, DEV)[0][0].startswith("verbe")


def test_one_word_that_repeats_does_not_make_sentences_characters(tmp_path: Path) -> None:
    text = lines_of(
        [(f"walk {n} times", "WALK " * n) for n in range(2, 30)] + [("jump", "JUMP")] * 9
    )
    task = whole(write(tmp_path / "a.tsv", text))
    assert task.request.symbols == "words"
    assert "9 of 37 sources have no spaces ('jump'" in notes_of(task)


def test_letters_without_a_composed_form_are_not_reported_as_mixed(tmp_path: Path) -> None:
    text = lines_of([("\u09df" * size, "é" * size) for size in range(1, 9)])
    assert "NFD" not in notes_of(whole(write(tmp_path / "a.tsv", text)))


def test_a_file_to_measure_on_may_have_its_columns_in_another_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"lemma{n % 7}", f"form{n % 7}", "V;PST" if n % 2 else "V;PRS") for n in range(30)]
    path = write(tmp_path / "a.tsv", lines_of(rows))
    turned = write(tmp_path / "b.tsv", lines_of([(row[0], row[2], row[1]) for row in rows]))
    task = learned(path, dev=path, test=path)
    assert task.columns == ("source", "target", "features")
    pairs, others = read_pairs(path, task), read_pairs(turned, task)
    assert all(pair.in_vocabulary for pair in others)
    assert [pair.source.tolist() for pair in pairs] == [pair.source.tolist() for pair in others]
    assert "b.tsv: the columns seem to be source,features,target" in capsys.readouterr().err


def test_given_columns_and_separators_are_those_of_files_to_measure_on(tmp_path: Path) -> None:
    # By their values alone, the classes would be the features.
    rows = [(f"word{n}", f"gloss{n}", "VN"[n % 2]) for n in range(20)]
    path = write(tmp_path / "a.tsv", lines_of(rows))
    task = whole(path, columns="source,features,target", symbols="characters")
    assert {pair.written for pair in read_pairs(path, task)} == {*rows}

    rows = [(f"lemma{n}", f"form{n}", f"V+{n}") for n in range(20)]
    path = write(tmp_path / "b.tsv", lines_of(rows))
    turned = write(tmp_path / "c.tsv", lines_of([(a, c, b) for a, b, c in rows]))
    task = whole(path, separator="+")
    assert {pair.written for pair in read_pairs(turned, task)} == {*rows}
