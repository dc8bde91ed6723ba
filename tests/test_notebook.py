"""A session in a notebook, as a new user would have it: load, transduce, trace, plot, train."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
from nbformat.v4 import new_code_cell, new_notebook

CELLS = [
    "import stacktrans\nmodel = stacktrans.load('reverse-stack')\nmodel",
    "model.transduce(['hello', 'stack'])",
    "trace = model.trace('abc')\ntrace",
    "trace.strengths.round(1).tolist()[0]",
    "from IPython.display import SVG\nSVG(filename=str(trace.plot('abc.svg')))",
    "model.evaluate(lengths=(65, 128), count=20)",
    "few = {'max_steps': 4, 'settings': {'measure.strings': 10}}\n"
    "race = {'strategies': ['joint', 'wide'], 'workers': 1}\n"
    "run = stacktrans.train('copy', memory='queue', out='runs/a', **few, **race)\n"
    "run",
    "run.model.transduce('abc')",
    "stacktrans.task('reverse').sample(1, lengths=(5, 8), seed=1)",
    "model.transduce('naïve')",
]


def result(cell: Any) -> dict[str, str]:
    """The only result that a cell displays, by MIME type."""
    (output,) = (output for output in cell.outputs if output.output_type != "stream")
    assert output.output_type == "execute_result"
    return dict(output["data"])


def test_a_session_in_a_notebook(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])  # type: ignore[no-untyped-call]
    notebook.cells[-1].metadata["tags"] = ["raises-exception"]
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    nbformat.validate(notebook)
    (_, answers, trace, strengths, picture, accuracy, run, _, strings) = map(
        result, notebook.cells[:-1]
    )
    assert answers["text/plain"] == "['olleh', 'kcats']"
    assert "reverse: feed-forward tanh 64" in trace["text/html"]
    assert "answer: cba" in trace["text/html"]
    assert strengths["text/plain"] == "[0.0, 1.0]"
    assert "read top" in picture["image/svg+xml"]
    assert "coarse" in accuracy["text/html"]
    assert "; 4 batches in " in run["text/html"]
    assert (tmp_path / "runs" / "a" / "best" / "model.safetensors").exists()
    assert "source='HÛÁa2âI', target='Iâ2aÁÛH'" in strings["text/plain"]
    (error,) = notebook.cells[-1].outputs
    assert error["evalue"] == "source 1: symbol 3 is 'ï', which is not in the alphabet"
