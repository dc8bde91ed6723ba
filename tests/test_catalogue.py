"""The command `list`: what there is to choose from."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from command_line import Ended, invoke

from stacktrans.commands.catalogue import Entry
from stacktrans.commands.listing import KINDS, lines
from stacktrans.common.registry import CONTROLLERS, GENERATORS, MEMORIES
from stacktrans.common.visible import shell_text, visible
from stacktrans.settings.locations import shipped
from stacktrans.settings.model_config import ENCODER_DECODERS
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task
from stacktrans.settings.training_config import TrainingConfig
from stacktrans.tasks import make_task

TASKS = sorted(path.stem for path in shipped("tasks").glob("*.yaml"))


def listing(*arguments: str) -> Ended:
    return invoke("list", *arguments)


def listed(kind: str) -> dict[str, dict[str, object]]:
    result = listing(kind, "--json")
    assert (result.returncode, result.err) == (0, "")
    return {entry["name"]: entry for entry in json.loads(result.out)}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_listed_has_a_line_with_its_meaning(kind: str) -> None:
    entries = json.loads(listing(kind, "--json").out)
    assert entries
    shown = listing(kind).out.splitlines()
    for entry in entries:
        assert entry["meaning"].strip(), entry["name"]
        named = [line for line in shown if line.startswith(f"{entry['name']} ")]
        assert any(entry["meaning"] in line for line in named), entry["name"]
        assert not any(line.endswith(" ") for line in shown)


def test_list_without_a_topic_prints_the_topics() -> None:
    result = listing()
    assert result.returncode == 0
    assert [line.split()[0] for line in result.out.splitlines()] == ["name", *KINDS]
    assert [entry["name"] for entry in json.loads(listing("--json").out)] == [*KINDS]


def test_an_unknown_kind_suggests_the_nearest() -> None:
    result = listing("task")
    assert (result.returncode, result.out) == (2, "")
    assert "unknown kind 'task'; did you mean 'tasks'?" in result.err


def test_tasks_have_their_files_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = listed("tasks")
    assert sorted(found) == TASKS
    for name, entry in found.items():
        task = load_task(name)
        assert entry["meaning"] == task.description
        assert (entry["generator"], entry["parameters"]) == (task.generator, task.parameters)
    assert found["copy"]["lengths"] == {"train": [8, 64], "test": [65, 128]}
    assert found["text"]["lengths"] is None
    (line,) = [line for line in listing("tasks").out.splitlines() if line.startswith("copy ")]
    for part in ("8:64", "65:128", "abc -> abc", "generator copy: symbols=128"):
        assert part in line


NAMES = ("a b", "a  b", "it's", "a\nb", "\x1b]0;x\x07", "\u202ea", "\udcff")


def test_names_are_printed_as_a_shell_takes_them(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tasks").mkdir()
    for name in NAMES:
        shutil.copytree(model, Path("checkpoints") / name)
        (Path("tasks") / f"{name}.yaml").write_bytes((shipped("tasks") / "copy.yaml").read_bytes())
    for kind, names in (
        ("checkpoints", [f"checkpoints/{name}" for name in NAMES]),
        ("tasks", NAMES),
    ):
        shown = listing(kind).out
        assert all(character.isprintable() or character == "\n" for character in shown)
        assert listed(kind).keys() >= {*names}
        assert all(f"\n{shell_text([name])}  " in shown for name in names)


def test_descriptions_of_checkpoints_are_escaped(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = "\x1b]0;x\x07"
    shutil.copytree(model, Path("checkpoints/mine"))
    config = yaml.safe_load((model / "config.yaml").read_text())
    config["task"] |= {"name": hostile, "description": hostile}
    config["model"]["memory"]["name"] = hostile
    Path("checkpoints/mine/config.yaml").write_text(yaml.safe_dump(config))
    assert hostile not in listing("checkpoints").out
    assert visible(hostile) in listing("checkpoints").out
    assert listed("checkpoints")["checkpoints/mine"]["task"] == hostile


MINE = """
name: mine
description: |
  letters of mine,
  twice
generator: copy
parameters: {symbols: 5}
lengths: {train: [1, 2], test: [3, 4]}
length_law: uniform
"""


def test_custom_tasks_are_listed_and_broken_ones_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tasks").mkdir()
    Path("tasks/mine.yaml").write_text(MINE)
    Path("tasks/copy.yaml").write_text(MINE.replace("letters", "other letters"))
    assert listed("tasks")["mine"]["file"] == "tasks/mine.yaml"
    assert str(listed("tasks")["copy"]["meaning"]).startswith("other")
    (line,) = [line for line in listing("tasks").out.splitlines() if line.startswith("mine ")]
    assert "letters of mine, twice (generator copy: symbols=5; tasks/mine.yaml)" in line
    Path("tasks/wrong.yaml").write_text(MINE.replace("symbols: 5", "symbols: 0"))
    Path("tasks/unreadable.yaml").write_bytes(b"\xff")
    result = listing("tasks")
    assert result.returncode == 1
    assert "tasks/wrong.yaml:7: task mine: parameters: symbols is 0" in result.err
    assert "tasks/unreadable.yaml: " in result.err
    assert len(result.out.splitlines()) == 1 + len(TASKS) + 1


def test_generators_have_the_parameters_that_they_take() -> None:
    found = listed("generators")
    assert list(found) == list(GENERATORS.builtin)

    def parameters(name: str) -> dict[str, dict[str, object]]:
        entries = found[name]["parameters"]
        assert isinstance(entries, list)
        return {entry["name"]: entry for entry in entries}

    assert parameters("copy")["symbols"]["default"] == 128
    assert "default" not in parameters("counting")["pattern"]
    assert list(parameters("next-symbol")) == ["predict", "characters", "root", "rules"]
    assert parameters("parity") == {}
    for name in TASKS:
        task = load_task(name)
        assert task.parameters.keys() <= parameters(task.generator).keys()
    defaults = {name: part["default"] for name, part in parameters("text").items()}
    make_task("mine", "text", defaults)
    shown = listing("generators").out
    assert "\n    symbols=128: how many different symbols" in shown
    assert "\n    pattern (required): runs of symbols" in shown


def test_memories_and_controllers_have_the_settings_that_concern_them() -> None:
    memories, controllers = listed("memories"), listed("controllers")
    assert list(memories) == list(MEMORIES.builtin)
    assert list(controllers) == list(CONTROLLERS.builtin)
    for entry in [*memories.values(), *controllers.values()]:
        settings = entry.get("settings", {})
        assert isinstance(settings, dict)
        part = "memory" if entry["name"] in memories else "controller"
        alone = entry["name"] in ENCODER_DECODERS
        chosen = {"memory": "none" if alone else "stack", part: {"name": entry["name"], **settings}}
        model = resolve(task="copy", settings={"model": chosen}).model.model_dump()
        assert model[part] == {"name": entry["name"], **settings}
    assert memories["deque"]["signals"] == ["pop top", "push top", "pop bottom", "push bottom"]
    assert memories["deque"]["settings"] == {"size": 32, "values": "tanh"}
    assert "    count=1: number of stacks, lists or tapes" in listing("memories").out
    assert "    hidden_size=64: units" in listing("controllers").out


def test_recipes_are_described_by_the_first_lines_of_their_files() -> None:
    entries = json.loads(listing("recipes", "--json").out)
    assert [entry["name"] for entry in entries] == ["auto", "default", "lstm", "paper"]
    papers = {entry["name"]: [*entry["papers"]] for entry in entries if entry["papers"]}
    assert papers == {name: ["hao2018", "joulin2015"] for name in ("default", "paper")}
    first = (Path(__file__).parent.parent / "stacktrans/settings/recipes/default.yaml").read_text()
    assert entries[1]["meaning"] == first.splitlines()[0].removeprefix("# ")
    assert entries[1]["settings"]["training"]["restart"] == {"after": 3000, "loss": 2}
    starts = [line.split()[0] for line in listing("recipes").out.splitlines() if line[0] != " "]
    assert starts == ["name", "auto", "default", "lstm", "paper"]
    assert "\n    for tasks of hao2018: New strings in each batch" in listing("recipes").out


def test_checkpoints_shipped_and_of_the_user_are_listed(
    trained: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checkpoints").mkdir()
    Path("checkpoints/run").symlink_to(trained)
    Path("checkpoints/untrained").symlink_to(model)
    Path("checkpoints/notes").mkdir()
    found = listed("checkpoints")
    shown = listing("checkpoints").out
    assert found["reverse-stack"]["memory"] == "stack"
    (line,) = [line for line in shown.splitlines() if line.startswith("reverse-stack ")]
    assert "coarse 1.000 on 65:128" in line
    assert ("feed-forward tanh" in line, found["reverse-stack"]["controller"]) == (True, "rnn")
    summary = json.loads((trained / "summary.json").read_text())
    assert found["checkpoints/run"]["summary"] == summary
    assert f"coarse {summary['test']['coarse']:.3f} on 6:8" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("checkpoints/untrained ")]
    assert "nothing yet" in line
    assert "checkpoints/notes" not in found


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.yaml", None, "config.yaml: No such file"),
        ("config.yaml", "model: [", "config.yaml:2: "),
        ("summary.json", '{"test": ', "summary.json: not readable as JSON"),
        ("summary.json", '{"test": {"coarse": "all"}}', None),
        ("evaluation.json", '{"results": [[]]}', None),
        ("config.yaml", "{task: [copy], model: 3}", "config.yaml:1: task: expected settings"),
        ("config.yaml", "recipe: !!binary aGVsbG8=", "config.yaml:1: "),
    ],
)
def test_damaged_checkpoints_do_not_hide_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    content: str | None,
    message: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("checkpoints/run")
    run.mkdir(parents=True)
    (run / "model.safetensors").touch()
    (run / "config.yaml").write_text("task: {name: mine}")
    (run / file).unlink(missing_ok=True)
    if content is not None:
        (run / file).write_text(content)
    result = listing("checkpoints")
    assert result.returncode == (1 if message else 0)
    assert (message or "") in result.err
    assert "reverse-stack" in result.out
    assert ("checkpoints/run" in result.out) == (message is None)
    names = [entry["name"] for entry in json.loads(listing("checkpoints", "--json").out)]
    assert ("checkpoints/run" in names) == (message is None)


def test_settings_have_types_in_plain_words_and_defaults() -> None:
    found = listed("settings")
    plain = TrainingConfig(max_steps=1).model_dump()
    for path, entry in found.items():
        section, _, name = path.partition(".")
        if section == "training" and "block" not in entry and name in plain.keys() - {"max_steps"}:
            assert entry["default"] == plain[name], path
    assert found["training.settle.rate"]["block"] == "training.settle"
    types = {path: str(entry["type"]) for path, entry in found.items()}
    assert types["model.memory"] == "name or {name, ...}"
    assert types["model.output_size"] == "whole number from 1 to 65536 or null"
    assert types["model.embedding_size"] == "whole number from 1 to 65536 or one-hot"
    assert types["training.averaging"] == "number from 0 to under 1"
    assert types["training.stop.solved.ranges"] == "test or both"
    assert types["training.optimizer"] == "rmsprop, adam or sgd"
    assert types["training.data.stream.steps"] == "whole number from 1 to 65536"
    assert types["task.lengths"] == "{train, test} or null"
    assert types["training.length_law"] == "uniform, task, {mean, deviation}, {depth} or null"
    for type_name in types.values():
        assert not any(name in type_name for name in ("Literal", "Config", "Lengths", "<", "dict"))


ENTRIES = (
    Entry("short", "Some words that say what it is.", {"lengths": "65:128", "rate": "0.0001"}),
    Entry("longer-name", "Other words.", {"lengths": "1:2"}, remarks=["the 1st"]),
    Entry("has-parts", "Its parts follow.", parts=[("size=128", "how large\nit is")]),
)


def text_of(laid_out: Sequence[str]) -> str:
    return " ".join(" ".join(laid_out).split())


@pytest.mark.parametrize("width", [None, 200, 100, 80, 60, 40, 24])
def test_lists_fit_the_terminal_and_cut_nothing(width: int | None) -> None:
    laid_out = list(lines(ENTRIES, width))
    assert all(len(line) <= (width or 200) for line in laid_out)
    whole = text_of(laid_out)
    for part in ("Some words that say what it is.", "65:128", "0.0001", "Other words. (the 1st)"):
        assert part in whole
    assert "size=128: how large it is" in whole


def test_lists_in_a_pipe_have_a_line_for_each() -> None:
    assert list(lines(ENTRIES, None)) == [
        "name         lengths  rate    meaning",
        "short        65:128   0.0001  Some words that say what it is.",
        "longer-name  1:2              Other words. (the 1st)",
        "has-parts                     Its parts follow.",
        "    size=128: how large it is",
    ]


def test_lists_name_their_columns_where_these_do_not_fit() -> None:
    assert list(lines(ENTRIES[:1], 19)) == [
        "short",
        "    lengths 65:128;",
        "        rate 0.0001",
        "    Some words that",
        "    say what it is.",
    ]


def test_meanings_refer_to_papers_and_not_to_functions() -> None:
    assert "at the top (grefenstette2015, equations 1 to 3)" in listing("memories").out
    assert "`parse_" not in listing("generators").out
    assert "whether the number of ones so far is odd" in listing("tasks").out
