"""Control characters in files and arguments are escaped in terminals, tables and pictures."""

import io
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import TRAIN, invoke
from rich.console import Console
from small_sweeps import sweep_file
from sweep_plans import plan_of, records_of

from stacktrans.commands.terminal import print_data, print_json
from stacktrans.common.errors import UsageError
from stacktrans.common.messages import print_message
from stacktrans.common.visible import json_text, one_line, shell_text, visible, visible_symbol
from stacktrans.settings.task_files import load_task
from stacktrans.showing.progress import VisibleConsole
from stacktrans.showing.tables import Table, remark
from stacktrans.sweeps.live import overview
from stacktrans.sweeps.store import SweepStore
from stacktrans.sweeps.table import as_csv, markdown

HOSTILE = ["\x1b]0;x\x07", "\x9b31m", "\nstacktrans: done", "\rdone", "\u202etxt", "\u2066", "\x7f"]
ALL_HOSTILE = "".join(HOSTILE)


def harmless(text: str, keep: str = "\n") -> bool:
    return all(character.isprintable() or character in keep for character in text)


def test_invisible_characters_are_escaped_as_in_a_string() -> None:
    shown = visible("a\x1b[0m\x9b\u2028\u202e\u200b\udc80\ufffe\r\n")
    assert shown == r"a\x1b[0m\x9b\u2028\u202e\u200b\udc80\ufffe\r\n"
    assert [*map(visible_symbol, (" ", "", "mark 1", "\x1b"))] == ["␣", "", "mark 1", r"\x1b"]
    # Different white space looks different, also within a word.
    spaces = ("\u00a0", "\u3000", "\u2028", "\r", "6\u00a0000")
    assert [*map(visible_symbol, spaces)] == [r"\xa0", r"\u3000", r"\u2028", r"\r", r"6\xa0000"]
    assert visible("À\u00a0東京 e\u0301\n", keep="\n") == "À\u00a0東京 e\u0301\n"
    assert visible(shown) == shown


def test_remarks_show_white_space_at_their_end() -> None:
    assert remark("answer: a\r").plain == r"answer: a\r"
    assert remark("try:", "stacktrans list").plain == "try: stacktrans list"


@pytest.mark.parametrize("text", HOSTILE)
def test_json_and_commands_escape_controls_without_loss(text: str) -> None:
    value = {text: [text, 1.5, float("nan")]}
    written = json_text(value)
    assert harmless(written, keep="")
    assert json.loads(written) == {text: [text, 1.5, None]}
    command = shell_text(["printf", "%s|", f"1{text}2", "it's", "À"])
    assert harmless(command, keep="")
    printed = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
    assert printed.decode() == f"1{text}2|it's|À|"
    assert shell_text(["a b", "c"]) == shlex.join(["a b", "c"])
    assert shell_text(["it's\tV;PST"]) == r"$'it\'s\tV;PST'"


@pytest.mark.parametrize("text", HOSTILE)
def test_names_cannot_forge_lines(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_message(f"{text}: no such file", "and another")
    first, second, *others = capsys.readouterr().err.splitlines()
    assert (second, others) == ("and another", [])
    assert first == f"stacktrans: {visible(text)}: no such file"


def test_consoles_escape_controls() -> None:
    for text in HOSTILE:
        file = io.StringIO()
        console = VisibleConsole(file=file, force_terminal=True, color_system=None, width=80)
        table = Table("name", text, rows=[(text, "1")])
        console.print(text, table)
        assert harmless(file.getvalue())
        assert visible(text).removeprefix("\\n") in file.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_data_are_escaped_in_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, expected in ((Terminal, "a\tb\\x1b\\x9b\n"), (io.StringIO, "a\tb\x1b\x9b\n")):
        stream = kind()
        monkeypatch.setattr("sys.stdout", stream)
        print_data("a\tb\x1b\x9b")
        assert stream.getvalue() == expected


def test_json_is_one_line_of_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "\x9b\u202e\n", "b": float("inf")})
    line = capsys.readouterr().out
    assert line == '{"a": "\\u009b\\u202e\\n", "b": null}\n'


@pytest.mark.parametrize(
    "command",
    [
        ["{}"],
        ["train", "--{}"],
        ["generate", "--count", "{}"],
        ["generate", "--task", "{}"],
        ["eval", "{}"],
        ["transduce", "copy-queue", "{}"],
        [*TRAIN, "--task", "copy", "--memory", "{}"],
        [*TRAIN, "--task", "copy", "--memory", "queue", "--set", "{}=1"],
        ["sweep", "{}.yaml"],
    ],
    ids=lambda words: "-".join(words),
)
def test_refused_arguments_are_shown_escaped(command: list[str]) -> None:
    result = invoke(*(word.replace("{}", ALL_HOSTILE) for word in command))
    assert result.returncode == 2
    assert harmless(result.out + result.err)
    assert "\nstacktrans: done" not in result.out + result.err


def test_words_and_names_of_files_are_shown_escaped(tmp_path: Path) -> None:
    text = ALL_HOSTILE
    path = tmp_path / "task.yaml"
    rules = {"S": [{"probability": 1, "source": f"a{text}b ("}, {text: 1}]}
    content = {"name": "t", "generator": "grammar", "parameters": {"root": "S", "rules": rules}}
    path.write_text(yaml.safe_dump({**content, "lengths": {"train": [1, 2], text: 5}}))
    with pytest.raises(UsageError) as caught:
        load_task(str(path))
    assert all(harmless(visible(problem), keep="") for problem in caught.value.problems)
    result = invoke("generate", "--task", str(path))
    assert result.returncode == 2
    assert harmless(result.out + result.err)
    assert "\nstacktrans: done" not in result.out + result.err


def test_a_sweep_s_names_are_shown_escaped(tmp_path: Path) -> None:
    text = ALL_HOSTILE
    conditions = {text: {"model": {"memory": "queue"}}, "Stack": {"model": {"memory": "stack"}}}
    part = {"condition": "Stack", "task": "copy", "most": 1}
    claims = [{"claim": text, "source": text, "holds": [part]}]
    plan = plan_of(tmp_path, title=text, conditions=conditions, published=[], claims=claims)
    records = records_of(plan)
    identity = plan.runs[0].identity
    records[identity] = {"identity": identity, "error": text, "command": text, "seed": 1}
    for page in (markdown(plan, records), as_csv(plan, records)):
        assert harmless(page)
        assert "\nstacktrans: done" not in page
    store = SweepStore(tmp_path / "out", plan)
    store.records = records
    file = io.StringIO()
    console = Console(file=file, width=80)  # that does nothing about it itself
    console.print(*overview(store))
    assert harmless(file.getvalue())


def test_a_sweep_s_commands_are_shown_escaped_in_a_pipe(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, conditions={ALL_HOSTILE: {"model": {"memory": "queue"}}})
    result = invoke("sweep", str(path), "--dry-run")
    assert result.returncode == 0
    assert harmless(result.out, keep="\n\t")
    assert len(result.out.splitlines()) == 3


def test_paths_in_commands_are_quoted_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checkpoints/my model").mkdir(parents=True)
    result = invoke("eval", "my model")
    assert result.err.endswith("no such checkpoint; did you mean 'checkpoints/my model'?\n")


def test_the_file_of_a_sweep_and_its_profile_are_text_in_markdown(tmp_path: Path) -> None:
    named = replace(plan_of(tmp_path), path=tmp_path / "my *sweep*.yaml", profile="s `t`")
    page = markdown(named, {})
    assert "Results of my \\*sweep\\*.yaml with the profile s \\`t\\`: " in page


def test_pictures_hold_nothing_that_can_not_be_seen(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from stacktrans.inference.scores import Scores
    from stacktrans.showing.plots import chart, plot_accuracy
    from stacktrans.tasks.lengths import Lengths

    one = np.ones(1, dtype=np.int64)
    results = [(Lengths(1, 1), Scores(one, np.ones(1), one, one, 0 * one))]

    for text in HOSTILE[:3]:
        plot_accuracy({text: results, "b": results}, Lengths(1, 2), text, tmp_path / "a.svg")
        with chart(tmp_path / "b.svg", text) as axis:
            axis.plot([1], label="one")
        for name in ("a.svg", "b.svg"):
            assert harmless((tmp_path / name).read_text())


def test_one_line_collapses_whitespace_and_escapes_controls() -> None:
    assert one_line("a\n b\x1b\n") == "a b\\x1b"
