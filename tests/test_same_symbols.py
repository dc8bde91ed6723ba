"""Output weights that start as the embeddings of the same symbols."""

from pathlib import Path

import pytest
import torch
from small_runs import CPU, SETTINGS, small_run, trainer_of

from stacktrans.model.transducer import Transducer
from stacktrans.model.weight_tying import tie_initial_weights
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.alphabets import SYMBOL, Role
from stacktrans.tasks.layout import ENDING

SHARED = "initialization.same_symbols=true"
A_B_C: list[Role] = [(SYMBOL, each) for each in "abc"]


def first_model(*changes: str, directory: Path) -> Transducer:
    """The model that a run on three symbols begins with."""
    return trainer_of(small_run(*changes), directory).state.attempt.model


@torch.no_grad()
def unexplained(model: Transducer, written: list[int], read: list[int]) -> float:
    """The relative error of the best linear map from some embeddings to output weights."""
    assert model.embedding is not None
    embeddings, weights = model.embedding.weight[read], model.classifier.weight[written]
    rest = embeddings @ torch.linalg.pinv(embeddings) @ weights - weights
    return float(rest.norm() / weights.norm())


def test_one_mapping_takes_all_embeddings_to_the_output_weights(tmp_path: Path) -> None:
    # Embeddings as large as the number of symbols could be mapped to any weights.
    sizes = ("embedding_size=2", SHARED)
    shared = first_model(*sizes, directory=tmp_path / "shared")
    assert unexplained(shared, [0, 1, 2], [2, 3, 4]) < 1e-5  # after "<s>" and "|||"
    usual = first_model(sizes[0], directory=tmp_path / "usual")
    assert unexplained(usual, [0, 1, 2], [2, 3, 4]) > 0.01


def test_other_initial_weights_do_not_change(tmp_path: Path) -> None:
    shared = first_model(SHARED, directory=tmp_path / "shared").state_dict()
    usual = first_model(directory=tmp_path / "usual").state_dict()
    changed = {name for name, weight in usual.items() if not torch.equal(weight, shared[name])}
    assert changed == {"classifier.weight"}
    ending = len(usual["classifier.weight"]) - 1
    rows = (usual["classifier.weight"] != shared["classifier.weight"]).any(dim=1)
    assert rows.tolist() == [True] * ending + [False]


@pytest.mark.parametrize("embedding", [2, 8, "one-hot"])
def test_symbols_that_are_not_read_stay_as_they_are(embedding: int | str) -> None:
    config = resolve(
        task="copy",
        settings={"model": {"memory": "stack"}},
        assignments=[*SETTINGS, f"embedding_size={embedding}"],
    )
    model = Transducer(config.model, 3, 4).to(CPU)
    before = model.classifier.weight.clone()
    others: list[Role] = [(SYMBOL, "b"), (SYMBOL, "x"), (SYMBOL, "c"), ENDING]
    tie_initial_weights(model, A_B_C, others)
    changed = (model.classifier.weight != before).any(dim=1).tolist()
    assert changed == [embedding != "one-hot", False, embedding != "one-hot", False]


def test_a_mark_of_the_same_name_is_not_a_symbol() -> None:
    model = Transducer(small_run().model, 2, 2)
    before = model.classifier.weight.clone()
    tie_initial_weights(model, [ENDING, (SYMBOL, "a")], [(SYMBOL, "b"), ENDING])
    assert torch.equal(model.classifier.weight, before)
