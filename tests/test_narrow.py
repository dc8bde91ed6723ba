"""What is shown fits the terminal that it is shown in, and no number or heading is ever cut."""

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from small_runs import SETTINGS
from sweep_plans import plan_of, records_of

from stacktrans.cli import COMMANDS
from stacktrans.commands.terminal import print_out
from stacktrans.inference.scores import Scores
from stacktrans.inference.trace import ReadShare, Trace, TraceStep
from stacktrans.kernels import code_cache
from stacktrans.model.description import model_line
from stacktrans.settings.resolve import resolve
from stacktrans.showing.race import RaceDisplay, candidates_table, race_view
from stacktrans.showing.scores import perplexity_table, scores_tables
from stacktrans.showing.tables import Column, Table, remark
from stacktrans.showing.traces import trace_view
from stacktrans.showing.training import LanguageDisplay, TrainingDisplay, summary_view
from stacktrans.sweeps.live import SweepDisplay, overview
from stacktrans.sweeps.store import SweepStore
from stacktrans.tasks.lengths import Lengths
from stacktrans.training.race import Race, begin
from stacktrans.training.race_state import Candidate
from stacktrans.training.records import LOSS, METRICS, Accuracy, Record, Summary

WIDTHS = (200, 100, 80, 60, 40)
CONFIG = resolve(task="copy", settings={"model": {"memory": "queue"}}, assignments=SETTINGS)
ACCURACY = Accuracy(0.79, 0.85, 1000, 0.788)
SIGNALS = {"pop": 0.123, "push": 0.987}
RECORD = Record(
    12345, 2, 67.8, 0.1234, 1.131, 0.001, Lengths(8, 64), SIGNALS, ACCURACY, ACCURACY, None, 2.5
)
SUMMARY = Summary(
    outcome="solved", rule="it was", decided_by="such strings", reported_on="others", steps=1,
    attempts=1, seconds=1.0, best_step=1, train=ACCURACY, test=ACCURACY, parameters=7, command="",
    version="0", torch="0", seed=1,
)  # fmt: skip


def shown(width: int, *renderables: Any) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    for renderable in renderables:
        console.print(renderable)
    return file.getvalue()


def scores() -> Scores:
    import numpy as np

    lengths = np.arange(10, 30)
    ones = np.ones(20)
    whole = np.ones(20, dtype=np.int64)
    return Scores(lengths, ones, whole, whole, whole * 0)


def step_of(number: int, tops: bool) -> TraceStep:
    parts = [ReadShare("a", 2, 0.9), ReadShare("<s>", 1, 0.1)]
    names = ["stack 1", "stack 2"]
    signals = {f"{action} {stack}": 0.5 for stack in (1, 2) for action in ("push", "pop")}
    return TraceStep(
        number, "a", "b", 0.123, {}, signals if tops else SIGNALS, {},
        {} if tops else {"top": parts}, 1.0, {name: [[0.25]] for name in names} if tops else {},
    )  # fmt: skip


def trace_of(tops: bool) -> Trace:
    steps = [step_of(1, tops), replace(step_of(2, tops), scored=False)]
    return Trace("copy: RNN 64", "aa", "bb", "b·", True, "b·", None, True, None, steps)


NUMBER = re.compile(r"\d+\.\d+")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "renderable",
    [
        summary_view(SUMMARY, CONFIG, "x"),
        *scores_tables([(Lengths(10, 29), scores())], hard=True),
        trace_view(trace_of(tops=False), CONFIG),
        trace_view(trace_of(tops=True), CONFIG),
        perplexity_table(
            [{"text": "valid", "symbols": 7, "unknown": 1, "perplexity": 123.45, "nats": 4.8158}]
        ),
    ],
)
def test_tables_fit(width: int, renderable: Any) -> None:
    whole, text = (shown(each, renderable) for each in (1000, width))
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert set(NUMBER.findall(text)) <= set(NUMBER.findall(whole))


def test_commands_to_copy_are_not_broken() -> None:
    command = f"stacktrans train --task copy --set {'x' * 60}=1 --seed 1"
    remarks = remark("to train this run alone:", command), remark("words " * 20)
    first, *others = in_a_terminal(60, lambda: print_out(*remarks, stderr=True)).splitlines()
    assert first == f"to train this run alone: {command}"
    assert len(others) > 1


@pytest.mark.parametrize("width", WIDTHS)
def test_all_signals_and_reads_of_several_memories_are_shown(width: int) -> None:
    ends = ("queue front", "stack 1 top", "stack 2 top")
    signals = {
        f"{action} {end.rsplit(' ', 1)[0]}": 0.5 for end in ends for action in ("pop", "push")
    }
    reads = {end: [ReadShare("a", 2, 0.9), ReadShare("<s>", 1, 0.1)] for end in ends}
    step = replace(step_of(1, tops=False), signals=signals, reads=reads)
    text = shown(width, trace_view(replace(trace_of(tops=False), steps=[step]), CONFIG))
    assert "no room" not in text
    assert len(re.findall(r"a@2", text)) == len(reads)
    assert len(re.findall(r" 0\.50", text)) == len(signals)


def test_headings_are_folded_before_columns_are_omitted() -> None:
    columns = "step", Column("push bottom", drop=1), Column("read top", left=True)
    table = Table(*columns, rows=[(1, 0.5, "a")])
    assert shown(18, table).splitlines() == [
        "        push  read",
        "step  bottom  top",
        "1        0.5  a",
    ]


def test_commas_and_conjunctions_stay_before_folds() -> None:
    columns = "rule", Column("when", left=True, fold=", "), Column("state", fold=" or ")
    table = Table(*columns, rows=[(1, "queue has a, b or c, stack has d", "q1 or q2")])
    folded = ["1     queue has a,  q1 or", "      b or c,          q2", "      stack has d"]
    assert shown(25, table).splitlines()[1:] == folded


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", [TrainingDisplay, LanguageDisplay])
def test_rows_of_a_run_fit(width: int, kind: type[TrainingDisplay]) -> None:
    display = kind(Console(file=io.StringIO()), CONFIG, 7, "x")
    table = display._table(RECORD)
    head, body, _ = table.lines(width)
    lines = [line.plain for line in (*head, *body)]
    assert all(cell_len(line) <= width for line in lines)
    assert "12345" in lines[-1]
    if kind is TrainingDisplay:
        assert "0.1234" in lines[-1]
        assert re.search(r"0\.79 +0\.85", lines[-1])
        assert re.search(r" loss ", lines[-2])
        assert "test lengths 6:8" in lines[-3]


@pytest.mark.parametrize("width", WIDTHS)
def test_sweeps_fit(width: int, tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    store = SweepStore(tmp_path / "out", plan)
    store.records = records_of(plan)
    display = SweepDisplay(Console(file=io.StringIO()), store, plan.runs)
    text = shown(width, display._now(), *overview(store))
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert re.search(r"^Queue +(runs )?12 +(done )?6\b", text, flags=re.MULTILINE)
    assert "80.0 → 85.0 ▲" in text
    assert "10.0 / 20.0 / 30.0 → 25.0" in text


def test_the_least_important_columns_are_left_out_first_and_named() -> None:
    columns = Column("bbbb", drop=1), Column("cccc", drop=2), Column("d", "group", drop=2)
    table = Table("a", *columns, rows=[("1", "2.25", "3.25", "4.25")])
    found = {width: shown(width, table).splitlines() for width in (40, 18, 12, 6)}
    assert found[40][1].split() == ["a", "bbbb", "cccc", "d"]
    assert found[18][-1] == "(no room for bbbb)"
    assert found[12][0].split() == ["a", "cccc"], "of equal columns, the last goes first"
    assert " ".join(" ".join(found[12][2:]).split()) == "(no room for bbbb, group d)"
    assert found[6][0] == "a"
    assert found[6][1] == "1"


def test_intervals_and_bars_are_left_out_before_columns() -> None:
    (table, by_length) = scores_tables([(Lengths(10, 29), replace(scores(), name="test"))])
    text = shown(60, table)
    assert text.splitlines()[0].split() == [
        "strings", "lengths", "count", "coarse", "fine", "symbols",
    ]  # fmt: skip
    assert text.endswith("(no room for [95%])\n")
    assert shown(60, by_length).splitlines()[1].split()[:3] == ["test", "10:12", "3"]
    heads = shown(50, trace_view(trace_of(tops=False), CONFIG)).splitlines()[1]
    assert heads.split()[:6] == ["step", "input", "output", "prob.", "pop", "push"]


def test_tables_too_wide_for_the_terminal_are_printed_by_names() -> None:
    table = Table("accuracy", "perplexity", rows=[("0.12345", "123.4567")])
    assert shown(19, table).split() == ["accuracy:", "0.12345", "perplexity:", "123.4567"]
    assert shown(14, table).split() == ["accuracy:", "0.12345", "perplexity:", "123.4567"]
    assert shown(19, table).splitlines()[0] == "accuracy: 0.12345", "a line for each"


def test_columns_of_equal_weight_go_on_below() -> None:
    names = ("first", "second", "third")
    table = Table("run", *names, rows=[("x", "1.0", "2.0", "3.0")], continued=True)
    lines = shown(14, table).splitlines()
    assert [line.split() for line in lines[::2]] == [["run", each] for each in names]
    assert [line.split() for line in lines[1::2]] == [["x", "1.0"], ["x", "2.0"], ["x", "3.0"]]


def in_a_terminal(columns: int, work: Any, **environment: str) -> str:
    """The output of `work` in a child process with a terminal of so many columns."""
    pid, descriptor = pty.fork()
    if pid == 0:  # pragma: no cover
        code = 1
        try:
            size = struct.pack("HHHH", 30, columns, 0, 0)
            fcntl.ioctl(2, termios.TIOCSWINSZ, size)
            os.environ.pop("COLUMNS", None)
            os.environ.update(environment)
            sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
            work()
            code = 0
        finally:
            os._exit(code)
    written = b""
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(descriptor)
    assert os.waitpid(pid, 0)[1] == 0, written.decode()
    return written.decode()


RACE = {
    "no-memory": Candidate(
        step=12345, seconds=123.4, loss=0.1234, best={"test": 0.79, "train": 0.98, "fine": 0.85}
    ),
    "joint": Candidate(step=200, failed="the loss is not a finite number after batch 123"),
    "wide": Candidate(
        step=600,
        seconds=12.0,
        ended="max_steps",
        loss=1.2345,
        best={"test": 0.0, "train": 0.0, "fine": 0.05},
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_race_fits(width: int) -> None:
    configs = dict.fromkeys(RACE, CONFIG)
    raced = race_view(RACE)
    text = shown(width, raced, candidates_table(configs))
    assert all(cell_len(line) <= width for line in text.splitlines())
    rows = re.findall(r"^(?:strategy )?(no-memory|joint|wide)\b", text, re.M)
    assert rows == ["no-memory", "wide", "joint", *RACE]
    assert "0.79" in text
    assert "limit" in text


def show_a_race() -> None:
    from stacktrans.commands.terminal import progress_console

    with tempfile.TemporaryDirectory() as folder:
        begin(Path(folder), dict.fromkeys(RACE, CONFIG), ["train"], 300)
        race = Race(Path(folder), "cpu", 1)
        with race.opened(), RaceDisplay(progress_console(), race) as display:
            for name, candidate in RACE.items():
                race.state.candidates[name] = candidate
                display.show()
            race.at_work = ["wide"]
            now = {"step": 700, "seconds": 14.0, "loss": 0.9876}
            record = json.dumps(now) + '\n{"step": 7'  # the next one is being written
            (race.directory_of("wide") / METRICS).write_text(record)
            race.stop_requested = 2


def test_a_race_is_a_live_table_in_a_terminal_and_lines_elsewhere() -> None:
    live = in_a_terminal(80, show_a_race, TERM="xterm")
    assert "3 strategies race in time slices" in live
    assert "test lengths" in live
    assert re.search(r"no-memory +12345 .*0\.79", live)
    assert re.search(r"\d of 300 seconds", live)
    assert re.search(r"wide +700 +14 +0\.9876 ", live)
    assert live.count("loss: cross-entropy in nats per symbol") == live.count("of 300 seconds")
    plain = in_a_terminal(200, show_a_race, TERM="dumb")
    assert "\x1b" not in plain
    assert re.search(r"^no-memory  batch 12345  loss 0\.1234 ", plain, re.M)
    assert "  training coarse 0.98  test lengths coarse 0.79 fine 0.85" in plain
    assert re.search(r"^joint  batch 200  the loss is not a finite number", plain, re.M)


def refuse_a_race_before_torch_is_loaded() -> None:
    code = (
        "import sys\nfrom stacktrans.cli import app\nfrom stacktrans.training import requests\n"
        "requests.begin = lambda *_, **__: sys.exit('torch' in sys.modules)\n"
        "app(['train', '--task', 'copy'])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_first_row_of_a_race_does_not_wait_for_torch() -> None:
    written = in_a_terminal(80, refuse_a_race_before_torch_is_loaded, TERM="xterm")
    assert re.search(r"feedforward +0 +0 +– +starting", written)


def show_records() -> None:
    from stacktrans.commands.terminal import progress_console

    with TrainingDisplay(progress_console(), CONFIG, 7, "run") as display:
        for step in range(1, 401):
            test = ACCURACY if step % 100 == 0 else None
            display.show(replace(RECORD, step=step, seconds=step / 100, test=test))


def test_a_terminal_gets_rows_that_stay_and_little_else() -> None:
    written = in_a_terminal(80, show_records, TERM="xterm")
    rows = re.findall(r"(?<!\d)(\d+) +0\.1234", written)
    assert {"100", "200", "300", "400"} <= set(rows)
    assert written.count(LOSS) == 1
    assert len(re.findall(r"batch .* loss ", written)) == 1
    assert len(written) < 6000  # for 400 records


def show_two_attempts() -> None:
    from stacktrans.commands.terminal import progress_console

    with TrainingDisplay(progress_console(), CONFIG, 7, "run") as display:
        for step, number in ((100, 1), (200, 2), (300, 2)):
            display.show(replace(RECORD, step=step, attempt=number))


@pytest.mark.parametrize("compiled", [0, 3])
def test_a_race_announces_what_its_processes_compile(
    compiled: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, announced = tmp_path / "code", list[bool]()
    for number in range(compiled):
        (code / f"before-{number}").mkdir(parents=True)
    code.mkdir(exist_ok=True)
    monkeypatch.setattr(code_cache, "cache_directory", lambda: code)
    monkeypatch.setattr(code_cache, "announce", lambda: announced.append(True))
    directory = tmp_path / "race"
    directory.mkdir()
    begin(directory, dict.fromkeys(RACE, CONFIG), ["train"], 300)
    race = Race(directory, "cpu", 1)
    with race.opened(), RaceDisplay(Console(file=io.StringIO()), race) as display:
        display.show()
        assert not announced
        (code / "another").mkdir()
        display.show()
    assert announced


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_a_further_attempt_is_announced_at_any_width(kind: str) -> None:
    written = in_a_terminal(40, show_two_attempts, TERM=kind)
    before, after = written.split("attempt 2, with newly drawn weights")
    assert re.search(r"100 .*0\.1234", before)
    assert not re.search(r"[23]00 .*0\.1234", before)
    assert re.search(r"200 .*0\.1234.*300 .*0\.1234", after, re.S)


def test_a_run_that_ends_between_measurements_leaves_no_row_without_accuracies() -> None:
    file = io.StringIO()
    display = TrainingDisplay(Console(file=file, width=80), CONFIG, 7, "run")
    display.live = Live(console=Console(file=io.StringIO()))  # as in a terminal
    with display:
        display.show(RECORD)
        display.show(replace(RECORD, step=12350, loss=0.9876, test=None, development=None))
    written = file.getvalue()
    assert "0.1234" in written
    assert "0.9876" not in written


def test_lines_of_a_log_are_short() -> None:
    many = {f"push stack {number}": 0.5 for number in range(20)}
    display = TrainingDisplay(Console(file=io.StringIO()), CONFIG, 7, "x")
    line = display._line(replace(RECORD, signals=many))
    assert len(line) < 180
    assert "loss 0.1234" in line


def test_a_summary_explains_what_it_shows() -> None:
    race = {"winner": "joint", "strategies": {}, "seconds": 1.0}
    ablated = replace(SUMMARY, race=race, command="stacktrans train", without={"pops": ACCURACY})
    text = shown(200, summary_view(ablated, CONFIG, "x"))
    assert "to train this run alone: stacktrans train" in text
    assert "without pops: they are blocked" in text
    assert "without state" not in text
    both = replace(ablated, without={"pushes": ACCURACY, "pops": ACCURACY, "state": ACCURACY})
    legend = "without pushes or pops: they are blocked\nwithout state: "
    assert legend in shown(200, summary_view(both, CONFIG, "x"))
    assert "solved: " in text
    assert "the race took 1 second" in text
    unfinished = replace(ablated, race={**race, "winner": None}, outcome="budget")
    assert "solved: " not in shown(200, summary_view(unfinished, CONFIG, "x"))
    assert "are blocked" not in shown(200, summary_view(SUMMARY, CONFIG, "x"))


@pytest.mark.parametrize(
    ("hard", "use"),
    [
        (1.0, "right"),
        (0.75, "about as good as soft, 0.750 compared with 0.750"),
        (0.74, "about as good as soft, 0.740 compared with 0.750"),
        (0.8, "better than soft"),
        (0.5, "worse than"),
        (0.0, "worse than"),
    ],
)
def test_a_summary_says_what_hard_signals_do(hard: float, use: str) -> None:
    summary = replace(SUMMARY, test=replace(ACCURACY, coarse=0.75, count=2000))
    summary = replace(summary, hard=replace(ACCURACY, coarse=hard))
    assert f"with hard signals: {use}" in shown(200, summary_view(summary, CONFIG, "x"))


@pytest.mark.parametrize("model", ["", model_line(CONFIG), "copy: RNN 64, memory stack of 32"])
def test_the_saved_model_is_described_if_it_has_fewer_memories(model: str) -> None:
    text = shown(200, summary_view(replace(SUMMARY, model=model), CONFIG, "x"))
    assert ("memory stack of 32" in text) is model.endswith("stack of 32")


def show_one_that_is_not_due() -> None:
    from stacktrans.commands.terminal import progress_console

    with TrainingDisplay(progress_console(), CONFIG, 56163, "run") as display:
        display.show(replace(RECORD, step=1, test=None, development=None))


def test_the_live_table_has_headings_from_the_start() -> None:
    head, _, rest = in_a_terminal(80, show_one_that_is_not_due, TERM="xterm").partition("0.1234")
    assert re.search(r"batch .* loss ", head)
    assert not re.search(r"batch .* loss ", rest)


@pytest.mark.parametrize("width", range(40, 80, 9))
def test_numbers_are_not_cut_in_narrow_terminals(width: int) -> None:
    written = in_a_terminal(width, show_one_that_is_not_due, TERM="xterm").partition("loss")[0]
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    assert any("56,163" in line for line in lines)


@pytest.mark.parametrize("kind", ["dumb", "unknown", ""])
def test_a_terminal_that_can_not_go_back_gets_plain_lines(kind: str) -> None:
    written = in_a_terminal(80, show_records, TERM=kind)
    assert "\x1b" not in written
    lines = [line for line in written.splitlines() if line.startswith("batch ")]
    assert len(lines) >= 4
    assert "train coarse 0.79 fine 0.85  test lengths coarse 0.79 fine 0.85" in lines[0]


def test_no_color_where_none_is_wanted() -> None:
    assert "\x1b[1m" in in_a_terminal(80, show_records, TERM="xterm")
    assert "\x1b[1m" not in in_a_terminal(80, show_records, TERM="xterm", NO_COLOR="1")


@pytest.mark.parametrize("width", [60, 80])
def test_the_help_of_a_command_is_whole(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in COMMANDS:
        lines = invoke(name, "--help").out.splitlines()
        assert max(map(cell_len, lines)) <= width
        assert "…" not in "".join(lines)
        options = [line for line in lines if line.startswith("│ --") and "--help" not in line]
        assert not [line for line in options if re.search(r"<\w+", line)], "a metavar, no type"


def panels_of(command: str) -> dict[str, list[str]]:
    """The options in each panel of a command's help."""
    panels: dict[str, list[str]] = {}
    for line in invoke(command, "--help").out.splitlines():
        if title := re.match(r"╭─ ([\w ]+) ─", line):
            panels[title[1]] = []
        elif option := re.match(r"│ (--[a-z-]+)", line):
            panels[[*panels][-1]].append(option[1])
    return panels


def test_the_options_of_train_are_in_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    panels = panels_of("train")
    assert [*panels] == ["Options", "Data", "Model", "Training", "Race", "Output"]
    assert panels["Options"] == ["--help"]
    assert panels["Race"] == ["--strategies", "--budget"]
    assert {"--memory", "--hidden", "--no-buffered", "--plugin"} <= {*panels["Model"]}


def test_every_option_of_a_long_help_is_in_a_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    panels = {command: panels_of(command) for command in COMMANDS}
    long = [each for each in panels if sum(map(len, panels[each].values())) > 9]  # with --help
    assert {"train", "eval", "inspect", "compare"} <= {*long}
    assert [panels[each]["Options"] for each in long] == [["--help"]] * len(long)
