"""The command `eval`: measure accuracy, or perplexity, of models and their ablations."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stacktrans.commands import completion, options
from stacktrans.commands.terminal import print_data, print_json, print_out, print_text
from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.files import check_outputs
from stacktrans.common.messages import print_message
from stacktrans.common.visible import listed

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stacktrans.model.checkpoint import Checkpoint
    from stacktrans.showing.scores import Results
    from stacktrans.showing.tables import Table

STDOUT = Path("-")
"""The file name of standard output."""
PANELS = {
    "Strings": "lengths count each depth data text seed",
    "Models": "without ensemble hard device workers plugin",
    "Answers": "beam n_best errors confusions",
    "Output": "predictions plot as_json as_csv as_latex",
}
Measured = Sequence[tuple[str, "Checkpoint", "Results"]]
"""Checkpoints with their names and scores."""


def eval(
    checkpoints: Annotated[
        list[str], typer.Argument(metavar="CHECKPOINT", autocompletion=completion.checkpoints)
    ],
    lengths: Annotated[list[str] | None, typer.Option(metavar="A:B")] = None,
    count: int | None = None,
    each: bool = False,
    depth: options.Depth = None,
    data: options.File = None,
    predictions: options.File = None,
    errors: int | None = None,
    confusions: bool = False,
    beam: options.Beam = None,
    n_best: int | None = None,
    without: Annotated[list[str] | None, typer.Option(metavar="PART")] = None,
    ensemble: bool = False,
    text: options.File = None,
    seed: options.Seed = 1,
    plot: options.File = None,
    hard: options.Hard = False,
    device: options.Device = "auto",
    workers: options.Workers = 1,
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv")] = False,
    as_latex: Annotated[bool, typer.Option("--latex")] = False,
) -> None:
    """Measure coarse, fine and symbol accuracy, or the perplexity of a text.

    Coarse accuracy is the share of strings that are right from first to last
    symbol, fine accuracy the mean share of a string before its first error,
    both with 95% intervals; symbol accuracy is the share of all scored symbols
    that are predicted right under teacher forcing, given the true symbols before
    them. With --hard, the column "hard ≠ soft" is the share of them whose prediction
    --hard changes. For a language model, the perplexity of the validation and test
    texts, or of --text, is measured instead.

    With --data, --predictions, --errors, --confusions, --beam or --n-best, or next to
    the baselines below, the model also answers each source freely, reading its own
    outputs, as in transduce, which takes longer for wrong answers. The error rate is
    then the symbol error rate: the fewest insertions, deletions and substitutions that
    turn the targets into the answers, divided by the number of target symbols. Pairs
    with symbols that the model does not know count as wrong; their number is reported
    on stderr and is "unknown" in --json.
    With --beam, coarse and fine accuracy are those of the answers, too. With
    --n-best N, oracle accuracy is the share of strings whose target is among the
    N most probable answers.
    For a model of pairs in files, further rows are baselines: what a copy of the source,
    the target of the nearest training source, and the most frequent training target
    would score. They are shown if the files still exist and have at most 10 MB.

    Several checkpoints are shown in one table; --json is then a list. Checkpoints of one
    task are measured on the same strings if --lengths or --data is given; otherwise each
    is measured on strings of its own lengths. The table also has the ablations of a model
    by --without, which show what it uses its memory for. With --ensemble, checkpoints are
    measured as one model.

        stacktrans eval checkpoints/copy-queue
        stacktrans eval checkpoints/reverse-stack --lengths 8:64 --lengths 200
        stacktrans eval checkpoints/copy-queue --data test.tsv --json
        stacktrans eval copy-queue --data a.tsv --predictions b.tsv --errors 20
        stacktrans eval copy-queue copy-deque --lengths 65:128 --latex
        stacktrans eval runs/a runs/b runs/c --ensemble
        stacktrans eval copy-queue --lengths 300 --count 20 --n-best 5
        stacktrans eval reverse-stack --without memory --without pops
        stacktrans generate --task copy | stacktrans eval copy-queue --data -
        stacktrans eval checkpoints/parenthesis-stack --depth 24
        stacktrans eval checkpoints/anbncn --lengths 2:60 --each --plot anbncn.svg
        stacktrans eval checkpoints/text-stack-rnn-1 --text more.txt

    Args:
        checkpoints: Directories of checkpoints or runs, or names from stacktrans list checkpoints.
        lengths: Lengths of sources; may be repeated. Default: the training and test lengths of the
            task.
        count: Number of strings: per range (default: 1000, or all of --data), or per length with
            --each (default: 100).
        each: Draw --count strings of each possible length.
        data: Pairs in a file as generate writes it, TSV or JSON lines; - for stdin.
        predictions: Write the source, the target, the answer, right or wrong, and the log
            probability of the answer to each line of a file: JSON lines if its name ends in .jsonl,
            TSV otherwise, compressed if it ends in .gz; - for stdout, which moves the tables to
            stderr.
        errors: Show up to N wrong answers, grouped by their edits, the most frequent group first.
        confusions: Count the edits that turn targets into wrong answers, by symbols and by thirds
            of the target, and show the error rate of each feature.
        n_best: Measure oracle accuracy among the N most probable answers, found with a beam of N
            unless --beam is given.
        without: Also measure each model without a part: memory (reads are zero), pushes or pops
            (which are blocked), or state (the controller's, which is reset at each step); may be
            repeated.
        ensemble: Measure all checkpoints as one model, which averages their probabilities of
            symbols.
        text: For a language model: measure the perplexity of this file, not of the run's texts.
        seed: Random seed of the strings.
        plot: Plot the accuracy of all models by length, with 95% intervals, in a .png, .svg or .pdf
            file.
        as_csv: Print the table as CSV, with unrounded numbers; with --each, also for each length.
        as_latex: Print the table as LaTeX, for the package booktabs.
    """
    from stacktrans.decoding.beam import beam_width
    from stacktrans.inference.evaluation import EvalRequest, evaluate
    from stacktrans.model.checkpoint import ensemble_of
    from stacktrans.showing.plots import check_plot

    check_positive(**{"--count": count, "--depth": depth, "--errors": errors})
    check_positive(**{"--beam": beam, "--n-best": n_best})
    width = beam_width(beam, n_best, "--")
    bounds = [options.parse_lengths(range_) for range_ in lengths or []]
    forms = {"--json": as_json, "--csv": as_csv, "--latex": as_latex}
    form = options.check_exclusive(forms)
    options.check_exclusive({"--predictions -": predictions == STDOUT, **forms})
    wrong = {"--errors": errors, "--confusions": confusions}
    for name, given in wrong.items():
        options.check_exclusive({name: given, "--csv": as_csv, "--latex": as_latex})
    for name, given in {"--each": each, "--depth": depth}.items():
        options.check_exclusive({name: given, "--data": data})
    if predictions and len(checkpoints) > 1 and not ensemble:
        raise UsageError(f"--predictions: expected one checkpoint, not {len(checkpoints)}")
    options.check_exclusive({"--predictions": predictions, "--without": without})
    options.check_exclusive({"--ensemble": ensemble, "--without": without})
    if plot:
        check_plot(plot)
    load = partial(options.load_model, device=device, hard=hard, workers=workers)
    loaded = [each for name in checkpoints for each in _with_ablations(name, load(name), without)]
    if ensemble:
        if data is None:
            _report_sets_not_shared(loaded)
        loaded = [(" + ".join(checkpoints), ensemble_of([model for _, model in loaded]))]
    if text or any(model.config.task.lengths is None for _, model in loaded):
        strings = {"--lengths": lengths, "--count": count, "--each": each, "--depth": depth}
        answers = {"--predictions": predictions, **wrong, "--beam": beam, "--n-best": n_best}
        for name, value in {**strings, "--data": data, **answers, "--plot": plot}.items():
            options.check_exclusive({name: value, "a text": True})
        _print_perplexities(loaded, text, hard, form)
        return
    if outputs := [each for each in (plot, predictions) if each and each != STDOUT]:
        check_outputs(outputs, options.files_read(data, [model for _, model in loaded]))
    request = EvalRequest(
        data=data,
        bounds=bounds,
        count=count,
        each=each,
        depth=depth,
        seed=seed,
        beam=width or (1 if data or predictions or any(wrong.values()) else None),
        n_best=n_best,
        baselines=True,
        prefix="--",
    )
    measured = [(name, model, evaluate(model, request)) for name, model in loaded]
    _report_unknown(measured)
    searched = {"beam": width, "n_best": n_best, "each": each}
    facts = {"seed": seed, "hard": hard, **{name: n for name, n in searched.items() if n}}
    _, model, results = measured[0]
    try:  # files are written even if printing fails, and the table printed if a file fails
        if plot:
            _plot(plot, measured)
            print_message(f"saved in {plot}")
        if predictions:
            _write_predictions(predictions, model, results)
    finally:
        stderr = predictions == STDOUT
        _print_accuracies(measured, facts, errors, confusions, form, stderr)


def _with_ablations(
    name: str, model: "Checkpoint", parts: Sequence[str] | None
) -> "Iterator[tuple[str, Checkpoint]]":
    """A model and its ablations, with their names."""
    from stacktrans.model.ablation import ablate

    yield name, model
    for part in parts or ():
        yield f"{name} without {part}", ablate(model, part)


def _report_sets_not_shared(loaded: "Sequence[tuple[str, Checkpoint]]") -> None:
    """Report on stderr which models may have been trained on the held-out pairs of the first."""
    from stacktrans.tasks.pairs import Pairs

    (first, measured), *others = loaded
    for name, model in others:
        if not (isinstance(measured.task, Pairs) and isinstance(model.task, Pairs)):
            continue
        if names := measured.task.sets_not_shared(model.task):
            sets = f"the {listed(names)} {'sets' if names[1:] else 'set'} of {first}"
            print_message(f"{name}: may have been trained on pairs of {sets}, which are measured")


def _report_unknown(measured: "Measured") -> None:
    """Report on stderr how many strings of each range have symbols that a model does not know."""
    for name, _, results in measured:
        for lengths, scores in results:
            if unknown := scores.unknown_count:
                print_message(
                    f"{name}: lengths {lengths}: symbols that are not in the alphabet in "
                    f"{unknown:,} of {scores.count:,} strings, which count as wrong"
                )


def _print_accuracies(
    measured: "Measured",
    facts: dict[str, Any],
    errors: int | None,
    confusions: bool,
    form: str,
    stderr: bool,
) -> None:
    """Print scores.

    Args:
        measured: models and their scores.
        facts: what is added to JSON.
        errors: how many wrong answers are shown.
        confusions: whether edits of wrong answers are counted.
        form: as in `_print`.
        stderr: as in `_print`.
    """
    from stacktrans.showing import scores, wrong_answers
    from stacktrans.showing.tables import heading

    several = len(measured) > 1
    objects: list[dict[str, Any]] = []
    shown: list[RenderableType] = []
    for name, model, results in measured:
        own = {"checkpoint": name, "task": model.config.task.name, **facts}
        objects.append({**own, "results": scores.scores_json(results, model.hard)})
        if not several:
            shown += [model.description, *scores.scores_tables(results, model.hard, name)]
        elif errors or confusions:
            shown.append(heading(name))
        if confusions:
            objects[-1]["confusions"] = counts = wrong_answers.confusions_json(results, model.task)
            shown += wrong_answers.confusions_tables(counts)
        if errors:
            objects[-1]["errors"] = listed = wrong_answers.errors_json(results, errors)
            shown += wrong_answers.errors_table(listed, results, model.task)
    _print(objects, scores.scores_table, shown, form, stderr)


def _print_perplexities(
    loaded: "Sequence[tuple[str, Checkpoint]]", text: Path | None, hard: bool, form: str
) -> None:
    """Print the perplexity of a text, or else of the texts of each checkpoint's run."""
    from stacktrans.inference.perplexity import perplexities
    from stacktrans.showing.scores import perplexity_json, perplexity_table

    objects: list[dict[str, Any]] = [
        {"checkpoint": name, "hard": hard, "task": model.config.task.name}
        | {"results": perplexity_json(perplexities(model, text))}
        for name, model in loaded
    ]
    shown: list[RenderableType] = []
    if len(loaded) == 1:
        shown = [loaded[0][1].description, perplexity_table(objects[0]["results"])]
    _print(objects, perplexity_table, shown, form)


def _print(
    objects: Sequence[dict[str, Any]],
    table: "Callable[[Sequence[dict[str, Any]]], Table]",
    shown: "Sequence[RenderableType]",
    form: str,
    stderr: bool = False,
) -> None:
    """Print measurements as JSON, CSV, LaTeX or tables.

    Args:
        objects: JSON objects, one for each checkpoint; CSV has their results.
        table: makes a table of the results of all checkpoints.
        shown: what is printed by default, below this table if there are several checkpoints.
        form: the option for another form, if one is given.
        stderr: whether tables are printed there, since data is on stdout.
    """
    from stacktrans.showing.scores import flat_entries
    from stacktrans.showing.tables import csv_of, latex_text

    entries = flat_entries(objects)
    if form == "--json":
        print_json(objects if len(objects) > 1 else objects[0])
    elif form == "--csv":
        print_text(csv_of(flat_entries(objects, by_length=bool(objects[0].get("each")))))
    elif form == "--latex":
        print_text(latex_text(table(entries)))
    else:
        print_out(*([table(entries)] if len(objects) > 1 else []), *shown, stderr=stderr)


def _plot(path: Path, measured: "Measured") -> None:
    """Plot the accuracy of models by length."""
    from stacktrans.showing.plots import plot_accuracy, short_names

    names, models, results = zip(*measured, strict=True)
    tasks = dict.fromkeys(model.config.task.name for model in models)
    title = ", ".join(tasks) if models[1:] else models[0].description
    by_name = dict(zip(short_names([*map(Path, names)]), results, strict=True))
    trained_on = {model.config.task.ranges.train for model in models}
    plot_accuracy(by_name, min(trained_on) if len(trained_on) == 1 else None, title, path)


def _write_predictions(path: Path, model: "Checkpoint", results: "Results") -> None:
    from stacktrans.showing.scores import predicted_lines
    from stacktrans.tasks.lines import pair_format_of, write_lines

    lines = predicted_lines(results, model.task, pair_format_of(path))
    if path == STDOUT:
        for line in lines:
            print_data(line)
    else:
        write_lines(path, lines)
