"""Encoder-decoders: against torch's own layers, step by step, in training, and in the commands."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import run
from races import candidates_of
from torch import Tensor, nn

from stacktrans.common.errors import UsageError
from stacktrans.model import definition
from stacktrans.model.checkpoint import load
from stacktrans.model.encoder_decoder import Transformer, sinusoids
from stacktrans.model.torch_backend import TorchModel
from stacktrans.model.transducer import Transducer
from stacktrans.model.weights import shapes_of
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import ModelConfig
from stacktrans.settings.resolve import resolve
from stacktrans.training.equal_size import as_large_as, count_parameters, with_units

IDS = torch.tensor(
    [
        [0, 3, 4, 5, 1, 12, 13, 14, 0, 0],
        [0, 3, 1, 15, 13, 12, 13, 18, 18, 18],
        [0, 5, 6, 7, 8, 9, 1, 11, 12, 0],
    ]
)
SEPARATORS = [4, 2, 6]
NAMES = ("attention", "transformer")
SMALL = [
    *("train", "--task", "copy", "--memory", "none", "--hidden", "16", "--set"),
    *("parameters.symbols=3", "--set", "task.lengths.train=[1,4]"),
    *("--set", "task.lengths.test=[5,6]", "--set", "measure.strings=20"),
]


def model_of(name: str, **settings: Any) -> Transducer:
    torch.manual_seed(0)
    controller = {"name": name, "hidden_size": 16, **settings}
    config = {"memory": "none", "controller": controller, "embedding_size": 8}
    return Transducer(ModelConfig.model_validate(config), 20, 9).eval().double()


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_have_the_outputs_of_whole_strings(name: str, layers: int) -> None:
    model = model_of(name, layers=layers)
    whole, state, pieces = model.unroll(IDS).hidden, None, []
    for piece in IDS.split([2, 1, 3, 1, 3], dim=1):
        unrolled, state = definition.unroll(model, piece, state)
        pieces.append(unrolled.hidden)
    together = torch.cat(pieces, dim=1)
    for row, start in enumerate(SEPARATORS):
        torch.testing.assert_close(together[row, start:], whole[row, start:])


@pytest.mark.parametrize("name", NAMES)
def test_strings_of_a_batch_do_not_affect_one_another(name: str) -> None:
    model = model_of(name)
    together = model.unroll(IDS).hidden
    for row, (start, end) in enumerate(zip(SEPARATORS, (8, 10, 9), strict=True)):
        alone = model.unroll(IDS[row : row + 1, :end]).hidden
        torch.testing.assert_close(alone[0, start:], together[row, start:end])


@pytest.mark.parametrize("name", NAMES)
def test_selected_strings_go_on_as_before(name: str) -> None:
    predictor = TorchModel(model_of(name))
    ids, items = IDS.numpy(), np.array([2, 0, 2])
    state = predictor.start(3)
    predictor.advance(state, ids[:, :7])
    expected = predictor.advance(predictor.select(state, np.arange(3)), ids[:, 7:])
    selected = predictor.advance(predictor.select(state, items), ids[items, 7:])
    np.testing.assert_allclose(selected.reshape(3, 3, -1), expected.reshape(3, 3, -1)[items])


def test_a_transformer_equals_torchs_own_layers() -> None:
    model = model_of("transformer", layers=2)
    controller, ids = model.controller, IDS[:1, :8]
    assert isinstance(controller, Transformer)

    def entered(symbols: Tensor) -> Tensor:
        places = torch.arange(symbols.shape[1])
        entered: Tensor = controller.enter(model.embed(symbols)) + sinusoids(places, 16)
        return entered

    encoded, outputs = entered(ids[:, :5]), entered(ids[:, 4:])
    for layer in controller.encoder:
        encoded = layer(encoded)
    encoded = controller.encoded(encoded)
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    for layer in controller.decoder:
        outputs = layer(outputs, encoded, tgt_mask=mask)
    expected = controller.decoded(outputs)
    torch.testing.assert_close(model.unroll(ids).hidden[:, 4:], expected)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_possible(name: str) -> None:
    model = model_of(name)
    expected = model(IDS).float()
    torch.testing.assert_close(model.bfloat16()(IDS).float(), expected, rtol=0, atol=0.1)


def test_positions_are_encoded_as_published() -> None:
    encoded = sinusoids(torch.tensor([3]), 4)[0]
    angles = torch.tensor([3.0, 3 / 100])
    torch.testing.assert_close(encoded, torch.cat([angles.sin(), angles.cos()]))


def test_attention_is_that_of_luong2015() -> None:
    model = model_of("attention")
    own: Any = model.controller
    embedded = model.embed(IDS[:1])
    outputs, _ = own.encoder(embedded[:, :5])
    state, fed, expected = None, torch.zeros(1, 16, dtype=torch.float64), []
    for step in range(4, 8):
        inputs = torch.cat([embedded[:, step], fed], dim=1)[:, None]
        hidden, state = own.decoder(inputs, state)
        weights = torch.softmax(outputs[0] @ own.score.weight @ hidden[0, 0], dim=0)
        context = weights @ outputs[0]
        fed = torch.tanh(own.combine(torch.cat([context, hidden[0, 0]])))[None]
        expected.append(fed[0])
    torch.testing.assert_close(model.unroll(IDS[:1]).hidden[0, 4:8], torch.stack(expected))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "xor"], "has no targets after its sources"),
        (["--task", "anbn"], "has no targets after its sources"),
        (["--task", "copy", "--buffered"], "operates no buffers; expected buffers: null"),
        (["--task", "copy", "--memory", "stack"], "operates no memory; expected memory: none"),
        (["--task", "copy", "--set", "noise.gates=1"], "noise.gates: not for controller attention"),
        (["--task", "copy", "--set", "noise.signals=1"], "noise.signals: not for controller"),
        (["--task", "copy", "--set", "source_loss=1"], "source_loss: not for controller attention"),
        (
            ["--task", "copy", "--controller", "transformer", "--hidden", "30"],
            "hidden_size: expected a multiple of the 4 heads",
        ),
        (
            ["--task", "copy", "--hidden", "8", "--as-large-as", "copy-queue"],
            "--as-large-as: cannot be combined with a hidden size",
        ),
        (
            ["--task", "copy", "--set", "hidden_size=8", "--as-large-as", "copy-queue"],
            "--as-large-as: cannot be combined with a hidden size",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    given = ["--memory", "none", "--controller", "attention", *options, "--dry-run"]
    done = run("train", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()


@pytest.mark.parametrize("name", NAMES)
def test_a_trained_model_is_used_and_resumed_like_any_other(tmp_path: Path, name: str) -> None:
    def train(*options: str) -> None:
        assert run("train", *options, cwd=tmp_path).returncode == 0

    given = [*SMALL[1:], "--controller", name]
    train(*given, "--max-steps", "20", "--out", "whole")
    train(*given, "--max-steps", "8", "--out", "parts")
    train("--resume", "parts", "--max-steps", "20")
    weights = [tmp_path / out / "last/model.safetensors" for out in ("whole", "parts")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    train("--from", "whole", "--set", "parameters.symbols=4", "--max-steps", "2", "--out", "more")
    beam = run("transduce", "whole", "--beam", "3", "--json", stdin=b'!"\n', cwd=tmp_path)
    assert len(json.loads(beam.stdout)["hypotheses"]) == 3
    shown = json.loads(run("inspect", "whole", '!"', "--json", cwd=tmp_path).stdout)
    reads = [step["reads"]["source"] for step in shown["steps"]]
    assert reads[:3] == [[], [], []]
    for read in reads[3:]:
        assert sum(share["weight"] for share in read) == pytest.approx(1, abs=0.02)
    refused = run("extract", "whole", "--out", "machine", cwd=tmp_path)
    assert refused.returncode == 1
    assert "no machine can be extracted from this model: copy: " in refused.stderr.decode()


def config_of(memory: str, controller: str) -> RunConfig:
    model = {"memory": memory, "controller": controller}
    return resolve("default", task="copy", settings={"model": model})


@pytest.mark.parametrize("name", NAMES)
def test_as_large_as_matches_another_model_s_parameter_count(name: str) -> None:
    wanted = sum(np.prod(shape) for shape in shapes_of(load("copy-queue").model).values())
    found = as_large_as(config_of("none", name), "copy-queue")
    layout = found.make_task().layout
    size, step = (
        found.model.model_dump()["controller"].get(key, 1) for key in ("hidden_size", "heads")
    )

    def difference(hidden_size: int) -> int:
        return abs(count_parameters(with_units(found.model, hidden_size), layout) - int(wanted))

    assert difference(size) < min(difference(size - step), difference(size + step))
    assert difference(size) < 0.15 * wanted
    with pytest.raises(UsageError, match="controller linear has no hidden size"):
        as_large_as(config_of("queue", "linear"), "copy-queue")


def test_no_model_is_as_large_as_one_smaller_than_its_embeddings() -> None:
    problem = "no hidden size gives a model about 730 parameters; the nearest, 1, gives it 17,"
    with pytest.raises(UsageError, match=problem):
        as_large_as(config_of("none", "attention"), "anbn")


def test_attention_races_where_sources_have_features(tmp_path: Path) -> None:
    lemmas = [*map("".join, itertools.product("ab", repeat=5))]
    for features, columns in (("PL\t", "source,features,target"), ("", "source,target")):
        lines = [f"{lemma}\t{features}{lemma}s\n" for lemma in lemmas]
        (tmp_path / "pairs.tsv").write_text("".join(lines))
        given = ("--data", "pairs.tsv", "--columns", columns, "--dry-run", "--json")
        candidates = json.loads(run("train", *given, cwd=tmp_path).stdout)
        assert ("attention" in candidates) is bool(features)


@pytest.mark.parametrize("memory", [{}, {"memory": "none"}])
def test_an_encoder_decoder_is_trained_without_a_race(memory: dict[str, str]) -> None:
    (config,) = candidates_of(
        task="copy", settings={"model": {**memory, "controller": "transformer"}}
    ).values()
    assert config.model.controller.name == "transformer"
    assert config.model.memory.name == "none"
