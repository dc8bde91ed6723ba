"""What came of verifying a model, as a table and as JSON."""

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType

from stacktrans.common.errors import clipped
from stacktrans.common.visible import shell_text, visible
from stacktrans.inference.predictions import Prediction
from stacktrans.inference.verification import Verification
from stacktrans.machines.definition import Machine
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.description import model_line
from stacktrans.showing.proofs import proof_json, proof_lines
from stacktrans.showing.tables import Column, Table, heading, remark
from stacktrans.tasks.base import with_marks

LONGEST_SHOWN = 500
"""Symbols of a counterexample that are shown."""


def verification_view(found: Verification, checkpoint: Checkpoint, name: str) -> RenderableType:
    """What a model was tried on, and the shortest string that it answers wrongly."""
    table = Table(Column("strings", left=True), "lengths", "tried", "wrong")
    for stage in found.stages:
        table.add_row(stage.strings, stage.lengths or "", stage.count, stage.wrong)
    if wrong := found.counterexample:
        return Group(
            heading(model_line(checkpoint.config)), table, *_shown(wrong, checkpoint, name)
        )
    said = [f"right on all {found.count:,} strings, which proves nothing of others"]
    if found.proof and checkpoint.machine:
        said = proof_lines(found.proof, checkpoint.machine, found.count)
    return Group(heading(model_line(checkpoint.config)), table, *map(remark, said))


def _shown(wrong: Prediction, checkpoint: Checkpoint, name: str) -> list[RenderableType]:
    """A counterexample, and the command that shows the model at it."""
    length, task = len(wrong.pair.source), checkpoint.task
    target = task.target.decode(wrong.pair.target)
    if wrong.pair.scored is not None:
        target = with_marks(target, wrong.pair.scored)
    words = [
        f"answered wrongly, at symbol {wrong.first_wrong}: a string of {length} symbols",
        f"source  {_clipped(wrong.source)}",
        f"target  {_clipped(task.target.join(target))}",
        f"answer  {_clipped(wrong.answer)}",
    ]
    if length <= LONGEST_SHOWN:
        hard = ["--hard"] if checkpoint.hard else []
        command = ["stacktrans", "inspect", name, *hard, "--", wrong.source]
        words.append(f"look: {shell_text(command)}")
    return [remark(each) for each in words]


def _clipped(text: str) -> str:
    return visible(clipped(text, LONGEST_SHOWN))


def verification_json(found: Verification, machine: Machine | None) -> dict[str, Any]:
    """The same for `verify --json`; with the machine, if it is one."""
    wrong = found.counterexample
    return {
        "right": found.right,
        "stages": [asdict(stage) for stage in found.stages],
        "counterexample": wrong
        and {
            "source": wrong.source,
            "target": wrong.target,
            "answer": wrong.answer,
            "first_wrong": wrong.first_wrong,
        },
        "proof": found.proof and machine and proof_json(found.proof, machine),
    }
