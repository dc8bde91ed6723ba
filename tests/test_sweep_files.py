"""Files of sweeps: what is wrong with them is named before anything is run."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import run
from hypothesis import example, given
from hypothesis import settings as bounds
from hypothesis import strategies as st
from small_sweeps import settings, sweep_file

from stacktrans.common.errors import UsageError
from stacktrans.settings.resolve import resolve
from stacktrans.sweeps.plan import read_plan


def task_file(directory: Path, file: str, name: str) -> str:
    path = directory / file
    task = {**settings()["task"], "name": name, "description": ""}
    path.write_text(yaml.safe_dump(task))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conditions": {}}, "small.yaml:35: conditions: "),
        ({"grid": {"sed": [1]}}, "unknown setting 'sed'; did you mean 'seed'?"),
        ({"grid": {"seed": [-1]}}, "seed: "),
        ({"grid": {"seed": [10**20]}}, "seed: "),
        ({"grid": {"task": [{"name": [1]}]}}, "name: "),
        ({"conditions": {"A": {"model": {"memory": "stak"}}}}, "condition 'A': "),
        ({"conditions": {"A": {"model": {"memory": "stak"}}}}, "did you mean 'stack'?"),
        (
            {"measures": {"m": {"of": "fine", "strings": "test", "hard": True}}},
            "hard: cannot be used",
        ),
        ({"measures": {"m": {"of": "perplexity"}}}, "perplexity needs strings: valid or test"),
        ({"measures": {"m": {"of": "fine", "strings": "valid"}}}, "no fine but a perplexity"),
        (
            {"measures": {"m": {"of": "perplexity", "strings": "test"}}, "percent": True},
            "percent: cannot be used with m, a perplexity",
        ),
    ],
)
def test_errors_in_a_sweep_file_are_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        read_plan(sweep_file(tmp_path, **changes))


def test_an_unknown_key_suggests_a_key_of_sweep_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown key 'mesures'; did you mean 'measures'\?$"):
        read_plan(sweep_file(tmp_path, mesures={}))


TABLE = {"source": "table 1", "measure": "test"}
CLAIM = {"claim": "It copies.", "source": "table 1"}


@pytest.mark.parametrize(
    ("changes", "line", "message"),
    [
        (
            {"published": [{**TABLE, "values": {"Stck": 1}}]},
            "values: *\n? *Stck|Stck",
            "unknown condition 'Stck'; did you mean 'Stack'?",
        ),
        ({"published": [{**TABLE, "measure": "tst", "values": {}}]}, "measure: tst", "'tst'"),
        (
            {"published": [{**TABLE, "values": {"Stack": {"copy": 1}}}]},
            "copy: 1",
            "task copy: the grid has no tasks",
        ),
        (
            {"claims": [{**CLAIM, "holds": [{"condition": "Quue", "least": 1}]}]},
            "condition: Quue",
            "unknown condition 'Quue'; did you mean 'Queue'?",
        ),
        (
            {"claims": [{**CLAIM, "holds": [{"condition": "Queue", "above": "Stock"}]}]},
            "above: Stock",
            "unknown condition 'Stock'; did you mean 'Stack'?",
        ),
        (
            {"claims": [{**CLAIM, "holds": [{"condition": "Queue", "task": "copy", "most": 1}]}]},
            "task: copy",
            "task copy: the grid has no tasks",
        ),
        ({"choose": {"by": "test accuracy", "among": ["rate"]}}, "- rate", "unknown axis 'rate'"),
        ({"solved": {"measure": "tets", "least": 1}}, "measure: tets", "unknown measure 'tets'"),
        ({"solved": {"measure": "test", "least": 2}}, "least: 2", "solved.least: expected at most"),
        ({"grid": {"seed": []}}, "seed:", "grid.seed: expected at least one (given: [])"),
        ({"measures": {}}, "measures:", "measures: expected at least one"),
        *(
            ({"measures": {name: {"of": "fine"}}}, f"{name}:", f"measures.{name}: the name of")
            for name in ("seed", "seconds", "error")
        ),
        (
            {"choose": {"by": "development accuracy", "among": ["seed"]}},
            "by: development",
            "development accuracy: needs training.data.examples, or pairs in files (Stack, seed 1)",
        ),
        (
            {"choose": {"by": "validation perplexity", "among": ["seed"]}},
            "by: validation",
            "validation perplexity: is only for texts",
        ),
        (
            {"measures": {"good": {"of": "fine"}, "bad": {"of": "coarse", "depth": 3}}},
            "bad:",
            "bad: depth: only for tasks with a grammar (Stack, seed 1)",
        ),
        (
            {"measures": {"m": {"of": "coarse", "lengths": [0, 3]}}},
            "m:",
            "m: lengths: expected 1 <= shortest",
        ),
        (
            {"measures": {"dev": {"of": "coarse", "strings": "development"}}},
            "dev:",
            "dev: strings: development needs training.data.examples",
        ),
        (
            {"measures": {"p": {"of": "positions", "strings": "test"}}},
            "p:",
            "of: positions needs strings that are drawn",
        ),
        (
            {"measures": {"p": {"of": "perplexity", "strings": "test"}}},
            "p:",
            "p: of: perplexity is only for texts",
        ),
        (
            {"grid": {"learning_rate": [0.1], "training.learning_rate": [0.2]}},
            "training.learning_rate:",
            "training.learning_rate is the same setting as learning_rate",
        ),
        ({"grid": {"seed": [1, 2, 1]}}, "- 1", "seed: 1 appears twice"),
        (
            {
                "grid": {"learning_rate": [0.1, 0.2]},
                "conditions": {
                    "A": {"model": {"memory": "stack"}, "training": {"learning_rate": 3}}
                },
            },
            "learning_rate: 3",
            "training.learning_rate: cannot be used, since learning_rate is an axis of the grid",
        ),
    ],
)
def test_contradictions_in_a_sweep_file_are_named_with_their_line(
    tmp_path: Path, changes: dict[str, Any], line: str, message: str
) -> None:
    path = sweep_file(tmp_path, **changes)
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        read_plan(path)
    place = re.match(rf"{re.escape(str(path))}:(\d+): ", str(caught.value))
    assert place
    lines = path.read_text().splitlines()
    # What a name stands for may begin on the next line.
    assert re.search(line, "\n".join(lines[int(place[1]) - 2 : int(place[1])]))


FOUR = "S:1 S:2 S:3 S:4"
WIDE = {
    "generator": "grammar",
    "parameters": {
        "root": "S",
        "rules": {
            "S": [
                {"probability": "1/2", "source": FOUR, "target": FOUR},
                {"probability": "1/2", "source": "a", "target": "a"},
            ]
        },
    },
}
EVEN = {"generator": "bigram-flip", "parameters": {"symbols": 4}}


@pytest.mark.parametrize(
    ("task", "measure", "message"),
    [
        (WIDE, {"depth": 9}, "m: derivations of depth 9 have up to 16384 source words, too many"),
        (WIDE, {"lengths": [2, 3]}, "m: no sentence of the grammar has a length of 2:3"),
        (WIDE, {"depth": 3, "lengths": [17, 20]}, "m: no sentence of the grammar has a length of"),
        (EVEN, {"lengths": [3, 3], "each": True}, "m: lengths 3: none is a multiple of 2"),
    ],
)
def test_measures_that_cannot_be_drawn_are_named_before_any_run(
    tmp_path: Path, task: dict[str, Any], measure: dict[str, Any], message: str
) -> None:
    base = settings()
    base["task"] |= task
    path = sweep_file(tmp_path, settings=base, measures={"m": {"of": "coarse", **measure}})
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        read_plan(path)
    assert str(caught.value).startswith(f"{path}:")


def test_pairs_in_files_have_no_depth_and_no_pipe(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{'ab' * size}\t{'ba' * size}\n" for size in range(1, 12)))
    base = {"task": {"name": "mine", "generator": "pairs", "parameters": {"train": str(pairs)}}}
    measures = {"m": {"of": "coarse", "lengths": [2, 9], "depth": 3}}
    with pytest.raises(UsageError, match="m: depth: not for pairs in files"):
        read_plan(sweep_file(tmp_path, settings=base, measures=measures))
    read, write = os.pipe()
    os.write(write, pairs.read_bytes())
    os.close(write)
    base["task"]["parameters"] = {"train": f"/dev/fd/{read}"}
    try:
        with pytest.raises(UsageError, match=rf"train /dev/fd/{read}: expected a file, which each"):
            read_plan(sweep_file(tmp_path, settings=base, measures={"m": {"of": "coarse"}}))
    finally:
        os.close(read)


def test_pairs_of_a_sweep_do_not_come_from_standard_input(tmp_path: Path) -> None:
    task = {"name": "mine", "generator": "pairs", "parameters": {"train": "-"}}
    path = sweep_file(tmp_path, settings={"task": task}, measures={"m": {"of": "coarse"}})
    pairs = b"".join(b"%b\t%b\n" % (b"ab" * size, b"ba" * size) for size in range(1, 12))
    done = run("sweep", path, "--dry-run", stdin=pairs)
    assert done.returncode == 2
    assert "train -: expected a file, which each run can read by itself" in done.err


def test_tasks_are_called_by_their_names(tmp_path: Path) -> None:
    tasks = [task_file(tmp_path, "a.yaml", "first"), task_file(tmp_path, "b.yaml", "other")]
    grid = {"task": tasks}
    published = [{**TABLE, "values": {"Stack": {"frist": 1}}}]
    small = {"grid": {"task": tasks[1:]}}
    changes: dict[str, Any] = {"grid": grid, "profiles": {"small": small}}
    with pytest.raises(UsageError, match=r"unknown task 'frist'; did you mean 'first'\?"):
        read_plan(sweep_file(tmp_path, published=published, **changes))
    holds = [{"condition": "Stack", "least": 1}]
    with pytest.raises(UsageError, match="task: is missing"):
        read_plan(sweep_file(tmp_path, claims=[{**CLAIM, "holds": holds}], **changes))
    # Figures may be of tasks that a profile leaves out.
    published = [{**TABLE, "values": {"Stack": {"first": 1}}}]
    assert len(read_plan(sweep_file(tmp_path, published=published, **changes), "small").runs) == 2


def test_tasks_of_one_name_would_be_one_column(tmp_path: Path) -> None:
    grid = {"task": [task_file(tmp_path, "a.yaml", "tiny"), task_file(tmp_path, "b.yaml", "tiny")]}
    with pytest.raises(UsageError, match=r"a\.yaml and .*b\.yaml are both called tiny"):
        read_plan(sweep_file(tmp_path, grid=grid))


def test_an_unknown_task_memory_or_profile_is_named_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml:\d+: unknown task 'cpy'"):
        read_plan(sweep_file(tmp_path, grid={"task": ["cpy"]}))
    with pytest.raises(UsageError, match=r"small\.yaml: condition 'A': no memory given"):
        read_plan(sweep_file(tmp_path, conditions={"A": {}}))
    with pytest.raises(UsageError, match=r"small\.yaml: unknown profile 'x' \(none is available\)"):
        read_plan(sweep_file(tmp_path), "x")
    with pytest.raises(UsageError, match=r"small\.yaml:\d+: '1' is read as a whole number"):
        read_plan(sweep_file(tmp_path, profiles={1: {"title": "One"}}), "1")


def test_a_task_can_be_changed_below_where_it_is_named(tmp_path: Path) -> None:
    own = settings("accuracy_every=5", "max_steps=4")
    lengths = {"train": [1, 2], "test": [3, 4]}
    del own["task"]
    path = sweep_file(
        tmp_path, settings={**own, "task": {"lengths": lengths}}, grid={"task": ["copy", "reverse"]}
    )
    for planned in read_plan(path).runs:
        assert planned.config.task.lengths is not None
        assert planned.config.task.lengths.train == (1, 2)
        assert commanded(planned.command) == planned.config


def test_a_task_of_the_grid_can_have_settings_of_its_own(tmp_path: Path) -> None:
    own = settings("max_steps=4")
    del own["task"]
    own["by_task"] = {"copy": {"model": {"memory": {"size": 3}}, "training": {"batch_size": 5}}}
    conditions = {
        "Stack": {"model": {"memory": "stack"}},
        "Queue": {
            "model": {"memory": "queue"},
            "training": {"batch_size": 6},
            "by_task": {"other": {"training": {"batch_size": 7}}},
        },
        "Nothing": {"model": {"memory": "none"}},
    }
    tasks = ["copy", task_file(tmp_path, "a.yaml", "other")]
    changes: dict[str, Any] = {"settings": own, "grid": {"task": tasks}, "conditions": conditions}
    more = {"settings": {"by_task": {"other": {"training": {"noise": {"gates": 0.5}}}}}}
    path = sweep_file(tmp_path, **changes, profiles={"more": more})
    found = {
        (planned.condition, planned.config.task.name): (
            planned.config.training.batch_size,
            planned.config.model.memory_size,
            planned.config.training.noise.gates,
        )
        for planned in read_plan(path, "more").runs
    }
    assert found == {
        ("Stack", "copy"): (5, 3, 0),
        ("Stack", "other"): (10, 4, 0.5),
        ("Queue", "copy"): (6, 3, 0),
        ("Queue", "other"): (7, 4, 0.5),
        ("Nothing", "copy"): (5, 0, 0),
        ("Nothing", "other"): (10, 0, 0.5),
    }
    for planned in read_plan(path, "more").runs:
        assert commanded(planned.command) == planned.config


@pytest.mark.parametrize(
    ("of_single", "grid", "message"),
    [
        ({"cpy": {}}, {"task": ["copy"]}, "unknown task 'cpy'; did you mean 'copy'?"),
        # Values of the axis that change a task have no names.
        ({"copy": {}}, {"task": [{"parameters": {"symbols": 2}}]}, "unknown task 'copy' (none"),
        ({"copy": {}}, {"seed": [1]}, "task copy: the grid has no tasks"),
        ([1], {"task": ["copy"]}, "by_task: expected settings"),
        (
            {"copy": {"training": {"batch_size": 3}}},
            {"task": ["copy"], "batch_size": [1]},
            "training.batch_size: cannot be used, since batch_size is an axis of the grid",
        ),
        ({"copy": {"training": {"batch_siz": 3}}}, {"task": ["copy"]}, "did you mean 'batch_size'"),
    ],
)
def test_errors_in_settings_by_task_are_named_with_their_line(
    tmp_path: Path, of_single: Any, grid: dict[str, Any], message: str
) -> None:
    condition = {"model": {"memory": "stack"}, "by_task": of_single}
    path = sweep_file(tmp_path, grid=grid, conditions={"A": condition})
    with pytest.raises(UsageError, match=rf"small\.yaml:\d+: .*{re.escape(message)}"):
        read_plan(path)


def commanded(command: str) -> Any:
    """The configuration that a command trains with."""
    printed = subprocess.check_output(["bash", "-c", f"printf '%s\\0' {command}"]).decode()
    words = printed.split("\0")[2:-1]
    given = list(zip(words[::2], words[1::2], strict=True))
    named = dict(given)
    keys = {"--memory": "model.memory", "--controller": "model.controller", "--seed": "seed"}
    assignments = [f"{keys[option]}={value}" for option, value in given if option in keys]
    assignments += [value for option, value in given if option == "--set"]
    return resolve(task=named.get("--task"), recipe=named.get("--recipe"), assignments=assignments)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)


@bounds(max_examples=25)
@given(name=st.from_regex(r"[a-z0-9][a-z0-9.]{0,6}", fullmatch=True), description=TEXT)
@example(name="a", description="\U00048859")  # which is not printable, and so is escaped
def test_a_command_repeats_its_run_exactly(
    tmp_path_factory: pytest.TempPathFactory, name: str, description: str
) -> None:
    task = {"task": {"name": name, "description": description}}
    conditions = {"A": {"model": {"memory": "stack"}, **task}}
    path = sweep_file(tmp_path_factory.mktemp("sweep"), conditions=conditions, grid={})
    (planned,) = read_plan(path).runs
    assert commanded(planned.command) == planned.config


def test_a_mapping_can_be_merged_into_another_and_changed(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    text = path.read_text()
    start = text.index("conditions:")
    merged = """conditions:
  Stack: {model: &model {memory: stack, output_size: 1}}
  Deep: {model: {<<: *model, output_size: 2}}
"""
    path.write_text(text[:start] + merged + text[text.index("measures:") :])
    sizes = {
        planned.condition: planned.config.model.output_size for planned in read_plan(path).runs
    }
    assert sizes == {"Stack": 1, "Deep": 2}
    path.write_text(path.read_text().replace("output_size: 2", "output_size: 0"))
    with pytest.raises(UsageError, match=rf"small\.yaml:{merged_line(path)}: model\.output_size"):
        read_plan(path)


def merged_line(path: Path) -> int:
    return path.read_text()[: path.read_text().index("Deep")].count("\n") + 1


def test_a_date_is_text(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    path.write_text(path.read_text().replace("title: Small", "title: 2020-01-01"))
    assert read_plan(path).file.title == "2020-01-01"


def test_runs_are_selected_by_parts_of_their_names(tmp_path: Path) -> None:
    model = {"model": {"memory": "stack"}}
    path = sweep_file(tmp_path, conditions={"[red]x[/red]": model, "two\nlines": model}, grid={})
    plan = read_plan(path)
    assert [planned.name for planned in plan.only("[red]x")] == ["[red]x[/red]"]
    assert [planned.name for planned in plan.only("two*")] == ["two lines"]
    done = run("sweep", path, "--dry-run")
    assert len(done.stdout.splitlines()) == 2
