"""The wheel: what users install has the tasks and the trained models, and runs."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel, as pip installs them."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def python(site: Path, *words: str, stdin: str = "") -> str:
    """What Python prints where the wheel is installed, far from the repository."""
    return subprocess.run(
        [sys.executable, *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=site.parent,
        check=True,
    ).stdout


def test_a_shipped_model_answers(site: Path) -> None:
    where = python(site, "-c", "import stacktrans; print(stacktrans.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    assert (
        python(site, "-m", "stacktrans", "transduce", "reverse-stack", stdin="hello") == "olleh\n"
    )


def test_tasks_and_models_are_those_of_the_repository(site: Path) -> None:
    for kind, folder in (("tasks", "tasks"), ("checkpoints", "checkpoints")):
        listed = json.loads(python(site, "-m", "stacktrans", "list", kind, "--json"))
        names = {entry["name"] for entry in listed}
        assert names == {path.stem for path in (ROOT / folder).iterdir()}
