"""The Python API: what `import stacktrans` gives."""

import inspect
import json
import math
import os
import pydoc
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from command_line import TRAIN
from command_line import run as command
from small_runs import SETTINGS

import stacktrans
from stacktrans.common.errors import CheckpointError, StacktransError, UsageError
from stacktrans.model import checkpoint
from stacktrans.training.records import Record


def small() -> dict[str, object]:
    """Settings of a run of a second."""
    pairs = (setting.split("=") for setting in SETTINGS)
    return {name: yaml.safe_load(value) for name, value in pairs}


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, stacktrans; dir(stacktrans); stacktrans.__version__; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'typer', 'pydantic')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    for name in stacktrans.__all__:
        assert getattr(stacktrans, name) is not None
    assert set(stacktrans.__all__) == set(dir(stacktrans))
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        stacktrans.lode  # noqa: B018


def test_answers_are_those_of_the_command() -> None:
    model = stacktrans.load("reverse-stack")
    sources = ["hello", "", "abc"]
    printed = command("transduce", "reverse-stack", stdin=b"hello\n\nabc\n").stdout.decode()
    assert model.transduce(sources) == printed.splitlines() == ["olleh", "", "cba"]
    assert model.transduce([]) == []
    assert [answer.ended for answer in model.answers(sources)] == [True, True, True]
    assert [answer.text for answer in model.answers("hello")] == ["olleh"]
    cut = model.answers(["hello"], max_length=2)[0]
    assert (len(cut.text), cut.ended) == (2, False)
    (searched,) = model.answers(["hello"], beam=3)
    assert searched.hypotheses is not None
    assert searched.hypotheses[0].text == searched.text == "olleh"
    assert len(searched.hypotheses) == 3
    assert model.transduce(sources, beam=3) == ["olleh", "", "cba"]
    with pytest.raises(UsageError, match="beam 0"):
        model.transduce("a", beam=0)
    with pytest.raises(UsageError, match="max_length 0"):
        model.transduce("a", max_length=0)


def test_answers_mark_symbols_that_are_not_scored() -> None:
    model = stacktrans.load("reversal-stack")
    (answer,) = model.answers(["01##"])
    assert answer.scored == [False, False, True, True]
    assert answer.text[2:] == "10"
    assert model.transduce("01##") == "··10"
    assert model.transduce("01##", everything=True) == answer.text


def test_traces_are_those_of_the_command(tmp_path: Path) -> None:
    model = stacktrans.load("copy-deque")
    trace = model.trace("ab")
    assert (trace.answer, trace.correct, trace.expected) == ("ab", True, "ab")
    assert trace.strengths.dtype == np.float64
    assert trace.strengths.shape == (len(trace.steps), 4)
    for row, step in zip(trace.strengths, trace.steps, strict=True):
        assert dict(zip(trace.signals, row.tolist(), strict=True)) == step.signals
    assert trace.outputs[-3:] == ["a", "b", "</s>"]
    assert trace.plot(tmp_path / "a.svg").read_text().startswith("<?xml")
    assert trace.animate(tmp_path / "a.gif").read_bytes().startswith(b"GIF8")
    with pytest.raises(UsageError, match=r"a\.txt"):
        trace.plot(tmp_path / "a.txt")
    with pytest.raises(UsageError, match=r"a\.svg"):
        trace.html(tmp_path / "a.svg")
    command("inspect", "copy-deque", "ab", "--html", tmp_path / "b.html")
    page = trace.html(tmp_path / "a.html").read_text()
    path = json.dumps(str(model.path))
    assert page.replace(path, '"copy-deque"') == (tmp_path / "b.html").read_text()


def test_an_extracted_machine_equals_that_of_the_command(
    machine_of: Callable[[str], Path], tmp_path: Path
) -> None:
    model = stacktrans.load("parenthesis-stack")
    machine = model.extract()
    saved = stacktrans.load(machine_of("parenthesis-stack"))
    assert machine.machine
    assert saved.machine
    assert machine.machine == saved.machine
    assert repr(machine) == repr(saved)
    verified = machine.verify(count=10, longest=20)
    assert verified.proved
    assert re.fullmatch(r"Verification\(right, [\d,]+ strings, proved\)", repr(verified))
    assert "proved: right on all strings" in verified._repr_html_()
    wrong = replace(machine.machine, rules=machine.machine.rules[:2])
    for path, is_saved in ((machine.path, False), (saved.path, True)):
        other = stacktrans.Model(replace(checkpoint.load(path), machine=wrong))
        shown = other.verify(count=10, longest=20)._repr_html_()
        assert "answered wrongly" in shown
        assert ("to see its steps" in shown) == is_saved
    with pytest.raises(StacktransError, match=r"no machine found within 0\.001 s"):
        model.extract(time_limit=0.001)
    for limit in (-1, 0, math.nan, math.inf):
        with pytest.raises(UsageError, match=f"time_limit {limit}: expected seconds, more than 0"):
            model.extract(time_limit=limit)
        with pytest.raises(UsageError, match=f"budget {limit}: expected seconds, more than 0"):
            stacktrans.resume(tmp_path, budget=limit)


def test_a_wrong_argument_is_named_with_its_function() -> None:
    with pytest.raises(TypeError, match=r"train\(\) got an unexpected keyword argument 'hiden'"):
        stacktrans.train(task="copy", hiden=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"load\(\) missing a required argument: 'name'"):
        stacktrans.load()  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"strategies 'joint': expected a list of strings"):
        stacktrans.train("copy", strategies="joint")
    model = stacktrans.load("reverse-stack")
    with pytest.raises(UsageError, match=r"other .*: expected a model that load returned"):
        model.verify(model.trace("ab"))
    with pytest.raises(UsageError) as raised:
        stacktrans.ensemble([model, "reverse-stack"])
    assert raised.value.problems == (
        "models[1] 'reverse-stack': expected a model that load returned",
    )
    with pytest.raises(UsageError, match=r"hard 'x': expected true or false"):
        stacktrans.load("reverse-stack", hard="x")  # type: ignore[arg-type]
    with pytest.raises(UsageError) as raised:
        stacktrans.train()
    assert "--" not in str(raised.value)


def test_sources_may_have_features_beside_them(tmp_path: Path) -> None:
    verbs = [("walk", "V;PST", "walked"), ("talk", "V;PST", "talked"), ("walk", "V;PRS", "walks")]
    data = tmp_path / "verbs.tsv"
    data.write_text("".join("\t".join(verb) + "\n" for verb in verbs))
    settings = {"hidden_size": 8, "max_steps": 2, "measure.strings": 4}
    run = stacktrans.train(
        data=data,
        dev=data,
        test=data,
        columns="source,features,target",
        memory="stack",
        recipe="default",
        settings=settings,
        out=tmp_path / "run",
    )
    lines = [f"{source}\t{features}" for source, features, _ in verbs]
    assert run.model.transduce([verb[:2] for verb in verbs]) == run.model.transduce(lines)

    class Frame:
        """What is used of a DataFrame of pandas, which iterates over the names of columns."""

        def __iter__(self) -> Iterator[str]:
            return iter(["source", "features", "target"])

        def itertuples(self, index: bool = True) -> Iterator[tuple[object, ...]]:
            return ((*([0] if index else []), *verb) for verb in verbs)

    class Named(Frame):
        """One whose columns have known names, in another order."""

        columns = ("Lemma", "Form", "Tag")

        def itertuples(self, index: bool = True) -> Iterator[tuple[object, ...]]:
            return ((source, target, features) for source, features, target in verbs)

    measured = run.model.evaluate(Frame())  # type: ignore[arg-type]
    assert measured.predictions == run.model.evaluate(Named()).predictions  # type: ignore[arg-type]
    assert measured.predictions == run.model.evaluate(verbs).predictions
    assert measured.predictions == run.model.evaluate(iter(verbs)).predictions  # type: ignore[arg-type]


@pytest.mark.parametrize("hard", [False, True])
def test_accuracy_is_that_of_the_command(hard: bool, tmp_path: Path) -> None:
    model = stacktrans.load("reversal-stack", hard=hard)
    (tmp_path / "pairs.tsv").write_text("01##\t##10\n0###\t###0\n", encoding="utf-8")
    found = model.evaluate(lengths=(8, 9), count=40, seed=3)
    options = ["--hard"] if hard else []
    done = command(
        *("eval", "reversal-stack", "--lengths", "8:9", "--count", "40", "--seed", "3", "--json"),
        *options,
    )
    assert f'"coarse": {found.coarse}' in done.stdout.decode()
    assert f'"fine": {found.fine}' in done.stdout.decode()
    assert model.evaluate(tmp_path / "pairs.tsv", count=1).count == 1
    pairs = [("01##", "##10"), ("0###", "###1")]
    assert model.evaluate(pairs).count == 2
    assert model.evaluate(pairs).symbol_error_rate == 1 / 3
    assert [each.right for each in model.evaluate(pairs).predictions] == [True, False]
    assert found.symbol_error_rate is None
    searched = model.evaluate(lengths=(3, 4), count=5, beam=2)
    assert searched.symbol_error_rate == pytest.approx(1 - searched.symbols)
    (tmp_path / "unknown.tsv").write_text("01##\t##10\nxx\t##\n", encoding="utf-8")
    for data in ([pairs[0], ("xx", "##")], tmp_path / "unknown.tsv"):
        lacking = model.evaluate(data)
        assert (lacking.count, lacking.unknown, lacking.coarse) == (2, 1, 0.5)
        assert lacking.predictions[1].answer == ""
    with pytest.raises(StacktransError, match="pair 2: the source has 2 symbols and the target 1"):
        model.evaluate([pairs[0], ("xx", "#")])
    with pytest.raises(UsageError, match="for strings that are drawn"):
        model.evaluate(pairs, each=True)
    assert model.evaluate(lengths=(3, 4), each=True, count=2).by_length().keys() == {3, 4}
    for wrong in ({"lengths": (5, 4)}, {"count": 0}, {"depth": 0}):
        with pytest.raises(UsageError):
            model.evaluate(**wrong)


def test_strings_are_those_of_the_command() -> None:
    printed = command(
        *("generate", "--task", "reverse", "--count", "130", "--lengths", "5:8", "--seed", "2")
    ).stdout.decode()
    pairs = stacktrans.task("reverse").sample(130, lengths=(5, 8), seed=2)
    assert ["\t".join(pair) for pair in pairs] == printed.splitlines()
    assert stacktrans.task("reversal").answer("01##") == "··10"
    for wrong in ({"lengths": (8, 5)}, {"lengths": (0, 3)}, {"depth": 0}):
        with pytest.raises(UsageError, match="expected"):
            stacktrans.task("reverse").sample(2, **wrong)
    with pytest.raises(UsageError, match="did you mean 'reverse'"):
        stacktrans.task("revers")


def test_a_run_equals_that_of_the_command(tmp_path: Path) -> None:
    seen: list[int] = []
    run = stacktrans.train(
        "copy",
        memory="queue",
        recipe="default",
        seed=2,
        max_steps=10,
        out=tmp_path / "run",
        settings=small(),
        listener=lambda record: seen.append(record.step),
    )
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    done = command(
        *(*TRAIN, "--task", "copy", "--memory", "queue", "--seed", "2", "--max-steps", "10"),
        *(*words, "--out", str(tmp_path / "command")),
    )
    assert done.returncode == 0, done.stderr
    weights = [tmp_path / name / "best" / "model.safetensors" for name in ("run", "command")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert seen == [record["step"] for record in run.metrics()] == [5, 10]
    assert run.summary.outcome == "max_steps"
    assert repr(run).endswith(": batch limit after 10 batches)")
    assert repr(replace(run, summary=replace(run.summary, steps=1))).endswith(" after 1 batch)")
    assert run.model.transduce([]) == []
    longer = stacktrans.resume(tmp_path / "run", max_steps=15)
    assert longer.summary.steps == 15
    with pytest.raises(UsageError, match="max_steps 5: the run has already taken 15 batches"):
        stacktrans.resume(tmp_path / "run", max_steps=5)
    assert stacktrans.resume(tmp_path / "run").summary.steps == 15
    with pytest.raises(UsageError, match="already exists"):
        stacktrans.train("copy", memory="queue", out=tmp_path / "run")


def test_training_works_in_a_thread(tmp_path: Path) -> None:
    """Notebooks and servers train in threads, where no signal handler can be installed."""
    runs: list[stacktrans.Run] = []

    def train() -> None:
        runs.append(
            stacktrans.train(
                "copy",
                strategies=["patient", "wide"],
                workers=2,
                max_steps=2,
                out=tmp_path / "run",
                settings=small(),
            )
        )

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert runs[0].summary.steps == 2


def test_training_restores_the_random_state_of_torch(tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    sizes = {"hidden_size": 8, "measure.strings": 5}
    options: Any = {"controller": "attention", "max_steps": 2, "settings": sizes}
    stacktrans.train("copy", memory="none", recipe="default", out=tmp_path / "run", **options)
    assert torch.get_rng_state().equal(before)


def test_an_interrupt_of_a_run_is_raised_even_if_it_has_just_ended(tmp_path: Path) -> None:
    def interrupt(record: Record) -> None:
        if record.step == at:
            os.kill(os.getpid(), signal.SIGINT)

    for at in (5, 10):
        out = tmp_path / str(at)
        with pytest.raises(KeyboardInterrupt, match=r"stacktrans\.resume"):
            stacktrans.train(
                "copy", recipe="joint", max_steps=10, out=out, settings=small(), listener=interrupt
            )
        assert stacktrans.resume(out).summary.steps == 10


A_STRING, A_NAME = "expected a string", "expected a name or a path"
A_RANGE, A_COUNT = "expected shortest and longest", "expected a whole number of at least 1"
PAIRS = "expected a file, or pairs of strings"
WRONG: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda model, _: model.transduce([None]), f"sources [None]: {A_STRING}, or several"),
    (lambda model, _: model.transduce(b"abc"), f"sources b'abc': {A_STRING}, or several"),
    (lambda model, _: model.transduce("abc", max_length=2.5), f"max_length 2.5: {A_COUNT}"),
    (lambda model, _: model.answers(3), f"sources 3: {A_STRING}, or several"),
    (lambda model, _: model.trace(None), f"source None: {A_STRING}"),
    (lambda model, _: model.evaluate(lengths="65:70"), f"lengths '65:70': {A_RANGE}"),
    (lambda model, _: model.evaluate(lengths=(65.0, 70)), f"lengths (65.0, 70): {A_RANGE}"),
    (lambda model, _: model.evaluate(lengths=(True, 5)), f"lengths (True, 5): {A_RANGE}"),
    (lambda model, _: model.evaluate(lengths=np.array([5])), f"lengths array([5]): {A_RANGE}"),
    (lambda model, _: model.evaluate(count="3"), f"count '3': {A_COUNT}"),
    (lambda model, _: model.evaluate(seed=-1), "seed -1: expected a whole number of at least 0"),
    (lambda model, _: model.evaluate([]), "data: no pairs"),
    (lambda model, _: model.evaluate([("abc",)]), f"data [('abc',)]: {PAIRS}"),
    (lambda model, _: model.evaluate(["ab", "cd"]), f"data ['ab', 'cd']: {PAIRS}"),
    (lambda model, _: model.evaluate({"ab": "ba"}), f"data {{'ab': 'ba'}}: {PAIRS}"),
    (lambda model, _: model.perplexity(5), f"text 5: {A_NAME}"),
    (lambda model, _: model.trace("ab").plot(5), f"path 5: {A_NAME}"),
    (lambda _, package: package.load(None), f"name None: {A_NAME}"),
    (lambda _, package: package.load("reverse-stack", device=None), f"device None: {A_STRING}"),
    (lambda _, package: package.task(3), f"name 3: {A_NAME}"),
    (lambda _, package: package.task("copy").sample(2.0), f"count 2.0: {A_COUNT}"),
    (lambda _, package: package.task("copy").answer(None), f"source None: {A_STRING}"),
    (lambda _, package: package.task("copy", settings=["symbols=3"]), "settings ['symbols=3']: "),
    (lambda _, package: package.task("copy", settings={"symbols": object()}), "symbols <object "),
    (lambda _, package: package.train("copy", listener="print"), "listener 'print': expected "),
    (lambda model, package: package.resume(model), "directory Model(reverse: "),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_arguments_of_wrong_types_are_refused(
    call: Callable[[Any, Any], Any], message: str
) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        call(stacktrans.load("reverse-stack"), stacktrans)


def test_numpy_numbers_are_accepted() -> None:
    model: Any = stacktrans.load("reverse-stack")
    assert model.transduce("abc", max_length=np.int64(2)) == "cb"
    assert model.evaluate(lengths=[np.int64(3), 4], count=np.int32(2)).count == 2
    few = stacktrans.task("copy", settings={"parameters.symbols": np.int64(5)})
    assert len(few.symbols) == 5


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        stacktrans.load("nothing")
    with pytest.raises(CheckpointError, match="not the name of a checkpoint"):
        stacktrans.load("a\0b")
    with pytest.raises(CheckpointError, match=r"aaa.*: File name too long"):
        stacktrans.load("a" * 300)
    with pytest.raises(UsageError, match="unknown memory 'stak'"):
        stacktrans.train("copy", memory="stak", out=tmp_path / "run")
    with pytest.raises(UsageError, match="max_steps"):
        stacktrans.train("copy", memory="stack", max_steps=-1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_signatures_have_plain_types() -> None:
    assert "(name: str | os.PathLike[str], *" in str(inspect.signature(stacktrans.load))
    assert "data: str | os.PathLike[str] | None = None" in str(inspect.signature(stacktrans.train))
    for function in (stacktrans.load, stacktrans.train, stacktrans.resume, stacktrans.task):
        assert "Annotated" not in pydoc.render_doc(function)
    for shown in (stacktrans.Model, stacktrans.Trace, stacktrans.TaskStrings):
        assert "Annotated" not in pydoc.render_doc(shown)
    assert inspect.signature(stacktrans.Model.evaluate).parameters["seed"].annotation is int


def test_notebooks_show_what_the_command_line_shows() -> None:
    model = stacktrans.load("reverse-stack")
    shown: list[Any] = [model, model.trace("a"), model.evaluate(lengths=(3, 3), count=5)]
    for each in shown:
        assert "<pre" in each._repr_html_()
    assert "reverse: feed-forward tanh 64" in shown[1]._repr_html_()
    assert "coarse" in shown[2]._repr_html_()
    assert "<b>" not in stacktrans.load("copy-queue").trace("<b>")._repr_html_()
