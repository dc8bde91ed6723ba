"""What came of verifying a model, and its proof: as tables, in sentences and as JSON."""

from collections.abc import Hashable
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import SymbolTable
from stacktrans.automata.words import entry_name
from stacktrans.common.errors import clipped
from stacktrans.common.visible import counted, listed, shell_text
from stacktrans.inference.scores import Prediction
from stacktrans.inference.verification import Verification
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.description import model_line
from stacktrans.proofs.induction import Counted
from stacktrans.proofs.proof import ALONG, ANYTHING, FEW, KEPT, TURNED, UNREAD, Result
from stacktrans.showing.scores import prediction_json
from stacktrans.showing.tables import Column, Table, heading, remark
from stacktrans.tasks.base import mask_unscored

LONGEST_SHOWN = 500
"""Symbols of a counterexample that are shown."""

MOST_SHOWN = 6
"""How many things are listed."""
_RIGHT = "proved: right on all strings of the task, whatever their length"
_ASSUMED = {
    UNREAD: "nothing is read from it",
    FEW: "it holds few cells, and all of them are followed",
    KEPT: "nothing is popped from it, so that only its ends count",
    ANYTHING: "what it holds does not matter",
}
Cells = tuple[tuple[str, ...], tuple[str, ...]]
"""What the task's own memory has, and a memory of the machine instead."""


def verification_view(found: Verification, checkpoint: Checkpoint, name: str) -> RenderableType:
    """What a model was tried on, and the shortest string that it answers wrongly."""
    proof, machine = found.proof, checkpoint.machine
    table = Table(Column("strings", left=True), "lengths", "tried", "wrong")
    for stage in found.stages:
        table.add_row(stage.strings, stage.lengths or "", stage.count, stage.wrong)
    if wrong := found.counterexample:
        said = _shown(wrong, checkpoint, name)
    elif proof and proof.proved and machine:
        said = proof_lines(proof, machine)
    else:
        said = [f"right on all {found.count:,} strings, which proves nothing of others"]
        if proof and machine:
            said.append(_why(proof, machine))
    return Group(heading(model_line(checkpoint.config)), table, *map(remark, said))


def _shown(wrong: Prediction, checkpoint: Checkpoint, name: str) -> list[str]:
    """A counterexample, and the command that shows the model at it."""
    length, task = len(wrong.pair.source), checkpoint.task
    target = task.target.decode(wrong.pair.target)
    if wrong.pair.scored is not None:
        target = mask_unscored(target, wrong.pair.scored)
    words = [
        f"answered wrongly, at symbol {wrong.first_wrong}: a string of {length} symbols",
        f"source  {clipped(wrong.source, LONGEST_SHOWN)}",
        f"target  {clipped(task.target.join(target), LONGEST_SHOWN)}",
        f"answer  {clipped(wrong.answer, LONGEST_SHOWN)}",
    ]
    if length <= LONGEST_SHOWN:
        hard = ["--hard"] if checkpoint.hard else []
        command = ["stacktrans", "inspect", name, *hard, "--", wrong.source]
        words.append(f"look: {shell_text(command)}")
    return words


def verification_json(found: Verification, machine: Machine | None) -> dict[str, Any]:
    """The same for `verify --json`; with the machine, if it is one."""
    wrong = found.counterexample
    return {
        "right": found.right,
        "stages": [asdict(stage) for stage in found.stages],
        "counterexample": wrong and prediction_json(wrong),
        "proof": found.proof and machine and proof_json(found.proof, machine),
    }


def proof_lines(proof: Result, machine: Machine) -> list[str]:
    """A proof in sentences."""
    if proof.counted:
        return [_RIGHT, *_induction(proof.counted)]
    assert proof.explored is not None
    cells = _cells(proof, machine)
    pairs = {pair for own in cells.values() for pair in own}
    memory = proof.reference and proof.reference.memory
    own = f", which has a {memory}" if memory else ", which has no memory"
    counts = [
        counted(len(proof.explored.states), "pair of states", "pairs of states"),
        *(
            [counted(len(pairs), "pair of stack symbols", "pairs of stack symbols")]
            if pairs
            else []
        ),
        counted(proof.explored.situations, "situation"),
    ]
    memories = zip(machine.memories.names, proof.assumed, strict=True)
    lines = [
        _RIGHT,
        f"bisimulation with the task's own machine{own}: {', '.join(counts)}",
        *(f"{name}: {_memory(assumed, cells.get(name, []))}" for name, assumed in memories),
        *(f"{name}: where the task's is {_some(own)}" for name, own in _states(proof, machine)),
    ]
    alike = [len(each) for each in proof.classes if len(each) > 2]
    if alike:
        lines.append(f"two symbols stand for {' and for '.join(map(str, alike))} treated alike")
    return lines


def _why(proof: Result, machine: Machine) -> str:
    """Why there is no proof."""
    symbols = [machine.source[each] for each in proof.row or ()]
    written = (" " if machine.words[0] else "").join(symbols)
    place = f", in {written}" if written else ""
    return f"{'wrong' if proof.row else 'no proof'}: {proof.reason}{place}"


def _induction(found: Counted) -> list[str]:
    parts = [
        counted(found.cases, "case"),
        counted(found.steps, "step"),
        counted(found.repeated, "cycle that is repeated", "cycles that are repeated"),
    ]
    rests = counted(found.starts - 1, "rest", "different rests")
    others = f", or with {rests} of those before" if found.starts > 1 else ""
    return [
        f"induction over the counts: {', '.join(parts)}",
        f"any number of sequences in a row: each begins with empty memories{others}",
    ]


def _memory(assumed: str, cells: list[Cells]) -> str:
    """What holds of a memory, from what is assumed of it and its cells."""
    if assumed in _ASSUMED:
        return _ASSUMED[assumed]
    pairs = [
        f"{' '.join(stack_symbols) or 'nothing'} for {' '.join(own) or 'nothing'}"
        for own, stack_symbols in cells
    ]
    return f"goes with the task's own, cell by cell: {_some(pairs)}"


def _some(parts: list[str]) -> str:
    """Some things in a row, as far as they are not too many."""
    more = [f"{len(parts) - MOST_SHOWN} more"] if len(parts) > MOST_SHOWN else []
    return listed([*parts[:MOST_SHOWN], *more])


def _cells(proof: Result, machine: Machine) -> dict[str, list[Cells]]:
    """What each memory that goes with the task's own has for what that has, each once."""
    assert proof.explored is not None
    assert proof.reference is not None
    reference = proof.reference
    along = [number for number, each in enumerate(proof.assumed) if each in (ALONG, TURNED)]
    found: dict[int, dict[Cells, None]] = {number: {} for number in along}
    many = {each for own in proof.classes if len(own) > 2 for each in own}
    for block in sorted(proof.explored.blocks, key=repr):
        own = tuple(
            "a symbol" if cell in many else reference.shown(cell, machine.source)
            for cell in block[0]
        )
        for number in along:
            part, table = block[number + 1], machine.stack_symbols[number]
            stack_symbols = tuple(
                _stack_symbol(machine, table, int(str(each)), many) for each in part
            )
            if own or stack_symbols:
                found[number][own, stack_symbols] = None
    return {machine.memories.names[number]: [*cells] for number, cells in found.items()}


def _stack_symbol(machine: Machine, table: SymbolTable, number: int, many: set[int]) -> str:
    """A stack symbol; one of several equivalent symbols by the name of its series."""
    family, symbol = table.entries[number]
    equivalent = {machine.source[each] for each in many}
    if symbol is not None and machine.symbols[symbol] in equivalent:
        return f"a {table.families[family].name}"
    return entry_name(machine, table, number)


def _states(proof: Result, machine: Machine) -> list[tuple[str, list[str]]]:
    """The states of the task's own machine that go with each state."""
    assert proof.explored is not None
    found: dict[str, list[str]] = {}
    for own, state in sorted(proof.explored.states, key=lambda pair: (pair[1], str(pair[0]))):
        found.setdefault(entry_name(machine, machine.states, state), []).append(
            _state(own, machine)
        )
    return [*found.items()]


def _state(own: Hashable, machine: Machine) -> str:
    return f"after {machine.source[own]}" if isinstance(own, int) else str(own)


def proof_json(proof: Result, machine: Machine) -> dict[str, Any]:
    """The same for `--json`."""
    held: dict[str, Any] = {"proved": proof.proved, "reason": proof.reason}
    if proof.row:
        held["row"] = [machine.source[each] for each in proof.row]
    if proof.counted:
        return {**held, "induction": asdict(proof.counted)}
    if not proof.proved or proof.explored is None:
        return held
    cells = _cells(proof, machine)
    return {
        **held,
        "situations": proof.explored.situations,
        "states": dict(_states(proof, machine)),
        "memories": {
            name: {"is": assumed, "cells": cells.get(name, [])}
            for name, assumed in zip(machine.memories.names, proof.assumed, strict=True)
        },
        "alike": [[machine.source[each] for each in own] for own in proof.classes if own[1:]],
    }
