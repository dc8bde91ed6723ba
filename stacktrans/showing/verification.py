"""Results of testing a model and of proving a machine, as tables, sentences and JSON."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import SymbolTable
from stacktrans.automata.wording import entry_name
from stacktrans.common.errors import clipped, shown
from stacktrans.common.files import MACHINE
from stacktrans.common.registry import plugin_options
from stacktrans.common.visible import counted, listed, shell_text
from stacktrans.inference.predictions import Prediction
from stacktrans.inference.verification import Verdict, Verification
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.proofs.equivalence import Equivalence, Method
from stacktrans.proofs.induction import InductionOverCounts
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.proof import Bisimulation, Counterexample, Invariant
from stacktrans.showing.scores import prediction_json
from stacktrans.showing.tables import Column, Table, heading, remark
from stacktrans.tasks.base import mask_unscored
from stacktrans.tasks.pair_alphabets import Feature

LONGEST_SHOWN = 500
"""Maximum number of symbols of a counterexample that are shown."""
MAX_SHOWN = 6
"""Maximum number of items of a list that are shown."""
_INVARIANTS = {
    Invariant.UNREAD: "no rule depends on it",
    Invariant.BOUNDED: "it holds few cells, all of which are part of the state",
    Invariant.REPLACED: "pops only replace symbols: only those at its ends matter",
    Invariant.ALIGNED: "aligned with the reference's memory",
    Invariant.REVERSED: "aligned with the reference's memory, bottom to top",
    Invariant.ARBITRARY: "nothing is assumed of its contents",
}
_METHODS: dict[Method, str] = {
    "renaming": "both do the same at every step, up to names of states, stack symbols and memories",
    "task": "both are right on all of them, as verify proves for each by itself",
    "product": "bisimulation of the two machines",
}
_WRONG_IN_STREAM = "an answer is wrong where sequences follow one another"


def verification_view(
    result: Verification,
    models: Sequence[tuple[str, Checkpoint]],
    headings: Sequence[str],
    own_task: bool = True,
) -> RenderableType:
    """The strings that a model was tried on, and the counterexample, or the proof of a machine.

    Args:
        result: of the verification.
        models: the name and the checkpoint of the model, and of the one that it was compared with.
        headings: the lines above.
        own_task: whether answers are those that the model's own task requires.
    """
    (_, checkpoint), *others = models
    wrong = "different" if others else "wrong"
    until = "two answers differed" if others else "an answer was wrong"
    rows = [
        (
            stage.strings if stage.finished else f"{stage.strings}, until {until}",
            stage.lengths or "",
            stage.count,
            stage.wrong,
        )
        for stage in result.stages
        if stage.count
    ]
    table = Table(Column("strings", left=True), "lengths", "tried", wrong, rows=rows)
    machine = checkpoint.machine
    proof = verdict_json(result.verdict, machine) if result.verdict and machine else {}
    if result.counterexample:
        remarks = _counterexample(result, models, own_task)
    elif proof.get("proved"):
        remarks = [*map(remark, _proof_lines(proof))]
    else:
        what = "the same answers to" if others else "right on"
        lines = [f"{what} all {result.count:,} strings, which proves nothing about other strings"]
        if "stream" in proof and machine:
            stream = (" " if machine.words[0] else "").join(proof["stream"])
            lines.append(f"wrong: {proof['reason']}, in {stream}")
        elif proof:
            lines.append(f"no proof: {proof['reason']}")
        remarks = [*map(remark, lines)]
    return Group(*map(heading, headings), table, *remarks)


def _counterexample(
    result: Verification, models: Sequence[tuple[str, Checkpoint]], own_task: bool
) -> list[Text]:
    """A counterexample, and the commands that show models at it."""
    wrong, task = result.counterexample, models[0][1].task
    assert wrong
    symbols = task.source.decode(wrong.pair.source)
    length = sum(not isinstance(symbol, Feature) for symbol in symbols)
    size, rows = counted(length, "symbol"), [("source", wrong.source)]
    if result.other:
        known = "and no shorter one" if result.shortest else "the shortest that is known"
        title = f"different answers to a string of {size}, {known}"
        answers = map(_shown_answer, (wrong, result.other))
        rows += ((name, answer) for (name, _), answer in zip(models, answers, strict=True))
    else:
        target = task.target.decode(wrong.pair.target)
        if wrong.pair.scored is not None:
            target = mask_unscored(target, wrong.pair.scored)
        title = f"answered wrongly, at symbol {wrong.first_wrong}: a string of {size}"
        rows += [("target", task.target.join(target)), ("answer", _shown_answer(wrong))]
    width = max(len(label) for label, _ in rows)
    lines = [title, *(f"{label:{width}}  {clipped(text, LONGEST_SHOWN)}" for label, text in rows)]
    remarks = [*map(remark, lines)]
    # With another task, inspect would compare the answer with the wrong target.
    for name, model in models if own_task and length <= LONGEST_SHOWN else ():
        if model.machine and not (model.path / MACHINE).exists():
            continue  # it was extracted in this process, and there is the network
        hard = ["--hard"] if model.hard else []
        command = ["stacktrans", "inspect", name, *hard, *plugin_options(), "--", wrong.source]
        remarks.append(remark("to see its steps:", shell_text(command)))
    return remarks


def _shown_answer(answer: Prediction) -> str:
    if answer.ended is None:
        return "(no answer)"
    return answer.answer if answer.ended else f"{answer.answer} (cut off)"


def verification_json(result: Verification, machine: Machine | None) -> dict[str, Any]:
    """The results for `verify --json`; with the machine, if the model is one."""
    wrong = result.counterexample
    return {
        "right": result.right,
        "stages": [asdict(stage) for stage in result.stages],
        "counterexample": wrong and prediction_json(wrong),
        "proof": result.verdict and machine and verdict_json(result.verdict, machine),
        "other_answer": result.other and result.other.answer,
        "shortest": result.shortest,
    }


def verdict_json(verdict: Verdict, machine: Machine) -> dict[str, Any]:
    """A proof, or why there is none."""
    match verdict:
        case Unproved():
            return {"proved": False, "reason": str(verdict)}
        case Counterexample(source):
            stream = [machine.source[symbol] for symbol in source]
            return {"proved": False, "reason": _WRONG_IN_STREAM, "stream": stream}
        case InductionOverCounts():
            return {"proved": True, "reason": None, "induction": asdict(verdict)}
        case Equivalence():
            return {"proved": True, "reason": None, "equivalence": asdict(verdict)}
    memories = zip(machine.memories.names, verdict.invariants, strict=True)
    return {
        "proved": True,
        "reason": None,
        "reference_memory": verdict.reference.memory,
        "state_pairs": len(verdict.relation),
        "situations": verdict.situations,
        "states": _states(verdict, machine),
        "memories": {
            name: {"invariant": invariant, "cells": _cells(verdict, machine, number)}
            for number, (name, invariant) in enumerate(memories)
        },
        "symbol_classes": [
            [machine.source[symbol] for symbol in symbols]
            for symbols in verdict.symbol_classes
            if symbols[1:]
        ],
    }


def _proof_lines(proof: Mapping[str, Any]) -> list[str]:
    """A proof, as `verdict_json` has it, in sentences."""
    if "equivalence" in proof:
        return _equivalence_lines(**proof["equivalence"])
    lines = ["proved: right on all strings of the task, whatever their length"]
    if "induction" in proof:
        return [*lines, *_induction_lines(**proof["induction"])]
    memory, memories = proof["reference_memory"], proof["memories"]
    count = sum(len(entry["cells"]) for entry in memories.values())
    sizes = [
        counted(proof["state_pairs"], "pair of states", "pairs of states"),
        *([counted(count, "pair of stack symbols", "pairs of stack symbols")] if count else []),
        counted(proof["situations"], "situation"),
    ]
    has = f"a {memory}" if memory else "no memory"
    lines.append(f"bisimulation with the reference automaton, which has {has}: {', '.join(sizes)}")
    for name, entry in memories.items():
        pairs = [
            " for ".join(" ".join(map(_quoted, names)) or "nothing" for names in (symbols, cell))
            for cell, symbols in entry["cells"]
        ]
        cells = f": {_some(pairs)}" if pairs else ""
        lines.append(f"{name}: {_INVARIANTS[entry['invariant']]}{cells}")
    for state, others in proof["states"].items():
        states = "the states" if others[1:] else "the state"
        lines.append(f"{state}: related to {states} {_some(others)} of the reference automaton")
    sizes = [str(len(symbols)) for symbols in proof["symbol_classes"] if len(symbols) > 2]
    if sizes:
        lines.append(f"two symbols represent {' and '.join(sizes)} equivalent ones")
    return lines


def _quoted(cell: str) -> str:
    """The name of a cell, in quotes if it could be taken for punctuation."""
    parts = cell.split(" over ")
    return " over ".join(part if re.fullmatch(r"[\w ]+", part) else shown(part) for part in parts)


def _equivalence_lines(method: Method, situations: int, memories: dict[str, str]) -> list[str]:
    strings = "strings of the task" if method == "task" else "strings"
    size = f": {counted(situations, 'situation')}" if situations else ""
    parallel = "used in parallel with another one"
    invariants = {**_INVARIANTS, Invariant.ALIGNED: parallel, Invariant.REVERSED: parallel}
    return [
        f"proved: the same answers to all {strings}, whatever their length",
        f"{_METHODS[method]}{size}",
        *(f"{name}: {invariants[Invariant(of)]}" for name, of in memories.items()),
    ]


def _induction_lines(cases: int, steps: int, cycles: int, initial_contents: int) -> list[str]:
    parts = [
        counted(cases, "case"),
        counted(steps, "step"),
        counted(cycles, "cycle that is repeated", "cycles that are repeated"),
    ]
    left = counted(initial_contents - 1, "content", "different contents")
    others = f", or with {left} left by the previous ones" if initial_contents > 1 else ""
    return [
        f"induction over the counts: {', '.join(parts)}",
        f"any number of sequences in a row: each begins with empty memories{others}",
    ]


def _some(items: list[str]) -> str:
    """The first items of a list, and how many more there are."""
    more = [f"{len(items) - MAX_SHOWN} more"] if len(items) > MAX_SHOWN else []
    return listed([*items[:MAX_SHOWN], *more])


def _cells(proof: Bisimulation, machine: Machine, number: int) -> list[tuple[list[str], list[str]]]:
    """The cells that the reference pushes in a step, and those that an aligned memory pushes."""
    if proof.invariants[number] not in (Invariant.ALIGNED, Invariant.REVERSED):
        return []
    equivalent, pairs = _equivalent(proof), []
    for block in sorted(proof.blocks, key=repr):
        cells = [
            "a symbol" if cell in equivalent else proof.reference.cell_name(cell, machine.target)
            for cell in block[0]
        ]
        table = machine.stack_symbols[number]
        symbols = [
            _name(machine, table, int(str(symbol)), equivalent) for symbol in block[number + 1]
        ]
        if (cells or symbols) and (cells, symbols) not in pairs:
            pairs.append((cells, symbols))
    return pairs


def _equivalent(proof: Bisimulation) -> set[int]:
    """The symbols of sources that two of them represent."""
    return {each for symbols in proof.symbol_classes if len(symbols) > 2 for each in symbols}


def _name(machine: Machine, table: SymbolTable, number: int, equivalent: set[int]) -> str:
    """A stack symbol or state; one of several equivalent symbols by the name of its family."""
    family, symbol = table.entries[number]
    names = {machine.source[each] for each in equivalent}
    if symbol is not None and machine.symbols[symbol] in names:
        name = table.families[family].name
        return name if table is machine.states else f"a {name}"
    return entry_name(machine, table, number)


def _states(proof: Bisimulation, machine: Machine) -> dict[str, list[str]]:
    """The states of the reference that are related to each state of the machine."""
    equivalent, states = _equivalent(proof), dict[str, dict[str, None]]()
    for reference, state in sorted(proof.relation, key=lambda pair: (pair[1], str(pair[0]))):
        name = _name(machine, machine.states, state, equivalent)
        states.setdefault(name, {})[_reference_state(reference, machine, equivalent)] = None
    return {name: [*references] for name, references in states.items()}


def _reference_state(state: Hashable, machine: Machine, equivalent: set[int]) -> str:
    if not isinstance(state, int):
        return str(state)
    return f"after {'a symbol' if state in equivalent else machine.source[state]}"
