"""Scores with confidence intervals, perplexities and wrong answers as tables, text and JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import sqrt
from typing import Any

import numpy as np

from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import json_text
from stacktrans.inference.perplexity import Perplexity
from stacktrans.inference.predictions import Prediction
from stacktrans.inference.scores import Scores
from stacktrans.showing.tables import Column, Table, table_of
from stacktrans.tasks.base import Task
from stacktrans.tasks.lengths import Lengths
from stacktrans.tasks.lines import PairFormat, format_pair, written_fields

RESAMPLES = 2000
"""The number of resamples of a bootstrap."""
ROWS_PER_RANGE = 8
"""The most rows into which a range of lengths is divided."""
Results = Sequence[tuple[Lengths, Scores]]
"""The scores of each range of lengths."""


def confidence_interval(accuracy: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share that was measured on `count` strings.

    For fine accuracy it is conservative: no quantity between 0 and 1 has a greater variance than
    a Bernoulli variable with the same mean.
    """
    z = 1.959964
    center = (accuracy + z * z / (2 * count)) / (1 + z * z / count)
    variance = accuracy * (1 - accuracy) / count + z * z / (4 * count * count)
    half = z * sqrt(variance) / (1 + z * z / count)
    # Rounding must not exclude the accuracy itself, least of all 0 and 1.
    return min(accuracy, max(0.0, center - half)), max(accuracy, min(1.0, center + half))


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """A 95% bootstrap interval of the mean, by percentiles; deterministic.

    None for fewer than three values, which say too little about others.
    """
    if len(values) < 3:
        return None
    rng = generator(0, Purpose.RESAMPLING)
    drawn = rng.choice(np.asarray(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


ACCURACIES = (
    Column("coarse", form="{coarse:.3f}"),
    Column("fine", drop=2, form="{fine:.3f}"),
    Column("symbols", drop=3, form="{symbols:.4f}"),
    Column("precision", form="{precision:.3f}"),
    Column("recall", form="{recall:.3f}"),
    Column("AUC", form="{auc:.4f}"),
)


def scores_tables(results: Results, hard: bool = False, name: str = "model") -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within the ranges.

    Args:
        results: the scores of each range.
        hard: whether to show the share of symbols at which the hard and the soft model differ.
        name: of the model, beside baselines.
    """
    named = name if any(scores.baselines for _, scores in results) else ""
    entries = [_entry(bounds, scores, hard) for bounds, scores in results]
    yield scores_table(flat_entries([{"checkpoint": named, "results": entries}]))
    lengths = [
        {"strings": scores.name, "length": part, **_measures(within)}
        for bounds, scores in results
        for part, within in spread(bounds, scores)
    ]
    if lengths:
        strings = Column("strings", left=True), Column("length"), Column("count", drop=1)
        yield table_of(lengths, *strings, *ACCURACIES)
    kinds = [kind for bounds, scores in results for kind in _kinds(bounds, scores)]
    if kinds:
        strings = Column("kind"), Column("lengths"), Column("count")
        yield table_of(kinds, *strings, ACCURACIES[0])


def scores_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Accuracy of each checkpoint on each range, from `flat_entries`."""
    return table_of(
        [{**each, "lengths": Lengths(each["shortest"], each["longest"])} for each in entries],
        Column("checkpoint", fold=" "),
        Column("strings", left=True),
        Column("lengths"),
        Column("count", drop=1),
        _with_interval("coarse"),
        _with_interval("fine", drop=2),
        *ACCURACIES[2:],
        Column("oracle", form="{oracle:.3f}"),
        Column("error rate", drop=4, form="{symbol_error_rate:.4f}"),
        Column("hard ≠ soft", form="{differing:.4f}"),
    )


def _with_interval(measure: str, drop: int | None = None) -> Column:
    """The column of a measure, with its interval where there is room for it."""
    form = "{*:.3f} [{*_low:.3f}, {*_high:.3f}]".replace("*", measure)
    return Column(f"{measure} [95%]", drop=drop, form=form, extra=r" \[.*")


def spread(bounds: Lengths, scores: Scores) -> list[tuple[Lengths, Scores]]:
    """The scores of the parts of a range of lengths, if several parts have strings."""
    width = -(-(bounds.longest - bounds.shortest + 1) // ROWS_PER_RANGE)
    parts = [
        Lengths(start, min(start + width - 1, bounds.longest))
        for start in range(bounds.shortest, bounds.longest + 1, width)
    ]
    scored = [(part, within) for part in parts if (within := scores.of_lengths(*part)).count]
    return scored if len(scored) > 1 else []


def _kinds(bounds: Lengths, scores: Scores) -> list[dict[str, Any]]:
    """The share of right labels of each kind of strings, if kinds are known."""
    return [
        {"kind": kind, "lengths": bounds, "count": of_kind.count, "coarse": of_kind.coarse_accuracy}
        for kind, of_kind in scores.by_kind().items()
    ]


def scores_json(results: Results, hard: bool = False) -> list[dict[str, Any]]:
    """The numbers of `scores_tables` as JSON, with an entry for each range."""
    return [
        {
            **_entry(bounds, scores, hard),
            "by_length": [
                {"length": length, **_measures(within)}
                for length, within in scores.by_length().items()
            ],
            **({"by_kind": kinds} if (kinds := _kinds(bounds, scores)) else {}),
        }
        for bounds, scores in results
    ]


def _entry(bounds: Lengths, scores: Scores, hard: bool) -> dict[str, Any]:
    """The measures of a range of lengths, and the name of its strings if they have one.

    Baselines have no measure that the model lacks, such as those of symbols where strings have
    labels.
    """
    measures = _measures(scores)
    baselines = {
        name: {key: value for key, value in _measures(found).items() if key in measures}
        for name, found in scores.baselines.items()
    }
    return {
        **({"strings": scores.name} if scores.name else {}),
        "lengths": [*bounds],
        **measures,
        **({"differing": scores.differing_share} if hard else {}),
        **({"baselines": baselines} if baselines else {}),
    }


def _measures(scores: Scores) -> dict[str, Any]:
    coarse, fine, count = scores.coarse_accuracy, scores.fine_accuracy, scores.count
    rate, unknown = scores.symbol_error_rate, scores.unknown_count
    oracle, labels = scores.oracle_accuracy, scores.label_scores
    of_symbols = {
        "fine": fine,
        "fine_interval": confidence_interval(fine, count),
        "symbols": scores.symbol_accuracy,
    }
    return {
        "count": count,
        "coarse": coarse,
        "coarse_interval": confidence_interval(coarse, count),
        # All accuracies of single symbols are the same.
        **(of_symbols if labels is None else labels),
        **({"unknown": unknown} if unknown else {}),
        **({} if labels is not None or rate is None else {"symbol_error_rate": rate}),
        **({} if oracle is None else {"oracle": oracle}),
    }


def flat_entries(
    objects: Sequence[Mapping[str, Any]], by_length: bool = False
) -> list[dict[str, Any]]:
    """The results of checkpoints, given as JSON, without nesting, and then those of baselines.

    With `by_length`, those for each length follow the results of a range. Baselines that are
    equal for all checkpoints occur once; others are named with their checkpoints.
    """
    rows = [
        (each["checkpoint"], part)
        for each in objects
        for result in each["results"]
        for part in (result, *(_of_length(result) if by_length else ()))
    ]
    return [{"checkpoint": name, **_flat(result)} for name, result in rows + _baselines(rows)]


def _baselines(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The names and the results of the baselines beside the results of checkpoints."""
    groups: dict[Any, dict[str, list[dict[str, Any]]]] = {}
    for checkpoint, result in rows:
        strings = {key: result[key] for key in ("strings", "lengths") if key in result}
        for name, measures in result.get("baselines", {}).items():
            group = groups.setdefault((name, result.get("strings")), {})
            group.setdefault(checkpoint, []).append(strings | measures)
    named = []
    for (name, _), group in groups.items():
        for checkpoint, entries in group.items():
            equal = [other for other in group if group[other] == entries]
            if checkpoint == equal[0]:  # the others are named with it
                of = f" ({', '.join(equal)})" if len(equal) < len(group) else ""
                named += [(f"{name}{of}", each) for each in entries]
    return named


def _of_length(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The measures of a result for each length, as results."""
    strings = {"strings": result["strings"]} if "strings" in result else {}
    for measures in result["by_length"]:
        yield {**strings, "lengths": [measures["length"]] * 2, **measures}


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `scores_json` with a field for each number, without those by length."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        measure, _, last = key.rpartition("_")
        if key == "lengths":
            flat["shortest"], flat["longest"] = value
        elif last == "interval":
            flat[f"{measure}_low"], flat[f"{measure}_high"] = value
        elif key not in {"length", "by_length", "by_kind", "baselines"}:
            flat[key] = value
    return flat


def perplexity_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """The perplexity of texts by checkpoint, from `flat_entries`."""
    return table_of(
        entries,
        Column("checkpoint"),
        Column("text", left=True),
        Column("symbols", drop=2),
        Column("unknown", drop=1),
        Column("perplexity", form="{perplexity:.2f}"),
        Column("nats/symbol", drop=3, form="{nats:.4f}"),
    )


def perplexity_json(texts: Mapping[str, Perplexity]) -> list[dict[str, Any]]:
    """The numbers of `perplexity_table` as JSON, with an entry for each text."""
    return [{"text": name, **asdict(perplexity)} for name, perplexity in texts.items()]


def prediction_json(prediction: Prediction) -> dict[str, Any]:
    """An answer beside its target, as JSON."""
    return {key: getattr(prediction, key) for key in ("source", "target", "answer", "first_wrong")}


def predicted_lines(results: Results, task: Task, form: PairFormat) -> Iterator[str]:
    """A line for each pair, with its answer, whether that is right, and its log-probability.

    Pairs are in the format of `format_pair`.
    """
    for prediction in predictions_of(results):
        if form == "tsv":
            line, log_prob = format_pair(task, prediction.pair, form), prediction.log_probability
            verdict = "right" if prediction.right else "wrong"
            score = "" if log_prob is None else f"{log_prob:.6f}"
            yield f"{line}\t{prediction.answer}\t{verdict}\t{score}"
        else:
            fields = {
                key: getattr(prediction, key) for key in ("answer", "right", "log_probability")
            }
            yield json_text({**written_fields(task, prediction.pair), **fields})


def predictions_of(results: Results) -> list[Prediction]:
    """The predictions of all ranges; a pair in several ranges occurs once."""
    parts = (scores.predictions for _, scores in results if scores.predictions is not None)
    return [*{id(each.pair): each for predictions in parts for each in predictions}.values()]
