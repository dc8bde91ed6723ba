"""A planned sweep, and records of its runs as if it was carried out."""

from pathlib import Path
from typing import Any

import yaml

from stacktrans.sweeps.plan import Plan, read_plan
from stacktrans.sweeps.records import RunRecord

CLAIMS = [
    {"condition": "Queue", "task": "copy", "least": 90},
    {"condition": "Queue", "task": "copy", "most": 90},
    {"condition": "Queue", "task": "copy", "above": "Stack"},
    {"condition": "Stack", "task": "copy", "above": "Queue"},
    {"condition": "Queue", "task": "reverse", "least": 0},
]


def plan_of(directory: Path, **changes: Any) -> Plan:
    content = {
        "title": "Copying",
        "grid": {"task": ["copy", "reverse"], "learning_rate": [0.1, 0.01], "seed": [1, 2, 3]},
        "conditions": {
            "Queue": {"model": {"memory": "queue"}},
            "Stack": {"model": {"memory": "stack"}},
        },
        "measures": {"test": {"of": "coarse", "strings": "test"}},
        "percent": True,
        "tolerance": 3,
        "solved": {"measure": "test", "least": 90},
        "choose": {"by": "training perplexity", "among": ["learning_rate"]},
        "published": [
            {
                "source": "table 1",
                "measure": "test",
                "values": {"Queue": {"copy": 80}, "Stack": {"copy": [10, 20, 30]}},
            }
        ],
        "claims": [
            {"claim": f"claim {number}", "source": "section 1", "holds": [part]}
            for number, part in enumerate(CLAIMS)
        ],
        **changes,
    }
    path = directory / "copying.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return read_plan(path)


def records_of(plan: Plan) -> dict[str, RunRecord]:
    """Records for copying alone: accuracy rises with the seed, and is lower for the lower rate."""
    found: dict[str, RunRecord] = {}
    measure = plan.file.measures["test"].model_dump(mode="json")
    for run in plan.runs:
        rate, seed = run.axes["learning_rate"], run.axes["seed"]
        if run.axes.get("task", "copy") != "copy":
            continue
        value = (
            (0.7 if run.condition == "Queue" else 0.1) + 0.1 * seed - (0.05 if rate < 0.1 else 0)
        )
        found[run.identity] = {
            "identity": run.identity,
            "outcome": "solved",
            "seconds": 10.0 * seed,
            "batches": 100 * seed,
            "attempts": 1,
            "parameters": 7,
            "perplexity": 2.0 if rate < 0.1 else 3.0,
            "accuracy": {"test": {"coarse": value, "fine": value}},
            "measured": {"test": {"measure": measure, "value": value}},
            "command": run.command,
            "version": "0",
            "torch": "0",
            "seed": seed,
        }
    return found
