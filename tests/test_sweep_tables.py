"""The tables of a sweep: winners, spreads, differences and claims."""

import csv
import json
import math
import runpy
from pathlib import Path
from typing import Any

import pytest
from sweep_plans import CLAIMS, plan_of, records_of

from stacktrans.settings.layers import read_layer
from stacktrans.showing.scores import bootstrap_interval
from stacktrans.showing.tables import as_cell
from stacktrans.sweeps.cells import Cell, cells_of
from stacktrans.sweeps.plan import Plan, read_plan
from stacktrans.sweeps.records import RunRecord, parse_record
from stacktrans.sweeps.table import as_csv, as_json, markdown, share_solved

ROOT = Path(__file__).parent.parent


def cell(plan: Plan, condition: str, task: str = "copy") -> Cell:
    cells = cells_of(plan, records_of(plan))
    return next(found for found in cells if (found.condition, found.task) == (condition, task))


def test_the_winner_of_each_seed_counts(tmp_path: Path) -> None:
    found = cell(plan_of(tmp_path), "Queue")
    assert found.values == pytest.approx([0.75, 0.85, 0.95])
    assert found.figure == pytest.approx(0.85)
    assert found.spread == pytest.approx((0.75, 0.85, 0.95))
    assert (found.solved, found.planned, found.failed) == (1, 6, 0)
    assert (found.median_seconds_to_solve, found.median_batches_to_solve) == (30.0, 300)
    low, high = found.solved_interval or (0, 0)
    assert (low, high) == pytest.approx((0.0615, 0.7923), abs=1e-4)


def test_a_winner_may_be_chosen_among_seeds_too(tmp_path: Path) -> None:
    choice = {"by": "test accuracy", "among": ["learning_rate", "seed"]}
    found = cell(plan_of(tmp_path, choose=choice), "Queue")
    assert found.figure == pytest.approx(1.0)
    assert found.values == pytest.approx([0.8, 0.9, 1.0])


def test_a_winner_may_be_chosen_by_development_accuracy(tmp_path: Path) -> None:
    examples = {"train": 20, "development": 5, "test": 5, "epochs": 3}
    training = {"data": {"examples": examples}, "stop": {"development": {}}, "batch_size": 10}
    choice = {"by": "development accuracy", "among": ["learning_rate", "seed"]}
    plan = plan_of(tmp_path, settings={"training": training}, choose=choice)
    records = records_of(plan)
    for record in records.values():
        is_best = (record["perplexity"], record["seed"]) == (3.0, 2)  # by no other criterion
        record["accuracy"]["development"] = {"symbols": 0.9 if is_best else 0.8}
    assert cells_of(plan, records)[0].figure == pytest.approx(0.9)


def test_of_equal_runs_one_that_solved_the_task_wins(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, choose={"by": "test accuracy", "among": ["learning_rate", "seed"]})
    records = records_of(plan)
    for record in records.values():
        record["accuracy"] = {"test": {"coarse": 1.0, "fine": 1.0}}
        record["outcome"] = "solved" if record["seed"] == 2 else "max_steps"
    assert cells_of(plan, records)[0].figure == pytest.approx(0.9)


def test_shipped_sweeps_can_be_planned_and_their_records_are_on_the_page_of_results() -> None:
    page = runpy.run_path(str(ROOT / "experiments" / "results_page.py"))["page"]
    plans: list[Plan] = []

    def noted(*arguments: Any) -> Plan:
        plans.append(read_plan(*arguments))
        return plans[-1]

    page.__globals__["read_plan"] = noted
    assert page() == (ROOT / "RESULTS.md").read_text(encoding="utf-8"), "run results_page.py"
    shipped = {path.name for path in (ROOT / "experiments").glob("*.yaml")}
    assert {plan.path.name for plan in plans} == shipped - {"flare2025.yaml"}
    for plan in plans:
        identities = {run.identity for run in plan.runs}
        assert len(identities) == len(plan.runs)
        if plan.name in ("joulin2015-small", "grefenstette2015-small"):  # all of them were run
            path = ROOT / "experiments" / "results" / plan.name / "results.jsonl"
            records = path.read_text().splitlines()
            assert {json.loads(line)["identity"] for line in records} == identities


def test_the_sweep_of_flare2025_reads_its_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "experiments" / "flare2025.yaml"
    for condition in read_layer(path).section("conditions").settings:
        for part in (".", "datasets/validation-long", "datasets/test"):
            folder = tmp_path / "flare" / condition / part
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "main.tok").write_text("".join(f"{'0 ' * n}# 0\n" for n in range(20)))
            (folder / "labels.txt").write_text("1\n0\n" * 10)
    monkeypatch.chdir(tmp_path)
    plan = read_plan(path)
    assert len(plan.runs) == 30
    assert all("predicting-feedforward" in run.configs for run in plan.runs)


def test_without_a_choice_every_run_counts(tmp_path: Path) -> None:
    found = cell(plan_of(tmp_path, choose=None), "Stack")
    assert sorted(found.values) == pytest.approx([0.15, 0.2, 0.25, 0.3, 0.35, 0.4])


def test_missing_runs_have_no_figure(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert cell(plan, "Queue", "reverse").figure is None
    assert "| Queue | 80.0 → 85.0 ▲ | not run |" in markdown(plan, records_of(plan))


def test_differences_within_the_tolerance_are_not_marked(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, tolerance=5)
    assert "| Queue | 80.0 → 85.0 | not run |" in markdown(plan, records_of(plan))
    assert "| Stack | 10.0 / 20.0 / 30.0 → 25.0 | not run |" in markdown(plan, records_of(plan))


def test_a_table_counts_solved_runs_and_lists_cells_with_unsolved_ones(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    shown = markdown(plan, records_of(plan))
    assert (
        "Solved, with test at least 90 per cent: 1 of 6 runs \\[0.03 – 0.56\\], half of these "
        "within 30 seconds, all within 30. "
        "Conditions with unsolved runs: Queue on copy (1 of 3 solved), "
        "Stack on copy (0 of 3 solved)."
    ) in shown
    assert "Solved, " not in markdown(plan, {})


def test_rows_of_a_single_column_count_solved_runs(tmp_path: Path) -> None:
    conditions = {
        "Queue": {"task": "copy", "model": {"memory": "queue"}},
        "Stack": {"task": "copy", "model": {"memory": "stack"}},
    }
    grid = {"learning_rate": [0.1, 0.01], "seed": [1, 2, 3]}
    plan = plan_of(tmp_path, grid=grid, conditions=conditions, published=[], claims=[])
    records = records_of(plan)
    queues = {run.identity for run in plan.runs if run.condition == "Queue"}
    shown = markdown(plan, {name: records[name] for name in queues})
    assert "| test, median | measured | solved \\[95%\\] | median seconds |" in shown
    assert "| Queue | 85.0 | 1 of 3 [0.06 – 0.79] | 30 |" in shown
    assert "| Stack | not run |  |  |" in shown


def test_details_have_no_empty_columns_and_judge_by_the_criterion_alone(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"claims": [], "published": [], "choose": None}
    grid = {"learning_rate": [0.1], "seed": [1, 2, 3]}
    task = {"task": "copy", "model": {"memory": "queue"}}
    changes |= {"grid": grid, "conditions": {"Queue": task}}
    both = {name: {"of": "coarse", "strings": name} for name in ("test", "train")}
    plan = plan_of(tmp_path, **changes, measures=both)
    records = records_of(plan)
    for record in records.values():
        measured = record["measured"]
        measured["train"] = {
            **measured["test"],
            "measure": plan.file.measures["train"].model_dump(),
        }
    details = markdown(plan, records).splitlines()[-4:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in details]
    assert cells[0] == [
        *("condition", "measure", "min / median / max", "mean [95%]", "solved [95%]"),
        *("median seconds to solve", "median batches to solve", "runs"),
    ]
    assert cells[2][4].startswith("2 of 3 ")
    assert cells[3][4:] == ["", "", "", "3"]
    plan = plan_of(tmp_path, **changes, solved=None)
    first = plan.runs[0].identity
    details = markdown(plan, {first: records[first]}).splitlines()[-3:]
    assert details[0] == "| condition | measure | min / median / max | mean | runs |"


def test_claims_hold_or_not_or_were_not_run(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    held = [claim["holds"] for claim in as_json(plan, records_of(plan))["claims"]]
    assert held == [False, True, True, False, None]


def test_failed_runs_are_counted_and_listed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    records = records_of(plan)
    identity = plan.runs[0].identity
    records[identity] = {"identity": identity, "error": "it blew up", "command": "", "seed": 1}
    found = cells_of(plan, records)[0]
    assert found.failed == 1
    assert sorted(found.values) == pytest.approx([0.75, 0.85, 0.95])
    assert found.judged == found.runs == 3  # where a winner is chosen, it is one that has lost
    assert f"- {plan.runs[0].name}: it blew up" in markdown(plan, records)


def test_a_failed_run_counts_as_not_solved(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, choose=None)
    records = records_of(plan)
    before = cells_of(plan, records)[0]
    identity = plan.runs[0].identity
    records[identity] = {"identity": identity, "error": "it blew up", "command": "", "seed": 1}
    found = cells_of(plan, records)[0]
    assert (found.judged, found.runs) == (before.runs, before.runs - 1)
    assert share_solved(found).startswith(f"{found.solved} of {before.runs} ")


def test_a_measure_that_has_changed_is_not_shown(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    records = records_of(plan)
    changed = plan_of(tmp_path, measures={"test": {"of": "fine", "strings": "test"}})
    assert all(not found.values for found in cells_of(changed, records))
    rows = list(csv.DictReader(as_csv(changed, records).splitlines()))
    assert {row["test"] for row in rows} == {""}
    assert " Some measures are missing in 12 of them.\n" in markdown(changed, records)


def test_a_run_that_diverged_at_once_never_wins(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    records = records_of(plan)
    for run in plan.runs:
        if run.identity in records and run.axes["learning_rate"] < 0.1:
            records[run.identity]["perplexity"] = None if run.axes["seed"] == 1 else math.nan
    assert cells_of(plan, records)[0].values == pytest.approx([0.8, 0.9, 1.0])


@pytest.mark.parametrize("percent", [99.9, 99.7, 0.7, 1.4, 2.8, 2.9])
def test_thresholds_in_per_cent_are_reached_by_exact_shares(tmp_path: Path, percent: float) -> None:
    parts = [{"condition": "Queue", "task": "copy", key: percent} for key in ("least", "most")]
    claims = [{"claim": "It is so.", "source": "section 1", "holds": parts}]
    solved = {"measure": "test", "least": percent}
    plan = plan_of(tmp_path, claims=claims, solved=solved, choose=None)
    records = records_of(plan)
    for record in records.values():
        record["measured"]["test"]["value"] = round(10 * percent) / 1000
    assert cells_of(plan, records)[0].solved == 6
    assert as_json(plan, records)["claims"][0]["holds"]


def test_conditions_may_have_tasks_of_their_own(tmp_path: Path) -> None:
    conditions = {
        "Queue": {"task": "copy", "model": {"memory": "queue"}},
        "Stack": {"task": "reverse", "model": {"memory": "stack"}},
    }
    grid = {"task": [{"lengths": {"train": [1, 3], "test": [4, 5]}}]}
    plan = plan_of(tmp_path, conditions=conditions, grid=grid, choose=None, published=[], claims=[])
    assert "| test, median | copy | reverse |" in markdown(plan, {})
    assert "| Queue | not run |  |" in markdown(plan, {})


def test_a_cell_with_only_failed_runs_reads_failed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    failed = {"error": "it blew up", "command": "", "seed": 1}
    records = {run.identity: {**failed, "identity": run.identity} for run in plan.runs[:1]}
    assert "| Queue | failed | not run |" in markdown(plan, records)


def test_a_file_can_ask_for_means_with_intervals(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, figure="mean", published=[])
    shown = markdown(plan, records_of(plan))
    assert "| test, mean \\[95%\\] | copy | reverse |" in shown
    assert "| Queue | 85.0 [75.0 – 95.0] | not run |" in shown
    assert "The mean of the runs with the best training perplexity" in shown


def test_text_in_several_lines_is_one_row(tmp_path: Path) -> None:
    claims = [{"claim": "It\ncopies |a|.\n", "source": "section 1", "holds": CLAIMS[:1]}]
    plan = plan_of(tmp_path, claims=claims)
    assert "| It copies \\|a\\|. | section 1 | did not hold |" in markdown(plan, records_of(plan))


def test_an_immense_perplexity_fits_a_cell(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, percent=False, choose=None, solved=None)
    records = records_of(plan)
    for record in records.values():
        record["measured"]["test"]["value"] = 1.5e300
    assert "80.00 → 2e+300" in markdown(plan, records)


def test_every_run_is_a_line_of_the_csv(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    rows = list(csv.DictReader(as_csv(plan, records_of(plan)).splitlines()))
    assert len(rows) == 12
    first = rows[0]
    assert (first["condition"], first["task"], first["learning_rate"]) == ("Queue", "copy", "0.1")
    assert float(first["test"]) == pytest.approx(0.8)
    assert first["command"].startswith("stacktrans train --task copy ")


def test_unknown_values_are_empty_cells_in_csv(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    records = records_of(plan)
    for record in records.values():
        record["perplexity"] = None
    rows = list(csv.DictReader(as_csv(plan, records).splitlines()))
    assert {row["perplexity"] for row in rows} == {""}
    assert {row["parameters"] for row in rows} == {"7"}


def test_numbers_are_json(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    again = json.loads(json.dumps(as_json(plan, records_of(plan)), allow_nan=False))
    assert again["cells"][0]["published"] == [
        {"source": "table 1", "figure": 0.8, "difference": "over"}
    ]


def test_the_bootstrap_interval_is_around_the_mean_and_the_same_again() -> None:
    values = [0.1, 0.4, 0.5, 0.9]
    low, high = bootstrap_interval(values) or (1, 0)
    assert 0.1 < low < 0.475 < high < 0.9
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)
    assert bootstrap_interval([0.5, 0.5]) is None


def test_texts_of_a_file_are_neither_markup_nor_formulas(tmp_path: Path) -> None:
    odd = "<b>[x](y)`*"
    plan = plan_of(
        tmp_path,
        title=f"=1+1 {odd}",
        description=f"# {odd}",
        conditions={odd: {"model": {"memory": "queue"}}, "=A1": {"model": {"memory": "stack"}}},
        grid={"task": ["copy"], "learning_rate": [0.1]},
        choose=None,
        published=[],
        claims=[
            {
                "claim": odd,
                "source": "=A2",
                "holds": [{"condition": odd, "task": "copy", "most": 9}],
            }
        ],
    )
    records: dict[str, RunRecord] = {
        run.identity: {"identity": run.identity, "command": "@x", "error": error, "seed": 1}
        for run, error in zip(plan.runs, (odd, "-0.5"), strict=True)
    }
    page = markdown(plan, records)
    escaped = r"&lt;b>\[x\](y)\`\*"
    assert page.startswith(f"# =1+1 {escaped}\n")
    assert f"\n\\# {escaped}\n" in page
    assert f"| {escaped} | =A2 |" in page
    assert f": {escaped}\n" in page
    assert page.count("<b>") == 0
    rows = list(csv.DictReader(as_csv(plan, records).splitlines()))
    assert [row["condition"] for row in rows] == [odd, "'=A1"]
    assert [row["error"] for row in rows] == [odd, "'-0.5"]
    assert {row["command"] for row in rows} == {"'@x"}
    assert {row["learning_rate"] for row in rows} == {"0.1"}


def test_numbers_that_the_program_wrote_stay_numbers_in_csv() -> None:
    assert [as_cell(value) for value in (-0.5, "", "x=1", "=1", "\t=1")] == [
        -0.5,
        "",
        "x=1",
        "'=1",
        r"\t=1",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"identity": ["x"]},
        {"seconds": "long"},
        {"measured": {"test": {"value": None}}},
        {"measured": {"test": {"value": 1, "coarse": {"x": 1}}}},
        {"accuracy": 3},
        {"version": 1},
        {"error": 3},
    ],
)
def test_malformed_records_are_rejected(tmp_path: Path, change: dict[str, Any]) -> None:
    plan = plan_of(tmp_path)
    record = next(iter(records_of(plan).values()))
    whole = {"attempts": 1, "parameters": 1, "outcome": "solved", "accuracy": {}, "seed": 1}
    whole |= {"version": "1", "torch": "2", "command": "train", **record}
    assert parse_record(json.dumps(whole)) == whole
    assert parse_record(json.dumps({**whole, **change})) is None
