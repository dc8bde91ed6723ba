"""Initial weights from a model with other symbols: those of the symbols that both know."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from pair_files import lines_of, write
from shapes import shaped
from small_runs import CPU
from test_start_from import begun, config_from

import stacktrans
from stacktrans import use_plugins
from stacktrans.common.errors import UsageError
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.encoding import encode
from stacktrans.training.initial_weights import SharedIds, axes_of, carry_over


def featured(words: Sequence[str], features: Sequence[str]) -> str:
    """Lines with a feature each."""
    of = [features[index % len(features)] for index in range(len(words))]
    return lines_of([(word, word[::-1], feature) for word, feature in zip(words, of, strict=True)])


def test_a_feature_and_a_character_of_the_same_spelling_are_different_symbols(
    tmp_path: Path,
) -> None:
    words = ["ab", "ba", "aab", "abb", "bab", "aaa", "bb", "aba", "bba", "abab"]
    first = write(tmp_path / "first.tsv", featured(words, ["V", "a"]))
    second = write(tmp_path / "second.tsv", featured(words, ["b", "V"]))
    stacktrans.train(
        data=first, memory="none", recipe="default", out=tmp_path / "run",
        settings={"hidden_size": 8, "embedding_size": 4}, max_steps=1,
    )  # fmt: skip
    config = config_from(tmp_path / "run", second, "seed=2")
    trainer = begun(config)
    assert trainer.source.notes[0].endswith(
        "of sources: 4 carried over, 1 new, 0 dropped; of targets: 2 carried over, 0 new, 0 dropped"
    )
    # <s> ||| a b <unk>, features in order of the alphabet, the unknown one, and targets a and b.
    then = checkpoint.load(tmp_path / "run", CPU).model.state_dict()["embedding.weight"]
    now = trainer.state.attempt.model.state_dict()["embedding.weight"]
    places = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (7, 8), (8, 9), (9, 10)]
    known = trainer.config.task.parameters["known"]
    features = known["features"].split(";")
    of_first = checkpoint.load(tmp_path / "run", CPU).config.task.parameters["known"]
    assert features == ["V", "a", "b"]
    for kept in of_first["features"].split(";"):
        places.append((5 + of_first["features"].split(";").index(kept), 5 + features.index(kept)))
    assert all(torch.equal(then[one], now[other]) for one, other in places)
    fresh = 5 + features.index("b")
    assert not (then == now[fresh]).all(dim=1).any()


SHAPES = {
    "stack": shaped("stack", "lstm", hidden_size=6, size=3, embedding_size=4, output_size=5),
    "one-hot": shaped("queue", "gru", hidden_size=6, size=3, embedding_size="one-hot"),
    "layers": shaped("deque", "rnn", hidden_size=6, layers=2, embedding_size="one-hot"),
    "linear": shaped("stack", "linear", size=3, embedding_size="one-hot", output_size=None),
    "nothing": shaped("none", "linear", embedding_size="one-hot"),
    "buffered": shaped("stack", "lstm", buffered=True, hidden_size=6, embedding_size="one-hot"),
    "several": shaped("stack+queue", "lstm", hidden_size=6, size=3, embedding_size=4),
}


@pytest.mark.parametrize(
    ("task", "shape", "counts"),
    [
        *(("copy", shape, (3, 5)) for shape in SHAPES),
        *(("copy", shape, (5, 3)) for shape in ("stack", "one-hot")),
        ("copy", "stack", (4, 4)),
        ("reversal", "linear", (3, 5)),
        ("memorization", "several", (5, 3)),
    ],
)
def test_shared_symbols_give_the_same_outputs_after_carrying_over(
    shape: str, task: str, counts: tuple[int, int]
) -> None:
    """Symbols that both alphabets have are read as before, and give the same outputs."""
    symbols = [f"task.parameters.symbols={count}" for count in counts]
    configs = [
        resolve(task=task, settings={"model": SHAPES[shape]}, assignments=["restart=null", each])
        for each in symbols
    ]
    tasks = [config.make_task() for config in configs]
    models = [
        Transducer(config.model, made.layout.inputs, made.layout.outputs)
        for config, made in zip(configs, tasks, strict=True)
    ]
    roles = [made.layout.roles(made.source, made.target) for made in tasks]
    inputs, outputs = (SharedIds.of(*each) for each in zip(*roles, strict=True))
    carry_over(models[0], axes_of(models[0], inputs, outputs), models[1])
    string = tasks[0].source.symbols[:3] * 2
    logits = []
    for model, made in zip(models, tasks, strict=True):
        ids = made.source.encode(string)
        pair = made.pair(ids, made.target.encode(string))
        read = encode(made.layout, [[pair]]).inputs[0]
        # A stream ends with a symbol that it does not read.
        logits.append(model(torch.from_numpy(read).unsqueeze(0))[0])
    then, now = logits
    assert len(outputs.trained) >= min(counts)
    assert torch.allclose(then[:, outputs.trained], now[:, outputs.other], atol=1e-6)


def test_a_custom_weight_over_symbols_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import torch\nfrom stacktrans.model.controllers import GRULayer\n"
        "class Twice(GRULayer):\n    name = 'twice'\n    cell = None\n"
        "    def __init__(self, config, embedding_size, below_size):\n"
        "        super().__init__(config, embedding_size, below_size)\n"
        "        self.both = torch.nn.Parameter(torch.zeros(2 * embedding_size))\n"
    )
    use_plugins("mine.py")
    settings = {
        "embedding_size": "one-hot",
        "hidden_size": 4,
        "parameters.symbols": 3,
        "measure.strings": 20,
    }
    stacktrans.train(
        "copy", memory="none", controller="twice", recipe="default", settings=settings, out="one",
        max_steps=1,
    )  # fmt: skip
    other = {"parameters.symbols": 4}
    with pytest.raises(UsageError, match=r"controller\.layers\.0\.both: cannot tell which"):
        stacktrans.train(from_="one", settings=other, out="two")
    assert not Path("two").exists()
    stacktrans.train(from_="one", settings={"seed": 2}, out="two")
