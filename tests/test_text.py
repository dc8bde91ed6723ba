"""Language modelling on texts in files (joulin2015, section 5.3)."""

import csv
import itertools
import json
import math
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from changed_checkpoints import reseal
from command_line import invoke, run
from small_runs import CPU, assert_resumes_exactly, assert_same_run, ignore, records_of, trainer_of

import stacktrans
from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.inference.perplexity import Perplexity, next_symbol_predictions, perplexity
from stacktrans.model import checkpoint, checkpoint_files, definition
from stacktrans.model.torch_backend import predictor_of
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.corpus import Corpus, find_texts, read_sentences, vocabulary_of
from stacktrans.training.attempt import Attempt
from stacktrans.training.streams import Texts, segments_of_text
from stacktrans.training.trainer import Trainer

SUBJECTS = ("the owl", "a gray owl", "the moon", "no boat")
VERBS = ("sees", "follows", "leaves")
ENDS = ("the sea .", "a lighthouse", "nothing at all .", "the shore , and waits .")
SMALL = ("hidden_size=8", "memory.count=2", "batch_size=3", "data.stream.steps=7")


def sentences(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    parts = (SUBJECTS, VERBS, ENDS)
    return [" ".join(part[rng.integers(len(part))] for part in parts) for _ in range(count)]


def write(folder: Path, prefix: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    for number, (part, count) in enumerate((("train", 60), ("valid", 12), ("test", 12))):
        text = "".join(f"{line}\n" for line in sentences(count, number))
        (folder / f"{prefix}{part}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("texts") / "lighthouse")


def small_run(folder: Path, *changes: str, memory: str = "stack-rnn") -> RunConfig:
    files = [f"task.parameters.{part}={path}" for part, path in find_texts(folder).items()]
    small = SMALL if memory == "stack-rnn" else [SMALL[0], *SMALL[2:]]
    return resolve(
        task="text",
        settings={"model": {"memory": memory}},
        assignments=[*files, *small, "data.stream.epochs=2", *changes],
    )


def texts_of(trainer: Trainer) -> Texts:
    assert isinstance(trainer.source, Texts)
    return trainer.source


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    settings = [word for change in SMALL for word in ("--set", change)]
    settings += ["--set", "data.stream.epochs=8", "--set", "learning_rate=0.05"]
    done = run("train", "--text", folder, "--memory", "stack-rnn", *settings, "--out", directory)
    assert done.returncode == 0, done.stderr.decode()
    assert "perplexity" in done.stdout.decode()
    assert "validation" in done.stderr.decode()
    return directory


def test_a_run_learns_and_tells_both_perplexities(trained: Path) -> None:
    summary = json.loads((trained / "summary.json").read_text())
    assert summary["train"] is summary["test"] is None
    texts = summary["texts"]
    assert texts["test"]["symbols"] == sum(len(line.split()) + 1 for line in sentences(12, 2))
    records = [record for record in records_of(trained) if record["validation"] is not None]
    assert len(records) == 8
    best = min(record["validation"] for record in records)
    assert texts["valid"]["nats"] == pytest.approx(best)
    assert math.log(texts["test"]["perplexity"]) == pytest.approx(texts["test"]["nats"])
    # Only the four subjects, three verbs and four ends of sentences are uncertain.
    assert texts["test"]["perplexity"] < 4


def test_the_files_are_needed_for_nothing_but_training(
    trained: Path, folder: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(trained / "best", moved)
    config = moved / "config.yaml"
    config.write_text(config.read_text().replace(str(folder), "nowhere"))
    reseal(moved)
    lost = invoke("eval", moved)
    assert lost.returncode == 2
    assert "nowhere/valid.txt: No such file" in lost.err
    text = tmp_path / "more.txt"
    text.write_bytes(b"\xef\xbb\xbfthe owl sees the sea .\r\n\r\n  \nno boat leaves an iceberg .")
    done = run("eval", moved, "--text", text, "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert result["text"] == str(text)
    assert (result["symbols"], result["unknown"]) == (7 + 7, 2)
    literal = literal_perplexity(moved, text.read_text("utf-8-sig"))
    assert result["perplexity"] == pytest.approx(literal, rel=1e-5)


def test_perplexities_in_python_are_those_of_the_command(trained: Path, tmp_path: Path) -> None:
    text = tmp_path / "more.txt"
    text.write_text("the owl sees the sea .\n", encoding="utf-8")
    model = stacktrans.load(trained)
    for file, options in ((None, []), (text, ["--text", str(text)])):
        results = json.loads(invoke("eval", trained, *options, "--json").out)["results"]
        assert model.perplexity(file) == {each["text"]: each["perplexity"] for each in results}


def test_several_models_are_compared(trained: Path, tmp_path: Path) -> None:
    text = tmp_path / "more.txt"
    text.write_text("the owl sees the sea .\n", encoding="utf-8")
    both = [trained, trained / "last"]
    alone = [json.loads(invoke("eval", each, "--text", text, "--json").out) for each in both]
    assert json.loads(invoke("eval", *both, "--text", text, "--json").out) == alone
    rows = [*csv.DictReader(invoke("eval", *both, "--text", text, "--csv").out.splitlines())]
    assert [row["checkpoint"] for row in rows] == [str(each) for each in both]
    for row, each in zip(rows, alone, strict=True):
        (result,) = each["results"]
        assert float(row["perplexity"]) == result["perplexity"]
    latex = invoke("eval", *both, "--text", text, "--latex").out
    assert "checkpoint & text & symbols & unknown & perplexity & nats/symbol" in latex
    mixed = invoke("eval", trained, "reverse-stack", "--text", text)
    assert (mixed.returncode, mixed.out) == (2, "")
    assert "not a language model: its task is reverse" in mixed.err


def literal_perplexity(directory: Path, text: str) -> float:
    """Step by step, by the definition of the model, in a loop over the words."""
    loaded = checkpoint.load(directory, CPU)
    model, task = loaded.model, loaded.task
    assert isinstance(task, Corpus)
    symbols = task.source.symbols
    words = ["</s>"]
    for line in text.splitlines():
        if line.split():
            words += [word if word in symbols else "<unk>" for word in line.split()] + ["</s>"]
    state, total = definition.initial(model, 1), 0.0
    for word, following in itertools.pairwise(words):
        with torch.no_grad():
            unrolled, state = definition.unroll(model, torch.tensor([[symbols.index(word)]]), state)
            logits = model.read_out(unrolled.hidden[0, 0]).double().tolist()
        largest = max(logits)
        whole = largest + math.log(sum(math.exp(logit - largest) for logit in logits))
        total += whole - logits[symbols.index(following)]
    return math.exp(total / (len(words) - 1))


def test_transduce_tells_what_is_expected_after_each_word(trained: Path) -> None:
    done = run("transduce", trained, "--json", "--max-length", "4", stdin=b"the owl sees\n\nX\n")
    first, empty, unknown = map(json.loads, done.stdout.splitlines())
    assert [one["after"] for one in first["following"]] == ["</s>", "the", "owl", "sees"]
    assert [one["next"] for one in first["following"]] == ["the", "owl", "sees", "</s>"]
    for one in first["following"]:
        likeliest = list(one["likeliest"].values())
        assert likeliest == sorted(likeliest, reverse=True)
        assert len(likeliest) == 5
        assert one["likeliest"].get(one["next"], one["probability"]) == pytest.approx(
            one["probability"], rel=1e-4
        )
    verbs = [word for word in first["following"][2]["likeliest"] if word in VERBS]
    assert len(verbs) == 3
    product = math.prod(one["probability"] for one in first["following"])
    assert first["log_probability"] == pytest.approx(math.log(product))
    assert first["perplexity"] == pytest.approx(product ** (-1 / 4))
    literal = literal_perplexity(trained, "the owl sees")
    assert first["perplexity"] == pytest.approx(literal, rel=1e-4)
    assert empty["output"] == ""
    assert "following" not in empty
    assert [one["next"] for one in unknown["following"]] == ["<unk>", "</s>"]


def test_inspect_follows_a_sentence(trained: Path) -> None:
    steps = json.loads(invoke("inspect", trained, "the owl sees", "--json").out)["steps"]
    assert [step["input"] for step in steps[:4]] == ["</s>", "the", "owl", "sees"]
    assert len(steps[0]["tops"]) == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["eval", "{run}", "--count", "3"], "--count: cannot be used with a text"),
        (["eval", "{run}", "--beam", "3"], "--beam: cannot be used with a text"),
        (["eval", "{run}", "--n-best", "3"], "--n-best: cannot be used with a text"),
        (["eval", "{run}", "--predictions", "a"], "--predictions: cannot be used with a text"),
        (["inspect", "{run}", "--seed", "1"], "has no generator of strings"),
        (["generate", "--task", "text"], "has no generator of strings"),
        (["train", "--text", "{folder}", "--memory", "stack-rnn", "--out", "new", "--set",
          "task.parameters.unit=letters"], "unit is 'letters'; expected characters or words"),
    ],
)  # fmt: skip
def test_contradictory_options_are_refused(
    trained: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke(*(part.format(run=trained, folder=folder) for part in command))
    assert done.returncode == 2
    assert message in done.err
    assert not (tmp_path / "new").exists()


def test_the_most_frequent_symbols_are_known() -> None:
    corpus = Corpus(vocabulary=5)
    known = vocabulary_of(corpus, [["b", "a", "c"], ["c", "b", "<unk>", "</s>"], ["d", "b"]])
    assert known == [*"bca"]  # of those that are as frequent, the first in the alphabet
    alphabet = Corpus(vocabulary=5, known="b c a").vocabulary
    assert alphabet.symbols == ("</s>", "<unk>", "b", "c", "a")
    assert alphabet.encode(["d", "a", "</s>", "<unk>"]).tolist() == [1, 4, 1, 1]
    with pytest.raises(ValueError, match="known has more symbols than a vocabulary of 4"):
        Corpus(vocabulary=4, known="b c a")


def test_a_vocabulary_that_is_limited_makes_words_unknown(folder: Path, tmp_path: Path) -> None:
    trainer = trainer_of(small_run(folder, "task.parameters.vocabulary=6"), tmp_path)
    assert trainer.source.layout.outputs == 6
    trainer.run(ignore)
    config = checkpoint_files.read_config(tmp_path / "best")
    assert config.task.parameters["known"].split()[0] == "the"
    assert json.loads((tmp_path / "summary.json").read_text())["texts"]["test"]["unknown"] > 12


def test_a_model_as_large_as_a_trained_one_has_as_many_units(trained: Path, folder: Path) -> None:
    settings = [word for change in SMALL[1:] for word in ("--set", change)]
    options = ("--as-large-as", trained, "--dry-run", "--json")
    done = invoke("train", "--text", folder, "--memory", "stack-rnn", *settings, *options)
    assert done.returncode == 0, done.err
    assert json.loads(done.out)["model"]["controller"]["hidden_size"] == 8


def test_a_text_may_be_learned_by_characters(folder: Path, tmp_path: Path) -> None:
    config = small_run(folder, "task.parameters.unit=characters", memory="none")
    trainer_of(config, tmp_path / "run").run(ignore)
    loaded = checkpoint.load(tmp_path / "run", CPU)
    assert isinstance(loaded.task, Corpus)
    assert " " in loaded.task.vocabulary.symbols[:4]
    expected = next_symbol_predictions(loaded.predictor, loaded.task.vocabulary, "a ö")
    assert [one.next for one in expected] == ["a", " ", "<unk>", "</s>"]
    done = invoke("eval", tmp_path / "run")
    assert done.returncode == 0
    assert str(sum(len(line) + 1 for line in sentences(12, 2))) in done.out


def test_the_penn_treebank_s_files_are_found_by_their_names(tmp_path: Path) -> None:
    write(tmp_path / "ptb", "ptb.")
    found = find_texts(tmp_path / "ptb")
    assert [Path(path).name for path in found.values()] == [
        "ptb.train.txt",
        "ptb.valid.txt",
        "ptb.test.txt",
    ]
    assert load_task("text").parameters["vocabulary"] == 10_000
    (tmp_path / "ptb" / "other.test.txt").write_text("a\n")
    with pytest.raises(UsageError, match=r"other\.test\.txt, ptb\.test\.txt could each be"):
        find_texts(tmp_path / "ptb")
    (tmp_path / "ptb" / "ptb.valid.txt").unlink()
    with pytest.raises(UsageError, match=r"valid\.txt: No such file"):
        find_texts(tmp_path / "ptb")
    with pytest.raises(UsageError, match="expected a directory"):
        find_texts(tmp_path / "absent")


def test_files_that_are_no_texts_are_named_with_the_line(tmp_path: Path) -> None:
    alphabet = Corpus().vocabulary
    wrong = tmp_path / "wrong.txt"
    wrong.write_bytes(b"good\r\n\nb\xffd\n")
    with pytest.raises(StacktransError, match=r"wrong\.txt:3: byte 2 is 0xff, which is not UTF-8"):
        read_sentences(wrong, alphabet)
    wrong.write_bytes(b" \n\r\n")
    with pytest.raises(StacktransError, match=r"wrong\.txt: contains no sentences"):
        read_sentences(wrong, alphabet)
    with pytest.raises(UsageError, match=r"absent\.txt: No such file"):
        read_sentences(tmp_path / "absent.txt", alphabet)
    with pytest.raises(UsageError, match="Is a directory"):
        read_sentences(tmp_path, alphabet)
    wrong.write_bytes(b"\xef\xbb\xbfone two\r\n\r\nthree")
    assert read_sentences(wrong, alphabet) == [["one", "two"], ["three"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("data=null", "training.data.stream: null is not for a text"),
        ("rounding=quick", "training.rounding: not for a text"),
        ("task.parameters.test=null", "task.parameters.test: no file given"),
        ("task.parameters.vocabulary=2", "vocabulary is 2; expected a number of at least 3"),
        ("task.parameters.unknown=a b", "unknown is 'a b'; expected a word"),
        ("task.lengths={train: [1, 2], test: [3, 4]}", "lengths cannot be used"),
        ("model.memory=stack", "memory stack: its state can't be carried from one segment"),
    ],
)
def test_settings_that_do_not_fit_a_text_are_named(
    folder: Path, tmp_path: Path, change: str, message: str
) -> None:
    parts = find_texts(folder).items()
    files = [f"task.parameters.{part}={path}" for part, path in parts]
    changes = [*files, "hidden_size=8", "memory=stack-rnn", change]
    with pytest.raises(UsageError, match=message):
        trainer_of(resolve(task="text", assignments=changes), tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_drawn_from_a_text() -> None:
    task = make_task("text", "text", {})
    with pytest.raises(TaskError, match="unknown parameter 'trian'"):
        make_task("text", "text", {"trian": "x"})
    with pytest.raises(UsageError, match="none of it is drawn"):
        task.sample(np.random.default_rng(), (1, 2), 1, "uniform")  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_each_symbol_of_a_text_is_predicted_once(count: int) -> None:
    text = np.arange(30)
    pieces = list(segments_of_text(text, count, 4))
    assert [piece.begins for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    inputs, targets, mask = (
        np.concatenate([getattr(piece.batch, part) for piece in pieces], axis=1)
        for part in ("inputs", "targets", "mask")
    )
    assert targets[mask].tolist() == text[1:].tolist()
    assert (inputs[mask] == targets[mask] - 1).all()


@pytest.mark.parametrize("memory", ["stack-rnn", "none"])
@torch.no_grad()
def test_segments_give_a_text_s_perplexity(folder: Path, tmp_path: Path, memory: str) -> None:
    trainer = trainer_of(small_run(folder, memory=memory), tmp_path)
    source, model = texts_of(trainer), trainer.state.attempt.model
    text, total, state = source.texts["valid"], 0.0, None
    for piece in segments_of_text(text, 1, 5):
        unrolled, state = model.unroll_segment(torch.from_numpy(piece.batch.inputs), state)
        mask, targets = (torch.from_numpy(part) for part in (piece.batch.mask, piece.batch.targets))
        logits = model.logits(unrolled, mask)
        total += float(torch.nn.functional.cross_entropy(logits, targets[mask], reduction="sum"))
    whole = perplexity(predictor_of(model), source.vocabulary, text)
    assert isinstance(whole, Perplexity)
    assert whole.nats == pytest.approx(total / (len(text) - 1), rel=1e-5)


@pytest.mark.parametrize("stop_at", [3, 30])
def test_an_interrupted_run_resumes_from_its_last_epoch_bit_for_bit(
    folder: Path, tmp_path: Path, stop_at: int
) -> None:
    assert_resumes_exactly(tmp_path, small_run(folder, "loss_every=4"), stop_at)


def test_an_interrupt_within_an_epoch_resumes_from_its_start(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_batch = Attempt.train_on_batch

    def stopped(attempt: Attempt) -> None:
        on_batch(attempt)
        if attempt.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Attempt, "train_on_batch", stopped)
    out = tmp_path / "run"
    place = tmp_path / "config.yaml"
    place.write_text(small_run(folder).to_yaml())
    done = invoke("train", "--config", place, "--out", out)
    assert done.returncode == 128 + signal.SIGINT
    assert "saved as it was when this epoch began; resume with" in done.err
    assert Trainer.resume(out, [], CPU).state.step == 0


def test_a_configuration_repeats_its_run(folder: Path, tmp_path: Path) -> None:
    trainer_of(small_run(folder), tmp_path / "first").run(ignore)
    config = resolve(config=str(tmp_path / "first" / "config.yaml"))
    trainer_of(config, tmp_path / "again").run(ignore)
    assert_same_run(tmp_path / "first", tmp_path / "again")


def test_output_biases_start_from_symbol_frequencies(folder: Path, tmp_path: Path) -> None:
    trainer = trainer_of(small_run(folder), tmp_path)
    text = texts_of(trainer).texts["train"][1:]
    shares = torch.softmax(trainer.state.attempt.model.classifier.bias, dim=0)
    for index, share in enumerate(shares.tolist()):
        count = int((text == index).sum())
        assert share == pytest.approx((count + 1) / (len(text) + len(shares)))
    unbiased = trainer_of(small_run(folder, "biases=false"), tmp_path)
    assert unbiased.state.attempt.model.classifier.bias is None


def sweep_of_texts(folder: Path, place: Path, **measures: dict[str, str]) -> Path:
    files = {f"task.parameters.{part}": [str(path)] for part, path in find_texts(folder).items()}
    training = {"batch_size": 3, "data": {"stream": {"steps": 7, "epochs": 1}}}
    content = {
        "title": "Texts",
        "settings": {"model": {"controller": {"hidden_size": 8}}, "training": training},
        "grid": {"task": ["text"], **files, "seed": [1, 2]},
        "conditions": {"RNN": {"model": {"memory": "none"}}},
        "measures": measures,
    }
    path = place / "texts.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.mark.usefixtures("sweeps_here")
def test_a_sweep_of_texts_has_their_perplexities(folder: Path, tmp_path: Path) -> None:
    measures = {part: {"of": "perplexity", "strings": part} for part in ("test", "valid")}
    path = sweep_of_texts(folder, tmp_path, **measures)
    with path.open("a") as file:
        file.write("choose: {by: validation perplexity, among: [seed]}\n")
    options = ("--workers", "1", "--out", tmp_path / "out", "--json")
    found = json.loads(invoke("sweep", path, *options).out)
    summaries = (tmp_path / "out" / "runs").glob("*/summary.json")
    texts = [json.loads(summary.read_text())["texts"] for summary in summaries]
    best = min(texts, key=lambda text: text["valid"]["perplexity"])
    assert {cell["measure"]: cell["figure"] for cell in found["cells"]} == {
        part: best[part]["perplexity"] for part in measures
    }


def test_sweep_measures_that_texts_do_not_have_are_refused(folder: Path, tmp_path: Path) -> None:
    path = sweep_of_texts(folder, tmp_path, right={"of": "coarse", "strings": "test"})
    done = invoke("sweep", path, "--workers", "1", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "right: of: coarse is not for texts" in done.err
    assert not (tmp_path / "out").exists()
