"""The command `extract`: learn a machine from a rounded model, and compare the two."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stacktrans.commands import options
from stacktrans.commands.terminal import print_json, print_out
from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.files import (
    check_directory_path,
    check_file_path,
    check_outputs,
    write_atomically,
)
from stacktrans.common.messages import print_message

MAX_UNDECIDED = 0.05
"""The greatest share of signals far from 0 and 1 that is not reported."""
PANELS = {
    "Extraction": "time_limit workers plugin",
    "Agreement": "strings lengths",
    "Output": "out dot svg python fst as_json",
}

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stacktrans.automata.machine import Machine
    from stacktrans.extraction.learner import Extraction
    from stacktrans.tasks.base import Task


def extract(
    checkpoint: options.CheckpointName,
    out: options.Directory = None,
    dot: options.File = None,
    svg: options.File = None,
    python: options.File = None,
    fst: options.File = None,
    strings: int | None = None,
    lengths: options.LengthRange = None,
    time_limit: Annotated[str, typer.Option(metavar="TIME")] = "60s",
    workers: options.Workers = 1,
    as_json: options.Json = False,
) -> None:
    """Extract the machine of a model whose signals are rounded to 0 or 1.

    Its rules are learned from the steps of the model on strings of its task: what it
    pops, pushes and writes, and which state comes next, by the state, the input, and
    what is at the ends of its memories. Equivalent symbols share a rule. Then the
    answers of model and machine are compared on strings that were not used for learning
    (for pairs in files, on a sample of all pairs). How often they agree is printed, and
    the shortest string found on which they differ.

    A machine that is saved is a checkpoint: transduce, eval, inspect and verify take it,
    and extract prints its rules, or only writes the files of --dot, --svg, --python and
    --fst. The exit code is 1 if no machine is found, or no transducer for --fst; a
    message says why.

        stacktrans extract parenthesis-stack
        stacktrans extract xor-buffered --out xor-machine
        stacktrans extract parenthesis-stack --svg rules.svg --dot rules.dot
        stacktrans extract xor-buffered --python xor.py --fst xor.fst
        stacktrans extract anbncn --strings 1000 --lengths 1:1000

    Args:
        out: Save the machine as a checkpoint in a new directory.
        dot: Write the machine as a graph in DOT.
        svg: Draw the machine to an .svg file.
        python: Write the machine as a Python program that needs no package, and answers lines of
            standard input as transduce --all does.
        fst: Write the machine as a finite-state transducer in the text format of OpenFst, with the
            tables of its symbols in FILE.isyms and FILE.osyms, if a finite memory is enough for it.
        strings: Also compare the answers of model and machine to N random strings.
        lengths: The lengths of these strings. Default: 1:1000.
        time_limit: Stop learning rules after this time, such as 30s or 5m.
    """
    from stacktrans.automata.machine_file import machine_json
    from stacktrans.extraction.learner import Learner, check_lengths, compare
    from stacktrans.model.checkpoint_files import save_machine
    from stacktrans.showing import machines

    files = dot, svg, python, fst
    if svg:
        check_file_path(svg, ".svg")
    if out:
        if out.exists():
            raise UsageError(f"{out}: exists already; expected a new directory")
        check_directory_path(out)
    check_positive(**{"--strings": strings})
    if lengths and not strings:
        raise UsageError("--lengths needs --strings")
    range_ = options.parse_lengths(lengths or "1:1000")
    seconds = options.parse_seconds(time_limit, "--time-limit")
    loaded = options.load_model(checkpoint, "auto", hard=True, workers=workers)
    outputs = [*filter(None, files[:3]), *(_fst_files(fst) if fst else ())]
    check_outputs(outputs, options.files_read(None, [loaded]))
    if loaded.machine and not (out or strings):
        try:
            _export(loaded.machine, *files)
        finally:
            if as_json:
                print_json({"machine": json.loads(machine_json(loaded.machine))})
            elif not any(files):
                print_out(*_rules(loaded.machine))
        return
    if strings:
        check_lengths(loaded, range_)
    log = (lambda _: None) if as_json else print_message
    extraction = Learner(loaded, seconds, log).learn()
    if strings:
        extraction = compare(loaded, extraction, strings, range_)
    try:
        if out:
            card = machines.card(extraction, checkpoint)
            save_machine(out, loaded.config, extraction.machine, card)
            print_message(f"saved in {out}")
        _export(extraction.machine, *files)
        if extraction.seconds > seconds:
            print_message(
                "--time-limit: with more time, the machine may agree on more strings, with fewer "
                "rules"
            )
    finally:  # what was learned is printed even if it can't be written
        if as_json:
            machine = json.loads(machine_json(extraction.machine))
            print_json({**_facts(extraction), "machine": machine})
        else:
            _print(extraction, loaded.task)


def _export(
    machine: "Machine", dot: Path | None, svg: Path | None, python: Path | None, fst: Path | None
) -> None:
    """Write a machine to the files that are given; raises `NotFinite` last."""
    from stacktrans.automata.fst import to_fst
    from stacktrans.showing import machine_graph

    if dot:
        _save(dot, machine.to_dot())
    if svg:
        _save(svg, machine_graph.svg(machine))
    if python:
        _save(python, machine.to_python())
    if fst:
        for path, text in zip(_fst_files(fst), to_fst(machine), strict=True):
            _save(path, text)


def _fst_files(fst: Path) -> list[Path]:
    """The files of a transducer: its transitions, and the tables of its symbols."""
    return [Path(f"{fst}{suffix}") for suffix in ("", ".isyms", ".osyms")]


def _save(path: Path, text: str) -> None:
    write_atomically(path, text)
    print_message(f"saved in {path}")


def _facts(extraction: "Extraction") -> dict[str, Any]:
    return {
        "states": extraction.machine.states.size,
        "stack_symbols": [table.size - 1 for table in extraction.machine.stack_symbols],
        "rules": len(extraction.machine.rules),
        "agreement": [each._asdict() for each in extraction.agreement],
        "differing": extraction.counterexample,
        "learned_from": extraction.observed,
        "rounds": extraction.rounds,
        "undecided": extraction.undecided,
        "seconds": extraction.seconds,
    }


def _rules(machine: "Machine") -> list["RenderableType"]:
    from stacktrans.model.description import machine_line
    from stacktrans.showing.machines import rules_table

    return [machine_line(machine), rules_table(machine)]


def _print(extraction: "Extraction", task: "Task") -> None:
    from stacktrans.showing.machines import agreement_table

    print_out(*_rules(extraction.machine), agreement_table(extraction))
    if extraction.undecided > MAX_UNDECIDED:
        print_message(
            f"{extraction.undecided:.0%} of the model's signals are far from 0 and 1: without "
            "rounding, its answers may differ"
        )
    if extraction.counterexample is not None:
        print_out(
            "the shortest string found at which model and machine differ: "
            + (extraction.counterexample or "the empty string")
            + _who_is_right(extraction.machine, task, extraction.counterexample)
        )


def _who_is_right(machine: "Machine", task: "Task", counterexample: str) -> str:
    """Whether the machine gives the task's answer to a string; nothing if that is not known."""
    source = task.source.split(counterexample)
    pair = None if machine.layout.consecutive else task.exact_pair(source)
    if pair is None or pair.scored is not None:
        return ""
    right = machine.run(pair.source.tolist()).target == pair.target.tolist()
    return f" (the machine is {'right' if right else 'wrong'})"
