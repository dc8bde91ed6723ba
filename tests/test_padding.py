"""Padded tasks: targets of any length, written while the source is read; both sides are padded."""

import numpy as np
import pytest
import torch

from stacktrans.common.errors import UsageError
from stacktrans.decoding.decoder import decode
from stacktrans.inference.scores import score
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.encoding import encode_batch
from stacktrans.tasks.layout import Layout, OutputBound, Pair


def pair(source: list[int], target: list[int]) -> Pair:
    return Pair(np.array(source, np.int64), np.array(target, np.int64))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([(1, 1), (7, 7)], OutputBound(1, 1)),
        ([(1, 2), (5, 10)], OutputBound(2, 1)),
        ([(1, 2), (5, 2), (9, 2)], OutputBound(1, 2)),
        ([(4, 0), (9, 3)], OutputBound(1, 0)),
        ([(0, 0)], OutputBound(1, 1)),
        ([(2, 7), (4, 15)], OutputBound(4, 0)),
    ],
)
def test_the_output_bound_of_pairs_is_minimal(
    lengths: list[tuple[int, int]], expected: OutputBound
) -> None:
    found = OutputBound.for_pairs(np.array(lengths))
    assert found == expected
    for source, target in lengths:
        assert found.of(source) >= target + 1


def test_sources_and_targets_are_padded() -> None:
    layout = Layout.padded(3, 2, OutputBound(1, 2))
    batch = encode_batch(layout, [[pair([2, 0], [1])], [pair([1], [0, 1, 1, 0])]])
    blank, end = 3, 2
    assert (layout.inputs, layout.outputs) == (4, 3)
    assert batch.inputs.tolist() == [[2, 0, blank, blank, 0], [1, blank, blank, blank, blank]]
    assert batch.targets.tolist() == [[1, end, 0, 0, 0], [0, 1, 1, 0, end]]
    assert batch.mask.tolist() == [[True, True, False, False, False], [True] * 5]
    assert batch.lengths == [4, 5]


def test_scores_are_1_exactly_where_the_answer_is_the_target() -> None:
    """Tested with random weights, whose own answers serve as targets."""
    given = {"model": {"memory": "stack", "buffers": {"steps_per_symbol": 2}}}
    run = resolve(task="reverse", settings=given, assignments=["task.parameters.symbols=2"])
    layout = run.make_task().layout
    torch.manual_seed(3)
    drawn = Transducer(run.model, layout.inputs, layout.outputs)
    sources = [np.array(ids, np.int64) for ids in ([0], [1, 0], [1, 1, 0], [0, 0, 1, 0])]
    with torch.no_grad():  # for answers of more than one kind of symbol
        drawn.classifier.weight *= 30
    answers = decode(predictor_of(drawn), layout, sources)
    ended = [each for each in zip(sources, answers, strict=True) if each[1].ended]
    assert ended
    for source, answer in ended:
        own = Pair(source, np.array(answer.target, np.int64))
        assert score(predictor_of(drawn), layout, [own]).fine.tolist() == [1]
        longer = Pair(source, np.array([*answer.target, 1], np.int64))
        assert score(predictor_of(drawn), layout, [longer]).fine[0] < 1


@pytest.mark.parametrize("task", ["anbncn", "addition"])
def test_a_buffered_model_is_not_for_streams_in_which_it_would_read_its_answer(task: str) -> None:
    model = {"memory": "stack-rnn", "buffers": {}}
    with pytest.raises(UsageError, match=f"task {task} is not for a buffered model"):
        resolve(task=task, settings={"model": model}, assignments=["noise.gates=0"])
