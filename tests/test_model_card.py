"""The model card: how a model was trained and how good it is."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors
import small_runs
from small_runs import CPU
from tiny_models import tiny_config, tiny_model

from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.training.model_card import model_card


def test_a_model_card_describes_a_finished_run(trained: Path) -> None:
    card = (trained / "best" / "README.md").read_text()
    summary = json.loads((trained / "summary.json").read_text())
    assert "copy: LSTM 8, memory queue of 4, embeddings 4; 754 parameters" in card
    assert f"| stacktrans transduce {trained}\n" in card
    assert "Lengths of sources: 1:5" in card
    assert "lengths 6:8 | 20 |" in card
    assert "License" not in card
    with safetensors.safe_open(trained / "best" / "model.safetensors", "pt") as file:
        accuracies = json.loads(file.metadata()["accuracy"])
    assert accuracies == {part: summary[part] for part in ("train", "test")}


def test_training_strings_are_not_called_new(tmp_path: Path) -> None:
    examples = "examples={train: 20, development: 5, test: 5, epochs: 1}"
    config = small_runs.small_run(examples, "stop={development: {}}", "batch_size=20")
    small_runs.trainer_of(config, tmp_path).run(small_runs.ignore)
    card = (tmp_path / "best" / "README.md").read_text()
    assert "| training set, lengths" in card
    assert card.count("| new at the end of the run") == 1


SUMMARY = {
    "parameters": 3,
    "command": "stacktrans train --out $'a\x1b[2Jb\n```\n# no title'",
    "rule": "the <b>best</b> | of *all*",
    "outcome": "solved",
    "steps": 7,
    "attempts": 1,
    "seed": 1,
    "version": "0\x9b1m",
    "torch": "\u202e2",
    "train": {"coarse": 0.5, "fine": 0.25, "count": 4},
    "test": None,
}


def card_of(directory: Path, place: str = "place", **more: Any) -> str:
    config = tiny_config()
    described = config.task.model_copy(update={"description": "a -> b\n\n# [x](y) `c` \x07"})
    config = config.model_copy(update={"task": described})
    checkpoint_files.save(directory, config, tiny_model(config).state_dict())
    return model_card(checkpoint.load(directory, CPU), SUMMARY, place, **more)


def test_nothing_of_a_file_is_markup_or_control(tmp_path: Path) -> None:
    card = card_of(tmp_path / "model")
    assert all(letter.isprintable() or letter == "\n" for letter in card)
    assert [line for line in card.splitlines() if line.startswith("#")] == [
        "# copy, memory stack",
        "## Training",
        "## Accuracy",
    ]
    assert r"a\x1b[2Jb\n```\n# no title" in card
    assert r"the &lt;b>best&lt;/b> \| of \*all\*" in card
    assert r"Task: a -> b\\n\\n# \[x\](y) \`c\` \\x07" in card


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("!", "printf '%s\\n' '!' | stacktrans transduce place"),
        ('"%!', "printf '%s\\n' '\"%!' | stacktrans transduce place"),
    ],
)
def test_an_example_is_what_a_shell_understands(tmp_path: Path, source: str, command: str) -> None:
    assert f"$ {command}\n" in card_of(tmp_path / "model", source=source)


def test_the_directory_of_an_example_is_what_a_shell_understands(tmp_path: Path) -> None:
    card = card_of(tmp_path / "model", "a \x1b", source="!")
    place = r"$'a \033'"
    assert f"$ stacktrans eval {place}\n" in card
    assert f"$ stacktrans inspect {place} '!'\n" in card


def test_a_model_card_has_accuracies_and_the_license(tmp_path: Path) -> None:
    found = {"lengths": [3, 9], "count": 8, "coarse": 0.5, "fine": 0.75, "symbols": 0.875}
    evaluation = {"seed": 4, "hard": True, "results": [found]}
    card = card_of(tmp_path / "model", evaluations=[evaluation], license="Apache-2.0")
    assert "| `eval --seed 4`, lengths 3:9, hard | 8 | 0.500 | 0.750 | 0.8750 |" in card
    assert card.endswith("## License\n\nApache-2.0\n")
