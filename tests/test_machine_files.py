"""Machines in files: commands run them, and refuse what is damaged or fits no configuration."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from changed_checkpoints import reseal
from command_line import run
from own_machines import STACK, rearranging

import stacktrans
from stacktrans.automata.machine_file import machine_json, read_machine
from stacktrans.common.errors import CheckpointError, StacktransError
from stacktrans.common.files import MACHINE
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.description import machine_line
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task

LETTERS = 8
REVERSE = replace(
    rearranging(make_task("reverse", "reverse", {"symbols": LETTERS}), STACK), task="reverse"
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machines") / "machine"
    config = resolve(
        task="reverse",
        recipe="default",
        settings={"model": {"memory": {"name": "stack"}}},
        assignments=[f"task.parameters.symbols={LETTERS}"],
    )
    checkpoint_files.save_machine(path, config, REVERSE, "")
    return path


def test_a_saved_machine_is_listed(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checkpoints").mkdir()
    Path("checkpoints/mine").symlink_to(saved)
    entries = json.loads(run("list", "checkpoints", "--json").stdout)
    machines = {entry["name"]: entry["machine"] for entry in entries}
    assert [name for name, machine in machines.items() if machine] == ["checkpoints/mine"]
    shown = run("list", "checkpoints").stdout.decode().splitlines()
    (line,) = [line for line in shown if line.startswith("checkpoints/mine ")]
    assert "machine  " in line


def test_a_machine_is_a_checkpoint(saved: Path) -> None:
    assert run("transduce", saved, stdin=b'!"#\n').stdout == b'#"!\n'
    entry = json.loads(run("transduce", saved, "--json", stdin=b'!"#\n').stdout)
    assert (entry["output"], entry["probability"]) == ('#"!', 1.0)
    measured = json.loads(run("eval", saved, "--count", "20", "--json").stdout)
    assert [each["coarse"] for each in measured["results"]] == [1.0, 1.0]
    followed = json.loads(run("inspect", saved, '!"', "--json").stdout)
    assert followed["correct"]
    assert followed["steps"][3]["reads"]["top"][0]["symbol"] == "!"


@pytest.mark.parametrize("width", ["2", "9"])
def test_a_beam_finds_the_only_answer(saved: Path, width: str) -> None:
    found = json.loads(run("transduce", saved, "--beam", width, "--json", stdin=b'!"\n').stdout)
    assert found["output"] == '"!'
    assert len(found["hypotheses"]) == 1


def test_a_source_without_a_rule_has_no_answer_and_others_have(saved: Path, tmp_path: Path) -> None:
    loaded = checkpoint.load(saved)
    machine = loaded.machine
    assert machine is not None
    first = machine.layout.first_source
    rules = [
        each._replace(when=tuple(own and own - {first} for own in each.when))
        if each.when[0] and first in each.when[0]
        else each
        for each in machine.rules
    ]
    lost = tmp_path / "lost"
    checkpoint_files.save_machine(lost, loaded.config, replace(machine, rules=tuple(rules)), "")
    lines = b"#$\n!#\n$%\n"
    done = run("transduce", lost, "--json", stdin=lines)
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["output"] for entry in entries] == ["$#", None, "%$"]
    assert "no rule" in entries[1]["error"]
    assert "standard input:2: the machine has no rule" in done.stderr.decode()
    assert (done.returncode, run("transduce", lost, stdin=lines).returncode) == (1, 1)
    own = run("eval", lost, "--data", "-", "--json", stdin=b"#$\t$#\n!#\t#!\n$%\t%$\n")
    assert json.loads(own.stdout)["results"][0]["coarse"] == pytest.approx(2 / 3)
    with pytest.raises(StacktransError, match="source 2: the machine has no rule"):
        stacktrans.load(lost).transduce(["#$", "!#"])
    shown = run("inspect", lost, "!#").stdout.decode()
    assert shown.endswith("no answer: no rule applies at step 2: reading !, stack is empty\n")


def test_nothing_slow_is_imported_to_answer(saved: Path) -> None:
    code = (
        "import sys; from stacktrans.cli import app; import atexit;"
        "atexit.register(lambda: print(sorted({'torch', 'numba'} & sys.modules.keys())));"
        f"app(['transduce', {str(saved)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=b'!"\n', capture_output=True, check=False
    )
    assert done.stdout.decode().splitlines() == ['"!', "[]"]


def test_unknown_symbols_are_named(saved: Path) -> None:
    done = run("transduce", saved, stdin="!é\n!\n".encode())
    assert done.returncode == 1
    assert done.stdout == b"\n!\n"
    assert "symbol 2 is 'é'" in done.stderr.decode()


def test_a_machine_is_read_as_it_was_written(saved: Path) -> None:
    machine = read_machine(saved / MACHINE)
    assert machine == REVERSE
    assert machine_json(machine) == (saved / MACHINE).read_text()


def test_damage_is_found(saved: Path, tmp_path: Path) -> None:
    (tmp_path / MACHINE).write_text("other")
    reseal(tmp_path)
    shutil.copy(saved / MACHINE, tmp_path)
    done = run("transduce", tmp_path, stdin=b"!\n")
    assert done.returncode == 1
    assert b"damaged: its checksum" in done.stderr


def changed(content: str, old: str, new: str) -> str:
    """The content of a machine's file with a change; buffers also need "nothing" as an input."""
    content = content.replace(old, new, 1)
    if "buffers" in old:
        after = '],\n "outputs": ['
        assert after in content
        content = content.replace(after, f', ["nothing", null]{after}', 1)
    return content


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"signals": [', '"signals": [7, '),
        ('"pops": [[0, 0]]', '"pops": [[0]]'),
        ('"reads": [0]', '"reads": 0'),
        ('"output": [', '"output": [0, '),
        ('"first_source": 2', '"first_source": Infinity'),
        ('"first_source": 2', '"first_source": 1e400'),
        ('"signals": [0', '"signals": [-1'),
        ('"signals": [0', '"signals": [true'),
        ('"end": 8', '"end": [8]'),
        ('"kind": "pairs"', '"kind": "other"'),
        ('"inputs": 18', '"inputs": 19'),
        ('"outputs": 9', '"outputs": 1000000'),
        ('"padding": [1, 0]', '"padding": [1]'),
        (
            '"buffers": null',
            '"buffers": {"steps_per_symbol": 1000000000000000, "extra_steps": 0, "output_skip": 0}',
        ),
        (
            '"buffers": null',
            '"buffers": {"steps_per_symbol": 1, "extra_steps": -1, "output_skip": 0}',
        ),
        ("[[0, 7]]", "[[0, 6], [0, 0]]"),
        ("[[0, 7]]", "[[0, 7]" + ", [0, 7]" * 200_000 + "]"),
        ('"stack_symbols": [[["empty", null]', '"stack_symbols": [[["empty", []]'),
        ('"rules": [', '"rules": [0, '),
        ('"states": [', '"states": [], "states": ['),
        ("{", "["),
    ],
)
def test_damaged_machines_are_refused(saved: Path, tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / MACHINE).write_text(changed((saved / MACHINE).read_text(), old, new))
    reseal(tmp_path)
    done = run("transduce", tmp_path, stdin=b"!\n")
    assert done.returncode == 1
    assert f"{tmp_path / MACHINE}: not a machine: " in done.err


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"signals": [0', '"signals": [2', "rule 1: signals: 2; expected 0 or 1"),
        ('"signals": [0', '"signals": [0, 0', "rule 1: signals: 3 entries; expected 2"),
        ('"when": [', '"when": [[[0, 9999]], ', "rule 1: when: 4 entries; expected 3"),
        ('["state 1", null]', '["state 1", []]', "states: no entries; expected"),
        ('"outputs": 9', '"outputs": 10', "outputs: 9 entries; expected 10"),
        ('"next_state"', '"next"', "rule 1: the key 'next_state' is missing"),
        ('"end": 8, ', "", "layout: the key 'end' is missing"),
        ('"pops"', '"pops": [], "pulls"', "memories: unknown key 'pulls'; expected names, pops"),
        ("{", '{ "name": "", ', "unknown key 'name'; expected format, task"),
        ('"states"', '"states": [], "states"', "the key 'states' repeats"),
    ],
)
def test_errors_name_what_is_wrong_with_a_machine(
    saved: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    (tmp_path / MACHINE).write_text(changed((saved / MACHINE).read_text(), old, new))
    reseal(tmp_path)
    done = run("transduce", tmp_path, stdin=b"!\n")
    assert done.returncode == 1
    assert f"{tmp_path / MACHINE}: not a machine: {problem}" in done.err


@pytest.mark.parametrize("number", ["2", '"1"', "1.0", "null"])
def test_a_machine_of_another_format_is_refused(saved: Path, tmp_path: Path, number: str) -> None:
    content = changed((saved / MACHINE).read_text(), '"format": 1', f'"format": {number}')
    (tmp_path / MACHINE).write_text(content)
    reseal(tmp_path)
    problem = f"format {json.loads(number)!r}; this stacktrans"
    with pytest.raises(CheckpointError, match=problem):
        read_machine(tmp_path / MACHINE)


def test_a_machine_is_printed_as_json(saved: Path) -> None:
    (printed,) = json.loads(run("extract", saved, "--json").stdout).values()
    assert printed == json.loads((saved / MACHINE).read_text())


def test_a_machine_cannot_be_trained(saved: Path) -> None:
    with pytest.raises(CheckpointError, match="no weights"):
        checkpoint.load(saved).model  # noqa: B018
    trained = run("train", "--task", "reverse", "--from", saved)
    assert f"{saved}: a machine has no weights" in trained.stderr.decode()
    again = run("extract", saved, "--strings", "5")
    assert f"{saved}: it is a machine already; expected a network" in again.stderr.decode()


def test_extract_shows_the_rules_of_a_machine(saved: Path) -> None:
    machine = checkpoint.load(saved).machine
    assert machine
    title, _, *rules = run("extract", saved).stdout.decode().splitlines()
    assert title == machine_line(machine)
    for line, described in zip(rules, machine.rule_descriptions, strict=True):
        assert all(words in line for words in (str(described.number), described.action))


def test_a_machine_for_another_task_is_refused(saved: Path, tmp_path: Path) -> None:
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace(f"symbols: {LETTERS}", "symbols: 5"))
    reseal(tmp_path)
    done = run("eval", tmp_path)
    assert done.returncode == 1
    assert b"source is (" in done.stderr


BUFFERS = '{"steps_per_symbol": 1, "extra_steps": 0, "output_skip": 0}'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"task": "reverse"', '"task": "copy"', "task is 'copy', but config.yaml requires"),
        ('"words": [false, false]', '"words": [false, true]', "words.1 is True, but"),
        ('"backwards": false', '"backwards": true', "layout.backwards is True, but"),
        ('"end": 8', '"end": 3', "layout.end is 3, but config.yaml requires 8"),
        ('"end": 8', '"end": 1000000', "layout.end is 1000000, but"),
        ('"first_source": 2', '"first_source": -9', "layout.first_source is -9, but"),
        ('"first_target": 10', '"first_target": 99', "layout.first_target is 99, but"),
        ('"before": [0]', '"before": [99]', "layout.before.0 is 99, but"),
        ('"last": []', '"last": [1]', "layout.last is (1,), but"),
        ('"blank": null', '"blank": 1', "layout.blank is 1, but"),
        ('"padding": [1, 0]', '"padding": [3, 0]', "layout.padding.each is 3, but"),
        (
            '"padding": [1, 0]',
            '"padding": [10000000000000, 0]',
            "layout.padding.each is 10000000000000, but config.yaml requires 1",
        ),
        ('"source": ["!", "\\""', '"source": ["\\"", "!"', "source.0 is '\"', but"),
        ('"target": ["!", "\\""', '"target": ["\\"", "!"', "target.0 is '\"', but"),
        ('"names": ["stack"]', '"names": ["queue"]', "memories.names.0 is 'queue', but"),
        ('"reads": [0]', '"reads": [1]', "memories.reads.0 is 1, but config.yaml requires 0"),
        ('"buffers": null', f'"buffers": {BUFFERS}', "buffers is Buffers("),
    ],
)
def test_a_machine_that_contradicts_its_configuration_is_refused(
    saved: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    contradict(saved, tmp_path, old, new)
    with pytest.raises(CheckpointError, match=re.escape(f"{MACHINE}: {message}")):
        stacktrans.load(tmp_path)


def contradict(saved: Path, directory: Path, old: str, new: str) -> None:
    """Copy a machine with its configuration, and change a part of the machine."""
    content = (saved / MACHINE).read_text()
    assert content.count(old) == 1
    shutil.copy(saved / "config.yaml", directory)
    (directory / MACHINE).write_text(changed(content, old, new))
    reseal(directory)


def test_every_command_refuses_a_machine_that_contradicts_its_configuration(
    saved: Path, tmp_path: Path
) -> None:
    contradict(saved, tmp_path, '"end": 8', '"end": 3')
    message = f"{tmp_path / MACHINE}: layout.end is 3, but config.yaml requires 8"
    commands = ("transduce", "transduce --json", "transduce --beam 2", "eval", "inspect", "verify")
    for command in (*commands, "extract"):
        name, *options = command.split()
        done = run(name, tmp_path, *options, stdin=b"!\n")
        assert (done.returncode, done.stdout) == (1, b""), command
        assert message in done.err, command
